// SPDX-License-Identifier: Apache-2.0
//! The sockets: makes them, takes what comes, and hands entries to the store. One thread with tasks
//! of its own, so that neither the API waits for loggers nor the other way round. What is being
//! received is one datagram, and 48 KiB of each connection; connections are bounded.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use runtime::watched::watch;
use rustix::fs::SealFlags;
use rustix::net::sockopt;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

use super::desk::Desk;
use super::entry::LARGEST;
use super::sender::{Credentials, Sender};
use super::stdout::Text;
use super::{native, syslog};

/// The largest datagram; what is longer comes in a memfd, as libsystemd does it.
const DATAGRAM: usize = 1 << 20;
/// What the kernel holds for us of each socket.
const QUEUE: usize = 8 << 20;
/// Connections of the stream protocol; a quarter is the tenant `system`'s alone.
const CONNECTIONS: usize = 1024;
/// Of one unit, executable or user.
const OF_ONE: usize = 64;
/// Bytes of a read of a connection.
const PIECE: usize = 16 << 10;

/// Which protocol a datagram socket speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    Native,
    Syslog,
}

/// The sockets of a folder.
pub(super) struct Sockets {
    native: OwnedFd,
    syslog: OwnedFd,
    stdout: std::os::unix::net::UnixListener,
}

/// The names in the folder, as systemd has them.
const NATIVE: &str = "socket";
const SYSLOG: &str = "dev-log";
const STDOUT: &str = "stdout";

impl Sockets {
    /// Makes them in the place of what is there. Everybody may write to them who sees them: that is
    /// what they are for.
    pub(super) fn make(folder: &Path) -> io::Result<Sockets> {
        std::fs::create_dir_all(folder)?;
        let datagrams = |name: &str| -> io::Result<OwnedFd> {
            let path = clear(folder, name)?;
            let socket = std::os::unix::net::UnixDatagram::bind(&path)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
            socket.set_nonblocking(true)?;
            let socket = OwnedFd::from(socket);
            sockopt::set_socket_passcred(&socket, true)?;
            // More than the usual bound needs a right that the daemon has on a machine of its own.
            if sockopt::set_socket_recv_buffer_size_force(&socket, QUEUE).is_err() {
                sockopt::set_socket_recv_buffer_size(&socket, QUEUE)?;
            }
            Ok(socket)
        };
        let path = clear(folder, STDOUT)?;
        let stdout = std::os::unix::net::UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
        stdout.set_nonblocking(true)?;
        Ok(Sockets {
            native: datagrams(NATIVE)?,
            syslog: datagrams(SYSLOG)?,
            stdout,
        })
    }
}

/// Removes a socket that an earlier daemon has left.
fn clear(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let path = folder.join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(path),
    }
}

/// Takes what comes, for as long as the daemon runs.
///
/// # Errors
/// A socket can't be watched.
pub(super) async fn run(sockets: Sockets, desk: Rc<Desk>) -> io::Result<()> {
    let native = datagrams(sockets.native, Protocol::Native, desk.clone());
    let syslog = datagrams(sockets.syslog, Protocol::Syslog, desk.clone());
    let listener = UnixListener::from_std(sockets.stdout)?;
    let streams = streams(listener, desk);
    tokio::try_join!(native, syslog, streams).map(drop)
}

