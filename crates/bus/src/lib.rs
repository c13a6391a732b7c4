// SPDX-License-Identifier: Apache-2.0
//! `org.freedesktop.systemd1`: the interface by which others speak to a machine's unit manager, on
//! the system bus and on `/run/systemd/private`. It translates: what a call means is
//! `schedule::unit`'s, whether it may be is `identity`'s, how a message looks is [`wire`]'s.
//!
//! ```text
//!  private ──┐                 ┌─ manager: methods ──permit──► schedule::unit::Units
//!  system ───┴─ calls ─► serve ┤
//!     ▲                        └─ object: properties of units ◄──views──┘
//!     └──────── signals ◄────────────────────────────── news of the manager
//! ```
//!
//! Not what units wait for on the bus (`BusName=`): that is the manager's own, smaller client.

mod error;
mod manager;
mod object;
mod path;
mod private;
mod serve;
mod signals;
mod subscribers;
mod system;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;

use identity::Identity;
use schedule::unit::Units;

pub use serve::{End, Machine};

/// Where the interface is to be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The socket for uid 0 alone: `/run/systemd/private`.
    pub private: PathBuf,
    /// The socket of the system bus; it may come later, and come again.
    pub bus: PathBuf,
    /// The file in which names of the bus that have subscribed are kept for the next daemon: below
    /// `/run`, since the bus ends with the boot.
    pub subscribers: PathBuf,
}

/// Serves both for as long as the future is polled.
pub async fn run(
    settings: Settings,
    units: Units,
    identity: Arc<Identity>,
    machine: Arc<dyn Machine>,
) {
    let kept = subscribers::Kept::at(settings.subscribers);
    let service = Arc::new(serve::Service::new(units, identity, machine, kept));
    tokio::join!(
        signals::tell(service.clone()),
        private::listen(&settings.private, service.clone()),
        system::keep(&settings.bus, service.clone()),
    );
}
