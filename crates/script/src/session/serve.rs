// SPDX-License-Identifier: Apache-2.0
//! The task that reads what an evaluator says, and does it. It never waits for the evaluator: what
//! goes there has a queue and a writer of its own.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Host;
use super::calls::Calls;
use crate::protocol::codec::{self, HEADER, MAX_FROM, MAX_TO};
use crate::protocol::{Failure, FromEvaluator, Name, Thrown, ToEvaluator};

/// What the session waits for.
#[derive(Debug)]
pub(super) enum Event {
    /// What was asked to be evaluated has ended.
    Done(Result<Option<String>, Thrown>),
    /// The names that were asked for.
    Names(Vec<Name>),
    /// The evaluator has closed its end, or broken the protocol, and then the text says how.
    Gone(Option<String>),
}

/// What serves one evaluator.
pub(super) struct Server {
    host: Arc<dyn Host>,
    to: mpsc::Sender<Vec<u8>>,
    events: mpsc::Sender<Event>,
    calls: Calls,
}

impl Server {
    pub(super) fn new(
        host: Arc<dyn Host>,
        to: mpsc::Sender<Vec<u8>>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let calls = Calls::new(Arc::clone(&host), to.clone());
        Self {
            host,
            to,
            events,
            calls,
        }
    }

    /// Serves until the evaluator is gone or the task is aborted. `first` goes before all else.
    pub(super) fn spawn(
        self,
        socket: UnixStream,
        first: Vec<u8>,
        outgoing: mpsc::Receiver<Vec<u8>>,
    ) -> AbortHandle {
        let (from, to) = socket.into_split();
        let task = tokio::spawn(async move {
            // In one task, so that who aborts it drops the calls and the socket too.
            tokio::select! {
                () = self.read(from) => {}
                () = write(to, first, outgoing) => {}
            }
        });
        task.abort_handle()
    }

    async fn read(mut self, mut from: OwnedReadHalf) {
        let gone = loop {
            let message = match frame(&mut from).await {
                Ok(Some(message)) => message,
                Ok(None) => break None,
                Err(e) => break Some(e),
            };
            if let Err(violation) = self.take(message).await {
                break Some(violation);
            }
        };
        // A session that was dropped doesn't want to know.
        let _ = self.events.send(Event::Gone(gone)).await;
    }

    async fn take(&mut self, message: FromEvaluator) -> Result<(), String> {
        match message {
            FromEvaluator::Import { specifier, from } => {
                let result = self.host.import(specifier, from).await;
                self.reply(ToEvaluator::Module { result }).await
            }
            FromEvaluator::ReadFile { path, from } => {
                let result = self.host.read_file(path, from).await;
                self.reply(ToEvaluator::File { result }).await
            }
            FromEvaluator::Nodes { selector } => {
                let result = self.host.nodes(selector).await;
                self.reply(ToEvaluator::Nodes { result }).await
            }
            FromEvaluator::Call(call) => self.calls.begin(call).map_err(str::to_owned),
            FromEvaluator::Pull { call } => self.calls.pull(call).map_err(str::to_owned),
            FromEvaluator::Send { call, item } => {
                self.calls.send(call, item).map_err(str::to_owned)
            }
            FromEvaluator::Cancel { call } => {
                self.calls.cancel(call);
                Ok(())
            }
            FromEvaluator::Print { error, text } => {
                self.host.print(error, text).await;
                Ok(())
            }
            FromEvaluator::Assumed(assumed) => {
                self.host.assume(assumed);
                Ok(())
            }
            FromEvaluator::Moved(moved) => self.host.moved(moved),
            FromEvaluator::Names(names) => self.tell(Event::Names(names)).await,
            FromEvaluator::Done { result } => self.tell(Event::Done(result)).await,
            FromEvaluator::Fatal { message } => Err(message),
        }
    }

    async fn tell(&self, event: Event) -> Result<(), String> {
        let ended = |_| "the session has ended".to_owned();
        self.events.send(event).await.map_err(ended)
    }

    async fn reply(&self, message: ToEvaluator) -> Result<(), String> {
        let frame = codec::encode(&message, MAX_TO)
            .or_else(|e| codec::encode(&too_long(&message, &e.to_string()), MAX_TO))
            .map_err(|e| e.to_string())?;
        let ended = |_| "it doesn't listen".to_owned();
        self.to.send(frame).await.map_err(ended)
    }
}

/// The failure that stands for an answer that doesn't fit.
fn too_long(message: &ToEvaluator, why: &str) -> ToEvaluator {
    let failure = Failure::new("RESOURCE_EXHAUSTED", why);
    match message {
        ToEvaluator::File { .. } => ToEvaluator::File {
            result: Err(failure),
        },
        ToEvaluator::Nodes { .. } => ToEvaluator::Nodes {
            result: Err(failure),
        },
        _ => ToEvaluator::Module {
            result: Err(failure),
        },
    }
}

/// The next message; none at the end.
async fn frame(from: &mut OwnedReadHalf) -> Result<Option<FromEvaluator>, String> {
    let mut header = [0; HEADER];
    match from.read_exact(&mut header).await {
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        // What a killed process had not read.
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return Ok(None),
        Err(e) => return Err(format!("its socket can't be read: {e}")),
    }
    let length = codec::length(header, MAX_FROM).map_err(|e| e.to_string())?;
    let mut bytes = vec![0; length];
    if from.read_exact(&mut bytes).await.is_err() {
        return Ok(None);
    }
    codec::decode(&bytes).map(Some).map_err(|e| e.to_string())
}

/// Writes what is queued. It ends never by itself: that the evaluator is gone is the reader's to
/// see, after everything that it still had to say.
async fn write(mut to: OwnedWriteHalf, first: Vec<u8>, mut outgoing: mpsc::Receiver<Vec<u8>>) {
    let mut next = Some(first);
    while let Some(frame) = next {
        if to.write_all(&frame).await.is_err() {
            break;
        }
        next = outgoing.recv().await;
    }
    std::future::pending().await
}
