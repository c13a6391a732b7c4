// SPDX-License-Identifier: Apache-2.0
//! The sockets' files, and what outlives the daemon by the port [`Keep`]: the sockets, their
//! connections, and the pipe to the mover. So what is sent while no daemon runs waits in the
//! kernel, and what was on its way to the mover is still there. What was received and not written
//! yet is lost with a killed daemon: 64 datagrams, or a piece of a connection.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use model::error::Error;
use rustix::net::sockopt;

/// What the kernel holds for us of each datagram socket.
pub(super) const QUEUE: usize = 8 << 20;

/// A descriptor that an earlier daemon has left.
#[derive(Debug)]
pub struct Kept {
    /// By which it is forgotten.
    pub number: u64,
    /// What it was called.
    pub name: String,
    /// A duplicate.
    pub fd: OwnedFd,
}

/// Keeps descriptors over the daemon's death.
pub trait Keep: Send + Sync + 'static {
    /// Keeps one; the number by which it is forgotten.
    fn keep<'a>(&'a self, name: &'a str, fd: OwnedFd) -> BoxFuture<'a, Result<u64, Error>>;
    /// Closes one that is kept.
    fn forget(&self, number: u64) -> BoxFuture<'_, ()>;
    /// All that earlier daemons have kept here.
    fn left(&self) -> BoxFuture<'_, Result<Vec<Kept>, Error>>;
}

/// The names in the folder, as systemd has them; by these they are kept, too.
const NATIVE: &str = "socket";
const SYSLOG: &str = "dev-log";
const STDOUT: &str = "stdout";
/// The ends of the pipe to the mover.
const PIPE: [&str; 2] = ["pipe, read end", "pipe, write end"];
/// What the pipe to the mover holds, in bytes.
const PIPE_SIZE: usize = 1 << 20;

/// The descriptors that an earlier daemon has left, by what they are.
#[derive(Default)]
pub(super) struct Left {
    one: HashMap<String, Kept>,
    /// Connections of the stream protocol.
    pub(super) streams: Vec<Kept>,
}

impl Left {
    pub(super) async fn by(store: &dyn Keep) -> Result<Left, Error> {
        let mut left = Left::default();
        let known = [NATIVE, SYSLOG, STDOUT, PIPE[0], PIPE[1]];
        for kept in store.left().await? {
            match known.contains(&kept.name.as_str()) {
                true => drop(left.one.insert(kept.name.clone(), kept)),
                false => left.streams.push(kept),
            }
        }
        Ok(left)
    }
}

/// The sockets of a folder.
pub(super) struct Sockets {
    pub(super) native: OwnedFd,
    pub(super) syslog: OwnedFd,
    pub(super) stdout: UnixListener,
}

impl Sockets {
    /// Those that an earlier daemon has left, where their files are still there; otherwise makes
    /// them in the place of what is there. Everybody may write to them who sees them: that is what
    /// they are for.
    pub(super) async fn open(
        folder: &Path,
        left: &mut Left,
        store: &dyn Keep,
    ) -> io::Result<Sockets> {
        std::fs::create_dir_all(folder)?;
        let mut one = async |name: &str, make: fn(&Path) -> io::Result<OwnedFd>| {
            let path = folder.join(name);
            match left.one.remove(name) {
                Some(kept) if serves(&kept.fd, &path) => return Ok(kept.fd),
                Some(other) => store.forget(other.number).await,
                None => {}
            }
            clear(&path)?;
            let socket = make(&path)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
            keep(store, name, &socket).await?;
            io::Result::Ok(socket)
        };
        Ok(Sockets {
            native: one(NATIVE, datagrams).await?,
            syslog: one(SYSLOG, datagrams).await?,
            stdout: one(STDOUT, listener).await?.into(),
        })
    }
}

/// Whether it is the socket that the file leads to.
fn serves(socket: &OwnedFd, path: &Path) -> bool {
    let named = || -> io::Result<Option<PathBuf>> {
        let socket = UnixDatagram::from(socket.try_clone()?);
        Ok(socket.local_addr()?.as_pathname().map(Path::to_owned))
    };
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    is_socket && named().is_ok_and(|it| it.as_deref() == Some(path))
}

fn datagrams(path: &Path) -> io::Result<OwnedFd> {
    let socket = UnixDatagram::bind(path)?;
    socket.set_nonblocking(true)?;
    let socket = OwnedFd::from(socket);
    sockopt::set_socket_passcred(&socket, true)?;
    // More than the usual bound needs a right that the daemon has on a machine of its own.
    if sockopt::set_socket_recv_buffer_size_force(&socket, QUEUE).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, QUEUE)?;
    }
    Ok(socket)
}

fn listener(path: &Path) -> io::Result<OwnedFd> {
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener.into())
}

/// Removes a socket that an earlier daemon has left.
fn clear(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Without its keeping the journal works as well, until the daemon ends.
async fn keep(store: &dyn Keep, name: &str, fd: &impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd().try_clone_to_owned()?;
    if let Err(error) = store.keep(name, fd).await {
        tracing::warn!(%error, name, "a socket of the journal won't outlive this daemon");
    }
    Ok(())
}

/// The pipe to the mover.
pub(super) struct Pipe {
    pub(super) read: OwnedFd,
    pub(super) write: OwnedFd,
    /// The daemon before may have died within a frame.
    pub(super) is_torn: bool,
}

impl Pipe {
    pub(super) async fn open(left: &mut Left, store: &dyn Keep) -> io::Result<Pipe> {
        let ends = PIPE.map(|name| left.one.remove(name));
        if let [Some(read), Some(write)] = ends {
            return Ok(Pipe {
                read: read.fd,
                write: write.fd,
                is_torn: true,
            });
        }
        for single in ends.into_iter().flatten() {
            store.forget(single.number).await;
        }
        let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
        let (read, write) = rustix::pipe::pipe_with(flags)?;
        // A smaller one serves, too: the bound of a user's pipes may be reached.
        let _smaller = rustix::pipe::fcntl_setpipe_size(&write, PIPE_SIZE);
        for (name, fd) in PIPE.into_iter().zip([&read, &write]) {
            keep(store, name, fd).await?;
        }
        Ok(Pipe {
            read,
            write,
            is_torn: false,
        })
    }
}
