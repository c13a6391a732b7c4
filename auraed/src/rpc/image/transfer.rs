// SPDX-License-Identifier: Apache-2.0
//! Streams of the `Images` service: progress of pulls and pushes, archives in pieces.
//!
//! A slow client holds up nothing but itself: progress is the latest state, and an archive waits in
//! a pipe. What its client leaves is dropped, which ends the transfer.

use std::io;
use std::time::Duration;

use api::image::v0 as wire;
use api::status::to_status;
use futures_util::{Stream, stream};
use image::node::{Pieces, Transfer};
use image::registry::Progress;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use wire::import_request::Of;

/// How often progress is told at most.
const TOLD: Duration = Duration::from_millis(100);
/// The longest piece of an archive that a client may send, in bytes.
const MAX_PIECE: usize = 1 << 20;
/// Pieces that are received ahead of the disk.
const AHEAD: usize = 2;

/// Progress until the end, and then the end.
pub(super) fn answers<T, M>(
    transfer: Transfer<T>,
    to_progress: impl Fn(&Progress) -> M + Send + 'static,
    to_end: impl Fn(&T) -> M + Send + 'static,
) -> impl Stream<Item = Result<M, Status>> + Send + 'static
where
    T: Send + 'static,
    M: Send + 'static,
{
    let state = Some((transfer, to_progress, to_end));
    stream::unfold(state, async |state| {
        let (mut transfer, to_progress, to_end) = state?;
        match transfer.next(TOLD).await {
            Ok(Some(progress)) => {
                let message = to_progress(&progress);
                Some((Ok(message), Some((transfer, to_progress, to_end))))
            }
            Ok(None) => {
                let ended = transfer.end().await;
                Some((ended.map(|end| to_end(&end)).map_err(to_status), None))
            }
            Err(error) => Some((Err(to_status(error)), None)),
        }
    })
}

/// What an import begins with.
pub(super) fn begin(message: wire::ImportRequest) -> Option<wire::ImportBegin> {
    match message.of {
        Some(Of::Begin(begin)) => Some(begin),
        _ => None,
    }
}

/// An archive as it comes, for a reader on a thread that may wait.
pub(super) struct Archive {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
    receiving: tokio::task::JoinHandle<()>,
}

impl Archive {
    /// Receives the rest of the messages.
    pub(super) fn of(mut messages: Streaming<wire::ImportRequest>) -> Self {
        let (sender, pieces) = mpsc::channel(AHEAD);
        let receiving = tokio::spawn(async move {
            loop {
                let piece = match messages.message().await {
                    Ok(Some(message)) => data(message),
                    Ok(None) => return,
                    Err(status) => Err(io::Error::other(status.message().to_owned())),
                };
                let ended = piece.is_err();
                if sender.send(piece).await.is_err() || ended {
                    return;
                }
            }
        });
        Self {
            pieces,
            piece: io::Cursor::default(),
            receiving,
        }
    }
}

fn data(message: wire::ImportRequest) -> io::Result<Vec<u8>> {
    match message.of {
        Some(Of::Data(data)) if data.len() <= MAX_PIECE => Ok(data),
        Some(Of::Data(data)) => {
            let length = data.len();
            let problem = format!("data has {length} bytes, at most {MAX_PIECE} in a message");
            Err(io::Error::other(problem))
        }
        _ => Err(io::Error::other("only data may follow begin")),
    }
}

impl io::Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.piece.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = io::Cursor::new(piece?),
                None => return Ok(0),
            }
        }
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        self.receiving.abort();
    }
}

/// The pieces of an export.
pub(super) fn pieces(
    pieces: Pieces,
) -> impl Stream<Item = Result<wire::ExportResponse, Status>> + Send + 'static {
    stream::unfold(pieces, async |mut pieces| {
        let piece = pieces.next().await?;
        let answer = piece
            .map(|data| wire::ExportResponse { data })
            .map_err(to_status);
        Some((answer, pieces))
    })
}
