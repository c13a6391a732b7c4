// SPDX-License-Identifier: Apache-2.0
//! The editors' server: the language server protocol on a pair of streams. One thread answers in
//! turn, a second reads ahead so that a question that was taken back isn't answered, a third makes
//! findings when typing rests (`findings`), so that questions needn't wait for them. It looks at
//! texts and runs nothing. Called by `aurae lsp`.

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
use serde_json::Value;

use crate::check::Environment;
use crate::stack;

mod actions;
mod answer;
mod beside;
mod calls;
mod capable;
pub(crate) mod complete;
mod cursor;
mod declared;
mod everywhere;
mod findings;
mod hints;
mod imports;
mod members;
mod more;
mod moved;
mod narrowed;
mod navigate;
mod organize;
mod outline;
mod place;
pub(crate) mod project;
mod publish;
mod ranges;
mod readable;
mod rename;
pub(crate) mod repair;
mod tell;
#[cfg(test)]
mod tests;
mod typescript;
mod unused;
mod wire;

use answer::Server;
use findings::{Desk, Told};
use typescript::{Companion, merge};
use wire::Frame;

/// How long typing must rest before findings are made.
const REST: Duration = Duration::from_millis(120);

/// How many messages may wait for their turn, and how many more on their way to it; the editor
/// waits beyond.
const AHEAD: usize = 256;

/// What a server stands on.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The API's types.
    pub environment: Arc<Environment>,
    /// Where declarations are written that an editor wants to open and no file of the workspace
    /// holds; without it those aren't found.
    pub cache: Option<PathBuf>,
    /// Whether TypeScript's own service answers beside it, where it is on the machine.
    pub typescript: bool,
}

/// Answers an editor until it sends `exit` or its stream ends. True if it ended in order,
/// by `shutdown` and then `exit`.
///
/// # Errors
/// The output can't be written, the input fails otherwise than by ending, or there is no room for
/// the parser's stack.
pub fn serve(
    setup: Setup,
    input: impl BufRead + Send + 'static,
    mut output: impl Write + Send,
) -> io::Result<bool> {
    let (sender, receiver) = sync_channel(AHEAD);
    let desk = Desk::open(sender.clone())?;
    let back = sender.clone();
    std::thread::Builder::new()
        .name("lsp-reader".into())
        .spawn(move || read_ahead(input, &sender))?;
    stack::on_big_stack(move || Loop::new(setup, desk, back, &mut output).run(&receiver))?
}

/// What comes to the loop.
enum Incoming {
    Frame(Frame),
    /// The stream can't be read any more.
    Failed(io::Error),
    /// The editor's stream has ended.
    End,
    Told(Told),
    /// What TypeScript's service says, with its generation; nothing: it has ended.
    TypeScript(u32, Option<Message>),
}

fn read_ahead(mut input: impl BufRead, sender: &SyncSender<Incoming>) {
    loop {
        let incoming = match wire::read(&mut input) {
            Ok(Some(frame)) => Incoming::Frame(frame),
            Ok(None) => Incoming::End,
            Err(error) => Incoming::Failed(error),
        };
        let is_last = match &incoming {
            Incoming::Frame(Frame::Message(Message::Notification(it))) => it.method == "exit",
            Incoming::Frame(_) | Incoming::Told(_) | Incoming::TypeScript(..) => false,
            Incoming::Failed(_) | Incoming::End => true,
        };
        if sender.send(incoming).is_err() || is_last {
            return;
        }
    }
}

/// What makes the server do something.
enum Event {
    Message(Message),
    Bad(String),
    /// Findings were made.
    Told(Told),
    /// TypeScript's service says something.
    TypeScript(u32, Option<Message>),
    /// Typing rests, or something is overdue.
    Time,
    End,
}

struct Loop<'o, W> {
    setup: Setup,
    server: Server,
    /// TypeScript's service, where it is there, and what it found.
    typescript: Option<Companion>,
    found: merge::Found,
    /// Where it says what it says.
    sender: SyncSender<Incoming>,
    desk: Desk,
    output: &'o mut W,
    waiting: VecDeque<Message>,
    /// Findings that came while messages were read.
    told: VecDeque<Told>,
    said: VecDeque<(u32, Option<Message>)>,
    /// When findings are due.
    due: Option<Instant>,
    shut_down: bool,
    /// The editor says nothing any more.
    ended: bool,
}

impl<'o, W: Write> Loop<'o, W> {
    fn new(setup: Setup, desk: Desk, sender: SyncSender<Incoming>, output: &'o mut W) -> Self {
        Self {
            server: Server::new(setup.clone()),
            setup,
            typescript: None,
            found: merge::Found::default(),
            sender,
            desk,
            output,
            waiting: VecDeque::new(),
            told: VecDeque::new(),
            said: VecDeque::new(),
            due: None,
            shut_down: false,
            ended: false,
        }
    }

