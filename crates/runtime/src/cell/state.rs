// SPDX-License-Identifier: Apache-2.0
//! What every part of an owner sees of its cell: what it is, what is kept and published of it, its
//! group, and the way to do things that take time. No part's own state is in here, and nothing in
//! here decides.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use init::protocol::ExitRecord;
use kernel::cgroup::Cgroup;
use model::cell::{CellSpec, Namespace};
use model::error::Error;
use model::lifecycle;
use model::name::{Tenant, Uid};
use model::status::{CellStatus, Object};
use tokio::sync::oneshot;

use super::Request;
use super::owner::Event;
use crate::Shared;
use crate::index::Key;
use crate::record::CellRecord;

/// See the module.
pub(super) struct Cell {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Key,
    /// What its cell-init keeps for the next daemon, as it was last written or is being written.
    pub(super) record: CellRecord,
    /// What is published.
    pub(super) status: CellStatus,
    /// The cell's own group.
    pub(super) group: Arc<Cgroup>,
    /// The node's id of the cell's root.
    pub(super) root_id: u32,
    /// The cell around it is frozen.
    pub(super) parent_frozen: bool,
    /// What goes on beside the loop.
    pub(super) tasks: FuturesUnordered<BoxFuture<'static, Event>>,
}

impl Cell {
    /// Something that takes time: its result is an event of the owner's.
    pub(super) fn beside(&self, task: impl Future<Output = Event> + Send + 'static) {
        self.tasks.push(Box::pin(task));
    }

    /// Tells when its init, of that number, has ended, as node-init says it.
    pub(super) fn await_exit(&self, pid: i32, exit: oneshot::Receiver<ExitRecord>) {
        self.beside(async move { Event::InitEnded(pid, exit.await.ok()) });
    }

    /// Whether what runs in it goes on without its init: nothing of it ends by that. It is the
    /// administrators' and has no namespace but the node's, nor has a cell around it.
    pub(super) fn outlives_its_init(&self) -> bool {
        self.key.tenant == Tenant::system() && self.has_nodes(&Namespace::ALL)
    }

    /// The pure step of the cell's own life.
    pub(super) fn step(&mut self, event: lifecycle::Event) {
        match self.status.state.after(event) {
            Ok(state) => self.status.state = state,
            Err(illegal) => tracing::debug!(cell = %self.key.path, %illegal, "ignored"),
        }
    }

    pub(super) fn publish(&self) {
        self.shared.index.publish(Object::Cell(self.status.clone()));
    }

    /// The object as published.
    pub(super) fn object(&self, uid: Uid) -> Result<Arc<Object>, Error> {
        self.shared
            .index
            .by_uid(uid)
            .ok_or_else(|| Error::not_found("object", uid.to_string()))
    }

    /// Whether executables here are to be held.
    pub(super) fn is_frozen(&self) -> bool {
        self.record.frozen || self.parent_frozen
    }

    /// The nearest cell that isn't light, from this one on outwards: the one whose namespaces it
    /// has.
    pub(super) fn host(&self) -> Option<(Key, CellSpec)> {
        let own = (self.key.clone(), self.record.spec.clone());
        let around = std::iter::successors(self.key.parent(), Key::parent);
        let around = around.map_while(|key| Some((key.clone(), self.spec_of(&key)?)));
        let mut all = std::iter::once(own).chain(around);
        all.find(|(_, spec)| !spec.light)
    }

    /// Whether it has the node's own namespaces of these kinds: every cell around shares them, too.
    pub(super) fn has_nodes(&self, kinds: &[Namespace]) -> bool {
        let shares = |spec: &CellSpec| kinds.iter().all(|kind| spec.shares_around(*kind));
        let mut around = std::iter::successors(self.key.parent(), Key::parent);
        let around_too = around.all(|key| self.spec_of(&key).is_some_and(|spec| shares(&spec)));
        shares(&self.record.spec) && around_too
    }

    fn spec_of(&self, key: &Key) -> Option<CellSpec> {
        match self.shared.index.at(key).as_deref() {
            Some(Object::Cell(cell)) => Some(cell.spec.clone()),
            _ => None,
        }
    }

    /// Whether the cell was made for that executable, and goes with it.
    pub(super) fn goes_with(&self, uid: Uid) -> bool {
        self.record.goes_with == Some(uid)
    }

    /// No request for something new in the cell is taken any more; one for a new cell of its name
    /// waits for its end.
    pub(super) fn close(&self) {
        // Never refused: that something lives in it doesn't matter here.
        let _ = self.shared.index.close(&self.key, false);
    }

    /// Asks the cells in it to end, and waits until they have.
    pub(super) fn stop_nested(&self, grace: Option<Duration>) {
        let nested = self.shared.index.nested(&self.key);
        self.beside(async move {
            let stops = nested.iter().map(|cell| async move {
                // A cell that has ended meanwhile can't be asked, and needn't.
                let _ = cell.ask(|reply| Request::StopCell { grace, reply }).await;
                cell.ended().await;
            });
            futures_util::future::join_all(stops).await;
            Event::NestedEnded
        });
    }

    /// An executable has ended: where its tenant has too many, or keeps too much, what ended first
    /// is removed.
    pub(super) fn make_room(&self) {
        let (shared, tenant) = (&self.shared, &self.record.meta.tenant);
        if shared.index.is_crowded(tenant) {
            shared.age_out();
        } else if shared.archive.is_over(&shared.tenants.limits(), tenant) {
            shared.hold_finished_bytes();
        }
    }
}
