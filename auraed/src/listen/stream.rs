// SPDX-License-Identifier: Apache-2.0
//! An accepted connection: the encrypted stream, its peer, and its place in the tenant's quota.
//! `tonic` serves it like any byte stream. It reads as ended when its peer's certificate no longer
//! counts, or when the client doesn't begin with HTTP/2 in time: `tonic` then closes it.
//!
//! Bytes are read in the turns of its tenant: those of a tenant beyond its share of the daemon's
//! time wait unread, so that the client's own sending waits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tenants::{Share, Taken, Turn};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::Ending;

/// How long a client may take to begin with HTTP/2.
const PREFACE_TIME: Duration = Duration::from_secs(10);
/// HTTP/2's first bytes: `PRI * HTTP/2.0…`.
const PREFACE_BYTES: usize = 24;
/// How long a peer whose certificate no longer counts still gets that error on each request, before
/// its connection is closed.
const LINGER: Duration = Duration::from_secs(5);

/// The most that is counted as work on what was read; the task may have been put off meanwhile.
const MOST_WORK: Duration = Duration::from_millis(5);

/// A byte stream of either kind of listener.
#[derive(Debug)]
pub(super) enum Raw {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Raw {
    /// Waits for the first byte.
    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Raw::Unix(stream) => stream.readable().await,
            Raw::Tcp(stream) => stream.readable().await,
        }
    }
}

/// A connection with a known peer.
pub(crate) struct PeerStream<P> {
    tls: TlsStream<Raw>,
    peer: P,
    _place: Taken,
    share: Share,
    reading: Turn,
    /// When it was read last: what comes before the next read is the work on those bytes.
    read: Option<Instant>,
    /// Bytes of the preface that have not come yet; 0: all have.
    preface_left: usize,
    preface_late: Pin<Box<tokio::time::Sleep>>,
    ending: Ending,
    ended: bool,
}

impl<P> PeerStream<P> {
    pub(super) fn new(
        tls: TlsStream<Raw>,
        peer: P,
        place: Taken,
        share: Share,
        ending: Ending,
    ) -> Self {
        let ending = Box::pin(async move {
            ending.await;
            tokio::time::sleep(LINGER).await;
        });
        Self {
            tls,
            peer,
            _place: place,
            reading: share.turn(),
            share,
            read: None,
            preface_left: PREFACE_BYTES,
            preface_late: Box::pin(tokio::time::sleep(PREFACE_TIME)),
            ending,
            ended: false,
        }
    }

    /// Whether the time of this connection is over.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> bool {
        let late = self.preface_left > 0 && self.preface_late.as_mut().poll(cx).is_ready();
        self.ended = self.ended || late || self.ending.as_mut().poll(cx).is_ready();
        self.ended
    }
}

impl<P: Clone + Send + Sync + 'static> Connected for PeerStream<P> {
    type ConnectInfo = P;

    fn connect_info(&self) -> P {
        self.peer.clone()
    }
}

impl AsyncRead for Raw {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Raw::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Raw::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Raw {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Raw::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Raw::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Raw::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Raw::Tcp(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Raw::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Raw::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl<P: Unpin> AsyncRead for PeerStream<P> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.poll_over(cx) {
            return Poll::Ready(Ok(()));
        }
        if let Some(read) = this.read.take() {
            this.share.add(read.elapsed().min(MOST_WORK));
        }
        let before = buffer.filled().len();
        let tls = Pin::new(&mut this.tls);
        let read = this.reading.poll(cx, |cx| tls.poll_read(cx, buffer));
        this.read = read.is_ready().then(Instant::now);
        let count = buffer.filled().len().saturating_sub(before);
        this.preface_left = this.preface_left.saturating_sub(count);
        read
    }
}

impl<P: Unpin> AsyncWrite for PeerStream<P> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { tls, share, .. } = self.get_mut();
        share.count(|| Pin::new(tls).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { tls, share, .. } = self.get_mut();
        share.count(|| Pin::new(tls).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tls).poll_shutdown(cx)
    }
}
