// SPDX-License-Identifier: Apache-2.0
//! The runtime subsystem: cells and executables.
//!
//! [`Runtime`] is the handle that `auraed/rpc` calls, with a `Permit` by value. It holds the
//! *view*; the truth is with the kernel and the inits, and [`Runtime::start`] rebuilds the view
//! from them. It keeps no restart policy, no images and no logs: those are schedule's, image's
//! and observe's.
//!
//! ```text
//!            Runtime (api, attach, adopt)
//!               │            ▲
//!      requests │            │ reads
//!               ▼            │
//!   cell::owner ──publishes──► index     one task per cell          readers never wait
//!     │   │  │
//!     │   │  └── ports: Logs, Archive, Images
//!     │   └───── kernel: cgroups
//!     └───────── link: cell-init; link::node: node-init (create: new cells)
//! ```

mod adopt;
mod api;
mod attach;
mod attached;
pub mod beside;
mod caller;
mod cdi;
pub(crate) mod cell;
mod create;
mod devices;
mod dial;
mod direct;
mod disk;
mod effects;
mod extras;
pub(crate) mod finished;
pub mod hooks;
pub(crate) mod ids;
mod images;
pub(crate) mod index;
mod layout;
mod left;
pub(crate) mod link;
mod listener;
mod lsm;
pub(crate) mod mounts;
mod observed;
pub mod ports;
mod privilege;
pub mod queue;
pub(crate) mod record;
mod remove;
mod run;
pub mod scopes;
mod seccomp;
mod settings;
mod slices;
mod specs;
mod staging;
mod tally;
mod tenant;
pub mod volume;
pub mod watched;

use std::sync::Arc;

use model::error::Error;
use model::name::{Tenant, Uid};
use model::status::Object;
use model::time::Timestamp;

pub use adopt::Adoption;
pub use attach::{Attachment, End, Input, Kept};
pub use direct::{Direct, Piece};
pub use effects::Standing;
pub use extras::{Descriptor, Extras, MAX_DESCRIPTORS, Terminal};
pub use index::list::Page;
pub use index::watch::{WatchEvent, WatchKind, Watcher};
pub use init::protocol::{PowerMode, sandbox};
pub use link::node::{FIRST_PART, InitState, KeptDescriptor, NodeInit, NodeInitError, longer_by};
pub use lsm::check_label;
pub use observed::{Measured, Objects};
pub use settings::{Bounds, Settings};
pub use slices::Slice;
pub use specs::{HeldSpec, length as spec_length};
pub use tenant::inits::memory_of_cells;

use attached::Attachments;
use index::Index;
use kernel::cgroup::Cgroup;
use ports::{Archive, Logs};
use tenants::{Pool, Tenants, Turns};
use tokio::sync::watch;

/// The handle of the subsystem; cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

impl Runtime {
    /// Changes how much there may be. What is more already stays: nothing new begins until there is
    /// less, and finished records go.
    pub fn set_bounds(&self, bounds: Bounds) {
        self.shared.index.set_bounds(bounds);
        self.shared.age_out();
    }
}

impl Runtime {
    /// The node's init: a subsystem of the node leaves with it what must outlive the daemon.
    pub fn node_init(&self) -> &NodeInit {
        &self.shared.node
    }

    /// Resolves when every cell of an earlier daemon was taken over, or given up, and what goes on
    /// in them is attached to its log. The API is open before.
    pub async fn logs_are_known(&self) {
        // Its sender goes with the taking over; then there is nothing more to come.
        let _ = self.shared.known.clone().wait_for(|known| *known).await;
    }
}

/// What every part of the subsystem reaches.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) index: Arc<Index>,
    pub(crate) node: NodeInit,
    pub(crate) logs: Arc<dyn Logs>,
    pub(crate) archive: tally::Tally,
    /// Whose turn it is to read there.
    pub(crate) reads: finished::Reads,
    /// Who may have how much.
    pub(crate) tenants: Tenants,
    /// Cells that are being created.
    pub(crate) creations: Pool,
    /// Of those, whose turn it is at the spawner.
    pub(crate) spawner: Turns,
    /// Which tenants' groups have been told.
    pub(crate) told: tenant::Told,
    /// Of executables that remove themselves.
    pub(crate) attachments: Arc<Attachments>,
    /// Output that waits for who attaches to it.
    pub(crate) offered: Arc<direct::Offered>,
    pub(crate) seccomp: seccomp::Filters,
    /// The images of living cells.
    pub(crate) images: images::Held,
    /// The network of cells.
    pub(crate) networks: Arc<dyn ports::Networks>,
    /// Programs of the node for moments of containers.
    pub(crate) hooks: Arc<dyn ports::Hooks>,
    /// The way of mounts into cells.
    pub(crate) staging: staging::Staging,
    /// The controllers that every group below has.
    pub(crate) controllers: Vec<String>,
    /// Below it are the tenants.
    pub(crate) root: Cgroup,
    /// And beside it the administrators' own.
    pub(crate) beside: Option<tenant::place::Beside>,
    /// Below it are the inits of tenants, where node-init has made it.
    pub(crate) inits: Option<Cgroup>,
    /// What the kernel calls the tenants' group.
    pub(crate) root_name: String,
    /// Where it is below the mount point of cgroup2.
    pub(crate) root_below: std::path::PathBuf,
    /// Whether the logs of everything that goes on from an earlier daemon are attached.
    pub(crate) known: watch::Receiver<bool>,
    /// Owners that were taken over go on one after the other.
    pub(crate) resuming: Arc<tokio::sync::Semaphore>,
}

