// SPDX-License-Identifier: Apache-2.0
//! Attaches the client's standard streams to a workload until it ends or the user leaves. When the
//! daemon goes away meanwhile, the workload runs on, and the client continues at the same place in
//! the output once the daemon is back.
//!
//! ```text
//! connect ──> talking ──exit──> Exited
//!    ^           ├──detach keys, third Ctrl-C──> Left
//!    └──lost─────┤
//!     (30 s)     └──refused──> Err
//! ```

mod keys;
mod signals;
mod streams;
mod terminal;

use std::time::Instant;

use api::runtime::v0::{
    AttachEof, AttachRequest, AttachResponse, AttachStart, ErrorReason, Exit, ObjectRef,
    SignalRequest, Stream, attach_request, attach_response,
};
use client::Node;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

pub(crate) use keys::{DetachKeys, parse_keys};
use keys::{Scanned, Scanner};
use signals::{Signals, Told};
use streams::{Input, Output, Piece};
pub(crate) use terminal::{RawMode, size as terminal_size};

use crate::failure::Failure;
use crate::output::note;
use crate::session::{AWAY_LIMIT, FIRST_PAUSE, LONGEST_PAUSE, Session};

/// Pieces of input on their way to the node.
const QUEUE: usize = 4;

/// How to be attached.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Hand our standard input over.
    pub(crate) stdin: bool,
    /// The workload has a terminal.
    pub(crate) terminal: bool,
    /// Send the signals that this client gets to the workload.
    pub(crate) forward_signals: bool,
    pub(crate) keys: DetachKeys,
    /// Leave out what was printed before.
    pub(crate) only_new: bool,
}

/// How an attachment ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The workload ended.
    Exited(Exit),
    /// We left it running, with this status of our own.
    Left(u8),
}

/// Attaches to the run with that uid until it ends or we leave.
pub(crate) async fn attach(
    session: &Session,
    reference: ObjectRef,
    options: Options,
) -> Result<Outcome, Failure> {
    let _raw = match options.terminal && options.stdin {
        true => Some(RawMode::enter()?),
        false => None,
    };
    let output = Output::start();
    let mut attachment = Attachment {
        node: session.node.clone(),
        session,
        reference,
        signals: Signals::listen(options.forward_signals)?,
        input: options.stdin.then(streams::read_stdin),
        scanner: Scanner::new(options.keys.clone()),
        options,
        output: output.sender().clone(),
        offset: None,
        unsent: None,
        leaving: false,
        unwritten: None,
        away_since: None,
    };
    let outcome = attachment.run().await;
    drop(attachment);
    output.finish().await?;
    outcome
}

struct Attachment<'a> {
    session: &'a Session,
    node: Node,
    reference: ObjectRef,
    options: Options,
    signals: Signals,
    /// `None` after its end.
    input: Option<mpsc::Receiver<Input>>,
    scanner: Scanner,
    output: mpsc::Sender<Piece>,
    /// Where the next output begins; `None` before the first.
    offset: Option<u64>,
    /// Waits for room on the way to the node.
    unsent: Option<attach_request::Message>,
    /// The keys to leave were pressed, after what is still to be sent.
    leaving: bool,
    /// Waits for room on the way out; nothing more is received meanwhile.
    unwritten: Option<Piece>,
    /// When the connection was lost; `None` while the node answers.
    away_since: Option<Instant>,
}

/// To the node, and from it.
type Channels = (mpsc::Sender<AttachRequest>, Streaming<AttachResponse>);

/// Why the exchange over one connection ended.
enum Stopped {
    Done(Outcome),
    /// The connection broke; the node may answer again.
    Lost(client::Error),
    Refused(Failure),
}

impl From<client::Error> for Stopped {
    fn from(problem: client::Error) -> Self {
        if problem.is_transient() {
            Self::Lost(problem)
        } else {
            Self::Refused(problem.into())
        }
    }
}

