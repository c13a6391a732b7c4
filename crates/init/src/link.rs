// SPDX-License-Identifier: Apache-2.0
//! An init's end of its connection to the daemon: never blocking, bounded both ways.
//!
//! A packet that can't be sent at once waits in a short queue. While that queue is full the init
//! reads no further requests, so a slow daemon slows only itself. It knows packets, not their
//! meaning.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kernel::seqpacket::{self, ReceiveError};
use kernel::{Error, Result};
use rustix::io::Errno;

use crate::codec::Packet;
use crate::poll::Interest;

/// How many packets may wait before no further request is read.
const QUEUE: usize = 32;
/// Packets larger than this don't leave their buffer behind.
const KEEP: usize = 16 * 1024;

/// A connected, non-blocking socket and what waits to be sent on it.
pub(crate) struct Link {
    socket: OwnedFd,
    queue: VecDeque<Parcel>,
    scratch: Vec<u8>,
    /// The kernel was out of memory or of descriptors in flight: not a matter of the socket being
    /// writable.
    stuck: bool,
    /// The peer is gone. What it sent before is still to be read, and its answers go nowhere.
    deaf: bool,
}

struct Parcel {
    packet: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Link {
    pub(crate) fn new(socket: OwnedFd) -> Link {
        Link {
            socket,
            queue: VecDeque::new(),
            scratch: Vec::new(),
            stuck: false,
            deaf: false,
        }
    }

    /// Whether another request may be read.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.len() < QUEUE
    }

    /// Whether everything posted is sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether to try again after a moment, rather than when the socket becomes writable.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// The events to wait for.
    pub(crate) fn interest(&self) -> Interest {
        Interest {
            read: self.has_room(),
            write: !self.queue.is_empty() && !self.stuck,
        }
    }

    /// Sends a message, or puts it in the queue with duplicates of its descriptors. To a peer that
    /// is gone it does nothing: the reader comes to the end of the connection by itself.
    ///
    /// # Errors
    /// The message can't be encoded, or there is no memory to queue it.
    pub(crate) fn post(&mut self, message: &impl Packet, fds: &[BorrowedFd<'_>]) -> Result<()> {
        if self.deaf {
            return Ok(());
        }
        let mut packet = std::mem::take(&mut self.scratch);
        let result = message
            .encode(&mut packet)
            .map_err(|error| Error::new("encode", Errno::MSGSIZE).about(error.to_string()))
            .and_then(|()| self.send_or_queue(&packet, fds));
        if packet.capacity() <= KEEP {
            self.scratch = packet;
        }
        result
    }

    fn send_or_queue(&mut self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        if self.queue.is_empty() {
            match seqpacket::send(&self.socket, packet, fds) {
                Err(error) if self.may_retry(&error) => {}
                Err(error) if self.is_gone(&error) => return Ok(()),
                result => return result,
            }
        }
        let no_memory = || Error::new("queue", Errno::NOMEM);
        let mut parcel = Parcel {
            packet: Vec::new(),
            fds: Vec::new(),
        };
        parcel
            .packet
            .try_reserve_exact(packet.len())
            .map_err(|_| no_memory())?;
        parcel.packet.extend_from_slice(packet);
        for fd in fds {
            parcel.fds.try_reserve(1).map_err(|_| no_memory())?;
            parcel.fds.push(kernel::process::duplicate_above(*fd, 3)?);
        }
        self.queue.try_reserve(1).map_err(|_| no_memory())?;
        self.queue.push_back(parcel);
        Ok(())
    }

    fn may_retry(&mut self, error: &Error) -> bool {
        let errno = Errno::from_raw_os_error(error.errno());
        self.stuck = matches!(errno, Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS);
        self.stuck || error.is_would_block()
    }

    fn is_gone(&mut self, error: &Error) -> bool {
        let errno = Errno::from_raw_os_error(error.errno());
        let gone = matches!(errno, Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN);
        if gone {
            self.peer_is_gone();
        }
        gone
    }

    /// Sends what waits, as far as it goes.
    ///
    /// # Errors
    /// A waiting packet can't be sent, also not later.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.stuck = false;
        while let Some(parcel) = self.queue.front() {
            let fds: Vec<BorrowedFd<'_>> = parcel.fds.iter().map(AsFd::as_fd).collect();
            match seqpacket::send(&self.socket, &parcel.packet, &fds) {
                Ok(()) => drop(self.queue.pop_front()),
                Err(error) if self.may_retry(&error) => return Ok(()),
                Err(error) if self.is_gone(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.queue.shrink_to(4);
        Ok(())
    }

    /// The peer's process has ended. The packets that it sent before are still read; those that
    /// wait for it are dropped.
    pub(crate) fn peer_is_gone(&mut self) {
        self.queue.clear();
        self.deaf = true;
    }

    /// Ends the conversation: the peer sees its end after what was sent.
    pub(crate) fn hang_up(&mut self) {
        self.peer_is_gone();
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// The next packet; `None` at the end of the connection, `EAGAIN` where there is nothing to
    /// read.
    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
    ) -> std::result::Result<Option<seqpacket::Packet>, ReceiveError> {
        match seqpacket::receive(&self.socket, buffer) {
            // A peer that closed without reading all: the kernel reports that once, before the
            // packets that it had sent.
            Err(ReceiveError::Os(error)) if error.is(Errno::CONNRESET.raw_os_error()) => {
                seqpacket::receive(&self.socket, buffer)
            }
            result => result,
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::NodeEvent;
    use kernel::seqpacket::Mode;

    #[test]
    fn a_dead_peers_requests_are_read_although_its_answers_fail() {
        let (ours, theirs) = seqpacket::pair(Mode::Nonblocking).unwrap();
        let mut link = Link::new(ours);
        let event = NodeEvent::Refused {
            version: 1,
            reason: "x".repeat(1000),
        };
        while link.has_room() {
            link.post(&event, &[]).unwrap();
        }
        seqpacket::send(&theirs, b"the last word", &[]).unwrap();
        drop(theirs);
        link.peer_is_gone();
        assert!(link.has_room() && link.is_flushed());
        let mut buffer = [0; 100];
        let packet = link.receive(&mut buffer).unwrap().unwrap();
        assert_eq!(&buffer[..packet.length], b"the last word");
        // An answer to it goes nowhere, and is no error.
        link.post(&event, &[]).unwrap();
        assert!(link.is_flushed() && link.receive(&mut buffer).unwrap().is_none());
    }
}
