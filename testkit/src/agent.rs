// SPDX-License-Identifier: Apache-2.0
//! How the host runs programs on a node: frames over a virtio port, between a story and the agent.
//!
//! A frame is a kind, a number that pairs a run with its output, a length and bytes. Output is
//! binary-safe, stdout and stderr are apart, and the exit status has a frame of its own. The agent
//! (`src/bin/node-agent.rs`) is a workload of the node like any other, so it also lives through the
//! daemon's death. This file is both ends' wire format and the host's end.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The virtio port's name, by which the agent finds it.
pub const PORT: &str = "agent";
/// The largest frame's payload, in bytes.
pub const MAX_FRAME: usize = 256 * 1024;

/// What a frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Agent → host: it runs. No payload.
    Ready,
    /// Host → agent: run this; the words of the command line, each ended by NUL.
    Run,
    /// Agent → host: bytes of stdout.
    Out,
    /// Agent → host: bytes of stderr.
    Err,
    /// Agent → host: the end; four bytes, little-endian: the exit status, or 128 + the signal.
    Exit,
}

/// One frame of the port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What the payload is.
    pub kind: Kind,
    /// The number of the run that it belongs to.
    pub run: u32,
    /// The bytes, whose meaning depends on `kind`.
    pub payload: Vec<u8>,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Ready => 0,
            Self::Run => 1,
            Self::Out => 2,
            Self::Err => 3,
            Self::Exit => 4,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Ready,
            1 => Self::Run,
            2 => Self::Out,
            3 => Self::Err,
            4 => Self::Exit,
            _ => return None,
        })
    }
}

/// Writes one frame in one call, so that frames of several threads don't mix.
///
/// # Errors
/// The writer's, and a payload beyond [`MAX_FRAME`].
pub fn send(out: &mut impl Write, kind: Kind, run: u32, payload: &[u8]) -> io::Result<()> {
    if payload.len() > MAX_FRAME {
        return Err(io::Error::other(format!(
            "a frame holds at most {MAX_FRAME} bytes"
        )));
    }
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(payload.len() + 9);
    frame.push(kind.code());
    frame.extend_from_slice(&run.to_le_bytes());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(payload);
    out.write_all(&frame)?;
    out.flush()
}

/// Reads one frame.
///
/// # Errors
/// The reader's (the end of the stream is one), and what is no frame.
pub fn receive(from: &mut impl Read) -> io::Result<Frame> {
    let (mut kind, mut run, mut length) = ([0; 1], [0; 4], [0; 4]);
    from.read_exact(&mut kind)?;
    from.read_exact(&mut run)?;
    from.read_exact(&mut length)?;
    let [code] = kind;
    let kind = Kind::of(code).ok_or_else(|| io::Error::other(format!("no frame: {code}")))?;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)?;
    if length > MAX_FRAME {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    let mut payload = vec![0; length];
    from.read_exact(&mut payload)?;
    Ok(Frame {
        kind,
        run: u32::from_le_bytes(run),
        payload,
    })
}

/// What a finished run left.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Finished {
    /// What it wrote to stdout.
    pub out: Vec<u8>,
    /// What it wrote to stderr.
    pub err: Vec<u8>,
    /// Its exit status, or 128 + the signal.
    pub status: i32,
}

type Runs = Arc<Mutex<Option<HashMap<u32, Sender<Frame>>>>>;

/// The host's end of the port.
#[derive(Debug)]
pub struct Agent {
    writer: Mutex<UnixStream>,
    next: std::sync::atomic::AtomicU32,
    runs: Runs,
    ready: Mutex<Receiver<()>>,
}

impl Agent {
    /// Talks to the agent over this stream. It may not run yet.
    ///
    /// # Errors
    /// When the stream can't be shared with the reading thread.
    pub fn over(stream: UnixStream) -> Result<Self> {
        let reader = stream.try_clone()?;
        let runs: Runs = Arc::new(Mutex::new(Some(HashMap::new())));
        let (say_ready, ready) = mpsc::channel();
        let shared = Arc::clone(&runs);
        std::thread::spawn(move || dispatch(reader, &shared, &say_ready));
        let writer = Mutex::new(stream);
        Ok(Self {
            writer,
            next: 1.into(),
            runs,
            ready: Mutex::new(ready),
        })
    }

    /// True once the agent has reported that it runs (again, after a reboot of the node).
    #[must_use]
    pub fn wait_ready(&self, timeout: Duration) -> bool {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.recv_timeout(timeout).is_ok()
    }

    /// Starts a program on the node.
    ///
    /// # Errors
    /// When the command line is too long, or the node is gone.
    pub fn start(&self, words: &[&str]) -> Result<Running> {
        let mut payload = Vec::new();
        for word in words {
            payload.extend_from_slice(word.as_bytes());
            payload.push(0);
        }
        let run = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (sender, frames) = mpsc::channel();
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.as_mut()
            .context("the node is gone")?
            .insert(run, sender);
        drop(runs);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        send(&mut *writer, Kind::Run, run, &payload).context("sending to the node's agent")?;
        Ok(Running { frames })
    }
}