impl Attachment<'_> {
    async fn run(&mut self) -> Result<Outcome, Failure> {
        loop {
            let (sender, mut answers) = match self.begin().await {
                Ok(channels) => channels,
                Err(Stopped::Lost(problem)) => {
                    self.reconnect(problem).await?;
                    continue;
                }
                Err(Stopped::Refused(failure)) => return Err(failure),
                Err(Stopped::Done(outcome)) => return Ok(outcome),
            };
            match self.talk(&sender, &mut answers).await {
                Stopped::Done(outcome) => return Ok(outcome),
                Stopped::Refused(failure) => return Err(failure),
                Stopped::Lost(problem) => self.reconnect(problem).await?,
            }
        }
    }

    /// Connects. Sends the end of the input once more, because the last daemon may have died before
    /// it read it: else the workload would wait for the end for ever.
    async fn begin(&mut self) -> Result<Channels, Stopped> {
        let is_over = self.input.is_none();
        // The end of a terminal's input is a character, which is sent once.
        let tells_again = is_over && self.options.stdin && !self.options.terminal;
        let stdin = self.options.stdin && (tells_again || !is_over);
        match self.connect(stdin).await {
            Ok(channels) => {
                if tells_again {
                    self.unsent = Some(attach_request::Message::Eof(AttachEof {}));
                }
                Ok(channels)
            }
            // The daemon has read it: there is no input any more.
            Err(client::Error::Refused(refusal))
                if tells_again && refusal.reason == ErrorReason::WrongState =>
            {
                self.options.stdin = false;
                Ok(self.connect(false).await?)
            }
            Err(problem) => Err(problem.into()),
        }
    }

    async fn connect(&self, stdin: bool) -> Result<Channels, client::Error> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let start = attach_request::Message::Start(AttachStart {
            r#ref: Some(self.reference.clone()),
            stdin,
            from_offset: self.offset,
            only_new: self.options.only_new && self.offset.is_none(),
        });
        // There is room: the channel is new.
        let _ = sender.try_send(wrap(start));
        if let Some(size) = self.size() {
            let _ = sender.try_send(wrap(attach_request::Message::Resize(size)));
        }
        let answers = self
            .node
            .runtime()
            .attach(ReceiverStream::new(receiver))
            .await?;
        Ok((sender, answers.into_inner()))
    }

    fn size(&self) -> Option<api::runtime::v0::Terminal> {
        self.options.terminal.then(terminal::size).flatten()
    }

    async fn talk(
        &mut self,
        sender: &mpsc::Sender<AttachRequest>,
        answers: &mut Streaming<AttachResponse>,
    ) -> Stopped {
        loop {
            let step = tokio::select! {
                answer = answers.message(), if self.unwritten.is_none() => self.on_answer(answer),
                permit = self.output.clone().reserve_owned(), if self.unwritten.is_some() => {
                    self.on_room_out(permit)
                }
                input = next_input(&mut self.input), if self.unsent.is_none() && !self.leaving => {
                    self.on_input(input)
                }
                permit = sender.reserve(), if self.unsent.is_some() => {
                    self.send(permit)
                }
                // All room: what was typed before the keys is on its way.
                _ = sender.reserve_many(QUEUE), if self.leaving && self.unsent.is_none() => {
                    Some(Stopped::Done(Outcome::Left(0)))
                }
                told = self.signals.next() => self.on_signal(told),
            };
            if let Some(stopped) = step {
                return stopped;
            }
        }
    }

    /// Input can't be sent twice, so it waits for a daemon that is there to take it.
    fn send(
        &mut self,
        permit: Result<mpsc::Permit<'_, AttachRequest>, mpsc::error::SendError<()>>,
    ) -> Option<Stopped> {
        if permit.is_err() || self.node.has_hung_up() {
            return Some(Stopped::Lost(ended_early()));
        }
        if let (Ok(permit), Some(message)) = (permit, self.unsent.take()) {
            permit.send(wrap(message));
        }
        None
    }

    fn on_answer(
        &mut self,
        answer: Result<Option<AttachResponse>, tonic::Status>,
    ) -> Option<Stopped> {
        let message = match answer {
            Ok(Some(answer)) => {
                self.away_since = None;
                answer.message?
            }
            Ok(None) => return Some(ended_early().into()),
            Err(status) => return Some(client::Error::from(status).into()),
        };
        match message {
            attach_response::Message::Output(output) => {
                let stream = output.stream();
                self.offset = Some(output.offset + output.data.len() as u64);
                self.unwritten = Some((stream, output.data));
                None
            }
            attach_response::Message::Gap(gap) => {
                self.offset = self.offset.map(|offset| offset + gap.bytes);
                let text = format!(
                    "[aurae: {} bytes are missing here: {}]\n",
                    gap.bytes, gap.reason
                );
                self.unwritten = Some((Stream::Stderr, text.into_bytes()));
                None
            }
            attach_response::Message::Exit(exit) => Some(Stopped::Done(Outcome::Exited(exit))),
        }
    }

    fn on_room_out(
        &mut self,
        permit: Result<mpsc::OwnedPermit<Piece>, mpsc::error::SendError<()>>,
    ) -> Option<Stopped> {
        let piece = self.unwritten.take()?;
        match permit {
            Ok(permit) => {
                permit.send(piece);
                None
            }
            // The reader of our output has gone; `finish` will say so.
            Err(_) => Some(Stopped::Done(Outcome::Left(0))),
        }
    }

    fn on_input(&mut self, input: Option<Input>) -> Option<Stopped> {
        let bytes = match input {
            Some(Input::Bytes(bytes)) => bytes,
            Some(Input::Eof) | None => {
                self.input = None;
                self.unsent = Some(attach_request::Message::Eof(AttachEof {}));
                return None;
            }
        };
        if !self.options.terminal {
            self.unsent = Some(attach_request::Message::Stdin(bytes));
            return None;
        }
        match self.scanner.scan(&bytes) {
            Scanned::Pass(bytes) if bytes.is_empty() => None,
            Scanned::Pass(bytes) => {
                self.unsent = Some(attach_request::Message::Stdin(bytes));
                None
            }
            Scanned::Detach(bytes) if bytes.is_empty() => Some(Stopped::Done(Outcome::Left(0))),
            Scanned::Detach(bytes) => {
                self.unsent = Some(attach_request::Message::Stdin(bytes));
                self.leaving = true;
                None
            }
        }
    }

    fn on_signal(&mut self, told: Told) -> Option<Stopped> {
        match told {
            Told::Resize => {
                // Another one will come when this one finds no room.
                if self.unsent.is_none() {
                    self.unsent = self.size().map(attach_request::Message::Resize);
                }
                None
            }
            Told::Forward(name) => {
                tokio::spawn(forward(self.node.clone(), self.reference.clone(), name));
                None
            }
            Told::Leave(status) => Some(Stopped::Done(Outcome::Left(status))),
        }
    }

    /// Tries until the node answers again, for [`AWAY_LIMIT`] at most.
    async fn reconnect(&mut self, mut problem: client::Error) -> Result<(), Failure> {
        let deadline = *self.away_since.get_or_insert_with(Instant::now) + AWAY_LIMIT;
        let mut pause = FIRST_PAUSE;
        while problem.is_transient() && Instant::now() < deadline {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                told = self.signals.next() => if let Told::Leave(status) = told {
                    let problem = Failure::new("interrupted while the node was away");
                    return Err(problem.with_status(status));
                },
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            match self.session.reopen().await {
                Ok(node) => {
                    self.node = node;
                    return Ok(());
                }
                Err(again) => problem = again,
            }
        }
        Err(problem.into())
    }
}

fn ended_early() -> client::Error {
    let words = std::io::Error::other("the stream ended early");
    tonic::Status::from_error(Box::new(words)).into()
}

fn wrap(message: attach_request::Message) -> AttachRequest {
    AttachRequest {
        message: Some(message),
    }
}

/// The next piece of input; never, where there is none to come.
async fn next_input(input: &mut Option<mpsc::Receiver<Input>>) -> Option<Input> {
    match input {
        Some(input) => input.recv().await,
        None => std::future::pending().await,
    }
}

/// Sends a signal. That the workload has ended meanwhile is no failure: its exit is on its way to
/// us.
async fn forward(node: Node, reference: ObjectRef, name: &'static str) {
    let request = SignalRequest {
        r#ref: Some(reference),
        signal: name.to_owned(),
        all_processes: false,
    };
    if let Err(status) = node.runtime().signal(node.unary(request)).await {
        let over = [tonic::Code::NotFound, tonic::Code::FailedPrecondition];
        if !over.contains(&status.code()) {
            note(&format!(
                "aurae: SIG{name} was not delivered: {}",
                status.message()
            ));
        }
    }
}
