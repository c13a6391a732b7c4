// SPDX-License-Identifier: Apache-2.0
//! The processes above all workloads: node-init, the cell-inits, and the spawner between them.
//!
//! Single-threaded and synchronous throughout; nothing here panics. `auraed` calls
//! [`be_spawner_if_named`] and [`run`] from its `main` before any thread exists. `node` uses
//! [`protocol`] and [`codec`] alone.
//!
//! * [`protocol`]: the messages between the daemon and the inits.
//! * `node`: PID 1 of a machine or of a container, or a subreaper: the parent of the daemon and of
//!   all cell-inits.
//! * `initramfs`: the stage before, where the kernel starts PID 1 from one.
//! * `cell`: the init of one cell.
//! * `sulogin`: a shell on the console for a user that knows root's password.
//! * `spawner`: the process that cell-inits are cloned from.

mod again;
mod cell;
mod failure;
mod initramfs;
mod link;
mod node;
mod options;
mod poll;
pub mod protocol;
mod reap;
mod record;
mod spawner;
mod sulogin;

use std::convert::Infallible;

pub use node::WatchdogSettings;
pub use options::{DEFAULT_ROOT, Options};
pub use protocol::codec;

/// Becomes the spawner and never returns, if this execution is the one by which node-init starts it
/// (`argv[0]` says so). The first thing in `main`: nothing else must have been opened, read or
/// started.
pub fn be_spawner_if_named() {
    spawner::run_if_named();
}

/// The kind of init that this process would be. Gives a PID 1 its `/proc` where it came without
/// one, so that a caller can read its configuration before [`run`].
///
/// # Errors
/// Without `/proc` it isn't known.
pub fn find_role() -> kernel::Result<protocol::Role> {
    node::find_role()
}

/// Runs the init of this node, until the machine ends or, as a service, everything is stopped.
///
/// # Errors
/// The errors that keep it from starting at all: no epoll or no memory (PID 1 reports that and
/// tries again); and no cgroup, unless it is PID 1 of a machine.
pub fn run(options: Options) -> kernel::Result<Infallible> {
    node::run(options)
}
