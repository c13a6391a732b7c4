// SPDX-License-Identifier: Apache-2.0
//! The parent's side of the unpacker: starts the process, feeds it, and makes a layer of the store
//! of what it has done. Nothing that the process says or does is trusted beyond its folder: it may
//! stop reading, say nothing, say too much or never end.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use super::child::Report;
use super::error::UnpackError;
use super::{Options, Summary};
use crate::digest::Digest;
use crate::error::{ImageError, Result};
use crate::store::{Layer, Making, Store};

/// How long the process may leave what it was sent unread.
const STALL: Duration = Duration::from_secs(120);

/// The longest report, in bytes: the summary with all that it may list.
const MAX_REPORT: u64 = 8 << 20;

/// Where the layer's stream is.
#[derive(Debug)]
pub enum Source {
    /// It is written to [`Unpacking`], as it comes.
    Stream,
    /// It is in a blob of the store.
    Blob(File),
}

/// A layer that is being unpacked. Dropped before [`Unpacking::finish`], the process is killed and
/// what it has made is removed.
#[derive(Debug)]
pub struct Unpacking {
    child: Child,
    stdin: Option<ChildStdin>,
    making: Option<Making>,
    layer: Digest,
}

impl Unpacking {
    /// Starts `program`, which calls [`super::command`] with the last argument that it is given.
    ///
    /// # Errors
    /// [`ImageError::Io`], [`ImageError::DiskFull`].
    pub fn start(
        store: &Store,
        mut program: Command,
        options: &Options,
        source: Source,
    ) -> Result<Self> {
        let making = store.make_layer(&options.diff_id)?;
        let named = std::path::PathBuf::from(program.get_program());
        let wrong = |error: io::Error| ImageError::io("start", &named, error);
        let options_text = serde_json::to_string(options).map_err(|e| wrong(e.into()))?;
        program
            .arg(options_text)
            .env_clear()
            .current_dir(making.root());
        program.stdout(Stdio::piped()).stderr(Stdio::null());
        program.stdin(match source {
            Source::Stream => Stdio::piped(),
            Source::Blob(file) => file.into(),
        });
        let mut child = program.spawn().map_err(wrong)?;
        let stdin = child.stdin.take();
        let unpacking = Self {
            child,
            stdin,
            making: Some(making),
            layer: options.diff_id.clone(),
        };
        if let Some(stdin) = &unpacking.stdin {
            let set = rustix::fs::fcntl_setfl(stdin, OFlags::NONBLOCK);
            set.map_err(|errno| wrong(errno.into()))?;
        }
        Ok(unpacking)
    }

    /// The id of the unpacker's process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end, at most `limit`, and makes a layer of what was unpacked.
    ///
    /// # Errors
    /// What the unpacker refuses: [`ImageError::Layer`], [`ImageError::TooMuch`],
    /// [`ImageError::WrongDigest`], [`ImageError::DiskFull`]. All that was made is removed then.
    pub fn finish(self, limit: Duration) -> Result<Layer> {
        let (making, summary) = self.made(limit)?;
        making.commit(summary)
    }

    /// Waits for the end, at most `limit`. What was unpacked is whole, and no layer yet.
    ///
    /// # Errors
    /// Those of [`Unpacking::finish`].
    pub fn made(mut self, limit: Duration) -> Result<(Making, Summary)> {
        // The end of its stream.
        self.stdin = None;
        let summary = match self.report(limit)? {
            Report::Done(summary) => summary,
            Report::Failed(error) => return Err(error.tamed().of_layer(&self.layer)),
        };
        // It has said all, but could still write.
        let _ = self.child.kill();
        let ended = self.child.wait();
        ended.map_err(|error| self.refused(format!("the unpacker can't be awaited: {error}")))?;
        match self.making.take() {
            Some(making) => Ok((making, summary)),
            None => Err(self.refused("it was finished before")),
        }
    }

    fn report(&mut self, limit: Duration) -> Result<Report> {
        let deadline = Instant::now() + limit;
        let mut text = Vec::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            let mut buffer = [0; 4096];
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                if !ready(stdout.as_fd(), PollFlags::IN, left) {
                    let limit = limit.as_secs();
                    return Err(self.refused(format!("the unpacker wasn't done after {limit} s")));
                }
                let read = stdout.read(&mut buffer);
                let read = read.map_err(|error| self.refused(format!("no report: {error}")))?;
                if read == 0 || text.len() as u64 > MAX_REPORT {
                    break;
                }
                text.extend_from_slice(buffer.get(..read).unwrap_or_default());
            }
        }
        if let Ok(report) = serde_json::from_slice(&text) {
            return Ok(report);
        }
        // It has closed its output without a word.
        let _ = self.child.kill();
        let ended = self.child.wait().ok();
        let signal = ended.and_then(|status| status.signal());
        Err(self.refused(match signal {
            Some(signal) => format!("the unpacker ended without a report, by signal {signal}"),
            None => "the unpacker ended without a report".to_owned(),
        }))
    }

    fn refused(&self, problem: impl Into<String>) -> ImageError {
        UnpackError::stream(problem).of_layer(&self.layer)
    }
}

impl Write for Unpacking {
    /// Passes some of the stream on. An error means that [`Unpacking::finish`] knows why.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(stdin) = &mut self.stdin else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        loop {
            match stdin.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if !ready(stdin.as_fd(), PollFlags::OUT, STALL) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        // Before its folder goes: it could make new files there. One that has ended is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a pipe can be read or written, or its other end is gone.
fn ready(fd: BorrowedFd<'_>, flags: PollFlags, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], left.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => return false,
            Ok(_) => return true,
        }
    }
}
