// SPDX-License-Identifier: Apache-2.0
//! The client's standard streams, on threads of their own: a pipe that blocks must not keep the
//! client from signals and from the node. Both channels are bounded: a slow reader slows the
//! workload down, as a pipe would.

use std::io::{self, Read, Write};
use std::thread;

use api::runtime::v0::Stream;
use tokio::sync::{mpsc, oneshot};

/// The contract's greatest piece of input.
const PIECE: usize = 64 << 10;
const QUEUE: usize = 4;

/// A piece of standard input, or its end.
#[derive(Debug)]
pub(crate) enum Input {
    Bytes(Vec<u8>),
    Eof,
}

/// Reads standard input until its end. The thread stays in its read when we end: the process's exit
/// ends it.
pub(crate) fn read_stdin() -> mpsc::Receiver<Input> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    thread::spawn(move || {
        let mut buffer = vec![0; PIECE];
        loop {
            let input = match io::stdin().lock().read(&mut buffer) {
                Ok(0) => Input::Eof,
                Ok(count) => Input::Bytes(buffer.get(..count).unwrap_or_default().to_vec()),
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => continue,
                // A terminal that hung up, for one: there will be no more.
                Err(_) => Input::Eof,
            };
            let last = matches!(input, Input::Eof);
            if sender.blocking_send(input).is_err() || last {
                return;
            }
        }
    });
    receiver
}

/// A piece of the workload's output, to be written.
pub(crate) type Piece = (Stream, Vec<u8>);

/// Writes to standard output and standard error.
pub(crate) struct Output {
    sender: mpsc::Sender<Piece>,
    done: oneshot::Receiver<io::Result<()>>,
}

impl Output {
    /// Starts the thread that writes.
    pub(crate) fn start() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (tell, done) = oneshot::channel();
        thread::spawn(move || {
            // Without a receiver we are ending already.
            let _ = tell.send(write_all(receiver));
        });
        Self { sender, done }
    }

    /// Where to put the pieces. Closed once writing has failed: [`Self::finish`] says how.
    pub(crate) fn sender(&self) -> &mpsc::Sender<Piece> {
        &self.sender
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.sender);
        self.done.await.unwrap_or(Ok(()))
    }
}

fn write_all(mut pieces: mpsc::Receiver<Piece>) -> io::Result<()> {
    while let Some((stream, data)) = pieces.blocking_recv() {
        if stream == Stream::Stderr {
            io::stderr().write_all(&data)?;
        } else {
            let mut out = io::stdout().lock();
            out.write_all(&data)?;
            out.flush()?;
        }
    }
    Ok(())
}
