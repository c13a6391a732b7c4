// SPDX-License-Identifier: Apache-2.0
//! The daemon's end of a conversation with an init: packets out, packets in, nothing decided.
//!
//! A [`Link`] belongs to one task. It never spawns, never blocks and holds no more than
//! [`MAX_OUTBOX`] packets that the peer has not read. What a packet means is its owner's business;
//! what a packet may be is `init::protocol`'s. The peer of a cell's link counts as hostile:
//! whatever is malformed, too long, or has a wrong number or type of descriptors ends the link with
//! an error, never the daemon.
//!
//! `cell` and `node` are the two conversations, each with its handshake.

pub(crate) mod cell;
pub(crate) mod fds;
pub(crate) mod node;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use init::protocol::codec::{CodecError, Packet};
use init::protocol::{MAX_PACKET, VERSION};
use kernel::seqpacket;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::watched::watch;

/// The most packets that wait for a peer that doesn't read.
pub(crate) const MAX_OUTBOX: usize = 256;
/// How long an init may take over a handshake.
pub(crate) const HANDSHAKE: std::time::Duration = std::time::Duration::from_secs(20);

thread_local! {
    // One per worker instead of one per link: a thousand links would otherwise hold 160 MB.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_PACKET]);
}

/// Why a conversation ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] kernel::Error),
    /// The peer is gone.
    #[error("the init closed the connection")]
    Closed,
    /// A packet that isn't one.
    #[error("the init sent a packet that is not of the protocol: {0}")]
    Malformed(String),
    /// A request that no packet holds; the link goes on.
    #[error("the request does not fit into a packet")]
    TooLarge(#[source] CodecError),
    /// There was no memory or no descriptor to pack it; the link goes on.
    #[error("the request can't be packed: {0}")]
    Unpacked(#[source] kernel::Error),
    /// The init is of another build.
    #[error("the init speaks version {version} of the protocol, this daemon {VERSION}: {reason}")]
    Refused {
        /// The init's.
        version: u16,
        /// In its words.
        reason: String,
    },
    /// It doesn't read what it is sent.
    #[error("the init has not read {MAX_OUTBOX} packets")]
    Stuck,
    /// It did not answer.
    #[error("the init did not answer within {0:?}")]
    Silent(std::time::Duration),
}

impl From<CodecError> for LinkError {
    fn from(error: CodecError) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Os(kernel::Error::from_io("epoll", &error))
    }
}

/// One of the two conversations.
pub(crate) trait Conversation {
    /// What the daemon says.
    type Request: Packet;
    /// What the init says.
    type Event: Packet;

    /// A request as a packet, and the descriptors that go with it.
    fn pack(request: &Self::Request, fds: Vec<OwnedFd>) -> Result<Packed, LinkError> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes).map_err(LinkError::TooLarge)?;
        Ok((bytes, fds))
    }
}

/// A packet with its descriptors.
pub(crate) type Packed = (Vec<u8>, Vec<OwnedFd>);

/// A message with the descriptors that came beside it, not yet checked.
#[derive(Debug)]
pub(crate) struct Received<E> {
    /// The message.
    pub(crate) event: E,
    /// In the order of the packet.
    pub(crate) fds: Vec<OwnedFd>,
    /// The sender's pid as the kernel says it, in the daemon's pid namespace; where it was asked
    /// for ([`Link::with_senders`]). A sender may name another process of its own pid namespace.
    pub(crate) sender: Option<i32>,
}

/// A connection and what has not been sent on it yet.
pub(crate) struct Link<C: Conversation> {
    io: AsyncFd<OwnedFd>,
    outbox: VecDeque<Packed>,
    conversation: std::marker::PhantomData<fn() -> C>,
}

impl<C: Conversation> Link<C> {
    /// Takes over a connected, non-blocking socket.
    pub(crate) fn new(socket: OwnedFd) -> Result<Self, LinkError> {
        seqpacket::reserve_send_buffer(&socket, MAX_PACKET)?;
        Ok(Self {
            io: watch(socket, Interest::READABLE | Interest::WRITABLE)?,
            outbox: VecDeque::new(),
            conversation: std::marker::PhantomData,
        })
    }

