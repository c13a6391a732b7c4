// SPDX-License-Identifier: Apache-2.0
//! What is sent to one connection. No task waits for its client: who doesn't read what it is sent
//! loses its connection, and not what others are told.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use super::message::Draft;

/// Messages that wait for a client.
const QUEUE: usize = 4_096;
/// Their bytes.
const BYTES: usize = 8 << 20;
/// How long a client may take to read one.
const SLOWEST: Duration = Duration::from_secs(30);

/// Sends to one connection; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    queue: mpsc::Sender<Vec<u8>>,
    bytes: Arc<AtomicUsize>,
    serial: Arc<AtomicU32>,
    /// `true`: the connection is to end.
    over: watch::Sender<bool>,
}

impl Outbox {
    /// Of a connection, and the task that writes to it.
    pub(crate) fn new(
        to: impl AsyncWrite + Unpin + Send + 'static,
    ) -> (Outbox, watch::Receiver<bool>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (over, is_over) = watch::channel(false);
        let outbox = Outbox {
            queue,
            bytes: Arc::default(),
            serial: Arc::new(AtomicU32::new(1)),
            over,
        };
        let (bytes, over) = (outbox.bytes.clone(), outbox.over.clone());
        tokio::spawn(async move {
            if let Err(error) = write(to, waiting, &bytes).await {
                tracing::info!(%error, "a client of the bus is not written to");
            }
            over.send_replace(true);
        });
        (outbox, is_over)
    }

    /// Sends a message; its number.
    pub(crate) fn send(&self, draft: &Draft) -> u32 {
        // 0 is no number.
        let serial = self.serial.fetch_add(1, Ordering::Relaxed).max(1);
        let bytes = match draft.encode(serial) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(%error, "a message can't be written");
                return serial;
            }
        };
        let before = self.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        let fits = before < BYTES && self.queue.try_send(bytes).is_ok();
        if !fits {
            self.over.send_replace(true);
        }
        serial
    }
}

async fn write(
    mut to: impl AsyncWrite + Unpin,
    mut waiting: mpsc::Receiver<Vec<u8>>,
    bytes: &AtomicUsize,
) -> io::Result<()> {
    while let Some(message) = waiting.recv().await {
        let written = tokio::time::timeout(SLOWEST, to.write_all(&message)).await;
        written.map_err(|_| io::ErrorKind::TimedOut)??;
        bytes.fetch_sub(message.len(), Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::Body;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn a_client_that_does_not_read_loses_its_connection() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let (outbox, mut over) = Outbox::new(near);
        let body = Body::of(&("x".repeat(1 << 20),)).unwrap();
        let draft = Draft::signal("/", "a.B", "C", body);
        outbox.send(&draft);
        assert!(!*over.borrow());
        for _ in 0..16 {
            outbox.send(&draft);
        }
        over.wait_for(|over| *over).await.unwrap();
        // What was sent before is whole.
        let mut first = [0; 16];
        far.read_exact(&mut first).await.unwrap();
        assert_eq!(first[0], b'l');
    }
}
