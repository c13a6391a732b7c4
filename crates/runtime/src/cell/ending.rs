// SPDX-License-Identifier: Apache-2.0
//! The end of a cell: `model::lifecycle::cell` decides what comes next, and here it is done. Those
//! of its executables are in [`super::finish`].
//!
//! ```text
//!  all in it ended → end stored → its init told → its init ended → cgroup removed → acknowledged
//!                  ─► final state published
//! ```

use std::time::Duration;

use init::protocol::{CellRequest, ExitRecord};
use model::error::Error;
use model::lifecycle::Event as Life;
use model::lifecycle::State;
use model::lifecycle::cell::{Effect, Event as End, Teardown};
use model::status::Object;
use tokio::time::Instant;

use super::executable::condition;
use super::finish::archived;
use super::leaf;
use super::owner::{Call, Event, Owner};
use crate::link::LinkError;
use crate::ports::Archive;
use crate::record;

/// How long a cell-init may take to end once nothing runs in its cell.
const INIT_GRACE: Duration = Duration::from_secs(5);
/// How long the kernel may take to let go of an empty cgroup.
const REMOVAL: Duration = Duration::from_secs(10);

impl Owner {
    /// The cell-init broke an agreement.
    pub(super) fn protocol_error(&mut self, what: &str) {
        let error = LinkError::Malformed(what.to_owned());
        self.silent(&error);
    }

    /// The cell-init can't be talked to any more. One that has ended is waited for; one that hasn't
    /// is hostile or broken, and its cell is killed.
    pub(super) fn silent(&mut self, error: &LinkError) {
        if !self.exchange.close() {
            return;
        }
        let expected = self.ending.expects_silence();
        if !expected {
            tracing::warn!(cell = %self.key.path, %error, "the cell's init is lost");
            self.lose(&error.to_string(), End::Lost);
        }
        // Its descriptor tells when it is gone, also where it is not node-init's child.
        let init = self.init.clone();
        let due = Instant::now() + if expected { INIT_GRACE } else { Duration::ZERO };
        self.beside(async move {
            init.ended(due).await;
            Event::InitEnded(None)
        });
    }

    pub(super) fn init_ended(&mut self, exit: Option<ExitRecord>) {
        self.exchange.close();
        self.status.pid = None;
        if self.ending.expects_silence() {
            return self.ends(End::InitEnded);
        }
        tracing::warn!(cell = %self.key.path, ?exit, "the cell's init has ended");
        self.lose("the cell's init has ended", End::InitEnded);
    }

    /// Everything here ends now; how is not known.
    fn lose(&mut self, why: &str, event: End) {
        self.ends(event);
        self.step(Life::Stop);
        let condition = condition("InitLost", "CellInitEnded", why.to_owned());
        self.status.conditions.push(condition);
        for uid in self.executables.starting_uids() {
            let error = Error::internal(format!("the cell's init was lost: {why}"));
            self.not_started(uid, error);
        }
        for uid in self.executables.uids() {
            self.lose_executable(uid, why);
        }
        // The callers that wait for an answer of the cell-init are told so.
        self.exchange.forget();
        self.updating = None;
        self.updates.clear();
    }

    /// Says that nothing runs in it any more, where that is so. Called after every event.
    pub(super) fn advance(&mut self) {
        let idle = self.executables.are_idle();
        if idle && self.ending.has_begun() {
            self.ends(End::ExecutablesEnded);
        }
    }

    /// Something that the end of the cell depends on.
    pub(super) fn ends(&mut self, event: End) {
        let (ending, effects) = self.ending.after(event);
        tracing::debug!(cell = %self.key.path, ?event, ?ending, ?effects, "a cell's end");
        self.ending = ending;
        for effect in effects {
            self.carry_out_of_cell(effect);
        }
    }

    fn carry_out_of_cell(&mut self, effect: Effect) {
        match effect {
            Effect::Close => self.close(),
            Effect::Announce => {
                self.step(Life::Stop);
                self.publish_cell();
            }
            Effect::StopExecutables { grace } => {
                for uid in self.executables.uids() {
                    self.stop(uid, grace, None);
                }
            }
            Effect::StopNested { grace } => self.stop_nested(grace),
            Effect::Kill => {
                self.init.kill();
                leaf::kill(&self.group);
            }
            Effect::Store(life) => self.store_cell(life),
            Effect::TellInit => self.call(Call::Exit, Vec::new(), |request| CellRequest::Exit {
                request,
            }),
            Effect::RemoveGroup => self.remove_group(),
            Effect::Acknowledge => self.acknowledge_init(),
            // The rest is done by what has the owner altogether: `shut_down`.
            Effect::Depart(life) => self.step(life),
        }
    }

    /// Stores the end before the init that keeps the record is told to end: whoever comes after us
    /// finds one or the other. A cell that goes with an executable leaves no record.
    fn store_cell(&mut self, life: Life) {
        self.status.finished = Some(crate::now());
        // Everything in it has ended: nothing more is used.
        let used = super::usage::last(&self.group, &self.shared.controllers);
        self.status.final_usage = Some(used);
        if self.record.goes_with.is_some() {
            return self.ends(End::Stored);
        }
        let mut ended = self.status.clone();
        ended.pid = None;
        ended.state = ended.state.after(life).unwrap_or(State::Exited);
        let end = archived(Object::Cell(ended), self.record.asked.clone());
        let stored = self.shared.archive.put(end);
        self.beside(async move { Event::CellStored(stored.await) });
    }

    pub(super) fn cell_stored(&mut self, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            tracing::error!(cell = %self.key.path, %error, "the end of a cell was not stored");
        }
        self.ends(End::Stored);
    }

    fn remove_group(&self) {
        let parent = self.group.path().parent().map(std::path::Path::to_owned);
        let name = self.key.path.name().to_owned();
        let socket = self.socket.clone();
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
            Event::Removed(outcome)
        });
    }

    /// The cell is gone from the kernel.
    pub(super) fn removed(&mut self, outcome: Result<(), String>) {
        if let Err(error) = outcome {
            tracing::error!(cell = %self.key.path, %error, "a cgroup stays behind");
            let condition = condition("CgroupLeft", "RemovalFailed", error);
            self.status.conditions.push(condition);
        }
        self.ends(End::Removed);
    }

    fn acknowledge_init(&mut self) {
        if !self.child {
            return self.ends(End::Acknowledged);
        }
        let node = self.shared.node.clone();
        let uid = record::wire(self.record.meta.uid);
        self.beside(async move {
            node.acknowledge(uid).await;
            Event::InitAcknowledged
        });
    }

    pub(super) fn is_over(&self) -> bool {
        self.ending == Teardown::Over
    }

    /// The last thing an owner does: its ids are free, its name is free, and whoever waited is
    /// told.
    pub(super) fn shut_down(mut self, over: &tokio::sync::watch::Sender<bool>) {
        let own = self.record.goes_with.is_none();
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