    fn run(mut self, input: &Receiver<Incoming>) -> io::Result<bool> {
        loop {
            self.overdue()?;
            match self.next(input)? {
                Event::Message(Message::Request(request)) => self.answer(request)?,
                Event::Message(Message::Notification(told)) if told.method == "exit" => {
                    return Ok(self.shut_down);
                }
                Event::Message(Message::Notification(told)) => self.hear(told)?,
                Event::Message(Message::Response(_)) => {}
                Event::Bad(why) => self.refuse(why)?,
                Event::Told(told) => self.publish(told)?,
                Event::TypeScript(generation, said) => self.said_beside(generation, said)?,
                Event::Time => {
                    if self.due.is_some_and(|due| due <= Instant::now()) {
                        self.order()?;
                    }
                }
                Event::End => return Ok(false),
            }
        }
    }

    fn next(&mut self, input: &Receiver<Incoming>) -> io::Result<Event> {
        // What has come is looked at, so that what was taken back is known.
        while self.waiting.len() < AHEAD {
            match input.try_recv() {
                Ok(Incoming::Frame(Frame::Message(message))) => self.take(message)?,
                Ok(Incoming::Frame(Frame::Bad(why))) => return Ok(Event::Bad(why)),
                Ok(Incoming::Failed(error)) => return Err(error),
                Ok(Incoming::Told(told)) => self.told.push_back(told),
                Ok(Incoming::TypeScript(of, said)) => self.said.push_back((of, said)),
                // What was asked before is answered first.
                Ok(Incoming::End) => self.ended = true,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        if let Some((generation, said)) = self.said.pop_front() {
            return Ok(Event::TypeScript(generation, said));
        }
        if let Some(message) = self.waiting.pop_front() {
            return Ok(Event::Message(message));
        }
        if let Some(told) = self.told.pop_front() {
            return Ok(Event::Told(told));
        }
        if self.ended {
            return Ok(Event::End);
        }
        let beside = self.typescript.as_ref().and_then(Companion::due);
        let received = match self.due.into_iter().chain(beside).min() {
            Some(due) => input.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => input.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(Incoming::Frame(Frame::Message(message))) => Ok(Event::Message(message)),
            Ok(Incoming::Frame(Frame::Bad(why))) => Ok(Event::Bad(why)),
            Ok(Incoming::Failed(error)) => Err(error),
            Ok(Incoming::Told(told)) => Ok(Event::Told(told)),
            Ok(Incoming::TypeScript(of, said)) => Ok(Event::TypeScript(of, said)),
            Err(RecvTimeoutError::Timeout) => Ok(Event::Time),
            Ok(Incoming::End) | Err(RecvTimeoutError::Disconnected) => Ok(Event::End),
        }
    }

    fn take(&mut self, message: Message) -> io::Result<()> {
        if let Message::Notification(told) = &message
            && told.method == "$/cancelRequest"
        {
            let id = told.params.get("id").cloned().unwrap_or_default();
            let id: Option<RequestId> = serde_json::from_value(id).ok();
            let place = self.waiting.iter().position(
                |it| matches!(it, Message::Request(request) if Some(&request.id) == id.as_ref()),
            );
            let id_again = id.clone();
            if let (Some(place), Some(id)) = (place, id) {
                self.waiting.remove(place);
                let code = ErrorCode::RequestCanceled as i32;
                let response = Response::new_err(id, code, "taken back".to_owned());
                return wire::write(self.output, Message::Response(response));
            }
            if let (Some(id), Some(typescript)) = (id_again, &mut self.typescript)
                && typescript.take_back(&id)
            {
                let code = ErrorCode::RequestCanceled as i32;
                let response = Response::new_err(id, code, "taken back".to_owned());
                return wire::write(self.output, Message::Response(response));
            }
            return Ok(());
        }
        self.waiting.push_back(message);
        Ok(())
    }

    fn answer(&mut self, request: Request) -> io::Result<()> {
        let id = request.id.clone();
        if request.method == "shutdown" {
            self.shut_down = true;
            let response = Response::new_ok(id, Value::Null);
            return wire::write(self.output, Message::Response(response));
        }
        if request.method == "initialize" {
            self.begin_beside(&request.params);
        }
        match self.ask_beside(request) {
            Some(request) => self.answer_ourselves(request),
            None => Ok(()),
        }
    }

    fn hear(&mut self, told: Notification) -> io::Result<()> {
        let beside = told.clone();
        let server = &mut self.server;
        let heard = catch_unwind(AssertUnwindSafe(|| server.hear(told)));
        if heard.unwrap_or(true) {
            self.due = Some(Instant::now() + REST);
        }
        self.hear_beside(&beside);
        for message in self.server.forget_closed() {
            wire::write(self.output, message)?;
        }
        Ok(())
    }

    /// Has the findings of what is open now made.
    fn order(&mut self) -> io::Result<()> {
        self.due = None;
        if let Some(typescript) = &mut self.typescript {
            typescript.revive();
        }
        if let Some(begun) = self.server.begin() {
            for message in begun {
                wire::write(self.output, message)?;
            }
        }
        self.desk.leave(self.server.order());
        Ok(())
    }

    /// A frame that was no message: said to the editor, which may have a bug.
    fn refuse(&mut self, why: String) -> io::Result<()> {
        let code = ErrorCode::ParseError as i32;
        let response = serde_json::json!({
            "jsonrpc": "2.0",
            "id": null,
            "error": { "code": code, "message": why },
        });
        let body = response.to_string();
        write!(self.output, "Content-Length: {}\r\n\r\n{body}", body.len())?;
        self.output.flush()
    }
}
