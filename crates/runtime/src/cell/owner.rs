// SPDX-License-Identifier: Apache-2.0
//! The task that owns a cell: its state, and the loop in which everything that happens to it
//! happens.
//!
//! Nothing in here waits but the loop itself. What takes time goes on beside it as a task whose
//! result is an [`Event`] like any other; what the cell-init is asked is a [`Call`] that its answer
//! finds again. A cell-init that doesn't answer in time, or not as agreed, is lost, and its cell is
//! killed: see `ending`. Only a start may take as long as it does: its program's file may be where
//! reading hangs, which is no fault of the init; the start is given up and the cell goes on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use init::protocol::{CellEvent, ExitRecord};
use kernel::cgroup::Cgroup;
use model::error::Error;
use model::label::Labels;
use model::lifecycle::cell::{self, Teardown};
use model::lifecycle::{self, executable};
use model::name::Uid;
use model::request::UpdateCell;
use model::status::{CellStatus, Object};
use tokio::sync::{mpsc, oneshot, watch};

use super::change::Running;
use super::exchange::Exchange;
use super::executables::Executables;
use super::init::InitProcess;
use super::{CellHandle, QUEUE, Reply, Request, leaf};
use crate::Shared;
use crate::index::Key;
use crate::index::requests::IdempotencyKey;
use crate::link::cell::CellLink;
use crate::link::{LinkError, Received};
use crate::ports::LogTotals;
use crate::record::CellRecord;

