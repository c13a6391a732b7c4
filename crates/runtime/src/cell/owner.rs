// SPDX-License-Identifier: Apache-2.0
//! The task that owns a cell: its state, and the loop in which everything that happens to it
//! happens.
//!
//! Nothing in here waits but the loop itself. What takes time goes on beside it as a task whose
//! result is an [`Event`] like any other; what the cell-init is asked is a [`Call`] that its answer
//! finds again. A cell-init that doesn't answer in time, or not as agreed, is lost, and its cell is
//! killed: see `ends`. Only a start may take as long as it does: its program's file may be where
//! reading hangs, which is no fault of the init; the start is given up and the cell goes on.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use init::protocol::{CellEvent, ExitRecord};
use kernel::cgroup::Cgroup;
use model::error::Error;
use model::label::Labels;
use model::lifecycle::cell;
use model::name::Uid;
use model::status::{Annex, CellStatus, Object};
use tokio::sync::{mpsc, oneshot, watch};

use super::change::Updates;
use super::ending::Ending;
use super::exchange::Exchange;
use super::executables::Executables;
use super::init::InitProcess;
use super::main_process::Found;
use super::renewal::{Renewal, Renewed};
use super::state::Cell;
use super::{CellHandle, QUEUE, Reply, Request, ending, finish, freeze, leaf};
use crate::Shared;
use crate::index::Key;
use crate::index::requests::IdempotencyKey;
use crate::link::cell::CellLink;
use crate::link::{LinkError, Received};
use crate::ports::LogTotals;
use crate::queue;
use crate::record::CellRecord;

/// Everything that happens to a cell.
pub(crate) enum Event {
    /// A request came.
    Request(Request),
    /// The cell-init says.
    Said(Received<CellEvent>),
    /// The cell-init can't be talked to any more.
    Silent(LinkError),
    /// The cell-init of that number has ended; `None`: how is not known.
    InitEnded(i32, Option<ExitRecord>),
    /// There is another cell-init, or none could be made.
    Renewed(Result<Box<Renewed>, Error>),
    /// The oldest call was not answered in time.
    Late,
    /// The output of this executable is being stored, or can't be.
    Attached(Uid, Result<(), Error>),
    /// Nothing lives in the leaf of this executable.
    LeafEmpty(Uid),
    /// The main process of this executable was looked for.
    MainFound(Uid, Option<Box<Found>>),
    /// The grace of a stop is over whose end is the main process's alone.
    GraceOver(Uid),
    /// The output of this executable is stored.
    Drained(Uid, LogTotals),
    /// The end of this executable is stored, or can't be now.
    Stored(Uid, Result<(), Error>),
    /// Every nested cell has ended.
    NestedEnded,
    /// The cell's own end is stored, or can't be now.
    CellStored(Result<(), Error>),
    /// Freezing or thawing is done.
    FreezeDone {
        frozen: bool,
        reached: bool,
        reply: Reply<Arc<Object>>,
    },
    /// The cell's cgroup is gone.
    Removed(Result<(), String>),
    /// Node-init was told that it needs to keep the end of the cell-init no longer.
    InitAcknowledged,
}

