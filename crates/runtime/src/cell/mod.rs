// SPDX-License-Identifier: Apache-2.0
//! A cell and the executables in it: one task owns them, [`CellHandle`] is how others reach it,
//! [`Request`] is all that can be asked.
//!
//! Nested cells have tasks of their own. What goes down the tree (stop, freeze) a parent's task
//! passes on to its children's handles and waits for their answers beside its other work; nothing
//! goes up the tree by message, so no two tasks ever wait for each other.
//!
//! ```text
//!  requests ──► requests ─┐       ┌─► Executables   start, stop, freeze, relabel, input, finish
//!  cell-init ─► answers ──┼ Owner ┼─► Updates       update, change, progress
//!  tasks ─────► ends ─────┘       ├─► Ending        ending
//!                                 └─► Exchange      ──► cell-init
//! ```
//!
//! The owner takes one event after the other ([`owner`]) and hands it to the part that it concerns
//! (`requests`, `answers`, `ends`). No part reaches the owner or another part: each has its own
//! state, gets the cell ([`state::Cell`]), and does by itself what touches kernel, index, logs and
//! archive. It returns what remains to be done: what the cell-init is to be asked, and the event
//! for the machine of an end. The owner alone talks to the cell-init.

mod answers;
mod change;
pub(crate) mod container;
mod ending;
mod ends;
mod exchange;
pub(crate) mod executable;
mod executables;
pub(crate) mod finish;
mod freeze;
mod full;
mod handover;
pub(crate) mod init;
mod input;
pub(crate) mod launch;
pub(crate) mod leaf;
pub(crate) mod limits;
mod main_owner;
pub(crate) mod main_process;
pub(crate) mod owner;
mod progress;
mod relabel;
pub(crate) mod renewal;
mod requests;
pub(crate) mod resume;
mod start;
mod state;
mod streams;

pub(crate) use start::{failure as start_failure, said as start_said};
mod stop;
mod update;
mod usage;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use model::error::{Error, Reason};
use model::name::Uid;
use model::request::{UpdateCell, UpdateExecutable};
use model::signal::Signal;
use model::status::{Annex, Object};
use tokio::sync::{mpsc, oneshot, watch};

use super::index::Reservation;
use super::record::ExecutableRecord;
use crate::extras::Extras;
use crate::record::Written;

/// How many requests wait for an owner. Senders of more wait.
const QUEUE: usize = 64;

/// Where an answer goes. It is dropped where the caller is gone.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// What can be asked of a cell's owner.
pub(crate) enum Request {
    /// Start an executable in it.
    Start(Box<StartOrder>),
    /// Ask an executable to end; answered when it has.
    Stop {
        uid: Uid,
        grace: Option<Duration>,
        reply: Reply<Arc<Object>>,
    },
    /// Ask everything in the cell, and the cell, to end; answered when it has.
    StopCell {
        grace: Option<Duration>,
        reply: Reply<Arc<Object>>,
    },
    /// Signal an executable.
    Signal {
        uid: Uid,
        signal: Signal,
        all: bool,
        reply: Reply<Arc<Object>>,
    },
    /// Signal every process of the cell and of those in it.
    SignalAll { signal: Signal, reply: Reply<()> },
    /// Make a process of the cell the main one of an executable.
    Main {
        uid: Uid,
        pid: i32,
        reply: Reply<Arc<Object>>,
    },
    /// Serve a light cell; answered when its socket is listened on.
    Light {
        uid: Uid,
        record: Written,
        listener: OwnedFd,
        /// It is no new one: it is served also where the cell is stopping.
        is_there: bool,
        reply: Reply<()>,
    },
    /// Serve a light cell no more that came to nothing; not answered.
    Unlight { uid: Uid },
    /// Change the cell.
    Update {
        request: Box<UpdateCell>,
        reply: Reply<Arc<Object>>,
    },
    /// Change an executable's labels.
    Relabel {
        uid: Uid,
        request: Box<UpdateExecutable>,
        reply: Reply<Arc<Object>>,
    },
    /// Freeze or thaw: the cell itself, or because the one around it was.
    Freeze {
        frozen: bool,
        by_parent: bool,
        reply: Reply<Arc<Object>>,
    },
    /// Keep another document of a subsystem above.
    Annex {
        annex: Annex,
        reply: Reply<Arc<Object>>,
    },
    /// Hand out the write end of standard input, or the terminal: to one at a time.
    TakeInput {
        uid: Uid,
        reply: Reply<Arc<OwnedFd>>,
    },
    /// Close standard input for good.
    CloseInput { uid: Uid, reply: Reply<()> },
}

/// An executable to be started.
pub(crate) struct StartOrder {
    pub(crate) record: ExecutableRecord,
    pub(crate) extras: Extras,
    pub(crate) reservation: Reservation,
    pub(crate) reply: Reply<Arc<Object>>,
}

/// Reaches the owner of a cell.
#[derive(Clone)]
pub(crate) struct CellHandle {
    uid: Uid,
    /// The executable that the cell was made for.
    goes_with: Option<Uid>,
    init: Arc<init::InitProcess>,
    requests: mpsc::Sender<Request>,
    /// Set when the owner is done and the cell is gone from the kernel.
    ended: watch::Receiver<bool>,
}

impl CellHandle {
    /// A handle whose owner is gone.
    #[cfg(test)]
    pub(crate) fn without_owner(uid: Uid) -> Self {
        let own = kernel::process::id();
        let pidfd = kernel::pidfd::open(own).unwrap();
        Self {
            uid,
            goes_with: None,
            init: Arc::new(init::InitProcess::new(own, pidfd)),
            requests: mpsc::channel(1).0,
            ended: watch::channel(true).1,
        }
    }

    /// The cell's run.
    pub(crate) fn uid(&self) -> Uid {
        self.uid
    }

    /// The executable that the cell was made for, and goes with.
    pub(crate) fn goes_with(&self) -> Option<Uid> {
        self.goes_with
    }

    /// The process of its init.
    pub(crate) fn init(&self) -> &init::InitProcess {
        &self.init
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.requests
            .send(request(reply))
            .await
            .map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Has its init let go of a light cell that came to nothing. Where the owner can't take it now
    /// the init keeps a socket and a record until the cell ends.
    pub(crate) fn unlight(&self, uid: Uid) {
        if self.requests.try_send(Request::Unlight { uid }).is_err() {
            tracing::warn!(%uid, "what was made of a light cell stays with the init around it");
        }
    }

    /// Resolves when the cell is gone.
    pub(crate) async fn ended(&self) {
        let mut ended = self.ended.clone();
        // An error says that the owner's task is gone, and so is the cell.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

fn gone() -> Error {
    Error::new(Reason::WrongState, "the cell has ended meanwhile")
}
