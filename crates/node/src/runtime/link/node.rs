// SPDX-License-Identifier: Apache-2.0
//! The conversation with node-init, over the inherited socket pair: one task owns it, [`NodeInit`]
//! is its handle. `auraed`'s wiring makes it; the runtime makes cells through it, the audit leaves
//! its head there, and the node's power goes through it.
//!
//! Exits of cell-inits are kept here until the cell's owner asks for them, so that none is lost
//! between the greeting and the adoption of the cell.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use init::protocol::{
    CellLaunch, ExitRecord, Failure, MAX_CELLS, NodeEvent, NodeRequest, PowerMode, Uid, VERSION,
    Welcome,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::{Conversation, GREETING, Link, LinkError, Received, fds};

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
}

/// What node-init is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitState {
    /// It serves.
    Serving,
    /// The machine goes down within the bound (milliseconds): no new work, output still to be
    /// stored.
    ShuttingDown(PowerMode, u32),
    /// The connection is gone, and with it the init. The daemon should end: another will come.
    Gone,
}

/// A cell-init that was made.
#[derive(Debug)]
pub(crate) struct Created {
    /// In the daemon's pid namespace.
    pub(crate) pid: i32,
}

/// Why a cell was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    /// The init tried; nothing is left.
    #[error("step {:?} failed ({}): errno {}", .0.step, .0.detail, .0.errno)]
    Failed(Failure),
    /// The init is gone.
    #[error("node-init is gone")]
    Gone,
}

#[derive(Debug)]
enum Command {
    Create(
        Box<CellLaunch>,
        Vec<OwnedFd>,
        oneshot::Sender<Result<Created, CreateError>>,
    ),
    /// Tell when the inits of these cells have ended.
    Exits(Vec<(Uid, oneshot::Sender<ExitRecord>)>),
    Plain(NodeRequest),
}

/// Why there is no connection to node-init.
#[derive(Debug, thiserror::Error)]
#[error("node-init: {0}")]
pub struct NodeInitError(#[from] LinkError);

impl NodeInit {
    /// Greets node-init over `socket` and starts the task. Call it within a tokio runtime.
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
        let first = timeout(GREETING, link.next())
            .await
            .map_err(|_| LinkError::Silent(GREETING))??;
        let welcome = match first.event {
            NodeEvent::Welcome(welcome) if welcome.version == VERSION => welcome,
            NodeEvent::Welcome(Welcome { version, .. }) => {
                let reason = "it did not notice".to_owned();
                return Err(LinkError::Refused { version, reason }.into());
            }
            NodeEvent::Refused { version, reason } => {
                return Err(LinkError::Refused { version, reason }.into());
            }
            other => return Err(LinkError::Malformed(format!("{other:?} is no greeting")).into()),
        };
        let (commands, inbox) = mpsc::channel(QUEUE);
        let (publish, state) = watch::channel(InitState::Serving);
        tokio::spawn(Keeper::new(link, publish).run(inbox));
        Ok((Self { commands, state }, welcome))
    }

    /// The daemon answers now.
    pub async fn ready(&self) {
        self.plain(NodeRequest::Ready).await;
    }

    /// Leaves the newest entry of the audit with init.
    pub async fn audit_head(&self, sequence: u64, hash: [u8; 32]) {
        self.plain(NodeRequest::AuditHead { sequence, hash }).await;
    }

    /// Asks init to bring the machine (or the service) down within `bound`.
    pub async fn shutdown(&self, mode: PowerMode, bound: Duration) {
        let bound_ms = u32::try_from(bound.as_millis()).unwrap_or(u32::MAX);
        self.plain(NodeRequest::Shutdown { mode, bound_ms }).await;
    }

    /// What init is doing, and every change of it.
    pub fn state(&self) -> watch::Receiver<InitState> {
        self.state.clone()
    }

    /// Makes a cell-init.
    pub(crate) async fn create(
        &self,
        launch: CellLaunch,
        fds: Vec<OwnedFd>,
    ) -> Result<Created, CreateError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Create(Box::new(launch), fds, reply);
        self.commands
            .send(command)
            .await
            .map_err(|_| CreateError::Gone)?;
        answer.await.unwrap_or(Err(CreateError::Gone))
    }

    /// Resolves when the cell's init has ended; an error when node-init is gone.
    pub(crate) async fn exit_of(&self, uid: Uid) -> oneshot::Receiver<ExitRecord> {
        let mut exits = self.exits_of(vec![uid]).await;
        exits.remove(&uid).unwrap_or_else(|| oneshot::channel().1)
    }

    /// The same of many cells, for one message to the task.
    pub(crate) async fn exits_of(
        &self,
        uids: Vec<Uid>,
    ) -> HashMap<Uid, oneshot::Receiver<ExitRecord>> {
        let (mut asked, mut exits) = (Vec::with_capacity(uids.len()), HashMap::new());
        for uid in uids {
            let (reply, exit) = oneshot::channel();
            asked.push((uid, reply));
            exits.insert(uid, exit);
        }
        // Where the task is gone, so are the senders, and the receivers say so.
        let _ = self.commands.send(Command::Exits(asked)).await;
        exits
    }

    /// The exit of this cell's init is dealt with.
    pub(crate) async fn acknowledge(&self, uid: Uid) {
        self.plain(NodeRequest::AckCell { uid }).await;
    }

    async fn plain(&self, request: NodeRequest) {
        if self.commands.send(Command::Plain(request)).await.is_err() {
            tracing::warn!("node-init is gone: a message to it is dropped");
        }
    }
}