impl Shared {
    /// Forgets the stored records of objects that are in the index no more, and then their logs.
    /// When it answers, the records are gone for every later daemon; the logs follow.
    pub(crate) async fn forget(&self, gone: &[Arc<Object>]) -> Result<(), Error> {
        let uids = gone.iter().map(|object| object.meta().uid).collect();
        self.archive.remove(uids).await?;
        for object in gone {
            tokio::spawn(self.logs.remove(&object.meta().tenant, object.meta().uid));
        }
        Ok(())
    }

    /// The same, where no caller waits for it: the record goes with the next one that is stored.
    pub(crate) fn forget_beside(self: &Arc<Self>, gone: &Object) {
        self.forget_stored(gone.meta().tenant.clone(), gone.meta().uid);
    }

    fn forget_stored(self: &Arc<Self>, tenant: Tenant, uid: Uid) {
        self.archive.let_go(uid);
        let shared = self.clone();
        tokio::spawn(async move {
            match shared.archive.remove_later(vec![uid]).await {
                Ok(()) => shared.logs.remove(&tenant, uid).await,
                Err(error) => {
                    tracing::warn!(%error, "the record of a removed object stays behind");
                }
            }
        });
    }

    /// Forgets the finished records that are too many or too old.
    pub(crate) fn age_out(self: &Arc<Self>) {
        for uid in self.index.aged(now()) {
            if let Some(object) = self.index.remove(uid) {
                self.forget_beside(&object);
            }
        }
        let before = self.index.oldest_kept(now());
        for (tenant, uid) in self.archive.before(before) {
            self.forget_record(tenant, uid);
        }
        self.hold_finished_bytes();
    }

    /// Forgets the oldest finished records of the tenants that keep more bytes than they may.
    pub(crate) fn hold_finished_bytes(self: &Arc<Self>) {
        for (tenant, uid) in self.archive.excess(&self.tenants.limits()) {
            self.forget_record(tenant, uid);
        }
    }

    /// Forgets a stored record and what is shown of it; not that of an object whose end is just
    /// being published.
    fn forget_record(self: &Arc<Self>, tenant: Tenant, uid: Uid) {
        match self.index.by_uid(uid) {
            Some(object) if !object.state().is_final() => {}
            Some(object) => {
                self.archive.let_go(uid);
                self.forget_later(&object);
            }
            // No daemon can read it.
            None => self.forget_stored(tenant, uid),
        }
    }

    /// Takes a finished object out, with everything that is kept of it. Who waits for it has been
    /// told.
    pub(crate) fn forget_later(self: &Arc<Self>, object: &Arc<Object>) {
        if let Some(removed) = self.index.remove(object.meta().uid) {
            self.forget_beside(&removed);
        }
    }

    /// The same, once everybody who is attached to it has had its end.
    pub(crate) fn forget_after_attachments(self: &Arc<Self>, object: Arc<Object>) {
        let shared = self.clone();
        tokio::spawn(async move {
            let uid = object.meta().uid;
            shared.attachments.all_gone(uid).await;
            shared.forget_later(&object);
            shared.attachments.forget(uid);
        });
    }

    /// Keeps an object that everybody may know to have ended. Who removes it may be quicker than
    /// the store: what is in the index no more when it is stored is forgotten again.
    pub(crate) async fn keep_ended(&self, finished: store::Finished) -> Result<(), Error> {
        let uid = finished.uid;
        if self.index.by_uid(uid).is_none() {
            // Also where the store takes nothing now.
            return Ok(());
        }
        self.archive.put(finished).await?;
        match self.index.by_uid(uid) {
            Some(_) => Ok(()),
            None => self.archive.remove(vec![uid]).await,
        }
    }
}

/// By the node's clock, as it is set: it can jump.
pub fn now() -> Timestamp {
    Timestamp(kernel::time::realtime_ns())
}