/// Hands each frame to its run until the node is gone.
fn dispatch(mut reader: UnixStream, runs: &Runs, say_ready: &Sender<()>) {
    while let Ok(frame) = receive(&mut reader) {
        if frame.kind == Kind::Ready {
            let _ = say_ready.send(());
            continue;
        }
        let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(runs) = runs.as_mut() else { break };
        let (run, last) = (frame.run, frame.kind == Kind::Exit);
        if let Some(sender) = runs.get(&run) {
            let _ = sender.send(frame); // its receiver may be gone
        }
        if last {
            runs.remove(&run);
        }
    }
    runs.lock().unwrap_or_else(PoisonError::into_inner).take();
}

/// A program that runs on the node.
#[derive(Debug)]
pub struct Running {
    frames: Receiver<Frame>,
}

impl Running {
    /// Hands its output on as it comes and returns its exit status.
    ///
    /// # Errors
    /// When the node goes before the program does, and those of the writers.
    pub fn stream(self, out: &mut impl Write, err: &mut impl Write) -> Result<i32> {
        loop {
            let frame = self
                .frames
                .recv()
                .context("the node went down before the program ended")?;
            match frame.kind {
                Kind::Out => out.write_all(&frame.payload).and_then(|()| out.flush())?,
                Kind::Err => err.write_all(&frame.payload).and_then(|()| err.flush())?,
                Kind::Exit => return exit_status(&frame.payload),
                Kind::Ready | Kind::Run => bail!("the agent sent {:?}", frame.kind),
            }
        }
    }

    /// Collects what it prints until it ends.
    ///
    /// # Errors
    /// When the node goes before the program does.
    pub fn finish(self) -> Result<Finished> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = self.stream(&mut out, &mut err)?;
        Ok(Finished { out, err, status })
    }

    /// Collects what it prints until it ends, for this long at most.
    ///
    /// # Errors
    /// When the node goes or the time is over.
    pub fn finish_within(self, limit: Duration) -> Result<Finished> {
        let until = std::time::Instant::now() + limit;
        let mut finished = Finished::default();
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            let frame = match self.frames.recv_timeout(left) {
                Ok(frame) => frame,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let said = String::from_utf8_lossy(&finished.out).into_owned();
                    bail!("it still runs after {limit:?}; it printed: {said}")
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    bail!("the node went down before the program ended")
                }
            };
            match frame.kind {
                Kind::Out => finished.out.extend_from_slice(&frame.payload),
                Kind::Err => finished.err.extend_from_slice(&frame.payload),
                Kind::Exit => {
                    finished.status = exit_status(&frame.payload)?;
                    return Ok(finished);
                }
                Kind::Ready | Kind::Run => bail!("the agent sent {:?}", frame.kind),
            }
        }
    }
}

fn exit_status(payload: &[u8]) -> Result<i32> {
    let bytes: [u8; 4] = payload
        .try_into()
        .context("an exit status has four bytes")?;
    Ok(i32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_as_it_was_sent() {
        let mut wire = Vec::new();
        send(&mut wire, Kind::Out, 7, b"\0\xff\n").unwrap();
        let frame = receive(&mut wire.as_slice()).unwrap();
        assert_eq!(
            frame,
            Frame {
                kind: Kind::Out,
                run: 7,
                payload: b"\0\xff\n".to_vec()
            }
        );
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert!(receive(&mut [9, 0, 0, 0, 0, 0, 0, 0, 0].as_slice()).is_err());
        assert!(receive(&mut [2, 0, 0, 0, 0, 255, 255, 255, 255].as_slice()).is_err());
        assert!(send(&mut Vec::new(), Kind::Run, 1, &vec![0; MAX_FRAME + 1]).is_err());
    }

    #[test]
    fn two_runs_keep_their_output_apart() {
        let (host, mut node) = UnixStream::pair().unwrap();
        let agent = Agent::over(host).unwrap();
        let (first, second) = (
            agent.start(&["a"]).unwrap(),
            agent.start(&["b", "c"]).unwrap(),
        );
        assert_eq!(receive(&mut node).unwrap().payload, b"a\0");
        assert_eq!(receive(&mut node).unwrap().payload, b"b\0c\0");
        send(&mut node, Kind::Out, 2, b"two").unwrap();
        send(&mut node, Kind::Out, 1, b"one").unwrap();
        send(&mut node, Kind::Exit, 2, &137_i32.to_le_bytes()).unwrap();
        assert_eq!(second.finish().unwrap().status, 137);
        drop(node);
        let error = first.finish().unwrap_err();
        assert!(error.to_string().contains("went down"), "{error}");
        assert!(agent.start(&["late"]).is_err());
    }
}
