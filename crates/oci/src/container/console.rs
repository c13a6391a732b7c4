// SPDX-License-Identifier: Apache-2.0
//! The terminal of a process: a pair of the container's own devpts, whose master goes over the
//! socket that `--console-socket` named.
//!
//! Nothing on the way is taken on trust (runc's CVE-2025-52565): the folder must be a devpts, the
//! slave comes from the master itself, and what is shown as `/dev/console` is looked at to be it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use kernel::fsutil::OpenFlags;
use kernel::tty::{self, Size};
use kernel::{mount, process, seqpacket};

use crate::config::{ConsoleSize, Process};
use crate::error::{Doing, Error, Result, refuse};
use crate::root::tree::{self, Tree};

/// Where a terminal's master is to be sent.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) stream: UnixStream,
    /// A command of this runtime moves the terminal's bytes to streams of its own.
    pub(crate) relayed: bool,
}

impl Socket {
    pub(crate) fn try_clone(&self) -> Result<Socket> {
        Ok(Socket {
            stream: self.stream.try_clone().doing("dup")?,
            relayed: self.relayed,
        })
    }
}

/// Connects the socket of an engine.
pub(crate) fn connect(path: &Path) -> Result<Socket> {
    let stream = UnixStream::connect(path).doing_on("connect", path)?;
    Ok(Socket {
        stream,
        relayed: false,
    })
}

/// A terminal of the container.
#[derive(Debug)]
pub(crate) struct Console {
    master: OwnedFd,
    slave: OwnedFd,
    devpts: OwnedFd,
}

impl Console {
    /// Makes one, of the process's size.
    pub(crate) fn open(root: &Tree, process: &Process) -> Result<Console> {
        let pts = Path::new("/dev/pts");
        let folder = OpenFlags::RDONLY | OpenFlags::DIRECTORY;
        let devpts = root.open(pts, folder).doing("process.terminal: /dev/pts")?;
        if !tree::is_of(&devpts, tree::DEVPTS)? {
            return refuse("process.terminal: /dev/pts of the container isn't a devpts");
        }
        let (master, slave) = tty::open_pair_at(&devpts).doing("process.terminal")?;
        if let Some(ConsoleSize { height, width }) = process.console_size {
            let size = Size {
                columns: width,
                rows: height,
            };
            tty::set_size(&slave, size).doing("process.consoleSize")?;
        }
        let uid = rustix::fs::Uid::from_raw(process.user.uid);
        rustix::fs::fchown(&slave, Some(uid), None).doing("fchown of the terminal")?;
        Ok(Console {
            master,
            slave,
            devpts,
        })
    }

    /// Shows the slave as the container's `/dev/console`.
    pub(crate) fn show(&self, root: &Tree) -> Result<()> {
        let shown = rustix::fs::fstat(&self.slave).doing("fstat")?;
        let number = rustix::fs::minor(shown.st_rdev);
        let copy = mount::copy_tree_at(&self.devpts, Path::new(&number.to_string()), false)
            .doing("/dev/console")?;
        let stat = rustix::fs::fstat(&copy).doing("fstat")?;
        if stat.st_rdev != shown.st_rdev || stat.st_ino != shown.st_ino {
            return refuse("/dev/console: the terminal was replaced");
        }
        let target = root
            .place_of_device(Path::new("/dev/console"), 0o620)
            .doing("/dev/console")?;
        mount::attach_on(copy, target).doing("/dev/console")
    }

    /// Sends the master away, and makes the slave this process's terminal and standard streams.
    pub(crate) fn take(self, socket: &Socket) -> Result<()> {
        if socket.relayed {
            tty::keep_newlines(&self.slave)?;
        }
        let name = format!("/dev/pts/{}", self.master.as_raw_fd());
        seqpacket::send(&socket.stream, name.as_bytes(), &[self.master.as_fd()])
            .doing("send the terminal")?;
        tty::make_controlling(&self.slave).doing("the controlling terminal")?;
        let slave = process::duplicate_above(self.slave.as_fd(), 3).map_err(Error::from)?;
        for stream in 0..3 {
            process::place_fd(slave.as_fd(), stream)?;
        }
        Ok(())
    }
}
