// SPDX-License-Identifier: Apache-2.0
//! The network of isolated cells: a bridge with a veth pair per interface, addresses out of the
//! node's ranges, and one ruleset of nftables, all by netlink. No program is run for it.
//!
//! Called by the runtime, in this order:
//!
//! * [`Network::start`] when the daemon knows which cells live, with what their records say of
//!   their interfaces. It removes what is of none of them.
//! * [`Network::attach`] for each interface of a cell whose namespace is there and whose programs
//!   aren't. What it returns belongs in the cell's record *before* the cell is called ready: a
//!   daemon that is killed in between finds the interface to be of no living cell and removes it.
//! * [`Network::detach`] when the cell has ended, before its record goes; twice does no harm.
//!
//! It knows cells by uid, tenant and namespace, and nothing else of them. It is not the network of
//! the node itself: links, addresses and routes of the machine are the daemon's `net` module's. A
//! node that has plugins configured calls [`cni`] in place of the handle.
//!
//! What may reach what is in ADR 36, and the rules are data in the module `nft`.

mod addresses;
mod adopt;
mod claims;
pub mod cni;
mod conntrack;
mod conversation;
mod error;
mod inner;
mod links;
mod look;
mod network;
mod nft;
mod node;
mod port;
mod settings;
mod sysctl;
mod worker;

pub use addresses::{Bounds, Pool, Refused};
pub use adopt::Started;
pub use claims::listened_on;
pub use error::{Error, Result};
pub use look::Seen;
pub use network::Network;
pub use port::{Attach, Attached, HostPort, MAX_HOST_PORTS, Mac, Protocol};
pub use settings::{MAX_PORTS, Settings, unique_local};
pub use sysctl::Changed;
