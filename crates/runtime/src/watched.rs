// SPDX-License-Identifier: Apache-2.0
//! A descriptor that tokio waits for. One place, because the functions of tokio that register one
//! without `unsafe` are deprecated. `link`, `attach` and `cell` call it, and `net` of the daemon.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers `owner`'s descriptor. Call it within a tokio runtime. `owner` owns its descriptor, and
/// never replaces it: otherwise tokio would wait for another one.
///
/// # Errors
/// Where the reactor takes no more, or the descriptor can't be polled.
#[allow(
    deprecated,
    reason = "what replaces it is unsafe, which only `kernel` may use; its condition is ours"
)]
pub fn watch<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, interest)
}