async fn datagrams(socket: OwnedFd, protocol: Protocol, desk: Rc<Desk>) -> io::Result<()> {
    let socket = watch(socket, Interest::READABLE)?;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let mut ready = socket.readable().await?;
        let room = buffer.as_mut_slice();
        let received = ready.try_io(move |it| {
            let room = room;
            receive(it.get_ref(), room)
        });
        match received {
            Ok(Ok(Some(datagram))) => take(&desk, protocol, datagram).await,
            Ok(Ok(None)) => desk.refused(),
            // One message that can't be received says nothing of the next.
            Ok(Err(error)) => {
                tracing::debug!(%error, "a message to the journal can't be received");
                desk.refused();
            }
            Err(_would_block) => {}
        }
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
            RecvAncillaryMessage::ScmCredentials(it) => credentials = Some(of(it)),
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

fn of(sent: rustix::net::UCred) -> Credentials {
    let pid = rustix::process::Pid::as_raw(Some(sent.pid));
    Credentials {
        pid: u32::try_from(pid).unwrap_or(0),
        uid: sent.uid.as_raw(),
        gid: sent.gid.as_raw(),
    }
}

async fn take(desk: &Rc<Desk>, protocol: Protocol, datagram: Datagram<'_>) {
    let sender = desk.sender(datagram.credentials).await;
    let size = match &datagram.file {
        None => datagram.bytes.len(),
        Some(file) => match size_of(file) {
            Some(size) if protocol == Protocol::Native && datagram.bytes.is_empty() => size,
            _ => return desk.refused(),
        },
    };
    // Before anything of it is looked at: reading costs us, sending is cheap.
    if !desk.admits(&sender, size).await {
        return;
    }
    let of_file;
    let bytes = match &datagram.file {
        None => datagram.bytes,
        Some(file) => match contents(file, size) {
            Ok(bytes) => {
                of_file = bytes;
                of_file.as_slice()
            }
            Err(_) => return desk.refused(),
        },
    };
    match protocol {
        Protocol::Syslog => {
            desk.forward(bytes);
            desk.keep(syslog::parse(bytes), &sender, "syslog").await;
        }
        Protocol::Native => match native::parse(bytes) {
            Ok(entries) => {
                for entry in entries {
                    desk.forward_entry(&entry);
                    desk.keep(entry, &sender, "journal").await;
                }
            }
            Err(_) => desk.refused(),
        },
    }
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

/// Connections by account.
type Open = Rc<RefCell<HashMap<String, usize>>>;

/// A connection's place, until it is dropped.
struct Place {
    open: Open,
    account: String,
}

impl Place {
    fn take(open: &Open, sender: &Sender) -> Option<Place> {
        let account = sender.account();
        let mut counts = open.borrow_mut();
        let all: usize = counts.values().sum();
        let most = match sender.is_systems() {
            true => CONNECTIONS,
            false => CONNECTIONS / 4 * 3,
        };
        let own = counts.get(&account).copied().unwrap_or(0);
        if all >= most || own >= OF_ONE {
            return None;
        }
        counts.insert(account.clone(), own + 1);
        Some(Place {
            open: open.clone(),
            account,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.borrow_mut();
        if let Some(count) = counts.get_mut(&self.account) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.account);
            }
        }
    }
}

async fn streams(listener: UnixListener, desk: Rc<Desk>) -> io::Result<()> {
    let open = Open::default();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many descriptors: others will be closed.
                tracing::warn!(%error, "a connection to the journal can't be taken");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(sent) = sockopt::socket_peercred(stream.as_fd()) else {
            continue;
        };
        let credentials = of(sent);
        let sender = desk.sender(credentials).await;
        let Some(place) = Place::take(&open, &sender) else {
            desk.refused();
            continue;
        };
        let desk = desk.clone();
        tokio::task::spawn_local(async move {
            let _place = place;
            lines(stream, credentials, &desk).await;
        });
    }
}

/// One connection, until it ends. Who has connected is asked for anew with each piece: systemd-cat
/// executes its program after it has connected.
async fn lines(stream: UnixStream, credentials: Credentials, desk: &Rc<Desk>) {
    let mut text = Text::default();
    let mut buffer = vec![0; PIECE];
    loop {
        if stream.readable().await.is_err() {
            break;
        }
        let piece = match stream.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => buffer.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        let Ok(entries) = text.take(piece) else {
            return desk.refused();
        };
        let sender = desk.sender(credentials).await;
        for entry in entries {
            if desk.admits(&sender, entry.size()).await {
                desk.forward_entry(&entry);
                desk.keep(entry, &sender, "stdout").await;
            }
        }
        tokio::task::yield_now().await;
    }
    if let Some(entry) = text.finish() {
        let sender = desk.sender(credentials).await;
        if desk.admits(&sender, entry.size()).await {
            desk.keep(entry, &sender, "stdout").await;
        }
    }
}
