// SPDX-License-Identifier: Apache-2.0
//! Socket units (systemd.socket(5)): listening sockets, FIFOs and queues that are there before the
//! service that serves them, and that outlive the daemon (ADR 53).
//!
//! * [`rules`]: what a unit's settings say.
//! * [`state`]: what comes next, pure.
//! * [`open`]: making the descriptors; [`place`]: files, folders and links of them; [`taken`]: who
//!   has an address.
//! * [`jobs`]: what takes its time.
//! * [`peer`]: connections of `Accept=yes`.
//! * [`pass`]: how descriptors reach a service.
//!
//! What the manager does with them is `manager::sockets`'.

pub(crate) mod jobs;
pub(crate) mod open;
pub(crate) mod pass;
pub(crate) mod peer;
pub(crate) mod place;
pub(crate) mod rules;
pub(crate) mod state;
mod taken;

/// A descriptor that a socket unit listens on.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Its place in the unit, from 0.
    pub(crate) at: usize,
    pub(crate) fd: std::os::fd::OwnedFd,
    /// Under which node-init keeps it.
    pub(crate) number: u64,
}
