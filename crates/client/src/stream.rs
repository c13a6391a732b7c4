// SPDX-License-Identifier: Apache-2.0
//! Byte streams below HTTP/2: any transport boxed, and a stream whose first bytes were read
//! already.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Any byte stream to a node.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// A stream that gives back what was read from it to look at, and then the rest.
pub struct Prefixed<S> {
    prefix: Vec<u8>,
    given: usize,
    inner: S,
    /// Lives as long as the stream.
    #[allow(dead_code, reason = "held, and never looked at")]
    socket: Option<Arc<OwnedFd>>,
}

impl<S> Prefixed<S> {
    /// `prefix` is what was read from `inner` before.
    pub(crate) fn new(prefix: Vec<u8>, inner: S) -> Self {
        Self {
            prefix,
            given: 0,
            inner,
            socket: None,
        }
    }

    /// With something that is to live as long as the stream.
    pub(crate) fn keeping(mut self, socket: Arc<OwnedFd>) -> Self {
        self.socket = Some(socket);
        self
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = self.prefix.get(self.given..).unwrap_or_default();
        if rest.is_empty() {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(rest.get(..count).unwrap_or_default());
        self.given += count;
        if self.given >= self.prefix.len() {
            self.prefix = Vec::new();
            self.given = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn the_prefix_comes_first_in_any_portion() {
        let (ours, theirs) = tokio::io::duplex(64);
        drop(theirs);
        let mut stream = Prefixed::new(b"hello".to_vec(), ours);
        let mut two = [0; 2];
        stream.read_exact(&mut two).await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!((&two[..], &rest[..]), (&b"he"[..], &b"llo"[..]));
    }
}
