// SPDX-License-Identifier: Apache-2.0
//! What the spawner tells node-init. Requests are the daemon's own `CreateCell`, handed on as they
//! came.

use crate::protocol::Failure;

/// Spawner → node-init.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SpawnerEvent {
    /// First: whether isolated cells can be made.
    Isolation { outcome: Result<(), Failure> },
    /// The cell-init is there and about to furnish its cell. Descriptors: its pidfd, and the read
    /// end of its status pipe, which brings one `0` byte, or a [`Failure`], or nothing at its
    /// death.
    Cloned { request: u64, pid: i32 },
    /// Nothing was made.
    Failed { request: u64, failure: Failure },
}
