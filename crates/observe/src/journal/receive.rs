// SPDX-License-Identifier: Apache-2.0
//! Datagrams: takes what comes through a socket, and hands entries to the desk, as many together as
//! are there. Whose they are the kernel says; what one brings beside its bytes is a sealed memfd or
//! a refusal.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use runtime::watched::watch;
use rustix::fs::SealFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};
use tokio::io::Interest;

use super::desk::{Desk, Frames};
use super::entry::LARGEST;
use super::sender::Credentials;
use super::settle::Reader;
use super::sockets::QUEUE;
use super::{native, syslog};

/// The largest datagram; what is longer comes in a memfd, as libsystemd does it.
const DATAGRAM: usize = 1 << 20;
/// A reader of a socket has taken all that this can have held when it has taken so many bytes.
pub(super) const HELD: usize = 2 * QUEUE;

/// Which protocol a datagram socket speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    Native,
    Syslog,
}

/// Datagrams that are taken before others have their turn.
const AT_ONCE: usize = 64;

/// Takes them for as long as the daemon runs.
///
/// # Errors
/// The socket can't be watched.
pub(super) async fn run(
    socket: OwnedFd,
    protocol: Protocol,
    desk: Rc<Desk>,
    mut reader: Reader,
) -> io::Result<()> {
    let socket = watch(socket, Interest::READABLE)?;
    let mut buffer = vec![0; DATAGRAM];
    let mut frames = Frames::default();
    loop {
        reader.look(socket.get_ref());
        let mut ready = tokio::select! {
            ready = socket.readable() => ready?,
            () = reader.asked() => continue,
        };
        for _ in 0..AT_ONCE {
            let room = buffer.as_mut_slice();
            let received = ready.try_io(move |it| {
                let room = room;
                receive(it.get_ref(), room)
            });
            match received {
                Ok(Ok(Some(datagram))) => {
                    reader.took(datagram.bytes.len());
                    if take(&desk, protocol, datagram, &mut frames).await.is_none() {
                        desk.refused();
                    }
                }
                Ok(Ok(None)) => desk.refused(),
                // One message that can't be received says nothing of the next.
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a message to the journal can't be received");
                    desk.refused();
                }
                Err(_would_block) => break,
            }
            if frames.is_enough() {
                break;
            }
        }
        desk.write(&mut frames).await;
        // Others have their turn, however much comes.
        tokio::task::yield_now().await;
    }
}

/// A message and who sent it.
struct Datagram<'a> {
    bytes: &'a [u8],
    credentials: Credentials,
    file: Option<OwnedFd>,
}

/// `None`: it was cut off, or the kernel doesn't say whose it is.
fn receive<'a>(socket: &OwnedFd, buffer: &'a mut [u8]) -> io::Result<Option<Datagram<'a>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = {
        let mut pieces = [IoSliceMut::new(buffer)];
        rustix::net::recvmsg(socket, &mut pieces, &mut control, flags)?
    };
    let (mut credentials, mut files) = (None, Vec::new());
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmCredentials(it) => credentials = Some(it.into()),
            RecvAncillaryMessage::ScmRights(fds) => files.extend(fds),
            _ => {}
        }
    }
    let cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
    if received.flags.intersects(cut) || files.len() > 1 {
        return Ok(None);
    }
    let bytes = buffer.get(..received.bytes).unwrap_or_default();
    Ok(credentials.map(|credentials| Datagram {
        bytes,
        credentials,
        file: files.pop(),
    }))
}

/// Puts the entries of a datagram to the frames; `None`: it is refused.
async fn take(
    desk: &Desk,
    protocol: Protocol,
    datagram: Datagram<'_>,
    frames: &mut Frames,
) -> Option<()> {
    let sender = desk.sender(datagram.credentials).await;
    let size = match &datagram.file {
        None => datagram.bytes.len(),
        Some(file) => {
            size_of(file).filter(|_| protocol == Protocol::Native && datagram.bytes.is_empty())?
        }
    };
    // Before anything of it is looked at: reading costs us, sending is cheap.
    if !desk.admits(&sender, size, frames) {
        return Some(());
    }
    let of_file;
    let bytes = match &datagram.file {
        None => datagram.bytes,
        Some(file) => {
            of_file = contents(file, size).ok()?;
            of_file.as_slice()
        }
    };
    match protocol {
        Protocol::Syslog => {
            desk.forward(bytes);
            desk.sign(&syslog::parse(bytes), &sender, "syslog", frames);
        }
        Protocol::Native => {
            for entry in native::parse(bytes).ok()? {
                desk.forward_entry(&entry);
                desk.sign(&entry, &sender, "journal", frames);
            }
        }
    }
    Some(())
}

/// The size of a memfd that can't change any more. Anything else could hold up the reader, or be
/// another thing when it is read.
fn size_of(file: &OwnedFd) -> Option<usize> {
    let seals = rustix::fs::fcntl_get_seals(file).ok()?;
    let needed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    if !seals.contains(needed) {
        return None;
    }
    let size = rustix::fs::fstat(file).ok()?.st_size;
    usize::try_from(size).ok().filter(|size| *size <= LARGEST)
}

fn contents(file: &OwnedFd, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let offset = u64::try_from(filled).unwrap_or(u64::MAX);
        match rustix::io::pread(file, rest, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => filled += read,
        }
    }
    Ok(bytes)
}