/// A request to the cell-init that waits for its answer.
pub(crate) enum Call {
    /// An executable's start.
    Start(Uid),
    /// A stop's intent is being written; the signal comes next.
    StopIntent(Uid),
    /// The main process of an executable; the caller that asked for it, if one did.
    Main {
        uid: Uid,
        pid: i32,
        reply: Option<Reply<Arc<Object>>>,
    },
    /// A light cell.
    Light(Reply<()>),
    /// An executable that another init of the cell has kept.
    Adopt(Uid),
    /// A signal on a client's behalf.
    Signal { uid: Uid, reply: Reply<Arc<Object>> },
    /// An executable's record with other labels; `old` are those before.
    Relabel {
        uid: Uid,
        old: Labels,
        reply: Reply<Arc<Object>>,
    },
    /// The cell's own record before it is frozen or thawed.
    FreezeIntent {
        frozen: bool,
        reply: Reply<Arc<Object>>,
    },
    /// The cell's own record with another annex.
    Annex {
        annex: Annex,
        reply: Reply<Arc<Object>>,
    },
    /// A step of the update that is being carried out.
    Change,
    /// The cell-init is to end; it answers as the last thing it does.
    Exit,
    /// Whatever comes of it, there is nothing to do about it.
    Noted(&'static str),
}

/// See the module. It is kilobytes, and goes from hand to hand before it runs: it is boxed.
pub(crate) struct Owner {
    pub(super) cell: Cell,
    /// The conversation with its init; closed once it is gone.
    pub(super) exchange: Exchange,
    pub(super) executables: Executables,
    pub(super) updates: Updates,
    pub(super) ending: Ending,
    pub(super) renewal: Renewal,
}

/// What an owner begins with.
pub(crate) struct Beginning {
    pub(crate) key: Key,
    pub(crate) record: CellRecord,
    pub(crate) status: CellStatus,
    pub(crate) group: Cgroup,
    pub(crate) root_id: u32,
    pub(crate) parent_frozen: bool,
    pub(crate) init: Arc<InitProcess>,
    pub(crate) link: CellLink,
    pub(crate) socket: PathBuf,
    /// Resolves when node-init says that the cell-init has ended; `None` where its parent died with
    /// an earlier node-init: then no exit comes.
    pub(crate) exit: Option<oneshot::Receiver<ExitRecord>>,
}

impl Owner {
    /// An owner and its handle; nothing runs yet.
    pub(crate) fn new(shared: Arc<Shared>, beginning: Beginning) -> (Box<Self>, Line) {
        let (requests, inbox) = mpsc::channel(QUEUE);
        let (over, ended) = watch::channel(false);
        let handle = CellHandle {
            uid: beginning.record.meta.uid,
            goes_with: beginning.record.goes_with,
            init: beginning.init.clone(),
            requests,
            ended,
        };
        let exchange = Exchange::new(beginning.link, shared.settings.init_timeout);
        let cell = Cell {
            shared,
            key: beginning.key,
            record: beginning.record,
            status: beginning.status,
            group: Arc::new(beginning.group),
            root_id: beginning.root_id,
            parent_frozen: beginning.parent_frozen,
            tasks: FuturesUnordered::new(),
        };
        let child = beginning.exit.is_some();
        let ending = Ending::new(beginning.init, child, beginning.socket);
        let owner = Box::new(Self {
            cell,
            exchange,
            executables: Executables::default(),
            updates: Updates::default(),
            ending,
            renewal: Renewal::default(),
        });
        if let Some(exit) = beginning.exit {
            owner.cell.await_exit(owner.ending.init_pid(), exit);
        }
        (
            owner,
            Line {
                handle,
                inbox,
                over,
            },
        )
    }

    /// Runs until the cell is gone.
    pub(crate) async fn run(
        mut self: Box<Self>,
        mut inbox: mpsc::Receiver<Request>,
        over: watch::Sender<bool>,
    ) {
        while !self.ending.is_over() {
            let event = self.next(&mut inbox).await;
            self.handle(event);
            self.advance();
        }
        queue::close(&mut inbox).await;
        let Self { cell, ending, .. } = *self;
        ending.depart(cell, &over);
    }

    async fn next(&mut self, inbox: &mut mpsc::Receiver<Request>) -> Event {
        let late = self.exchange.due();
        tokio::select! {
            said = self.exchange.next() => match said {
                Ok(received) => Event::Said(received),
                Err(error) => Event::Silent(error),
            },
            Some(event) = self.cell.tasks.next() => event,
            () = leaf::until(late) => Event::Late,
            // The index holds a handle for as long as this task runs.
            Some(request) = inbox.recv() => Event::Request(request),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request(request) => self.requested(request),
            Event::Said(received) => self.said(received),
            Event::Silent(error) => self.silent(&error),
            Event::InitEnded(pid, exit) => self.init_ended(pid, exit),
            Event::Renewed(outcome) => self.renewed(outcome),
            Event::Late => self.late(),
            Event::Attached(uid, outcome) => {
                self.reports(uid, |executable, cell| executable.attached(outcome, cell));
            }
            Event::LeafEmpty(uid) => self.leaf_emptied(uid),
            Event::MainFound(uid, found) => self.main_found(uid, found),
            Event::GraceOver(uid) => self.grace_over(uid),
            Event::Drained(uid, totals) => {
                self.reports(uid, |executable, cell| executable.drained(totals, cell));
            }
            Event::Stored(uid, outcome) => self.happened(uid, finish::stored(outcome)),
            Event::NestedEnded => self.ends(cell::Event::NestedEnded),
            Event::CellStored(outcome) => {
                let event = self.ending.stored(outcome, &self.cell);
                self.ends(event);
            }
            Event::FreezeDone {
                frozen,
                reached,
                reply,
            } => freeze::done(frozen, reached, reply, &mut self.cell),
            Event::Removed(outcome) => {
                let event = ending::removed(outcome, &mut self.cell);
                self.ends(event);
            }
            Event::InitAcknowledged => self.ends(cell::Event::Acknowledged),
        }
    }

    /// See [`Cell::close`].
    pub(crate) fn close(&self) {
        self.cell.close();
    }

    /// The request that asked for the cell.
    pub(crate) fn request_id(&self) -> Option<&IdempotencyKey> {
        self.cell.record.idempotency_key.as_ref()
    }
}

/// Both ends of the way to an owner.
pub(crate) struct Line {
    pub(crate) handle: CellHandle,
    pub(crate) inbox: mpsc::Receiver<Request>,
    pub(crate) over: watch::Sender<bool>,
}
