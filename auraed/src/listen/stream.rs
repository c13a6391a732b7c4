// SPDX-License-Identifier: Apache-2.0
//! A connection that was let in: the encrypted stream, who is at its other end, and the places it holds. `tonic`
//! serves it like any byte stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::slots::{Count, Slot};

/// A byte stream of either kind of listener.
#[derive(Debug)]
pub(super) enum Raw {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A connection with a known peer.
#[derive(Debug)]
pub(crate) struct PeerStream<P> {
    pub(super) tls: TlsStream<Raw>,
    pub(super) peer: P,
    pub(super) _slot: Slot,
    pub(super) _of_tenant: Count<String>,
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
        Pin::new(&mut self.get_mut().tls).poll_read(cx, buffer)
    }
}

impl<P: Unpin> AsyncWrite for PeerStream<P> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().tls).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tls).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tls).poll_shutdown(cx)
    }
}
