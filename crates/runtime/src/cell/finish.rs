// SPDX-License-Identifier: Apache-2.0
//! The end of an executable: `model::lifecycle::executable` decides what comes next, and here it is
//! done. That of the cell is in [`super::ending`].
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

use init::protocol::{CellRequest, ExitRecord};
use kernel::signal::Signal;
use model::error::Error;
use model::exit::Exit;
use model::lifecycle::Event as Life;
use model::lifecycle::executable::{Effect, Event as End, Keep, Teardown};
use model::name::Uid;
use model::object::Kind;
use model::status::Object;
use store::Finished;
use tokio::time::Instant;

use super::executable::{condition, exit_of};
use super::leaf;
use super::owner::{Event, Owner};
use crate::ports::{Archive, LogTotals};
use crate::record::{self, Archived};

/// How long to wait before the store is asked again.
const STORE_AGAIN: Duration = Duration::from_secs(5);

impl Owner {
    /// The cell-init says that a main process has ended.
    pub(super) fn exited(&mut self, uid: Uid, exit: ExitRecord) {
        match self.executables.get(&uid) {
            Some(executable) if executable.exit.is_none() => self.main_ended(uid, exit_of(&exit)),
            Some(_) => {}
            // Started, given up for lost and killed: only this acknowledges it.
            None => self.acknowledge(uid),
        }
    }

    fn acknowledge(&mut self, uid: Uid) {
        let uid = record::wire(uid);
        self.tell(&CellRequest::Ack { uid });
    }

