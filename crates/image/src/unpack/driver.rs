// SPDX-License-Identifier: Apache-2.0
//! The parent's side of the unpacker: starts the process, feeds it, and makes a layer of the store
//! of what it has done. Nothing that the process says or does is trusted beyond its folder: it may
//! stop reading, say nothing, say too much or never end.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use super::child::Report;
use super::error::UnpackError;
use super::growth::{Growth, Killer, Process};
use super::{Options, Summary};
use crate::digest::Digest;
use crate::error::{ImageError, Result};
use crate::store::{Layer, Making, Store};

/// How long the process may leave what it was sent unread.
pub(super) const STALL: Duration = Duration::from_secs(120);

/// The longest report, in bytes: the summary with all that it may list.
const MAX_REPORT: u64 = 8 << 20;

/// Where the layer's stream is.
#[derive(Debug)]
pub enum Source {
    /// It is written to [`Unpacking`], as it comes.
    Stream,
    /// It is in a blob of the store.
    Blob(File),
    /// It comes into this file, and [`Unpacking::growth`] says how much is there.
    Growing(File),
}

/// A layer that is being unpacked. Dropped before [`Unpacking::finish`], the process is killed and
/// what it has made is removed.
#[derive(Debug)]
pub struct Unpacking {
    process: Process,
    stdin: Option<ChildStdin>,
    report: Option<File>,
    growth: Option<Growth>,
    /// Says that a growing file came altogether, and is what its digest says.
    whole: Option<mpsc::Receiver<()>>,
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
        let growing = matches!(source, Source::Growing(_));
        let options = Options {
            growing,
            ..options.clone()
        };
        let options_text = serde_json::to_string(&options).map_err(|e| wrong(e.into()))?;
        program
            .arg(options_text)
            .env_clear()
            .current_dir(making.root());
        program.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut socket = None;
        if growing {
            let (ours, theirs) = UnixStream::pair().map_err(wrong)?;
            ours.set_nonblocking(true).map_err(wrong)?;
            program.stdout(OwnedFd::from(theirs));
            socket = Some(ours);
        }
        program.stdin(match source {
            Source::Stream => Stdio::piped(),
            Source::Blob(file) | Source::Growing(file) => file.into(),
        });
        let mut child = program.spawn().map_err(wrong)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut unpacking = Self {
            process: Process::new(child),
            stdin,
            report: stdout.map(|stdout| OwnedFd::from(stdout).into()),
            growth: None,
            whole: None,
            making: Some(making),
            layer: options.diff_id,
        };
        if let Some(stdin) = &unpacking.stdin {
            let set = rustix::fs::fcntl_setfl(stdin, OFlags::NONBLOCK);
            set.map_err(|errno| wrong(errno.into()))?;
        }
        if let Some(socket) = socket {
            let report = socket.try_clone().map_err(wrong)?;
            unpacking.report = Some(OwnedFd::from(report).into());
            let (sender, whole) = mpsc::channel();
            unpacking.whole = Some(whole);
            unpacking.growth = Some(Growth {
                socket,
                process: unpacking.process.clone(),
                whole: Some(sender),
                unsent: Vec::new(),
            });
        }
        Ok(unpacking)
    }

    /// The id of the unpacker's process.
    pub fn process(&self) -> u32 {
        self.process.lock().id()
    }

    /// What ends the process when it is dropped.
    pub fn killer(&self) -> Killer {
        Killer(self.process.clone())
    }

    /// Of [`Source::Growing`], once: what says how much is there.
    pub fn growth(&mut self) -> Option<Growth> {
        self.growth.take()
    }

    /// Waits for the end, at most `limit`, and makes a layer of what was unpacked.
    ///
    /// # Errors
    /// What the unpacker refuses: [`ImageError::Layer`], [`ImageError::TooMuch`],
    /// [`ImageError::WrongDigest`], [`ImageError::DiskFull`]; [`ImageError::NotFound`] where a
    /// growing file never became whole. All that was made is removed then.
    pub fn finish(self, limit: Duration) -> Result<Layer> {
        self.finish_told(limit, &mut |_| ())
    }

    /// The same; `told` hears how many bytes of its stream the unpacker has read.
    ///
    /// # Errors
    /// Those of [`Unpacking::finish`].
    pub fn finish_told(self, limit: Duration, told: &mut dyn FnMut(u64)) -> Result<Layer> {
        let (making, summary) = self.made(limit, told)?;
        making.commit(summary)
    }

    /// Waits for the end, at most `limit`. What was unpacked is whole, and no layer yet.
    ///
    /// # Errors
    /// Those of [`Unpacking::finish`].
    pub fn made(mut self, limit: Duration, told: &mut dyn FnMut(u64)) -> Result<(Making, Summary)> {
        // The end of its stream.
        self.stdin = None;
        let reported = self.reported(limit, told);
        // Whatever it says of a file that was cut is of no interest.
        let whole = self.whole.take().is_none_or(|whole| whole.recv().is_ok());
        if !whole {
            let what = format!("the whole blob of layer {}", self.layer);
            return Err(ImageError::NotFound { what });
        }
        let summary = match reported? {
            Report::Done(summary) => summary,
            Report::Failed(error) => return Err(error.tamed().of_layer(&self.layer)),
            Report::Read(_) => return Err(self.refused("the unpacker said nothing at its end")),
        };
        // It has said all, but could still write.
        let mut child = self.process.lock();
        let _ = child.kill();
        let ended = child.wait();
        drop(child);
        ended.map_err(|error| self.refused(format!("the unpacker can't be awaited: {error}")))?;
        match self.making.take() {
            Some(making) => Ok((making, summary)),
            None => Err(self.refused("it was finished before")),
        }
    }

    /// Reads lines until the last one, which says how it ended.
    fn reported(&mut self, limit: Duration, told: &mut dyn FnMut(u64)) -> Result<Report> {
        let deadline = Instant::now() + limit;
        let mut text = Vec::new();
        if let Some(mut report) = self.report.take() {
            let mut buffer = [0; 4096];
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                if !ready(report.as_fd(), PollFlags::IN, left) {
                    let limit = limit.as_secs();
                    return Err(self.refused(format!("the unpacker wasn't done after {limit} s")));
                }
                let read = match report.read(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    // It was killed with messages before it.
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
                    read => read.map_err(|error| self.refused(format!("no report: {error}")))?,
                };
                if read == 0 || text.len() as u64 > MAX_REPORT {
                    break;
                }
                text.extend_from_slice(buffer.get(..read).unwrap_or_default());
                while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = text.drain(..=end).collect();
                    match serde_json::from_slice(&line) {
                        Ok(Report::Read(bytes)) => told(bytes),
                        Ok(last) => return Ok(last),
                        Err(_) => break,
                    }
                }
            }
        }
        // It has closed its output without a word.
        let mut child = self.process.lock();
        let _ = child.kill();
        let ended = child.wait().ok();
        drop(child);
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
        let mut child = self.process.lock();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Waits until a pipe can be read or written, or its other end is gone.
pub(super) fn ready(fd: BorrowedFd<'_>, flags: PollFlags, limit: Duration) -> bool {
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
