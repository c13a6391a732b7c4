// SPDX-License-Identifier: Apache-2.0
//! An evaluator on its way: a process that begins while its parent still reads the program and
//! reaches for the node. Each step is as early as what it needs is there: the process needs
//! nothing, its beginning the API, its service the program. Afterwards it is a [`Session`].

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use super::process::Process;
use super::{Host, QUEUE, ROLE, Session, StartError, THIS_PROGRAM, serve};
use crate::protocol::codec::{self, MAX_TO};
use crate::protocol::{Start, ToEvaluator};

/// A process without a server yet. Dropping it kills it.
#[derive(Debug)]
pub struct Starting {
    process: Process,
    socket: UnixStream,
    /// What the socket had no room for.
    rest: Vec<u8>,
    /// Bytes of the engine's heap, as it was told.
    memory: u64,
}

impl Starting {
    /// Executes this program as `eval`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_this_program() -> Result<Self, StartError> {
        Self::new(Path::new(THIS_PROGRAM), &[OsString::from(ROLE)])
    }

    /// Executes `program`, which plays the role with these arguments.
    ///
    /// # Errors
    /// It can't be executed.
    pub fn new(program: &Path, arguments: &[OsString]) -> Result<Self, StartError> {
        let started = Process::start(program, arguments);
        let (process, socket) = started.map_err(|source| StartError::Process {
            program: program.to_owned(),
            source,
        })?;
        Ok(Self {
            process,
            socket,
            rest: Vec::new(),
            memory: 0,
        })
    }

    /// Tells it its beginning, once; it runs the prelude at once.
    ///
    /// # Errors
    /// The beginning doesn't fit a frame.
    pub fn tell(&mut self, start: Start) -> Result<(), StartError> {
        self.memory = start.max_memory;
        let frame = codec::encode(&ToEvaluator::Start(start), MAX_TO)?;
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(problem) if problem.kind() == ErrorKind::Interrupted => {}
                // The rest, and an evaluator that is gone already, are the session's.
                Err(_) => break,
            }
        }
        self.rest = rest.to_vec();
        Ok(())
    }

    /// Serves it from now on. Within a tokio runtime.
    ///
    /// # Errors
    /// The socket can't be watched.
    pub fn serve(
        self,
        timeout: Option<Duration>,
        host: Arc<dyn Host>,
    ) -> Result<Session, StartError> {
        let socket = tokio::net::UnixStream::from_std(self.socket).map_err(StartError::Socket)?;
        let (to, outgoing) = mpsc::channel(QUEUE);
        let (found, events) = mpsc::channel(1);
        let server = serve::Server::new(host, to.clone(), found);
        let server = server.spawn(socket, self.rest, outgoing);
        Ok(Session {
            to,
            events,
            interrupts: Arc::new(Notify::new()),
            timeout,
            memory: self.memory,
            was_full: false,
            process: self.process.with(server),
            alive: true,
            names_owed: false,
            ended: None,
        })
    }
}
