// SPDX-License-Identifier: Apache-2.0
//! The helpers of [`super::nested`], as the spawner sees them: a socket that they speak on, and a
//! descriptor of the process. Neither is trusted to send anything: the descriptor says when a
//! helper has ended, and a helper that sends nothing is waited for until [`BOUND`] and no longer.
//!
//! The second helper runs where the enclosing cell's root can kill and stop it. So nothing here
//! depends on descriptors that a helper holds open, and both are killed once their work is done or
//! given up.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use kernel::poll::{self, Deadline, Interest};
use kernel::seqpacket::{self, Mode, Packet as Received, ReceiveError};
use kernel::signal::Signal;
use kernel::{Context, pidfd};
use rustix::io::Errno;

use crate::codec::Packet;
use crate::failure::InStep;
use crate::protocol::{Failure, Step};

/// How long the helpers may take over one cell. Undisturbed they take a millisecond.
pub(super) const BOUND: Duration = Duration::from_secs(5);

/// A pair of sockets: the spawner's end, which never blocks, and the helper's, which does.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd), Failure> {
    let (ours, theirs) = seqpacket::pair(Mode::Blocking).step(Step::Clone)?;
    rustix::io::ioctl_fionbio(&ours, true)
        .call("ioctl(FIONBIO)")
        .step(Step::Clone)?;
    Ok((ours, theirs))
}

/// A helper. It is killed when this goes.
pub(super) struct Helper {
    socket: OwnedFd,
    process: OwnedFd,
}

impl Helper {
    /// The one that speaks on this socket and is this process.
    pub(super) fn new(socket: OwnedFd, process: OwnedFd) -> Helper {
        Helper { socket, process }
    }

    pub(super) fn tell(&self, packet: &[u8]) -> Result<(), Failure> {
        seqpacket::send(&self.socket, packet, &[]).step(Step::IdMap)
    }

    /// The `0` that it says next, with a descriptor or without, or its failure; `ECHILD` if it died
    /// without a message, `ETIMEDOUT` if it sends none in time.
    pub(super) fn answer(&self, deadline: Deadline) -> Result<Option<OwnedFd>, Failure> {
        self.wait(deadline).step(Step::Clone)?;
        let mut buffer = [0; 1200];
        let packet = match seqpacket::receive(&self.socket, &mut buffer) {
            Ok(Some(packet)) => packet,
            Ok(None) => return Err(died()),
            // It has ended, and others hold copies of its socket.
            Err(error) if error.is_would_block() => return Err(died()),
            // It ended without reading what it was sent.
            Err(ReceiveError::Os(error)) if error.is(Errno::CONNRESET.raw_os_error()) => {
                return Err(died());
            }
            Err(error) => return Err(Failure::of(Step::Clone, &kernel::Error::from(error))),
        };
        understand(buffer.get(..packet.length).unwrap_or_default(), packet)
    }

    /// Waits until it sends something or has ended.
    fn wait(&self, deadline: Deadline) -> kernel::Result<()> {
        let late = || {
            let detail = "a process in the enclosing cell holds up what works at the new one";
            kernel::Error::new("poll", Errno::TIMEDOUT).about(detail)
        };
        let fds = [self.socket.as_fd(), self.process.as_fd()];
        match poll::wait_any(fds, Interest::Readable, deadline)? {
            true => Ok(()),
            false => Err(late()),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // One that has ended can't be signalled, and needn't.
        let _ = pidfd::send_signal(self.process.as_fd(), Signal::KILL);
    }
}

fn died() -> Failure {
    let detail = "a helper was killed: did the enclosing cell end? try again";
    Failure::new(Step::Clone, Errno::CHILD.raw_os_error(), detail)
}

fn understand(bytes: &[u8], packet: Received) -> Result<Option<OwnedFd>, Failure> {
    if bytes == [0] {
        return Ok(packet.fds.into_iter().next());
    }
    let unreadable = |error: crate::codec::CodecError| {
        let errno = Errno::BADMSG.raw_os_error();
        Failure::new(Step::Protocol, errno, error.to_string())
    };
    Err(Failure::decode(bytes).unwrap_or_else(unreadable))
}
