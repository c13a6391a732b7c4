// SPDX-License-Identifier: Apache-2.0
//! How executables and cells end, in the only order that loses nothing:
//!
//! ```text
//!  executable:  main ended → leaf empty → output stored → end stored → acknowledged → leaf removed
//!               ─► final state published
//!  cell:        all in it ended → its init told → its init ended → cgroup removed → acknowledged
//!               ─► end stored ─► final state published
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
use model::lifecycle::{Event as Life, State};
use model::name::Uid;
use model::object::Kind;
use model::status::Object;
use tokio::time::Instant;

use super::executable::{condition, exit_of};
use super::leaf;
use super::owner::{Call, Event, Owner};
use crate::link::LinkError;
use crate::ports::Archive;
use crate::ports::LogTotals;
use crate::record::{self, Archived};
use store::Finished;

/// How long a cell-init may take to end once nothing runs in its cell.
const INIT_GRACE: Duration = Duration::from_secs(5);
/// How long the kernel may take to let go of an empty cgroup.
const REMOVAL: Duration = Duration::from_secs(10);
/// How long to wait before the store is asked again.
const STORE_AGAIN: Duration = Duration::from_secs(5);

impl Owner {
    /// The cell-init says that a main process has ended.
    pub(super) fn exited(&mut self, uid: Uid, exit: ExitRecord) {
        match self.executables.get(&uid) {
            Some(executable) if executable.exit.is_none() => self.main_ended(uid, exit_of(&exit)),
            Some(_) => {}
            // Started, given up for lost and killed: nobody else will acknowledge it.
            None => self.tell(&CellRequest::Ack {
                uid: record::wire(uid),
            }),
        }
    }

