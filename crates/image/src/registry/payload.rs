// SPDX-License-Identifier: Apache-2.0
//! What a request carries: nothing, bytes, or a part of a file. A part is read by a thread while it
//! is sent, never whole into memory, and can be sent again.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// How much is read and sent at once, in bytes.
const PIECE: usize = 64 << 10;
/// How many pieces are read ahead.
const AHEAD: usize = 4;

/// What a request carries.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// Nothing, without a length: of what is read.
    None,
    /// These bytes; none is a body of length 0.
    Bytes(Bytes),
    /// A part of a file.
    Part {
        file: Arc<File>,
        offset: u64,
        length: u64,
    },
}

impl Payload {
    /// The body and its length. `sent` counts what was handed to the connection.
    pub(crate) fn body(&self, sent: &Arc<AtomicU64>) -> Option<(reqwest::Body, u64)> {
        match self {
            Self::None => None,
            Self::Bytes(bytes) => {
                let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                Some((bytes.clone().into(), length))
            }
            Self::Part {
                file,
                offset,
                length,
            } => {
                let pieces = read(file.clone(), *offset, *length);
                let body = FileBody {
                    pieces,
                    left: *length,
                    sent: sent.clone(),
                };
                Some((reqwest::Body::wrap(body), *length))
            }
        }
    }
}

fn read(file: Arc<File>, mut offset: u64, length: u64) -> mpsc::Receiver<std::io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let end = offset.saturating_add(length);
    tokio::task::spawn_blocking(move || {
        while offset < end {
            let wanted = usize::try_from(end - offset).map_or(PIECE, |left| left.min(PIECE));
            let mut piece = vec![0; wanted];
            let read = file
                .read_exact_at(&mut piece, offset)
                .map(|()| Bytes::from(piece));
            offset += u64::try_from(wanted).unwrap_or_default();
            let failed = read.is_err();
            // A receiver that is gone means that the request was given up.
            if sender.blocking_send(read).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

struct FileBody {
    pieces: mpsc::Receiver<std::io::Result<Bytes>>,
    left: u64,
    sent: Arc<AtomicU64>,
}

impl http_body::Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        if let Some(Ok(piece)) = &piece {
            let length = u64::try_from(piece.len()).unwrap_or_default();
            self.left = self.left.saturating_sub(length);
            self.sent.fetch_add(length, Ordering::Relaxed);
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
