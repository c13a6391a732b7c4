// SPDX-License-Identifier: Apache-2.0
//! A descriptor that tokio waits for. One place, because the wrapper that tells what a descriptor
//! is without `unsafe` is deprecated.

use std::fs::File;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers it. Call it within a tokio runtime.
///
/// # Errors
/// Where the reactor takes no more, or the descriptor can't be polled.
#[allow(
    deprecated,
    reason = "what replaces it is unsafe, which only `kernel` may use; a File owns its descriptor"
)]
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> std::io::Result<AsyncFd<File>> {
    AsyncFd::with_interest(File::from(fd), interest)
}
