// SPDX-License-Identifier: Apache-2.0
//! The end of an executable: `model::lifecycle::executable` decides what comes next, and here it is
//! done. Not here: what the cell-init and the rest of the cell are told of it, which is the
//! owner's ([`super::ends`]), and the end of the cell ([`super::ending`]).
//!
//! ```text
//!  main ended → leaf empty → output stored → end stored → acknowledged → leaf removed
//!             ─► final state published
//! ```
//!
//! Until the acknowledgement the cell-init has it all, so that a daemon that dies anywhere in
//! between leaves the next one where it was. What outlives its main process in the leaf gets the
//! stop signal, the grace, and is killed.

use std::sync::Arc;
use std::time::Duration;

use model::error::Error;
use model::exit::Exit;
use model::launch::KillMode;
use model::lifecycle::Event as Life;
use model::lifecycle::executable::{Effect, Event as End, Retain, Teardown};
use model::name::Uid;
use model::object::Kind;
use model::status::Object;
use store::Finished;
use tokio::time::Instant;

use super::executable::{Executable, condition};
use super::executables::Executables;
use super::leaf;
use super::owner::Event;
use super::state::Cell;
use crate::ports::{Archive, LogTotals};
use crate::record::Archived;

/// How long to wait before the store is asked again.
const STORE_AGAIN: Duration = Duration::from_secs(5);

/// What the outcome of storing an end is to that end. One that can't be stored now the cell-init
/// goes on keeping.
pub(super) fn stored(outcome: Result<(), Error>) -> End {
    match outcome {
        Ok(()) => End::Stored,
        Err(error) => {
            tracing::error!(%error, "an end could not be stored; it stays with the cell's init");
            End::NotStored
        }
    }
}

/// What happened to it, as its end has it.
impl Executable {
    /// Its main process has ended.
    pub(super) fn main_ended(&mut self, exit: Exit) -> End {
        self.exit = Some(exit);
        self.status.pid = None;
        let alone = self.leaves_others() || !leaf::populated(&self.leaf);
        End::MainEnded { alone }
    }

    /// Its cell's init is lost. How it ended can't be known, unless it was told before.
    pub(super) fn lost(&mut self, why: &str) -> End {
        if let Some(exit) = self.left.take() {
            self.exit = Some(exit);
            self.status.pid = None;
        }
        if self.exit.is_none() {
            self.exit = Some(Exit {
                started: self.status.started,
                finished: Some(crate::now()),
                ..Exit::unknown()
            });
            self.status.pid = None;
            let condition = condition("InitLost", "CellInitEnded", why.to_owned());
            self.status.conditions.push(condition);
        }
        End::Lost
    }

    /// Its output is stored.
    pub(super) fn drained(&mut self, totals: LogTotals, cell: &Cell) -> End {
        self.status.stdout_bytes = totals.stdout;
        self.status.stderr_bytes = totals.stderr;
        self.status.exit = self.exit;
        let is_awaited =
            self.record.attach_follows || cell.shared.attachments.is_attached(self.uid());
        End::Drained(match (self.effective.auto_remove, is_awaited) {
            (false, _) => Retain::Record,
            (true, true) => Retain::UntilDetached,
            (true, false) => Retain::Nothing,
        })
    }

    /// It has ended, as everybody may know, and the store hasn't taken it yet.
    pub(super) fn is_unstored(&self) -> bool {
        matches!(self.teardown, Teardown::Unstored(_))
    }

    /// What is to be done after that event, and whether its end is dealt with by then. It is so
    /// once.
    pub(super) fn after(&mut self, event: End) -> (Vec<Effect>, bool) {
        let before = self.teardown;
        let (teardown, effects) = before.after(event);
        self.teardown = teardown;
        let path = &self.record.meta.path;
        tracing::debug!(%path, ?event, ?teardown, ?effects, "an executable's end");
        (
            effects,
            teardown == Teardown::Over && before != Teardown::Over,
        )
    }
}

impl Executables {
    /// Does what the end of one asks for. [`Effect::Acknowledge`] is not done here: it is said to
    /// the cell-init.
    pub(super) fn carry_out(&mut self, uid: Uid, effect: Effect, cell: &Cell) {
        if effect == Effect::RemoveGroup {
            return self.remove_leaf(uid, cell);
        }
        if let Some(executable) = self.get_mut(&uid) {
            executable.carry_out(effect, cell);
        }
    }

    /// Where the end was told before it could be stored, a new run may have taken the leaf's place.
    fn remove_leaf(&self, uid: Uid, cell: &Cell) {
        if let Some(executable) = self.get(&uid)
            && !self.has_another_of_its_name(executable)
        {
            match executable.leaves_others() && leaf::populated(&executable.leaf) {
                true => {
                    let (group, left) = (cell.group.clone(), executable.leaf.clone());
                    tokio::spawn(leaf::reclaim(group, left, executable.leaf_name()));
                }
                false => leaf::remove(&cell.group, &executable.leaf_name()),
            }
        }
    }
}

