// SPDX-License-Identifier: Apache-2.0
//! The conversation with node-init, over the inherited socket pair: one task owns it, [`NodeInit`]
//! is its handle. `auraed`'s wiring makes it; the runtime makes cells through it, the audit leaves
//! its head there, and the node's power goes through it.
//!
//! Node-init keeps the end of each cell-init until it is acknowledged, and has room for a bounded
//! number of them. So each is acknowledged: by its cell's owner, or by the task that gives up
//! making the cell ([`NodeInit::acknowledge`], also before the end has come); an end that none
//! waits for, here, once all cells are adopted ([`NodeInit::all_adopted`]). See [`End`].

mod kept;
mod orphans;

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use init::protocol::{
    CellLaunch, ExitRecord, Failure, MAX_CELLS, NodeEvent, NodeRequest, PowerMode, Uid, VERSION,
    Welcome,
};
pub use init::protocol::{FIRST_PART, longer_by};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::{Conversation, HANDSHAKE, Link, LinkError, Received, fds};
use crate::caller::Callers;
use crate::cell::init::InitProcess;
use crate::queue;
pub use kept::KeptDescriptor;

/// How many commands wait for the task. Senders of more wait.
const QUEUE: usize = 64;

/// Marks the conversation.
pub(crate) struct ToNode;

impl Conversation for ToNode {
    type Request = NodeRequest;
    type Event = NodeEvent;
}

/// The handle of the connection to node-init.
#[derive(Clone, Debug)]
pub struct NodeInit {
    commands: mpsc::Sender<Command>,
    state: watch::Receiver<InitState>,
    /// Held by who asks for all that is kept: a second question would end the first one's answer.
    listing: Arc<Mutex<()>>,
}

/// What node-init is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitState {
    /// It serves.
    Serving,
    /// The machine goes down within the bound (milliseconds): no new work, output still to be
    /// stored. `true`: what ends first may take longer, and the bound grows with it.
    ShuttingDown(PowerMode, u32, bool),
    /// The connection is gone, and with it the init. The daemon should end: another will come.
    Gone,
}

/// A cell-init that was made. The task that has this acknowledges its end.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) process: InitProcess,
    /// Resolves when it has ended; an error when node-init is gone.
    pub(crate) exit: oneshot::Receiver<ExitRecord>,
}

/// Why a cell was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    /// The init tried; nothing is left.
    #[error("step {:?} failed ({}): errno {}", .0.step, .0.detail, .0.errno)]
    Failed(Failure),
    /// Every caller has gone before its turn came; nothing was asked for.
    #[error("every caller has gone")]
    GivenUp,
    /// The init is gone.
    #[error("node-init is gone")]
    Gone,
}

#[derive(Debug)]
enum Command {
    Create(
        Box<CellLaunch>,
        Vec<OwnedFd>,
        Callers,
        oneshot::Sender<Result<Created, CreateError>>,
    ),
    /// Tell when the inits of these cells have ended.
    Exits(Vec<(Uid, oneshot::Sender<ExitRecord>)>),
    Acknowledge(Uid),
    AllAdopted,
    /// Keep a descriptor: owner, name.
    Keep(String, String, OwnedFd, kept::Reply),
    /// All that are kept.
    Kept(oneshot::Sender<Vec<KeptDescriptor>>),
    Plain(NodeRequest, Vec<OwnedFd>),
}

