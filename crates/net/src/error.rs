// SPDX-License-Identifier: Apache-2.0
//! What can go wrong between a cell and the network, named so that the caller can say it on.

use std::net::IpAddr;

use ipnet::IpNet;
use model::name::{Tenant, Uid};

/// A shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the network of a cell could not be made, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused one step.
    #[error("{step}: {reason}")]
    Kernel {
        /// What was asked of it.
        step: String,
        /// As in `libc`.
        errno: i32,
        /// The errno's text, and what the kernel added to it.
        reason: String,
    },
    /// A call that is no message: a socket, a namespace, a file of `/proc/sys`.
    #[error("{step}")]
    Call {
        /// What it was for.
        step: String,
        /// The call and its errno.
        source: kernel::Error,
    },
    /// An answer of the kernel that isn't as its protocol says.
    #[error("{step}: the kernel's answer can't be read: {reason}")]
    Answer {
        /// What was asked.
        step: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// A setting that can't be worked with.
    #[error("{field}: {reason}")]
    Settings {
        /// The setting's name.
        field: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The node uses the range already.
    #[error("{field}: {range} overlaps {address}, which {link} has; choose another range")]
    Overlap {
        /// The setting's name.
        field: &'static str,
        /// The range that was to be used for cells.
        range: IpNet,
        /// The address that is there.
        address: IpNet,
        /// The link that has it.
        link: String,
    },
    /// An address that isn't free.
    #[error("address {address} is taken")]
    AddressTaken {
        /// Which was wanted.
        address: IpAddr,
    },
    /// No address is free.
    #[error("tenant {tenant} has {used} of {limit} interfaces on the bridge; detach some first")]
    TenantFull {
        /// The tenant that has no address left.
        tenant: Tenant,
        /// How many there are.
        used: u32,
        /// How many there may be.
        limit: u32,
    },
    /// No address is free for a tenant: the rest is the node's reserve.
    #[error("the bridge has {used} interfaces and room for {limit}; detach some first")]
    Full {
        /// How many there are.
        used: u32,
        /// How many tenants may have together.
        limit: u32,
    },
    /// A port of the node that another cell has.
    #[error("host port {port} is taken by cell {holder}")]
    PortTaken {
        /// `443/tcp`, with an address where one was asked for.
        port: String,
        /// The cell that has it.
        holder: Uid,
    },
    /// A port of the node on which something listens.
    #[error("host port {port}: a program of the node listens on it")]
    PortInUse {
        /// `443/tcp`, with an address where one was asked for.
        port: String,
    },
    /// A request that can't be meant.
    #[error("{field}: {reason}")]
    Request {
        /// The field of the request.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The interface is there already.
    #[error("cell {uid} has an interface {name} already")]
    Attached {
        /// The cell.
        uid: Uid,
        /// The interface's name in the cell.
        name: String,
    },
    /// An address that two living cells claim, or that is outside of the range.
    #[error("{address} of cell {uid} can't be kept: {reason}")]
    Claim {
        /// The address of the record.
        address: IpAddr,
        /// The cell of the record.
        uid: Uid,
        /// Why not.
        reason: &'static str,
    },
    /// The thread that speaks with the kernel is gone.
    #[error("the network's thread has ended")]
    Ended,
}

impl Error {
    /// The errno of a refusal, 0 where there is none.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Kernel { errno, .. } => *errno,
            Error::Call { source, .. } => source.errno(),
            _ => 0,
        }
    }
}

/// Says what a call was for.
pub(crate) trait Step<T> {
    fn step(self, what: impl Into<String>) -> Result<T>;
}

impl<T> Step<T> for kernel::Result<T> {
    fn step(self, what: impl Into<String>) -> Result<T> {
        let step = what.into();
        self.map_err(|source| Error::Call { step, source })
    }
}

impl<T> Step<T> for std::io::Result<T> {
    fn step(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|error| kernel::Error::from_io("network", &error))
            .step(what)
    }
}
