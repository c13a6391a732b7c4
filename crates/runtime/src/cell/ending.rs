// SPDX-License-Identifier: Apache-2.0
//! The end of a cell: `model::lifecycle::cell` decides what comes next, and here it is done. Not
//! here: what its executables and its cell-init are asked for it, which is the owner's
//! ([`super::ends`]). The ends of the executables are in [`super::finish`].
//!
//! ```text
//!  all in it ended → end stored → its init told → its init ended → cgroup removed → acknowledged
//!                  ─► final state published
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::error::Error;
use model::lifecycle::Event as Life;
use model::lifecycle::State;
use model::lifecycle::cell::{Effect, Event as End, Teardown};
use model::status::Object;
use tokio::sync::watch;
use tokio::time::Instant;

use super::executable::condition;
use super::finish::archived;
use super::init::InitProcess;
use super::owner::Event;
use super::state::Cell;
use super::{Reply, leaf};
use crate::ports::Archive;
use crate::record;
use crate::slices;

/// How long a cell-init may take to end once nothing runs in its cell.
const INIT_GRACE: Duration = Duration::from_secs(5);
/// How long the kernel may take to let go of an empty cgroup.
const REMOVAL: Duration = Duration::from_secs(10);

/// How far the end of a cell has come, and what is left of the cell to end.
pub(super) struct Ending {
    teardown: Teardown,
    /// The store has its end.
    is_stored: bool,
    /// The process of its init.
    init: Arc<InitProcess>,
    /// Its init is node-init's child.
    child: bool,
    socket: PathBuf,
    /// Who waits for the end.
    waiting: Vec<Reply<Arc<Object>>>,
}

/// How far it has come.
impl Ending {
    /// Of a cell that lives.
    pub(super) fn new(init: Arc<InitProcess>, child: bool, socket: PathBuf) -> Self {
        Self {
            teardown: Teardown::Lives,
            is_stored: false,
            init,
            child,
            socket,
            waiting: Vec::new(),
        }
    }

    /// The number of its init's process, or of that of the cell around a light one.
    pub(super) fn init_pid(&self) -> i32 {
        self.init.pid()
    }

    /// It is that one's from now on.
    pub(super) fn become_that_of(&self, init: &InitProcess) {
        self.init.become_that_of(init);
    }

    /// Whether node-init says how its init ends.
    pub(super) fn is_child(&self) -> bool {
        self.child
    }

    /// Where its init listens.
    pub(super) fn socket(&self) -> PathBuf {
        self.socket.clone()
    }

    /// Nothing new begins in the cell.
    pub(super) fn has_begun(&self) -> bool {
        self.teardown.has_begun()
    }

    /// Nothing of the cell is left: [`Self::depart`] is all that is to be done.
    pub(super) fn is_over(&self) -> bool {
        self.teardown == Teardown::Over
    }

    /// Its init has to end: that it is gone is no loss.
    pub(super) fn expects_silence(&self) -> bool {
        self.teardown.expects_silence()
    }

    /// Answered when the cell has ended.
    pub(super) fn wait(&mut self, reply: Reply<Arc<Object>>) {
        self.waiting.push(reply);
    }

    /// What is to be done after that event.
    pub(super) fn after(&mut self, event: End, cell: &Cell) -> Vec<Effect> {
        let (teardown, effects) = self.teardown.after(event);
        tracing::debug!(cell = %cell.key.path, ?event, ?teardown, ?effects, "a cell's end");
        self.teardown = teardown;
        effects
    }

    /// Tells when its init is gone, also where it is not node-init's child. It is killed when its
    /// time is up: at once, unless it was told to end.
    pub(super) fn await_init(&self, was_told: bool, cell: &Cell) {
        let (init, pid) = (self.init.clone(), self.init.pid());
        let due = Instant::now() + if was_told { INIT_GRACE } else { Duration::ZERO };
        cell.beside(async move {
            init.ended(due).await;
            Event::InitEnded(pid, None)
        });
    }
}

/// What came of what was asked for.
impl Ending {
    /// The end is stored, or can't be: it goes on all the same.
    pub(super) fn stored(&mut self, outcome: Result<(), Error>, cell: &Cell) -> End {
        self.is_stored = outcome.is_ok();
        if let Err(error) = outcome {
            tracing::error!(cell = %cell.key.path, %error, "the end of a cell was not stored");
        }
        End::Stored
    }
}