/// Why there is no connection to node-init.
#[derive(Debug, thiserror::Error)]
#[error("node-init: {0}")]
pub struct NodeInitError(#[from] LinkError);

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

impl NodeInit {
    /// Makes the handshake with node-init over `socket` and starts the task. Call it within a tokio
    /// runtime.
    ///
    /// # Errors
    /// Where the init refuses (another version), is silent, or doesn't speak the protocol.
    pub async fn connect(socket: OwnedFd, build: &str) -> Result<(Self, Welcome), NodeInitError> {
        rustix::io::ioctl_fionbio(&socket, true)
            .map_err(|e| LinkError::Os(kernel::Error::new("ioctl(FIONBIO)", e)))?;
        let mut link = Link::<ToNode>::new(socket)?;
        link.send(
            &NodeRequest::Hello {
                version: VERSION,
                build: build.to_owned(),
            },
            Vec::new(),
        )?;
        let first = timeout(HANDSHAKE, link.next())
            .await
            .map_err(|_| LinkError::Silent(HANDSHAKE))??;
        let welcome = match first.event {
            NodeEvent::Welcome(welcome) if welcome.version == VERSION => welcome,
            NodeEvent::Welcome(Welcome { version, .. }) => {
                let reason = "it did not notice".to_owned();
                return Err(LinkError::Refused { version, reason }.into());
            }
            NodeEvent::Refused { version, reason } => {
                return Err(LinkError::Refused { version, reason }.into());
            }
            other => return Err(LinkError::Malformed(format!("{other:?} is no handshake")).into()),
        };
        let (commands, inbox) = mpsc::channel(QUEUE);
        let (publish, state) = watch::channel(InitState::Serving);
        tokio::spawn(Connection::new(link, publish).run(inbox));
        let node = Self {
            commands,
            state,
            listing: Arc::default(),
        };
        Ok((node, welcome))
    }

    /// The daemon answers now.
    pub async fn ready(&self) {
        self.plain(NodeRequest::Ready).await;
    }

    /// Leaves the newest entry of the audit with init.
    pub async fn audit_head(&self, sequence: u64, hash: [u8; 32]) {
        self.plain(NodeRequest::AuditHead { sequence, hash }).await;
    }

    /// Asks init to bring the machine (or the service) down within `bound`; without one within its
    /// own, or what ends first needs.
    pub async fn shutdown(&self, mode: PowerMode, bound: Option<Duration>) {
        // 0 is none: a caller that gives no time at all gives a millisecond.
        let bound_ms = bound.map_or(0, |it| milliseconds(it).max(1));
        self.plain(NodeRequest::Shutdown { mode, bound_ms }).await;
    }

    /// Whether the daemon has something to end before the cells do, when the machine goes down: it
    /// has a part of the bound for that ([`FIRST_PART`]). While it goes down: how long that takes
    /// at most.
    pub async fn ends_first(&self, wanted: bool, needs: Duration) {
        let needs_ms = milliseconds(needs);
        self.plain(NodeRequest::EndsFirst { wanted, needs_ms })
            .await;
    }

    /// Has the roots of cells to come show what the node has mounted now.
    pub async fn renew_root(&self) {
        self.plain(NodeRequest::RenewRoot).await;
    }

    /// What init is doing, and every change of it.
    pub fn state(&self) -> watch::Receiver<InitState> {
        self.state.clone()
    }

    /// Makes a cell-init, unless all callers have gone before its turn comes.
    pub(crate) async fn create(
        &self,
        launch: CellLaunch,
        fds: Vec<OwnedFd>,
        callers: &Callers,
    ) -> Result<Created, CreateError> {
        let (reply, answer) = oneshot::channel();
        let place = tokio::select! {
            place = self.commands.reserve() => place.map_err(|_| CreateError::Gone)?,
            () = callers.gone() => return Err(CreateError::GivenUp),
        };
        place.send(Command::Create(
            Box::new(launch),
            fds,
            callers.clone(),
            reply,
        ));
        answer.await.unwrap_or(Err(CreateError::Gone))
    }

    /// For adopted cells whose inits are node-init's children: each resolves when its init has
    /// ended; an error when node-init is gone.
    pub(crate) async fn exits_of(
        &self,
        uids: Vec<Uid>,
    ) -> HashMap<Uid, oneshot::Receiver<ExitRecord>> {
        let (mut awaited, mut exits) = (Vec::with_capacity(uids.len()), HashMap::new());
        for uid in uids {
            let (reply, exit) = oneshot::channel();
            awaited.push((uid, reply));
            exits.insert(uid, exit);
        }
        // Where the task is gone, so are the senders, and the receivers say so.
        let _ = self.commands.send(Command::Exits(awaited)).await;
        exits
    }

    /// The end of this cell's init is dealt with, or no task waits for it.
    pub(crate) async fn acknowledge(&self, uid: Uid) {
        self.command(Command::Acknowledge(uid)).await;
    }

    /// Adoption has asked for the ends of all cells that an earlier daemon made.
    pub(crate) async fn all_adopted(&self) {
        self.command(Command::AllAdopted).await;
    }

    async fn plain(&self, request: NodeRequest) {
        self.command(Command::Plain(request, Vec::new())).await;
    }

    async fn command(&self, command: Command) {
        if self.commands.send(command).await.is_err() {
            tracing::warn!("node-init is gone: a message to it is dropped");
        }
    }
}

/// What is known of the end of a cell's init.
///
/// ```text
///           Awaited ── it ends ──▶ Told ── acknowledged ──▶ (sent)
///            ▲    └── acknowledged ──▶ Unwanted ── it ends ──▶ (sent)
///     asked  │
///   (none) ──┴─ it ends, while cells are adopted ──▶ Early ── asked ──▶ Told
///            └─ it ends, later ──▶ (sent)              └── all adopted ──▶ (sent)
/// ```
enum End {
    /// It has not come; a task waits for it.
    Awaited(oneshot::Sender<ExitRecord>),
    /// It came before it was asked for.
    Early(ExitRecord),
    /// Who waited for it knows, and acknowledges it in time.
    Told,
    /// It has not come, and no task waits for it any more.
    Unwanted,
}

/// A cell that is being made, and who waits for it.
struct Making {
    uid: Uid,
    reply: oneshot::Sender<Result<Created, CreateError>>,
}

/// The task: the link, and who waits for what.
struct Connection {
    link: Link<ToNode>,
    publish: watch::Sender<InitState>,
    next_request: u64,
    creating: HashMap<u64, Making>,
    asked: kept::Asked,
    ends: HashMap<Uid, End>,
    /// Cells of an earlier daemon are still being looked at.
    adopting: bool,
    /// Acknowledgements that are still to be sent.
    owed: VecDeque<Uid>,
}

impl Connection {
    fn new(link: Link<ToNode>, publish: watch::Sender<InitState>) -> Self {
        Self {
            link,
            publish,
            next_request: 1,
            creating: HashMap::new(),
            asked: kept::Asked::default(),
            ends: HashMap::new(),
            adopting: true,
            owed: VecDeque::new(),
        }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        self.converse(&mut inbox).await;
        drop(self);
        queue::close(&mut inbox).await;
    }

    /// Until no one has the connection any more, or it ends.
    async fn converse(&mut self, inbox: &mut mpsc::Receiver<Command>) {
        loop {
            // No more is sent than init reads; the sender of more waits.
            let room = self.link.has_room();
            let owed = if room { self.owed.pop_front() } else { None };
            let outcome = match owed {
                Some(uid) => self.link.send(&NodeRequest::AckCell { uid }, Vec::new()),
                None => tokio::select! {
                    command = inbox.recv(), if room => match command {
                        Some(command) => self.obey(command),
                        None => return,
                    },
                    event = self.link.step() => event.and_then(|event| self.hear(event)),
                },
            };
            if let Err(error) = outcome {
                tracing::error!(%error, "the connection to node-init ended");
                self.publish.send_replace(InitState::Gone);
                return;
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request - 1
    }

    fn obey(&mut self, command: Command) -> Result<(), LinkError> {
        match command {
            Command::Create(_, _, callers, reply) if callers.have_gone() => {
                // The task that asked takes back what it made for the cell.
                let _ = reply.send(Err(CreateError::GivenUp));
                Ok(())
            }
            Command::Create(launch, fds, _, reply) => {
                let request = self.number();
                let uid = launch.uid;
                self.creating.insert(request, Making { uid, reply });
                self.link.send(
                    &NodeRequest::CreateCell {
                        request,
                        launch: *launch,
                    },
                    fds,
                )
            }
            Command::Exits(awaited) => {
                for (uid, reply) in awaited {
                    let end = match self.ends.remove(&uid) {
                        Some(End::Early(exit)) => {
                            // The asker may be gone; it acknowledges all the same.
                            let _ = reply.send(exit);
                            End::Told
                        }
                        _ => End::Awaited(reply),
                    };
                    self.ends.insert(uid, end);
                }
                Ok(())
            }
            Command::Acknowledge(uid) => {
                match self.ends.remove(&uid) {
                    Some(End::Early(_) | End::Told) => self.owed.push_back(uid),
                    Some(End::Awaited(_) | End::Unwanted) => {
                        self.ends.insert(uid, End::Unwanted);
                    }
                    // Not node-init's to tell of.
                    None => {}
                }
                Ok(())
            }
            Command::AllAdopted => {
                self.all_adopted();
                Ok(())
            }
            Command::Keep(owner, name, fd, reply) => {
                if reply.is_closed() {
                    return Ok(());
                }
                let request = self.number();
                self.asked.keep(request, reply);
                let order = NodeRequest::KeepDescriptor {
                    request,
                    owner,
                    name,
                };
                self.link.send(&order, vec![fd])
            }
            Command::Kept(reply) => {
                let request = self.number();
                self.asked.list(request, reply);
                let order = NodeRequest::ListDescriptors { request };
                self.link.send(&order, Vec::new())
            }
            Command::Plain(request, fds) => self.link.send(&request, fds),
        }
    }

    /// Ends that no cell has asked for by now are no cell's.
    fn all_adopted(&mut self) {
        self.adopting = false;
        let owed = &mut self.owed;
        self.ends.retain(|uid, end| {
            let nobodys = matches!(end, End::Early(_));
            if nobodys {
                owed.push_back(*uid);
            }
            !nobodys
        });
    }

    fn hear(&mut self, received: Option<Received<NodeEvent>>) -> Result<(), LinkError> {
        let Some(received) = received else {
            return Ok(());
        };
        match received.event {
            NodeEvent::CellCreated { request, .. } => {
                let (pidfd, process) = fds::pidfd(received.fds.into_iter().next())?;
                self.created(request, InitProcess::new(process.pid, pidfd));
            }
            NodeEvent::CellFailed { request, failure } => {
                if let Some(making) = self.creating.remove(&request) {
                    // Nothing was made for an asker that is gone.
                    let _ = making.reply.send(Err(CreateError::Failed(failure)));
                }
            }
            NodeEvent::CellExited { uid, exit } => self.ended(uid, exit)?,
            NodeEvent::ShuttingDown {
                mode,
                bound_ms,
                grows,
            } => {
                self.publish
                    .send_replace(InitState::ShuttingDown(mode, bound_ms, grows));
            }
            NodeEvent::DescriptorKept { request, number } => {
                if let Some(number) = self.asked.answered(request, Ok(number)) {
                    let order = NodeRequest::DropDescriptor { number };
                    return self.link.send(&order, Vec::new());
                }
            }
            NodeEvent::DescriptorNotKept { request, failure } => {
                self.asked.answered(request, Err(failure));
            }
            NodeEvent::Descriptor {
                request,
                number,
                owner,
                name,
            } => self
                .asked
                .one(request, (number, owner, name), received.fds)?,
            NodeEvent::DescriptorsListed { request } => self.asked.listed(request),
            other @ (NodeEvent::Welcome(_) | NodeEvent::Refused { .. }) => {
                return Err(LinkError::Malformed(format!("{other:?} is out of place")));
            }
        }
        Ok(())
    }

    fn created(&mut self, request: u64, process: InitProcess) {
        let Some(Making { uid, reply }) = self.creating.remove(&request) else {
            return process.kill();
        };
        let (told, exit) = oneshot::channel();
        let end = match reply.send(Ok(Created { process, exit })) {
            Ok(()) => End::Awaited(told),
            // The task that asked is gone, and its cell has no owner.
            Err(unsent) => {
                if let Ok(created) = unsent {
                    created.process.kill();
                }
                End::Unwanted
            }
        };
        self.ends.insert(uid, end);
    }

    fn ended(&mut self, uid: Uid, exit: ExitRecord) -> Result<(), LinkError> {
        match self.ends.remove(&uid) {
            Some(End::Awaited(owner)) => {
                // The task that has dropped the other end acknowledges it, too.
                let _ = owner.send(exit);
                self.ends.insert(uid, End::Told);
            }
            None if self.adopting && self.ends.len() < MAX_CELLS => {
                self.ends.insert(uid, End::Early(exit));
            }
            None if self.adopting => {
                return Err(LinkError::Malformed("too many cells have ended".into()));
            }
            Some(End::Unwanted) | None => self.owed.push_back(uid),
            Some(end @ (End::Early(_) | End::Told)) => {
                self.ends.insert(uid, end);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
