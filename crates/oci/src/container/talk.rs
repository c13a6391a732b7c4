// SPDX-License-Identifier: Apache-2.0
//! What the runtime and the container's process say to each other until the process stands on its
//! own: packets of a socket pair. The process is trusted no further than its own failure: nothing
//! that it says makes the runtime do more than what the configuration asked for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kernel::seqpacket::{self, Mode};

use crate::error::{Doing, Error, Result, refuse};

/// The most of an error that is passed on, in bytes.
const MOST: usize = 8192;

/// What the process says.
#[derive(Debug)]
pub(crate) enum Said {
    /// Its root is put together: time for the hooks of the runtime.
    Built,
    /// The listener of its filter.
    Listener(OwnedFd),
    /// A mount that can't be seen anywhere yet, to be mapped as the configuration's mount of this
    /// number says: a process in a user namespace may not do it.
    Map(usize, OwnedFd),
    /// All is done but `start`.
    Ready,
    /// It failed, and is ending.
    Failed(Error),
    /// It ended without a word: it was killed, or the exec has closed its end.
    Gone,
}

/// One end.
#[derive(Debug)]
pub(crate) struct End(OwnedFd);

/// Both ends: the runtime's, the process's.
pub(crate) fn pair() -> Result<(End, End)> {
    let (ours, theirs) = seqpacket::pair(Mode::Blocking)?;
    Ok((End(ours), End(theirs)))
}

impl End {
    /// The process: says something and waits until it may go on. By plain calls where no descriptor
    /// goes along: a filter may be there already, and few of them refuse these.
    pub(crate) fn say_and_wait(&self, word: u8, fds: &[BorrowedFd<'_>]) -> Result<()> {
        match fds.is_empty() {
            true => drop(rustix::io::write(&self.0, &[word]).doing("write to the runtime")?),
            false => seqpacket::send(&self.0, &[word], fds)?,
        }
        self.wait()
    }

    /// The process: has a mount mapped, that of the configuration's number.
    pub(crate) fn map(&self, number: usize, mount: BorrowedFd<'_>) -> Result<()> {
        let number = u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let packet: Vec<u8> = [b'm'].into_iter().chain(number).collect();
        seqpacket::send(&self.0, &packet, &[mount])?;
        self.wait()
    }

    /// The process: waits until it may go on.
    pub(crate) fn wait(&self) -> Result<()> {
        let heard = rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut [0; 8]));
        match heard.doing("read from the runtime")? {
            0 => refuse("the runtime has ended"),
            _ => Ok(()),
        }
    }

    /// The process: says why it ends. The runtime may not be there to hear it.
    pub(crate) fn fail(&self, error: &Error) {
        let mut packet = vec![b'e'];
        packet.extend(error.to_string().bytes().take(MOST - 1));
        let _ = rustix::io::write(&self.0, &packet);
    }

    /// The runtime: lets the process go on. One that has ended says so itself.
    pub(crate) fn go(&self) {
        let _ = seqpacket::send(&self.0, b"g", &[]);
    }

    /// The runtime: hears the process.
    pub(crate) fn hear(&self) -> Result<Said> {
        let mut buffer = vec![0; MOST];
        let packet = match seqpacket::receive(&self.0, &mut buffer) {
            Ok(Some(packet)) => packet,
            Ok(None) => return Ok(Said::Gone),
            Err(error) => return refuse(error.to_string()).doing("hear the container's process"),
        };
        let mut fds = packet.fds.into_iter();
        match buffer.get(..packet.length).and_then(<[u8]>::split_first) {
            Some((b'b', _)) => Ok(Said::Built),
            Some((b'r', _)) => Ok(Said::Ready),
            Some((b'l', _)) => match fds.next() {
                Some(listener) => Ok(Said::Listener(listener)),
                None => refuse("the container's process sent no listener"),
            },
            Some((b'm', number)) => match (<[u8; 4]>::try_from(number), fds.next()) {
                (Ok(number), Some(mount)) => {
                    let number = usize::try_from(u32::from_le_bytes(number)).unwrap_or(usize::MAX);
                    Ok(Said::Map(number, mount))
                }
                _ => refuse("the container's process sent no mount"),
            },
            Some((b'e', text)) => {
                let text = String::from_utf8_lossy(text).into_owned();
                Ok(Said::Failed(Error::new(text)))
            }
            _ => refuse("the container's process said something unknown"),
        }
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
