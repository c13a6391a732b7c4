// SPDX-License-Identifier: Apache-2.0
//! The pod subsystem: keeps the containers of pods running as their specs say. What is to be done
//! next is `model::pod::steps`' decision; this crate sees, does and waits.
//!
//! [`Pods`] is the handle that `auraed/rpc` calls, with a `Permit` by value. Each pod has one task
//! ([`task`]), which alone changes it. What the task does goes through the port [`sandbox`]: above
//! it no code sees a pid, a descriptor, a cgroup, a path of the node or a namespace. [`cell`]
//! implements it: a cell of this node. A pod of another class runs whole on another daemon, behind
//! its API ([`elsewhere`]): the same handle, another task.
//!
//! ```text
//!   Pods (handle) ──orders──► task, one per pod ──► sandbox ──► cell: Runtime, volumes
//!        ▲      │              │  ▲      │
//!        │      │              │  │      └──► prober, one per running container
//!        │      │              │  └──events──────────┘
//!        ├──────┼───status─────┘
//!        │      └──orders──► elsewhere::task, one per pod ──► Elsewhere: another daemon's API
//!        └──────────status──────────┘
//! ```
//!
//! Nothing of a pod lives in the daemon alone. Its spec, that it is to stop, and how its containers
//! have ended is in the record of its cell ([`kept`]); the next daemon goes on from there. What
//! outlives a reboot is not this subsystem's.

mod address;
mod admit;
mod ask;
mod asking;
mod cell;
mod elsewhere;
mod handle;
mod kept;
mod prober;
mod reach;
mod sandbox;
mod shared;
mod shown;
mod task;
mod tls;
mod watch;

pub use asking::Asking;
pub use elsewhere::{Classes, Elsewhere, Place, Placed, Seen};
pub use handle::{Pods, Settings};
pub use reach::{Ports, Reach, Stream};
pub use watch::{Gone, Told, WatchEvent, Watched, Watcher};