    /// Has the kernel say who sent each packet.
    pub(crate) fn with_senders(self) -> Result<Self, LinkError> {
        seqpacket::pass_credentials(self.io.get_ref())?;
        Ok(self)
    }

    /// Sends, or keeps the packet until the peer reads. The order is kept.
    pub(crate) fn send(
        &mut self,
        request: &C::Request,
        fds: Vec<OwnedFd>,
    ) -> Result<(), LinkError> {
        self.send_packed(C::pack(request, fds)?)
    }

    /// The same of what is packed already.
    pub(crate) fn send_packed(&mut self, packed: Packed) -> Result<(), LinkError> {
        if self.outbox.len() >= MAX_OUTBOX {
            return Err(LinkError::Stuck);
        }
        self.outbox.push_back(packed);
        self.flush().map(|_| ())
    }

    /// Whether it may be given more to send without being near its bound.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox.len() < MAX_OUTBOX / 2
    }

    /// The next message. Cancel-safe; sends what is waiting meanwhile.
    pub(crate) async fn next(&mut self) -> Result<Received<C::Event>, LinkError> {
        loop {
            if let Some(received) = self.step().await? {
                return Ok(received);
            }
        }
    }

    /// Waits until something can be read or sent, and does that; the message, where one came.
    /// Cancel-safe.
    pub(crate) async fn step(&mut self) -> Result<Option<Received<C::Event>>, LinkError> {
        let mut guard = if self.outbox.is_empty() {
            self.io.readable().await?
        } else {
            self.io
                .ready(tokio::io::Interest::READABLE | tokio::io::Interest::WRITABLE)
                .await?
        };
        let received = Self::receive(&mut guard);
        if guard.ready().is_writable() && !self.outbox.is_empty() {
            let emptied = flush(guard.get_inner(), &mut self.outbox)?;
            if !emptied {
                guard.clear_ready_matching(tokio::io::Ready::WRITABLE);
            }
        }
        received
    }

    fn receive(
        guard: &mut AsyncFdReadyGuard<'_, OwnedFd>,
    ) -> Result<Option<Received<C::Event>>, LinkError> {
        if !guard.ready().is_readable() && !guard.ready().is_read_closed() {
            return Ok(None);
        }
        BUFFER.with_borrow_mut(
            |buffer| match seqpacket::receive(guard.get_inner(), buffer) {
                Ok(Some(packet)) => {
                    let bytes = buffer.get(..packet.length).unwrap_or_default();
                    Ok(Some(Received {
                        event: C::Event::decode(bytes)?,
                        fds: packet.fds,
                        sender: packet.credentials.map(|sender| sender.pid),
                    }))
                }
                Ok(None) => Err(LinkError::Closed),
                Err(error) if error.is_would_block() => {
                    guard.clear_ready_matching(tokio::io::Ready::READABLE);
                    Ok(None)
                }
                Err(error) => Err(closed_or(error.into())),
            },
        )
    }

    fn flush(&mut self) -> Result<bool, LinkError> {
        flush(self.io.get_ref(), &mut self.outbox)
    }
}

/// Sends until the peer's buffer is full. Whether all is sent.
fn flush(socket: &OwnedFd, outbox: &mut VecDeque<Packed>) -> Result<bool, LinkError> {
    while let Some((bytes, fds)) = outbox.front() {
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        match seqpacket::send(socket, bytes, &fds) {
            Ok(()) => drop(outbox.pop_front()),
            Err(error) if error.is_would_block() => return Ok(false),
            Err(error) => return Err(closed_or(error)),
        }
    }
    Ok(true)
}

/// `EPIPE` and `ECONNRESET` are ways to say that the peer is gone.
fn closed_or(error: kernel::Error) -> LinkError {
    let gone = [Errno::PIPE, Errno::CONNRESET];
    if gone.iter().any(|errno| error.is(errno.raw_os_error())) {
        LinkError::Closed
    } else {
        LinkError::Os(error)
    }
}
