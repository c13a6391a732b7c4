// SPDX-License-Identifier: Apache-2.0
//! The two streams of a copy: an archive that comes out of a cell is unpacked as it comes, one that
//! goes into a cell is packed as it goes. Both are bounded: the slower side holds up the other.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use api::runtime::v0::{
    AttachEof, AttachRequest, AttachResponse, AttachStart, Exit, ObjectRef, Stream,
    attach_request as ask, attach_response as answer,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::failure::Failure;
use crate::session::Session;

/// The contract's greatest piece of input.
const PIECE: usize = 64 << 10;
/// Pieces on their way.
const QUEUE: usize = 4;
/// The most that is kept of what tar complains about.
const ERRORS: usize = 4096;

/// The end of the tar in the cell.
pub(super) struct Ended {
    pub(super) exit: Exit,
    /// Its standard error.
    pub(super) errors: String,
}

/// Unpacks what the executable prints into a folder. Nothing gets out of the folder, whatever the
/// archive names.
pub(super) async fn receive(
    session: &Session,
    reference: ObjectRef,
    folder: &Path,
) -> Result<Ended, Failure> {
    let (_open, mut answers) = attach(session, reference, false).await?;
    let (sender, receiver) = mpsc::channel(QUEUE);
    let folder = folder.to_owned();
    let unpacking = tokio::task::spawn_blocking(move || unpack(Pieces::new(receiver), &folder));
    let ended = follow(&mut answers, Some(&sender)).await;
    drop(sender);
    let unpacked = unpacking.await.map_err(|problem| broken(&problem))?;
    let ended = ended?;
    // Of an archive that tar did not finish, tar says why.
    if matches!(ended.exit.how, Some(api::runtime::v0::exit::How::Code(0))) {
        unpacked.map_err(|problem| Failure::new(format!("can't unpack what came: {problem}")))?;
    }
    Ok(ended)
}

/// Packs a file or folder under a name, for the executable to read.
pub(super) async fn send(
    session: &Session,
    reference: ObjectRef,
    from: PathBuf,
    name: String,
) -> Result<Ended, Failure> {
    let (requests, mut answers) = attach(session, reference, true).await?;
    let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(QUEUE);
    let packing = tokio::task::spawn_blocking(move || pack(Sink::new(sender), &from, &name));
    let feeding = async {
        while let Some(piece) = pieces.recv().await {
            if requests
                .send(wrap(ask::Message::Stdin(piece)))
                .await
                .is_err()
            {
                return Ok(());
            }
        }
        // Half an archive must not look like a whole one: without its end, tar fails.
        let packed = packing.await.map_err(|problem| broken(&problem))?;
        let _gone = requests.send(wrap(ask::Message::Eof(AttachEof {}))).await;
        packed.map_err(|problem| Failure::new(format!("can't pack what is copied: {problem}")))
    };
    let (fed, ended) = tokio::join!(feeding, follow(&mut answers, None));
    let ended = ended?;
    fed.map(|()| ended)
}

fn broken(problem: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("the copy broke off: {problem}"))
}

fn wrap(message: ask::Message) -> AttachRequest {
    AttachRequest {
        message: Some(message),
    }
}

/// To the node, and from it.
type Channels = (mpsc::Sender<AttachRequest>, Streaming<AttachResponse>);

async fn attach(session: &Session, reference: ObjectRef, stdin: bool) -> Result<Channels, Failure> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let start = AttachStart {
        r#ref: Some(reference),
        stdin,
        ..Default::default()
    };
    // There is room: the channel is new.
    let _ = sender.try_send(wrap(ask::Message::Start(start)));
    let requests = tonic::Request::new(ReceiverStream::new(receiver));
    let answers = session.node.runtime().attach(requests).await?;
    Ok((sender, answers.into_inner()))
}

/// Hands standard output on, and waits for the end.
async fn follow(
    answers: &mut Streaming<AttachResponse>,
    output: Option<&mpsc::Sender<Vec<u8>>>,
) -> Result<Ended, Failure> {
    let mut errors = Vec::new();
    while let Some(came) = answers.message().await? {
        match came.message {
            Some(answer::Message::Output(piece)) if piece.stream() == Stream::Stderr => {
                let room = ERRORS.saturating_sub(errors.len());
                errors.extend(piece.data.into_iter().take(room));
            }
            Some(answer::Message::Output(piece)) => {
                if let Some(output) = output {
                    // The unpacker gave up, and says why.
                    let _ = output.send(piece.data).await;
                }
            }
            // Nothing is dropped on the way from a program to its attacher.
            Some(answer::Message::Gap(gap)) => {
                let words = format!("{} bytes of the copy are missing", gap.bytes);
                return Err(Failure::new(words));
            }
            Some(answer::Message::Exit(exit)) => {
                let errors = String::from_utf8_lossy(&errors).into_owned();
                return Ok(Ended { exit, errors });
            }
            None => {}
        }
    }
    Err(Failure::new(
        "the node ended the stream before the copy was whole",
    ))
}

fn unpack(pieces: Pieces, folder: &Path) -> io::Result<()> {
    let mut archive = tar::Archive::new(pieces);
    archive.set_overwrite(false);
    archive.unpack(folder)?;
    // After the archive's end there is padding; tar must be able to write it.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop)
}

fn pack(sink: Sink, from: &Path, name: &str) -> io::Result<()> {
    let mut archive = tar::Builder::new(sink);
    archive.follow_symlinks(false);
    match from.is_dir() {
        true => archive.append_dir_all(name, from)?,
        false => archive.append_file(name, &mut File::open(from)?)?,
    }
    archive.into_inner()?.flush()
}

/// Pieces from another task as something to read.
struct Pieces {
    pieces: mpsc::Receiver<Vec<u8>>,
    rest: io::Cursor<Vec<u8>>,
}

impl Pieces {
    fn new(pieces: mpsc::Receiver<Vec<u8>>) -> Self {
        Self {
            pieces,
            rest: io::Cursor::default(),
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.rest.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match self.pieces.blocking_recv() {
                Some(piece) => self.rest = io::Cursor::new(piece),
                None => return Ok(0),
            }
        }
    }
}

/// Something to write to that makes pieces for another task.
struct Sink {
    pieces: mpsc::Sender<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Sink {
    fn new(pieces: mpsc::Sender<Vec<u8>>) -> Self {
        Self {
            pieces,
            buffer: Vec::with_capacity(PIECE),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE - self.buffer.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.buffer.extend_from_slice(taken);
        if self.buffer.len() == PIECE {
            self.flush()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE));
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "tar in the cell has ended");
        self.pieces.blocking_send(piece).map_err(gone)
    }
}