    pub(super) fn main_ended(&mut self, uid: Uid, exit: Exit) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        executable.exit = Some(exit);
        executable.status.pid = None;
        let alone = !leaf::populated(&executable.leaf);
        self.happened(uid, End::MainEnded { alone });
    }

    /// Its cell's init is lost. How it ended can't be known, unless it was told before.
    pub(super) fn lose_executable(&mut self, uid: Uid, why: &str) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        if executable.exit.is_none() {
            executable.exit = Some(Exit {
                started: executable.status.started,
                finished: Some(crate::now()),
                ..Exit::unknown()
            });
            executable.status.pid = None;
            let condition = condition("InitLost", "CellInitEnded", why.to_owned());
            executable.status.conditions.push(condition);
        }
        self.happened(uid, End::Lost);
    }

    pub(super) fn drained(&mut self, uid: Uid, totals: LogTotals) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        executable.status.stdout_bytes = totals.stdout;
        executable.status.stderr_bytes = totals.stderr;
        executable.status.exit = executable.exit;
        let is_awaited =
            executable.record.attach_follows || self.shared.attachments.is_attached(uid);
        let keep = match (executable.effective.auto_remove, is_awaited) {
            (false, _) => Keep::Record,
            (true, true) => Keep::UntilDetached,
            (true, false) => Keep::Nothing,
        };
        self.happened(uid, End::Drained(keep));
    }

    /// The end is safe, or can't be made so now: then the cell-init goes on keeping it.
    pub(super) fn stored(&mut self, uid: Uid, outcome: Result<(), Error>) {
        let event = match outcome {
            Ok(()) => End::Stored,
            Err(error) => {
                tracing::error!(%error, "an end could not be stored; it stays with the cell's init");
                End::NotStored
            }
        };
        self.happened(uid, event);
    }

    /// Something that the end of an executable depends on.
    pub(super) fn happened(&mut self, uid: Uid, event: End) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        let before = executable.teardown;
        let (teardown, effects) = before.after(event);
        executable.teardown = teardown;
        let path = &executable.record.meta.path;
        tracing::debug!(%path, ?event, ?teardown, ?effects, "an executable's end");
        for effect in effects {
            self.carry_out(uid, effect);
        }
        // Once: an effect may find the cell-init lost, which every executable here is told.
        if teardown == Teardown::Over && before != Teardown::Over {
            self.over(uid);
        }
    }

    fn carry_out(&mut self, uid: Uid, effect: Effect) {
        match effect {
            Effect::StopRest => self.stop_rest(uid),
            Effect::Kill => self.kill_by(uid, Instant::now()),
            Effect::Drain => self.drain(uid),
            Effect::Conclude(life) => self.conclude(uid, life),
            Effect::Store => self.store(uid),
            Effect::StoreLater => self.store_later(uid),
            Effect::Acknowledge => self.acknowledge(uid),
            Effect::RemoveGroup => self.remove_leaf(uid),
            Effect::Publish => self.publish_end(uid),
            Effect::Answer => self.answer(uid),
            Effect::Forget(keep) => self.forget(uid, keep),
        }
    }

    /// The main process left others behind.
    fn stop_rest(&mut self, uid: Uid) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        let is_due = executable.record.stop.is_some() && executable.kill_at.is_some();
        let due = (!is_due).then(|| Instant::now() + executable.effective.stop_grace);
        let signal = i32::from(executable.effective.stop_signal.number());
        if let Some(signal) = Signal::from_number(signal) {
            super::stop::thaw_leaf(&executable.leaf);
            if let Err(error) = leaf::signal_all(&executable.leaf, signal) {
                tracing::warn!(%error, "what a main process left behind was not signalled");
            }
        }
        if executable.step(Life::Stop).is_ok() {
            self.publish_executable(uid);
        }
        if let Some(due) = due {
            self.kill_by(uid, due);
        }
    }

    /// Watches the leaf until it is empty, killing from that moment on.
    pub(super) fn kill_by(&mut self, uid: Uid, due: Instant) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        if let Some(due) = executable.kill_by(due) {
            let group = executable.leaf.clone();
            self.beside(async move {
                leaf::emptied(group, due).await;
                Event::LeafEmpty(uid)
            });
        }
    }

    fn drain(&mut self, uid: Uid) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        executable.input = None;
        let drained = self.shared.logs.finish(uid);
        // While its last output is being stored.
        let used = super::usage::last(&executable.leaf, &self.shared.controllers);
        executable.status.final_usage = Some(used);
        self.beside(async move { Event::Drained(uid, drained.await) });
    }

    fn conclude(&mut self, uid: Uid, life: Life) {
        if let Some(executable) = self.executables.get_mut(&uid)
            && let Err(error) = executable.step(life)
        {
            tracing::error!(%error, "an end out of turn");
        }
    }

    fn to_store(&self, uid: Uid) -> Option<Finished> {
        let executable = self.executables.get(&uid)?;
        let object = Object::Executable(executable.status.clone());
        Some(archived(object, executable.record.asked.clone()))
    }

    fn store(&self, uid: Uid) {
        if let Some(end) = self.to_store(uid) {
            let stored = self.shared.archive.put(end);
            self.beside(async move { Event::Stored(uid, stored.await) });
        }
    }

    fn store_later(&self, uid: Uid) {
        let Some(end) = self.to_store(uid) else {
            return;
        };
        let shared = self.shared.clone();
        self.beside(async move {
            tokio::time::sleep(STORE_AGAIN).await;
            Event::Stored(uid, shared.keep_ended(end).await)
        });
    }

    /// Where the end was told before it could be stored, a new run may have taken the leaf's place.
    fn remove_leaf(&self, uid: Uid) {
        let Some(executable) = self.executables.get(&uid) else {
            return;
        };
        if !self.executables.has_another_of_its_name(executable) {
            leaf::remove(&self.group, executable.name());
        }
    }

    /// Tells the end. An own cell is closed before: a client that was told may use the name at
    /// once, and its new run waits for a cell that is known to end.
    fn publish_end(&self, uid: Uid) {
        if self.record.goes_with == Some(uid) {
            self.close();
        }
        let published = self.shared.index.by_uid(uid);
        if published.is_some_and(|object| !object.state().is_final()) {
            self.publish_executable(uid);
        }
    }

    /// The end as published, or as it is known where the object was removed meanwhile.
    fn end_of(&self, uid: Uid) -> Option<Arc<Object>> {
        let published = self.shared.index.by_uid(uid);
        published.or_else(|| {
            let executable = self.executables.get(&uid)?;
            Some(Arc::new(Object::Executable(executable.status.clone())))
        })
    }

    fn answer(&mut self, uid: Uid) {
        let Some(end) = self.end_of(uid) else { return };
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        for reply in executable.waiting.drain(..) {
            let _ = reply.send(Ok(end.clone()));
        }
    }

    fn forget(&self, uid: Uid, keep: Keep) {
        match keep {
            Keep::Record => self.shared.forget_whole(uid),
            Keep::UntilDetached => {
                if let Some(end) = self.end_of(uid) {
                    self.shared.forget_after_attachments(end);
                }
            }
            Keep::Nothing => {
                self.shared.attachments.forget(uid);
                if let Some(end) = self.end_of(uid) {
                    self.shared.forget_later(&end);
                }
            }
        }
    }

    /// Its end is dealt with.
    fn over(&mut self, uid: Uid) {
        self.executables.remove(&uid);
        if self.record.goes_with == Some(uid) {
            self.stop_cell(None);
        }
        let tenant = &self.record.meta.tenant;
        let shared = &self.shared;
        if shared.index.is_crowded(tenant) {
            shared.age_out();
        } else if shared.archive.is_over(&shared.tenants.limits(), tenant) {
            shared.hold_finished_bytes();
        }
    }
}

/// What the archive keeps.
pub(crate) fn archived(
    object: Object,
    asked: Option<crate::index::requests::IdempotencyKey>,
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
        request_id: asked.as_ref().map(|asked| asked.id.to_string()),
        // A status is plain data: it can't fail to become JSON.
        record: serde_json::to_vec(&Archived { object, asked }).unwrap_or_default(),
    }
}