/// What its end asks for.
impl Executable {
    fn carry_out(&mut self, effect: Effect, cell: &Cell) {
        match effect {
            Effect::StopRest => self.stop_rest(cell),
            Effect::Kill => {
                leaf::kill(&self.leaf);
                self.watch_leaf(Some(Instant::now()), cell);
            }
            Effect::Drain => self.drain(cell),
            Effect::Conclude(life) => self.conclude(life),
            Effect::Store => self.store(cell),
            Effect::StoreLater => self.store_later(cell),
            Effect::Publish => self.publish_end(cell),
            Effect::Answer => self.answer(cell),
            Effect::Forget(retain) => self.forget(retain, cell),
            // Not for it alone to do: see above.
            Effect::Acknowledge | Effect::RemoveGroup => {}
        }
    }

    /// The main process left others behind.
    fn stop_rest(&mut self, cell: &Cell) {
        let mode = self.effective.ending.kill_mode;
        let was_asked = self.record.stop.is_some();
        let is_due = was_asked && self.kill_at.is_some();
        let due = match mode {
            KillMode::Mixed => Some(Instant::now()),
            _ if is_due => None,
            _ => Some(Instant::now() + self.effective.stop_grace),
        };
        // In a control group all were asked with the main process.
        let asks = match mode {
            KillMode::Mixed => false,
            KillMode::ControlGroup => !was_asked,
            _ => true,
        };
        if asks {
            super::stop::thaw_leaf(&self.leaf);
            self.ask_all();
        }
        if self.step(Life::Stop).is_ok() {
            self.publish(cell);
        }
        if let Some(due) = due {
            self.kill_by(due, cell);
        }
    }

    fn drain(&mut self, cell: &Cell) {
        let uid = self.uid();
        self.input = None;
        let drained = cell.shared.logs.finish(uid);
        // While its last output is being stored.
        let used = super::usage::last(&self.leaf, &cell.shared.controllers);
        self.status.final_usage = Some(used);
        cell.beside(async move { Event::Drained(uid, drained.await) });
    }

    fn conclude(&mut self, life: Life) {
        if let Err(error) = self.step(life) {
            tracing::error!(%error, "an end out of turn");
        }
    }

    fn to_store(&self) -> Finished {
        let object = Object::Executable(self.status.clone());
        archived(object, self.record.idempotency_key.clone())
    }

    fn store(&self, cell: &Cell) {
        let uid = self.uid();
        let stored = cell.shared.archive.put(self.to_store());
        cell.beside(async move { Event::Stored(uid, stored.await) });
    }

    fn store_later(&self, cell: &Cell) {
        let uid = self.uid();
        let end = self.to_store();
        let shared = cell.shared.clone();
        cell.beside(async move {
            tokio::time::sleep(STORE_AGAIN).await;
            Event::Stored(uid, shared.keep_ended(end).await)
        });
    }

    /// Tells the end. An own cell is closed before: a client that was told may use the name at
    /// once, and its new run waits for a cell that is known to end.
    fn publish_end(&self, cell: &Cell) {
        if cell.goes_with(self.uid()) {
            cell.close();
        }
        let published = cell.shared.index.by_uid(self.uid());
        if published.is_some_and(|object| !object.state().is_final()) {
            self.publish(cell);
        }
    }

    /// The end as published, or as it is known where the object was removed meanwhile.
    fn end(&self, cell: &Cell) -> Arc<Object> {
        let published = cell.shared.index.by_uid(self.uid());
        published.unwrap_or_else(|| Arc::new(Object::Executable(self.status.clone())))
    }

    fn answer(&mut self, cell: &Cell) {
        let end = self.end(cell);
        for reply in self.waiting.drain(..) {
            let _ = reply.send(Ok(end.clone()));
        }
    }

    fn forget(&self, retain: Retain, cell: &Cell) {
        let shared = &cell.shared;
        match retain {
            Retain::Record => shared.forget_whole(self.uid()),
            Retain::UntilDetached => shared.forget_after_attachments(self.end(cell)),
            Retain::Nothing => {
                shared.attachments.forget(self.uid());
                shared.forget_later(&self.end(cell));
            }
        }
    }
}

/// What the archive keeps.
pub(crate) fn archived(
    object: Object,
    idempotency_key: Option<crate::index::requests::IdempotencyKey>,
) -> Finished {
    let meta = object.meta();
    let ended = crate::index::list::finished(&object);
    let kind = match meta.kind {
        Kind::Cell => "cell",
        Kind::Executable => "executable",
    };
    Finished {
        uid: meta.uid,
        tenant: meta.tenant.to_string(),
        path: meta.path.to_string(),
        kind: kind.to_owned(),
        finished_ns: i64::try_from(ended.0).unwrap_or(i64::MAX),
        request_id: idempotency_key
            .as_ref()
            .map(|idempotency_key| idempotency_key.id.to_string()),
        // A status is plain data: it can't fail to become JSON.
        record: serde_json::to_vec(&Archived {
            object,
            idempotency_key,
        })
        .unwrap_or_default(),
    }
}
