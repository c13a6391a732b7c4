// SPDX-License-Identifier: Apache-2.0
//! What the parent holds of an unpacker's process besides [`super::Unpacking`]: the way to end it,
//! and the way to say how much of a growing file is there.

use std::io::{ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use rustix::event::PollFlags;

use super::driver::{STALL, ready};
use super::input::WHOLE;

/// A process that several may end. It is reaped by one, under the lock: its id means no other.
#[derive(Clone, Debug)]
pub(super) struct Process(Arc<Mutex<Child>>);

impl Process {
    pub(super) fn new(child: Child) -> Self {
        Self(Arc::new(Mutex::new(child)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kill(&self) {
        // One that has ended is fine.
        let _ = self.lock().kill();
    }
}

/// Ends the unpacker's process when it is dropped; one that has ended is left alone.
#[derive(Debug)]
pub struct Killer(pub(super) Process);

impl Drop for Killer {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// Tells an unpacker how much of its growing file is there. Dropped before [`Growth::whole`], the
/// layer is given up.
#[derive(Debug)]
pub struct Growth {
    pub(super) socket: UnixStream,
    pub(super) process: Process,
    pub(super) whole: Option<mpsc::Sender<()>>,
    /// The rest of a message that the socket had no room for.
    pub(super) unsent: Vec<u8>,
}

impl Growth {
    /// So many bytes are there, from the start. Waits for nothing: a reader that has many messages
    /// before it doesn't need this one.
    pub fn grown(&mut self, bytes: u64) {
        if self.unsent.is_empty() {
            self.unsent.extend_from_slice(&bytes.to_le_bytes());
        }
        // Its end is found out by who awaits the layer.
        let _ = self.send();
    }

    /// All of it is there, and is what its digest says.
    pub fn whole(mut self, bytes: u64) {
        self.unsent
            .extend_from_slice(&(bytes | WHOLE).to_le_bytes());
        while let Err(ErrorKind::WouldBlock) = self.send() {
            if !ready(self.socket.as_fd(), PollFlags::OUT, STALL) {
                return;
            }
        }
        if let Some(whole) = self.whole.take() {
            // Who awaits the layer may have given up.
            let _ = whole.send(());
        }
    }

    fn send(&mut self) -> Result<(), ErrorKind> {
        while !self.unsent.is_empty() {
            let sent = self.socket.write(&self.unsent);
            let sent = sent.map_err(|error| error.kind())?;
            self.unsent.drain(..sent.min(self.unsent.len()));
        }
        Ok(())
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        if self.whole.is_some() {
            self.process.kill();
        }
    }
}
