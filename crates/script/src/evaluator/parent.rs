// SPDX-License-Identifier: Apache-2.0
//! The evaluator's end of the socket. It reads whenever it writes or is asked about interrupts, so
//! that neither side can block the other for ever; what it has read waits in a queue, which the
//! protocol bounds (an answer a call, an item a pull).

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Port;
use crate::protocol::codec::{self, CodecError, HEADER, MAX_FROM, MAX_TO};
use crate::protocol::{Failure, FromEvaluator, Module, ToEvaluator};

/// How often a busy engine's question about interrupts is put to the socket.
const LOOK: Duration = Duration::from_millis(2);

/// Bytes read at once.
const READ: usize = 64 << 10;

/// The socket and what came by it.
#[derive(Debug)]
pub(super) struct Parent {
    socket: BorrowedFd<'static>,
    bytes: Vec<u8>,
    inbox: VecDeque<ToEvaluator>,
    interrupted: bool,
    looked: Instant,
}

impl Parent {
    /// The one on standard input.
    pub(super) fn inherited() -> Result<Self, Errno> {
        let socket = rustix::stdio::stdin();
        rustix::net::sockopt::socket_type(socket)?;
        Ok(Parent {
            socket,
            bytes: Vec::new(),
            inbox: VecDeque::new(),
            interrupted: false,
            looked: Instant::now(),
        })
    }

    /// The next message, if it comes before `until`. Without a parent the process ends.
    pub(super) fn next(&mut self, until: Option<Instant>) -> Option<ToEvaluator> {
        loop {
            self.read();
            if let Some(message) = self.inbox.pop_front() {
                return Some(message);
            }
            if self.interrupted {
                return Some(ToEvaluator::Interrupt);
            }
            let left = match until {
                Some(until) => Some(until.checked_duration_since(Instant::now())?),
                None => None,
            };
            self.wait(PollFlags::IN, left);
        }
    }

    /// The next message that is an answer of this kind; others wait.
    fn answer<T>(&mut self, take: impl Fn(ToEvaluator) -> Result<T, ToEvaluator>) -> T {
        let mut seen = 0;
        loop {
            self.read();
            while let Some(message) = self.inbox.remove(seen) {
                match take(message) {
                    Ok(answer) => return answer,
                    Err(other) => {
                        self.inbox.insert(seen, other);
                        seen += 1;
                    }
                }
            }
            self.wait(PollFlags::IN, None);
        }
    }

    fn wait(&self, flags: PollFlags, left: Option<Duration>) {
        let mut fds = [PollFd::new(&self.socket, flags)];
        let timeout = left.and_then(|left| left.try_into().ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => gone(),
        }
    }

    /// Reads what is there.
    fn read(&mut self) {
        let mut chunk = [0; READ];
        loop {
            match recv(self.socket, &mut chunk, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => gone(),
                Ok((_, read)) => {
                    self.bytes.extend(chunk.iter().take(read));
                    self.sort();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => gone(),
            }
        }
    }

    /// Turns bytes into messages. A parent that breaks the protocol is none.
    fn sort(&mut self) {
        let mut at = 0;
        while let Some(header) = self.bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let Ok(length) = codec::length(*header, MAX_TO) else {
                gone()
            };
            let body = at + HEADER;
            let Some(frame) = self.bytes.get(body..body + length) else {
                break;
            };
            match codec::decode(frame) {
                Ok(ToEvaluator::Interrupt) => self.interrupted = true,
                Ok(message) => self.inbox.push_back(message),
                Err(_) => gone(),
            }
            at = body + length;
        }
        self.bytes.drain(..at);
    }
}

impl Port for Parent {
    fn import(&mut self, specifier: &str, from: &str) -> Result<Module, Failure> {
        self.say(&FromEvaluator::Import {
            specifier: specifier.to_owned(),
            from: from.to_owned(),
        })
        .map_err(|e| Failure::new("RESOURCE_EXHAUSTED", e.to_string()))?;
        self.answer(|message| match message {
            ToEvaluator::Module { result } => Ok(result),
            other => Err(other),
        })
    }

    fn read_file(&mut self, path: &str, from: &str) -> Result<Vec<u8>, Failure> {
        self.say(&FromEvaluator::ReadFile {
            path: path.to_owned(),
            from: from.to_owned(),
        })
        .map_err(|e| Failure::new("RESOURCE_EXHAUSTED", e.to_string()))?;
        self.answer(|message| match message {
            ToEvaluator::File { result } => Ok(result),
            other => Err(other),
        })
    }

    fn nodes(&mut self, selector: String) -> Result<Vec<String>, Failure> {
        self.say(&FromEvaluator::Nodes { selector })
            .map_err(|e| Failure::new("RESOURCE_EXHAUSTED", e.to_string()))?;
        self.answer(|message| match message {
            ToEvaluator::Nodes { result } => Ok(result),
            other => Err(other),
        })
    }

    fn say(&mut self, message: &FromEvaluator) -> Result<(), CodecError> {
        let frame = codec::encode(message, MAX_FROM)?;
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(self.socket, rest, flags) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    // The parent may be waiting for us to read.
                    self.read();
                    self.wait(PollFlags::IN | PollFlags::OUT, None);
                }
                Err(_) => gone(),
            }
        }
        Ok(())
    }

    fn interrupted(&mut self) -> bool {
        if !self.interrupted && self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.read();
        }
        self.interrupted
    }

    fn take_interrupt(&mut self) -> bool {
        self.read();
        std::mem::take(&mut self.interrupted)
    }
}

/// There is no caller left to work for.
fn gone() -> ! {
    std::process::exit(0)
}

/// Writes what it can of a message, from wherever the process ends.
pub(super) fn last_words(message: &FromEvaluator) {
    if let Ok(frame) = codec::encode(message, MAX_FROM) {
        // The process is ending: there is no caller to tell that this failed.
        let _ = send(rustix::stdio::stdin(), &frame, SendFlags::NOSIGNAL);
    }
}