/// Everything that happens to a cell.
pub(crate) enum Event {
    /// A request came.
    Request(Request),
    /// The cell-init says.
    Said(Received<CellEvent>),
    /// The cell-init can't be talked to any more.
    Silent(LinkError),
    /// The cell-init has ended; `None`: how is not known.
    InitEnded(Option<ExitRecord>),
    /// The oldest call was not answered in time.
    Late,
    /// The output of this executable is being stored, or can't be.
    Attached(Uid, Result<(), Error>),
    /// Nothing lives in the leaf of this executable.
    LeafEmpty(Uid),
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
    /// A step of the update that is being carried out.
    Change,
    /// The cell-init is to end; it answers as the last thing it does.
    Exit,
    /// Whatever comes of it, there is nothing to do about it.
    Noted(&'static str),
}

/// See the module.
pub(crate) struct Owner {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Key,
    pub(super) record: CellRecord,
    pub(super) status: CellStatus,
    /// The cell's own group.
    pub(super) group: Arc<Cgroup>,
    /// The node's id of the cell's root.
    pub(super) root_id: u32,
    /// The cell around it is frozen.
    pub(super) parent_frozen: bool,
    /// The process of its init.
    pub(super) init: Arc<InitProcess>,
    /// The conversation with it; closed once it is gone.
    pub(super) exchange: Exchange,
    pub(super) socket: PathBuf,
    /// Its init is node-init's child.
    pub(super) child: bool,
    pub(super) executables: Executables,
    /// An update that is being carried out.
    pub(super) updating: Option<Running>,
    /// Those that come after it; bounded in `update`.
    pub(super) updates: VecDeque<(Box<UpdateCell>, Reply<Arc<Object>>)>,
    /// Who waits for the end of the cell.
    pub(super) waiting: Vec<Reply<Arc<Object>>>,
    /// How far its end has come.
    pub(super) ending: Teardown,
    tasks: FuturesUnordered<BoxFuture<'static, Event>>,
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
    pub(crate) fn new(shared: Arc<Shared>, beginning: Beginning) -> (Self, Line) {
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
        let owner = Self {
            shared,
            key: beginning.key,
            record: beginning.record,
            status: beginning.status,
            group: Arc::new(beginning.group),
            root_id: beginning.root_id,
            parent_frozen: beginning.parent_frozen,
            init: beginning.init,
            exchange,
            socket: beginning.socket,
            child: beginning.exit.is_some(),
            executables: Executables::default(),
            updating: None,
            updates: VecDeque::new(),
            waiting: Vec::new(),
            ending: Teardown::Lives,
            tasks: FuturesUnordered::new(),
        };
        if let Some(exit) = beginning.exit {
            owner.beside(async move { Event::InitEnded(exit.await.ok()) });
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
        mut self,
        mut inbox: mpsc::Receiver<Request>,
        over: watch::Sender<bool>,
    ) {
        while !self.is_over() {
            let event = self.next(&mut inbox).await;
            self.handle(event);
            self.advance();
        }
        inbox.close();
        self.shut_down(&over);
    }

    async fn next(&mut self, inbox: &mut mpsc::Receiver<Request>) -> Event {
        let late = self.exchange.due();
        tokio::select! {
            said = self.exchange.next() => match said {
                Ok(received) => Event::Said(received),
                Err(error) => Event::Silent(error),
            },
            Some(event) = self.tasks.next() => event,
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
            Event::InitEnded(exit) => self.init_ended(exit),
            Event::Late => self.late(),
            Event::Attached(uid, outcome) => self.attached(uid, outcome),
            Event::LeafEmpty(uid) => self.happened(uid, executable::Event::Emptied),
            Event::Drained(uid, totals) => self.drained(uid, totals),
            Event::Stored(uid, outcome) => self.stored(uid, outcome),
            Event::NestedEnded => self.ends(cell::Event::NestedEnded),
            Event::CellStored(outcome) => self.cell_stored(outcome),
            Event::FreezeDone {
                frozen,
                reached,
                reply,
            } => self.freeze_done(frozen, reached, reply),
            Event::Removed(outcome) => self.removed(outcome),
            Event::InitAcknowledged => self.ends(cell::Event::Acknowledged),
        }
    }

    fn requested(&mut self, request: Request) {
        match request {
            Request::Start(order) => self.start(*order),
            Request::Stop { uid, grace, reply } => self.stop(uid, grace, Some(reply)),
            Request::StopCell { grace, reply } => {
                self.waiting.push(reply);
                self.stop_cell(grace);
            }
            Request::Update { request, reply } => self.update(request, reply),
            Request::Relabel {
                uid,
                request,
                reply,
            } => self.relabel(uid, *request, reply),
            Request::Signal {
                uid,
                signal,
                all,
                reply,
            } => self.signal(uid, signal, all, reply),
            Request::Freeze {
                frozen,
                by_parent,
                reply,
            } => self.freeze(frozen, by_parent, reply),
            Request::TakeInput { uid, reply } => self.take_input(uid, reply),
            Request::CloseInput { uid, reply } => self.close_input(uid, reply),
        }
    }

    /// Something that takes time.
    pub(super) fn beside(&self, task: impl Future<Output = Event> + Send + 'static) {
        self.tasks.push(Box::pin(task));
    }

    /// The pure step of the cell's own life.
    pub(super) fn step(&mut self, event: lifecycle::Event) {
        match self.status.state.after(event) {
            Ok(state) => self.status.state = state,
            Err(illegal) => tracing::debug!(cell = %self.key.path, %illegal, "ignored"),
        }
    }

    pub(super) fn publish_cell(&self) {
        self.shared.index.publish(Object::Cell(self.status.clone()));
    }

    pub(super) fn publish_executable(&self, uid: Uid) {
        if let Some(executable) = self.executables.get(&uid) {
            self.shared
                .index
                .publish(Object::Executable(executable.status.clone()));
        }
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

    /// The request that asked for the cell.
    pub(crate) fn request_id(&self) -> Option<&IdempotencyKey> {
        self.record.asked.as_ref()
    }
}

/// Both ends of the way to an owner.
pub(crate) struct Line {
    pub(crate) handle: CellHandle,
    pub(crate) inbox: mpsc::Receiver<Request>,
    pub(crate) over: watch::Sender<bool>,
}