/// The task: the link, and who waits for what.
struct Keeper {
    link: Link<ToNode>,
    publish: watch::Sender<InitState>,
    next_request: u64,
    creating: HashMap<u64, oneshot::Sender<Result<Created, CreateError>>>,
    waiting: HashMap<Uid, oneshot::Sender<ExitRecord>>,
    ended: HashMap<Uid, ExitRecord>,
}

impl Keeper {
    fn new(link: Link<ToNode>, publish: watch::Sender<InitState>) -> Self {
        Self {
            link,
            publish,
            next_request: 1,
            creating: HashMap::new(),
            waiting: HashMap::new(),
            ended: HashMap::new(),
        }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        loop {
            let outcome = tokio::select! {
                command = inbox.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                event = self.link.next() => event.and_then(|event| self.hear(event)),
            };
            if let Err(error) = outcome {
                tracing::error!(%error, "the connection to node-init ended");
                self.publish.send_replace(InitState::Gone);
                return;
            }
        }
    }

    fn obey(&mut self, command: Command) -> Result<(), LinkError> {
        match command {
            Command::Create(launch, fds, reply) => {
                let request = self.next_request;
                self.next_request += 1;
                self.creating.insert(request, reply);
                self.link.send(
                    &NodeRequest::CreateCell {
                        request,
                        launch: *launch,
                    },
                    fds,
                )
            }
            Command::Exits(asked) => {
                for (uid, reply) in asked {
                    match self.ended.remove(&uid) {
                        // The asker may be gone; then nobody wants to know.
                        Some(exit) => drop(reply.send(exit)),
                        None => drop(self.waiting.insert(uid, reply)),
                    }
                }
                Ok(())
            }
            Command::Plain(request) => {
                if let NodeRequest::AckCell { uid } = &request {
                    self.waiting.remove(uid);
                    self.ended.remove(uid);
                }
                self.link.send(&request, Vec::new())
            }
        }
    }

    fn hear(&mut self, received: Received<NodeEvent>) -> Result<(), LinkError> {
        match received.event {
            NodeEvent::CellCreated { request, .. } => {
                let (_pidfd, process) = fds::pidfd(received.fds.into_iter().next())?;
                let pid = process.pid;
                self.answer(request, Ok(Created { pid }));
            }
            NodeEvent::CellFailed { request, failure } => {
                self.answer(request, Err(CreateError::Failed(failure)));
            }
            NodeEvent::CellExited { uid, exit } => match self.waiting.remove(&uid) {
                Some(owner) => drop(owner.send(exit)),
                None if self.ended.len() < MAX_CELLS => drop(self.ended.insert(uid, exit)),
                None => return Err(LinkError::Malformed("too many cells have ended".into())),
            },
            NodeEvent::ShuttingDown { mode, bound_ms } => {
                self.publish
                    .send_replace(InitState::ShuttingDown(mode, bound_ms));
            }
            other @ (NodeEvent::Welcome(_) | NodeEvent::Refused { .. }) => {
                return Err(LinkError::Malformed(format!("{other:?} is out of place")));
            }
        }
        Ok(())
    }

    fn answer(&mut self, request: u64, answer: Result<Created, CreateError>) {
        if let Some(reply) = self.creating.remove(&request) {
            // An asker that is gone leaves a cell behind: its launch guard sees to it.
            let _ = reply.send(answer);
        }
    }
}
