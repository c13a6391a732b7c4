// SPDX-License-Identifier: Apache-2.0
//! The spawner's messages to node-init. Node-init's requests to the spawner are the daemon's
//! `CreateCell`, unchanged.

use crate::protocol::Failure;

/// What the spawner sends node-init.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SpawnerEvent {
    /// The first message: whether isolated cells can be created.
    Isolation { outcome: Result<(), Failure> },
    /// The cell-init is there and about to furnish its cell. Descriptors: its pidfd, and the read
    /// end of its status pipe, which brings one `0` byte, or a [`Failure`], or nothing at its
    /// death.
    Cloned { request: u64, pid: i32 },
    /// The cell could not be cloned; nothing of it is left.
    Failed { request: u64, failure: Failure },
}
