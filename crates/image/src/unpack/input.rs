// SPDX-License-Identifier: Apache-2.0
//! The unpacker's side of its stream: standard input, and on standard output a line now and then
//! that says how much of it was read. Where the stream is a file that still grows, standard output
//! is a socket, and the parent says on it how much is there: eight bytes, little-endian, the number
//! of bytes from the start; the highest bit says that this is all.

use std::io::{self, Read, Write as _};
use std::os::fd::AsFd;

use super::child::Report;

/// How much is read between two words about it, in bytes.
const TOLD_EVERY: u64 = 1 << 20;

/// Set in a message where nothing comes any more.
pub(super) const WHOLE: u64 = 1 << 63;

/// Bytes of messages that are read at once.
const MESSAGES: usize = 4096;

/// A stream, told of as it is read.
pub(super) struct Input<R> {
    source: R,
    read: u64,
    told: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            read: 0,
            told: 0,
        }
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.read = self.read.saturating_add(read as u64);
        if self.read.saturating_sub(self.told) >= TOLD_EVERY {
            self.told = self.read;
            tell(&Report::Read(self.read))?;
        }
        Ok(read)
    }
}

/// Writes one line to the parent.
pub(super) fn tell(report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}

/// Standard input without a buffer of its own: who reads it has one.
pub(super) struct Plain;

impl Read for Plain {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(io::stdin(), buffer)?)
    }
}

/// Standard input as a file that grows.
#[derive(Default)]
pub(super) struct Growing {
    read: u64,
    there: u64,
    whole: bool,
    /// The beginning of a message.
    begun: Vec<u8>,
}

impl Growing {
    /// Waits until more is there, or all is.
    fn wait(&mut self) -> io::Result<()> {
        let mut messages = [0; MESSAGES];
        let read = rustix::io::read(io::stdout().as_fd(), &mut messages)?;
        if read == 0 {
            // Its blob was cut, or is begun anew.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.begun
            .extend_from_slice(messages.get(..read).unwrap_or_default());
        let mut rest = self.begun.as_slice();
        while let Some((message, after)) = rest.split_first_chunk() {
            let said = u64::from_le_bytes(*message);
            self.whole |= said & WHOLE != 0;
            self.there = self.there.max(said & !WHOLE);
            rest = after;
        }
        self.begun = rest.to_vec();
        Ok(())
    }
}

impl Read for Growing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.there {
            if self.whole || buffer.is_empty() {
                return Ok(0);
            }
            self.wait()?;
        }
        let left = usize::try_from(self.there - self.read).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = Plain.read(buffer.get_mut(..most).unwrap_or_default())?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read += read as u64;
        Ok(read)
    }
}