/// What it asks for.
impl Ending {
    /// Does what concerns the cell alone: all but [`Effect::StopExecutables`] and
    /// [`Effect::TellInit`]. Returns what has happened by that already.
    pub(super) fn carry_out(&self, effect: Effect, cell: &mut Cell) -> Option<End> {
        match effect {
            Effect::Close => cell.close(),
            Effect::Announce => {
                cell.step(Life::Stop);
                cell.publish();
            }
            Effect::StopNested { grace } => cell.stop_nested(grace),
            Effect::Kill => {
                self.init.kill();
                leaf::kill(&cell.group);
            }
            Effect::Store(life) => return store(life, cell),
            Effect::RemoveGroup => self.remove_group(cell),
            Effect::Acknowledge => return self.acknowledge_init(cell),
            // The rest is done by what has the cell altogether: `depart`.
            Effect::Depart(life) => cell.step(life),
            Effect::StopExecutables { .. } | Effect::TellInit => {}
        }
        None
    }

    fn remove_group(&self, cell: &Cell) {
        // Mostly nothing lives in it any more, its init was reaped before: then a look, a thread
        // that waits and the group around it cost more than the removal.
        let is_gone = cell.group.remove_empty().unwrap_or(false);
        if !is_gone && leaf::populated(&cell.group) {
            // What main processes have left behind, and no executable's any more.
            leaf::kill(&cell.group);
        }
        let parent = cell.group.path().parent().map(Path::to_owned);
        if let Some(parent) = parent.as_ref().filter(|_| is_gone) {
            slices::tidy(parent);
        }
        let parent = parent.filter(|_| !is_gone);
        let name = cell.key.path.name().to_owned();
        let socket = self.socket.clone();
        // Asked for now: a cell that wants its ports next is behind it in the line.
        let detached = cell.shared.networks.detach(cell.record.meta.uid);
        let hooks = cell.shared.hooks.gone(cell.record.meta.uid);
        cell.beside(async move {
            let removed = async move {
                match parent {
                    Some(parent) => remove_below(&parent, name).await,
                    None => Ok(()),
                }
            };
            let (outcome, (), ()) = tokio::join!(removed, detached, hooks);
            if let Err(error) = std::fs::remove_file(&socket)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(socket = %socket.display(), %error, "a socket stays behind");
            }
            Event::Removed(outcome)
        });
    }

    fn acknowledge_init(&self, cell: &Cell) -> Option<End> {
        if !self.child {
            return Some(End::Acknowledged);
        }
        let node = cell.shared.node.clone();
        let uid = record::wire(cell.record.meta.uid);
        cell.beside(async move {
            node.acknowledge(uid).await;
            Event::InitAcknowledged
        });
        None
    }

    /// The last thing an owner does: its ids are free, its name is free, and those that waited are
    /// told.
    pub(super) fn depart(self, cell: Cell, over: &watch::Sender<bool>) {
        cell.shared.images.let_go(cell.record.meta.uid);
        let own = cell.record.goes_with.is_none();
        let published = cell.shared.index.depart(Object::Cell(cell.status), own);
        if own && self.is_stored {
            cell.shared.forget_whole(cell.record.meta.uid);
        }
        over.send_replace(true);
        for reply in self.waiting {
            let _ = reply.send(Ok(published.clone()));
        }
    }
}

/// Stores the end before the init that keeps the record is told to end: the next daemon finds one
/// or the other. A cell that goes with an executable leaves no record.
fn store(life: Life, cell: &mut Cell) -> Option<End> {
    cell.status.finished = Some(crate::now());
    // Everything in it has ended: nothing more is used.
    let used = super::usage::last(&cell.group, &cell.shared.controllers);
    cell.status.final_usage = Some(used);
    if cell.record.goes_with.is_some() {
        return Some(End::Stored);
    }
    let mut ended = cell.status.clone();
    ended.pid = None;
    ended.state = ended.state.after(life).unwrap_or(State::Exited);
    let end = archived(Object::Cell(ended), cell.record.idempotency_key.clone());
    let stored = cell.shared.archive.put(end);
    cell.beside(async move { Event::CellStored(stored.await) });
    None
}

/// The cell is gone from the kernel, or can't be removed.
pub(super) fn removed(outcome: Result<(), String>, cell: &mut Cell) -> End {
    if let Err(error) = outcome {
        tracing::error!(cell = %cell.key.path, %error, "a cgroup stays behind");
        let condition = condition("CgroupLeft", "RemovalFailed", error);
        cell.status.conditions.push(condition);
    }
    End::Removed
}

/// Removes a cell's group once all that lives in it has ended.
async fn remove_below(parent: &Path, name: String) -> Result<(), String> {
    let parent = kernel::cgroup::Cgroup::open(parent).map_err(|e| e.to_string())?;
    let removed = tokio::task::spawn_blocking(move || {
        let removed = parent.remove(&name, REMOVAL);
        slices::tidy(parent.path());
        removed
    });
    match removed.await {
        Ok(removed) => removed.map_err(|e| e.to_string()),
        Err(error) => Err(error.to_string()),
    }
}