    pub(super) fn main_ended(&mut self, uid: Uid, exit: Exit) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        executable.exit = Some(exit);
        executable.status.pid = None;
        if !leaf::populated(&executable.leaf) {
            executable.empty = true;
            return self.finish(uid);
        }
        self.end_the_rest(uid);
    }

    /// The main process left others behind.
    fn end_the_rest(&mut self, uid: Uid) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        let stopping = executable.record.stop.is_some();
        let grace = executable.effective.stop_grace;
        let signal = i32::from(executable.effective.stop_signal.number());
        let due = match stopping && executable.kill_at.is_some() {
            true => None,
            false => Some(Instant::now() + grace),
        };
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

    pub(super) fn leaf_empty(&mut self, uid: Uid) {
        if let Some(executable) = self.executables.get_mut(&uid) {
            executable.empty = true;
            self.finish(uid);
        }
    }

    /// Goes on once both the exit is known and nothing is left in the leaf.
    pub(super) fn finish(&mut self, uid: Uid) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        let over = executable.exit.is_some() && executable.empty;
        if !over || !executable.attached || executable.finishing {
            return;
        }
        executable.finishing = true;
        executable.input = None;
        let drained = self.shared.logs.finish(uid);
        // While its last output is being stored.
        let used = super::usage::last(&executable.leaf, &self.shared.controllers);
        executable.status.final_usage = Some(used);
        self.beside(async move { Event::Drained(uid, drained.await) });
    }

    pub(super) fn drained(&mut self, uid: Uid, totals: LogTotals) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        executable.status.stdout_bytes = totals.stdout;
        executable.status.stderr_bytes = totals.stderr;
        executable.status.exit = executable.exit;
        let event = if executable.lost {
            Life::Lost
        } else {
            Life::Ended
        };
        if let Err(error) = executable.step(event) {
            tracing::error!(%error, "an end out of turn");
        }
        let is_awaited =
            executable.record.attach_follows || self.shared.attachments.is_attached(uid);
        if executable.effective.auto_remove && !is_awaited {
            return self.stored(uid, Ok(()));
        }
        executable.kept_for_attachments = executable.effective.auto_remove;
        let asked = executable.record.asked.clone();
        let object = Object::Executable(executable.status.clone());
        let stored = self.shared.archive.put(archived(object, asked));
        self.beside(async move { Event::Stored(uid, stored.await) });
    }

    /// The end is safe, or can't be made so now: then the cell-init goes on keeping it.
    pub(super) fn stored(&mut self, uid: Uid, outcome: Result<(), Error>) {
        if let Err(error) = &outcome {
            tracing::error!(%error, "an end could not be stored; it stays with the cell's init");
            return self.store_later(uid);
        }
        self.tell(&CellRequest::Ack {
            uid: record::wire(uid),
        });
        self.publish_end(uid);
        if let Some(executable) = self.executables.remove(&uid) {
            leaf::remove(&self.group, executable.name());
            let ended = Arc::new(Object::Executable(executable.status));
            let published = self.shared.index.by_uid(uid).unwrap_or(ended);
            for reply in executable.waiting {
                let _ = reply.send(Ok(published.clone()));
            }
            if executable.kept_for_attachments {
                self.shared.forget_after_attachments(published);
            } else if executable.effective.auto_remove {
                self.shared.attachments.forget(uid);
                self.shared.forget_later(&published);
            } else {
                self.shared.forget_whole(uid);
            }
        }
        if self.record.goes_with == Some(uid) {
            self.stop_cell(None);
        }
        let tenant = &self.record.meta.tenant;
        if self.shared.index.is_crowded(tenant) {
            self.shared.age_out();
        } else if self
            .shared
            .archive
            .is_over(&self.shared.tenants.limits(), tenant)
        {
            self.shared.hold_finished_bytes();
        }
    }

    /// Watchers need not wait for a broken store.
    fn store_later(&mut self, uid: Uid) {
        self.publish_end(uid);
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        let published = self.shared.index.by_uid(uid);
        for reply in executable.waiting.drain(..) {
            if let Some(published) = &published {
                let _ = reply.send(Ok(published.clone()));
            }
        }
        let object = Object::Executable(executable.status.clone());
        let put = archived(object, executable.record.asked.clone());
        let shared = self.shared.clone();
        self.beside(async move {
            tokio::time::sleep(STORE_AGAIN).await;
            Event::Stored(uid, shared.keep_ended(put).await)
        });
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

    /// The cell-init broke an agreement.
    pub(super) fn protocol_error(&mut self, what: &str) {
        let error = LinkError::Malformed(what.to_owned());
        self.silent(&error);
    }

    /// The cell-init can't be talked to any more. One that has ended is waited for; one that hasn't
    /// is hostile or broken, and its cell is killed.
    pub(super) fn silent(&mut self, error: &LinkError) {
        if self.link.take().is_none() {
            return;
        }
        let expected = self.ending.told;
        if !expected {
            tracing::warn!(cell = %self.key.path, %error, "the cell's init is lost");
            self.lose(&error.to_string());
        }
        // Its descriptor tells when it is gone, whoever its parent is.
        let init = self.init.clone();
        let due = Instant::now() + if expected { INIT_GRACE } else { Duration::ZERO };
        self.beside(async move {
            init.ended(due).await;
            Event::InitEnded(None)
        });
    }

    pub(super) fn init_ended(&mut self, exit: Option<ExitRecord>) {
        if self.ending.init {
            return;
        }
        let asked = self.ending.told;
        if !asked {
            tracing::warn!(cell = %self.key.path, ?exit, "the cell's init has ended");
            self.lose("the cell's init has ended");
        }
        self.ending.init = true;
        self.link = None;
        self.status.pid = None;
    }

    /// Everything here ends now, and nobody will know how.
    fn lose(&mut self, why: &str) {
        if self.ending.lost {
            return;
        }
        self.ending.lost = true;
        self.begin_ending();
        self.init.kill();
        leaf::kill(&self.group);
        self.step(Life::Stop);
        self.status
            .conditions
            .push(condition("InitLost", "CellInitEnded", why.to_owned()));
        for uid in self.starting.keys().copied().collect::<Vec<_>>() {
            let error = Error::internal(format!("the cell's init was lost: {why}"));
            self.not_started(uid, error);
        }
        for uid in self.executables.keys().copied().collect::<Vec<_>>() {
            self.lose_executable(uid, why);
        }
        // Whoever waits for an answer of the cell-init is told so.
        while let Some((_, (_, call))) = self.calls.pop_first() {
            drop(call);
        }
        self.updating = None;
        self.updates.clear();
    }

    fn lose_executable(&mut self, uid: Uid, why: &str) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        if executable.exit.is_none() {
            executable.lost = true;
            executable.exit = Some(Exit {
                started: executable.status.started,
                finished: Some(crate::now()),
                ..Exit::unknown()
            });
            executable.status.pid = None;
            let condition = condition("InitLost", "CellInitEnded", why.to_owned());
            executable.status.conditions.push(condition);
        }
        self.kill_by(uid, Instant::now());
        self.finish(uid);
    }

    /// The next step of a cell's end, where it is due. Called after every event.
    pub(super) fn advance(&mut self) {
        let ending = self.ending;
        let idle = self.executables.is_empty() && self.starting.is_empty();
        if !ending.begun || !ending.nested || !idle {
            return;
        }
        if !ending.told && !ending.init {
            self.ending.told = true;
            self.store_cell();
        }
        if self.ending.init && !ending.removing {
            self.ending.removing = true;
            self.measure_cell();
            self.remove_group();
        }
    }

    /// Stores the end before the init that keeps the record is told to end: whoever comes after us
    /// finds one or the other.
    fn store_cell(&mut self) {
        self.status.finished = Some(crate::now());
        self.measure_cell();
        if self.record.goes_with.is_some() {
            return self.tell_to_end();
        }
        let mut ended = self.status.clone();
        ended.pid = None;
        ended.state = State::Exited;
        let stored = self
            .shared
            .archive
            .put(archived(Object::Cell(ended), self.record.asked.clone()));
        self.beside(async move { Event::CellStored(stored.await) });
    }

    /// Everything in it has ended: nothing more is used.
    fn measure_cell(&mut self) {
        let measure = || super::usage::last(&self.group, &self.shared.controllers);
        self.status.final_usage.get_or_insert_with(measure);
    }

    pub(super) fn cell_stored(&mut self, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            tracing::error!(cell = %self.key.path, %error, "the end of a cell was not stored");
        }
        self.tell_to_end();
    }

    fn tell_to_end(&mut self) {
        self.call(Call::Exit, Vec::new(), |request| CellRequest::Exit {
            request,
        });
    }

    fn remove_group(&self) {
        let parent = self.group.path().parent().map(std::path::Path::to_owned);
        let name = self.key.path.name().to_owned();
        let socket = self.socket.clone();
        let node = self.child.then(|| self.shared.node.clone());
        let uid = record::wire(self.record.meta.uid);
        self.beside(async move {
            let outcome = match parent {
                Some(parent) => remove_below(&parent, name).await,
                None => Ok(()),
            };
            if let Err(error) = std::fs::remove_file(&socket)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(socket = %socket.display(), %error, "a socket stays behind");
            }
            if let Some(node) = node {
                node.acknowledge(uid).await;
            }
            Event::Removed(outcome)
        });
    }

    /// The cell is gone from the kernel.
    pub(super) fn removed(&mut self, outcome: Result<(), String>) {
        if let Err(error) = outcome {
            tracing::error!(cell = %self.key.path, %error, "a cgroup stays behind");
            self.status
                .conditions
                .push(condition("CgroupLeft", "RemovalFailed", error));
        }
        self.status.finished.get_or_insert_with(crate::now);
        self.step(if self.ending.lost {
            Life::Lost
        } else {
            Life::Ended
        });
        self.ending.over = true;
    }

    /// The last thing an owner does: its ids are free, its name is free, and whoever waited is
    /// told.
    pub(super) async fn shut_down(mut self, over: &tokio::sync::watch::Sender<bool>) {
        let own = self.record.goes_with.is_none();
        if own && self.ending.lost {
            // Before anybody knows that there is something to be removed.
            let object = Object::Cell(self.status.clone());
            let stored = self
                .shared
                .archive
                .put(archived(object, self.record.asked.clone()));
            if let Err(error) = stored.await {
                tracing::error!(cell = %self.key.path, %error, "the end of a cell was not stored");
            }
        }
        let waiting = std::mem::take(&mut self.waiting);
        let published = self.shared.index.depart(Object::Cell(self.status), own);
        if own {
            self.shared.forget_whole_if_stored(self.record.meta.uid);
        }
        over.send_replace(true);
        for reply in waiting {
            let _ = reply.send(Ok(published.clone()));
        }
    }
}

/// Removes a cell's group. At once where nothing lives in it any more, as mostly: its init was
/// reaped before. A thread that waits for it costs more than the removal.
async fn remove_below(parent: &std::path::Path, name: String) -> Result<(), String> {
    let parent = kernel::cgroup::Cgroup::open(parent).map_err(|e| e.to_string())?;
    if parent.remove(&name, Duration::ZERO).is_ok() {
        return Ok(());
    }
    let removed = tokio::task::spawn_blocking(move || parent.remove(&name, REMOVAL));
    match removed.await {
        Ok(removed) => removed.map_err(|e| e.to_string()),
        Err(error) => Err(error.to_string()),
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
