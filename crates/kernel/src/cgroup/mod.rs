// SPDX-License-Identifier: Apache-2.0
//! Control groups, version 2.
//!
//! A [`Cgroup`] is a descriptor of a group's directory; names are resolved below that directory. A
//! group that was removed and created again is another one, and no symbolic link leads away.
//!
//! * [`find`]: where cgroup2 is mounted and which group the caller is in. Never a fixed path.
//! * this file: making, removing, controllers, freezing, killing, waiting until empty.
//! * [`limits`]: what a group may use. * [`usage`]: what it has used. * [`disks`]: the disks that
//!   `io.max` may name. * [`devices`]: the devices that may be used in a group.
//!
//! It moves no process between groups: that is slow, and everything is cloned into its group
//! ([`crate::clone::Options::cgroup`]). [`Cgroup::enter`] is for a daemon that moves *itself* at
//! start.
//!
//! Waiting is on `cgroup.events`, which the kernel wakes when it changes. Version 1 is not
//! supported; nor are threaded groups.

pub mod addresses;
pub mod devices;
pub mod disks;
pub mod find;
pub mod limits;
mod parse;
mod protect;
pub mod usage;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::fsutil::read_all_pseudo;
use crate::poll::{self, Deadline, Interest};
use crate::{Context, Error, Result};

pub use limits::{Bound, CpuMax, IoMax, Limits};
pub use usage::{CpuStat, IoStat, MemoryEvents, MemoryUsage, PidsUsage};

/// One control group: a descriptor of its directory, and the path for messages.
#[derive(Debug)]
pub struct Cgroup {
    directory: OwnedFd,
    path: PathBuf,
}

/// The state of a group, from `cgroup.events`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Events {
    /// A process lives in the group or below.
    pub populated: bool,
    /// Every process of the group and below is stopped by the freezer.
    pub frozen: bool,
}

impl Cgroup {
    /// The group of this directory, for instance one below [`find::mount_point`].
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`: there is no such directory, or `path` is a symbolic link. `ENOTTY`: the
    /// directory is not in a cgroup2 file system.
    pub fn open(path: &Path) -> Result<Cgroup> {
        let directory =
            rustix::fs::open(path, DIRECTORY, Mode::empty()).call_on("open cgroup", path)?;
        let kind = rustix::fs::fstatfs(&directory)
            .call_on("open cgroup", path)?
            .f_type;
        if kind != rustix::fs::FsWord::from(CGROUP2_MAGIC) {
            // A folder of another kind would be taken for a group whose every process may be
            // killed.
            return Err(Error::new("open cgroup", Errno::NOTTY)
                .on(path)
                .about("it is not in a cgroup2 file system"));
        }
        Ok(Cgroup {
            directory,
            path: path.to_owned(),
        })
    }

    /// The group of a directory's descriptor, for instance a received one. `path` is for messages
    /// alone.
    pub fn from_fd(directory: OwnedFd, path: impl Into<PathBuf>) -> Cgroup {
        Cgroup {
            directory,
            path: path.into(),
        }
    }

    /// The group that the caller is in.
    ///
    /// # Errors
    /// `ENOENT`: cgroup2 is not mounted. `EXDEV`: the caller's group is outside of what is mounted,
    /// see [`find::own_path`].
    pub fn own() -> Result<Cgroup> {
        Cgroup::open(&find::own_path()?)
    }

    /// The path that it was opened by; empty where it was received without one.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A second handle of the same group.
    ///
    /// # Errors
    /// `EMFILE`: the process has as many descriptors as `RLIMIT_NOFILE` allows.
    pub fn try_clone(&self) -> Result<Cgroup> {
        let directory = rustix::io::fcntl_dupfd_cloexec(&self.directory, 3).call("fcntl")?;
        Ok(Cgroup {
            directory,
            path: self.path.clone(),
        })
    }

    /// Gives up the handle for the directory's descriptor.
    pub fn into_fd(self) -> OwnedFd {
        self.directory
    }

    /// Opens a group directly below.
    ///
    /// # Errors
    /// `EINVAL`: `name` is not a single name. `ENOENT`: there is no such group, or this one was
    /// removed.
    pub fn child(&self, name: impl AsRef<OsStr>) -> Result<Cgroup> {
        let name = name.as_ref();
        let path = self.child_path(name)?;
        let directory = rustix::fs::openat(&self.directory, name, DIRECTORY, Mode::empty())
            .call_on("open cgroup", &path)?;
        Ok(Cgroup { directory, path })
    }

    /// Opens a group anywhere below.
    ///
    /// # Errors
    /// `EINVAL`: `below` is empty, absolute, or has a `.` or `..` in it. `ENOENT`: there is no such
    /// group. `ENOTDIR`: a part of the path is a file.
    pub fn descendant(&self, below: &Path) -> Result<Cgroup> {
        let path = self.path.join(below);
        let plain = |part| matches!(part, std::path::Component::Normal(_));
        if below.as_os_str().is_empty() || !below.components().all(plain) {
            return Err(Error::new("open cgroup", Errno::INVAL).on(&path));
        }
        let directory = rustix::fs::openat(&self.directory, below, DIRECTORY, Mode::empty())
            .call_on("open cgroup", &path)?;
        Ok(Cgroup { directory, path })
    }

    /// The kernel's number of the group. No other group has it as long as this one exists.
    ///
    /// # Errors
    /// What `fstat` answers. The kernel has no error for the open directory of a group.
    pub fn id(&self) -> Result<u64> {
        let meta = rustix::fs::fstat(&self.directory).call_on("stat cgroup", &self.path)?;
        Ok(meta.st_ino)
    }

    /// Writes a mark on the group that only the node's root can write: an extended attribute
    /// `trusted.NAME`. It is removed with the group.
    ///
    /// # Errors
    /// `EPERM`: the caller has no `CAP_SYS_ADMIN` in the initial user namespace. `EOPNOTSUPP`: the
    /// kernel has no such attributes on cgroup2.
    pub fn set_mark(&self, name: &str, value: &[u8]) -> Result<()> {
        let name = format!("trusted.{name}");
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::fsetxattr(&self.directory, name.as_str(), value, flags)
            .call_on("fsetxattr", &self.path)
    }

    /// Reads a mark of at most 64 bytes; `None` where the group has none of that name.
    ///
    /// # Errors
    /// `ERANGE`: the mark is longer than 64 bytes. `EOPNOTSUPP`: the kernel has no such attributes
    /// on cgroup2.
    pub fn mark(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let (name, mut value) = (format!("trusted.{name}"), [0u8; 64]);
        match rustix::fs::fgetxattr(&self.directory, name.as_str(), &mut value[..]) {
            Ok(length) => Ok(value.get(..length).map(<[u8]>::to_vec)),
            Err(Errno::NODATA) => Ok(None),
            Err(errno) => Err(Error::new("fgetxattr", errno).on(&self.path)),
        }
    }

    /// Lets members of a group of users write `cgroup.procs`. The kernel asks for that right on the
    /// common ancestor when a process clones a child from one group below it into another.
    ///
    /// # Errors
    /// `EPERM`: the caller doesn't own the file. `ENOENT`: the group was removed.
    pub fn let_group_clone(&self, gid: u32) -> Result<()> {
        let (none, file) = (AtFlags::empty(), "cgroup.procs");
        let group = Some(rustix::fs::Gid::from_raw(gid));
        let path = self.path.join(file);
        rustix::fs::chownat(&self.directory, file, None, group, none).call_on("chown", &path)?;
        rustix::fs::chmodat(&self.directory, file, Mode::from(0o664), none).call_on("chmod", &path)
    }

    /// Makes a group directly below.
    ///
    /// # Errors
    /// `EEXIST`: there is one of that name. `EAGAIN`: `cgroup.max.descendants` or
    /// `cgroup.max.depth` of a group above is reached. `EINVAL`: `name` is not a single name.
    /// `EACCES`: the caller may not write here. `ENOENT`: this group was removed.
    pub fn create(&self, name: &str) -> Result<Cgroup> {
        let path = self.child_path(name.as_ref())?;
        rustix::fs::mkdirat(&self.directory, name, Mode::from(0o755))
            .call_on("mkdir cgroup", &path)?;
        self.child(name)
    }

    /// Makes a group directly below, or opens the one that is there.
    ///
    /// # Errors
    /// Those of [`Cgroup::create`] but `EEXIST`.
    pub fn ensure(&self, name: &str) -> Result<Cgroup> {
        match self.create(name) {
            Err(e) if e.is(libc::EEXIST) => self.child(name),
            other => other,
        }
    }

    /// The names of the groups directly below.
    ///
    /// # Errors
    /// `ENOENT`: this group was removed.
    pub fn children(&self) -> Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.directory).call_on("readdir", &self.path)? {
            let entry = entry.call_on("readdir", &self.path)?;
            let name = entry.file_name().to_bytes();
            if entry.file_type().is_dir() && name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        Ok(names)
    }

    /// Lets a user and its group make groups below, up to so many and so deep, and move processes
    /// and controllers about there. What holds for the group itself stays the caller's to say: the
    /// files of its limits, these two among them, keep their owner.
    ///
    /// # Errors
    /// `EPERM`: the caller doesn't own the group. `ENOENT`: the group was removed.
    pub fn delegate(&self, owner: (u32, u32), groups: u32, depth: u32) -> Result<()> {
        self.write("cgroup.max.descendants", &groups.to_string())?;
        self.write("cgroup.max.depth", &depth.to_string())?;
        let user = Some(rustix::fs::Uid::from_raw(owner.0));
        let group = Some(rustix::fs::Gid::from_raw(owner.1));
        for file in DELEGATED {
            rustix::fs::chownat(&self.directory, file, user, group, AtFlags::empty())
                .call_on("chown", &self.path.join(file))?;
        }
        Ok(())
    }

    /// The groups directly below, with their names: those that can be opened and whose names are
    /// text. For a walk over what is there, where a group that just goes is no failure.
    pub fn groups(&self) -> Vec<(String, Cgroup)> {
        let names = self.children().unwrap_or_default().into_iter();
        let names = names.filter_map(|name| name.into_string().ok());
        names
            .filter_map(|name| self.child(&name).ok().map(|group| (name, group)))
            .collect()
    }

    /// Removes a group directly below and everything below that. Waits until each is empty; kills
    /// no process. A group that isn't there counts as removed.
    ///
    /// # Errors
    /// `ETIMEDOUT`: a process still lived in one of them after `within`; groups that were empty are
    /// removed by then. `EBUSY`: the kernel had not yet let go of the last process. `EINVAL`:
    /// `name` is not a single name.
    pub fn remove(&self, name: &str, within: Duration) -> Result<()> {
        self.remove_by(name.as_ref(), Deadline::after(within))
    }

    /// Removes the group itself if no process is in it and no group below it. Whether it is gone.
    ///
    /// # Errors
    /// `EACCES`, `EROFS`: the hierarchy can't be written.
    pub fn remove_empty(&self) -> Result<bool> {
        match rustix::fs::rmdir(&self.path) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::BUSY | Errno::NOTEMPTY) => Ok(false),
            Err(errno) => Err(Error::new("rmdir cgroup", errno).on(&self.path)),
        }
    }

    fn remove_by(&self, name: &OsStr, deadline: Deadline) -> Result<()> {
        check_name(name)?;
        // Mostly it is empty by now, and there is nothing to look at first.
        let removed = rustix::fs::unlinkat(&self.directory, name, AtFlags::REMOVEDIR);
        if matches!(removed, Ok(()) | Err(Errno::NOENT)) {
            return Ok(());
        }
        let child = match self.child(name) {
            Err(e) if e.is_not_found() => return Ok(()),
            other => other?,
        };
        for below in child.children()? {
            child.remove_by(&below, deadline)?;
        }
        child.wait_events(deadline, |events| !events.populated)?;
        loop {
            match rustix::fs::unlinkat(&self.directory, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                // The last process has left but is still being taken apart; the kernel sends no
                // event for that end, so the events file only paces the question.
                Err(Errno::BUSY) if !deadline.passed() => {
                    let file = child.open_file("cgroup.events", OFlags::RDONLY)?;
                    child.events_of(&file)?;
                    let pace = Deadline::after(Duration::from_millis(5));
                    poll::wait(&file, Interest::Priority, pace)?;
                }
                Err(errno) => return Err(Error::new("rmdir cgroup", errno).on(&child.path)),
            }
        }
    }

    /// The controllers that the group can use or hand on (`cgroup.controllers`).
    ///
    /// # Errors
    /// `ENOENT`: the group was removed.
    pub fn controllers(&self) -> Result<Vec<String>> {
        Ok(parse::words(&self.read("cgroup.controllers")?))
    }

    /// The controllers handed on to the groups below (`cgroup.subtree_control`).
    ///
    /// # Errors
    /// `ENOENT`: the group was removed.
    pub fn enabled(&self) -> Result<Vec<String>> {
        Ok(parse::words(&self.read("cgroup.subtree_control")?))
    }

    /// Hands controllers on to the groups below.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the group has not got one of the controllers itself; the message names the
    /// first. `EBUSY`: processes are in the group (the root excepted). `EACCES`: the caller may not
    /// write here. `ENOENT`: the group was removed.
    pub fn enable<S: AsRef<str>>(&self, controllers: &[S]) -> Result<()> {
        let available = self.controllers()?;
        for wanted in controllers {
            if !available.iter().any(|c| c == wanted.as_ref()) {
                return Err(self.missing_controller(wanted.as_ref(), "cgroup.subtree_control"));
            }
        }
        let value: Vec<_> = controllers
            .iter()
            .map(|c| format!("+{}", c.as_ref()))
            .collect();
        if value.is_empty() {
            return Ok(());
        }
        self.write("cgroup.subtree_control", &value.join(" "))
    }

    fn missing_controller(&self, controller: &str, file: &str) -> Error {
        let path = self.path.display();
        Error::new("cgroup", Errno::OPNOTSUPP).about(format!(
            "{file} needs the {controller} controller, which {path} does not have: \
             mount it as cgroup2 and enable it in every group above"
        ))
    }

    /// Writes one of the group's files, in one write as the kernel wants it.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the file's controller is not enabled for the group; the message names it.
    /// `ENOENT`: there is no such file, or the group was removed. `EACCES`: the caller may not
    /// write the file. `EINVAL`, `ERANGE` and others: the kernel refuses the value, which the
    /// message repeats.
    pub fn write(&self, file: &str, value: &str) -> Result<()> {
        let open = self.open_file(file, OFlags::WRONLY)?;
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&open, value.as_bytes()));
        match written {
            Ok(_) => Ok(()),
            Err(errno) => {
                let path = self.path.join(file);
                Err(Error::new("write cgroup", errno)
                    .about(format!("{value:?} to {}", path.display())))
            }
        }
    }

    /// Reads one of the group's files.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the file's controller is not enabled for the group. `ENOENT`: there is no such
    /// file, or the group was removed. `ENODEV`: the group was removed between opening and reading.
    pub fn read(&self, file: &str) -> Result<String> {
        let open = self.open_file(file, OFlags::RDONLY)?;
        read_all_pseudo(&open).map_err(|errno| {
            let path = self.path.join(file);
            Error::new("read cgroup", errno).on(&path)
        })
    }

    /// Opens one of the group's files: `cgroup.events` to poll for `POLLPRI`, `memory.events`
    /// likewise.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the file's controller is not enabled for the group. `ENOENT`: there is no such
    /// file, or the group was removed.
    pub fn open_events(&self, file: &str) -> Result<OwnedFd> {
        self.open_file(file, OFlags::RDONLY)
    }

    fn open_file(&self, file: &str, mode: OFlags) -> Result<OwnedFd> {
        check_name(file.as_ref())?;
        let flags = mode | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::openat(&self.directory, file, flags, Mode::empty()) {
            Ok(fd) => Ok(fd),
            // The group itself may be gone: then its files are, and that isn't a missing
            // controller.
            Err(Errno::NOENT) => Err(self.explain_missing(file)),
            Err(errno) => Err(Error::new("open cgroup", errno).on(&self.path.join(file))),
        }
    }

    fn explain_missing(&self, file: &str) -> Error {
        let plain = Error::new("open cgroup", Errno::NOENT).on(&self.path.join(file));
        let controller = file.split('.').next().unwrap_or(file);
        if controller == "cgroup" {
            return plain;
        }
        match self.controllers() {
            Ok(available) if available.iter().any(|c| c == controller) => plain,
            Ok(_) => self.missing_controller(controller, file),
            Err(_) => plain,
        }
    }

    /// The pids of the processes directly in the group, as the caller's pid namespace has them.
    ///
    /// # Errors
    /// `ENOENT`, `ENODEV`: the group was removed. `EOPNOTSUPP`: the group is threaded.
    pub fn processes(&self) -> Result<Vec<i32>> {
        Ok(parse::numbers(&self.read("cgroup.procs")?))
    }

    /// Moves the calling process, all its threads, here.
    ///
    /// # Errors
    /// `EBUSY`: controllers are enabled for the groups below. `EACCES`: the caller may not write
    /// `cgroup.procs` here or in the common ancestor of both groups. `ENOENT`: the group was
    /// removed.
    pub fn enter(&self) -> Result<()> {
        self.write("cgroup.procs", "0")
    }

    /// Reads `cgroup.events`.
    ///
    /// # Errors
    /// `ENOENT`: the group was removed, or it is the root of the hierarchy, which has no such file.
    pub fn events(&self) -> Result<Events> {
        Ok(parse::events(&self.read("cgroup.events")?))
    }

    /// Waits until no process lives in the group or below.
    ///
    /// # Errors
    /// `ETIMEDOUT`: one still lived there after `within`. `ENOENT`: the group was removed before
    /// the call; one that is removed during the call is empty.
    pub fn wait_empty(&self, within: Duration) -> Result<()> {
        self.wait_events(Deadline::after(within), |events| !events.populated)
    }

    /// Stops every process of the group and below, and waits until they are stopped.
    ///
    /// # Errors
    /// `ETIMEDOUT`: some still ran after `within`; they stop as soon as they can, unless
    /// [`Cgroup::thaw`] is called. `ENOENT`: the group was removed, or it is the root of the
    /// hierarchy.
    pub fn freeze(&self, within: Duration) -> Result<()> {
        self.write("cgroup.freeze", "1")?;
        self.wait_events(Deadline::after(within), |events| {
            events.frozen || !events.populated
        })
    }

    /// Lets the processes of the group and below go on, and waits until the group isn't frozen.
    ///
    /// # Errors
    /// `ETIMEDOUT`: the group was still frozen after `within`, because one above it is. `ENOENT`:
    /// the group was removed, or it is the root of the hierarchy.
    pub fn thaw(&self, within: Duration) -> Result<()> {
        self.write("cgroup.freeze", "0")?;
        self.wait_events(Deadline::after(within), |events| !events.frozen)
    }

    fn wait_events(&self, deadline: Deadline, done: impl Fn(Events) -> bool) -> Result<()> {
        let file = self.open_file("cgroup.events", OFlags::RDONLY)?;
        loop {
            // Read before polling: a change since this read wakes the poll.
            match self.events_of(&file) {
                Ok(events) if done(events) => return Ok(()),
                Ok(_) => {}
                // Removed meanwhile: nothing lives there.
                Err(e) if e.is(libc::ENODEV) && done(Events::default()) => return Ok(()),
                Err(e) => return Err(e),
            }
            if !poll::wait(&file, Interest::Priority, deadline)? {
                return Err(Error::new("wait for cgroup.events", Errno::TIMEDOUT).on(&self.path));
            }
        }
    }

    fn events_of(&self, file: &OwnedFd) -> Result<Events> {
        let mut buffer = [0; 256];
        let length =
            rustix::io::pread(file, &mut buffer, 0).call_on("read cgroup.events", &self.path)?;
        let text = buffer.get(..length).unwrap_or_default();
        Ok(parse::events(&String::from_utf8_lossy(text)))
    }

    /// Kills every process of the group and below, frozen ones too, and returns at once.
    ///
    /// Before Linux 5.14 there is no `cgroup.kill`: then every process found is killed, until none
    /// is. Give that a bound with [`Cgroup::kill_and_wait`].
    ///
    /// # Errors
    /// `ENOENT`: the group was removed, or it is the root of the hierarchy. `EACCES`: the caller
    /// may not write here. `EPERM`: before Linux 5.14, the caller may not signal one of the
    /// processes.
    pub fn kill(&self) -> Result<()> {
        match self.write("cgroup.kill", "1") {
            // The hierarchy's root has neither file, and holds everything that runs on the machine.
            Err(e) if e.is_not_found() && self.read("cgroup.events").is_ok() => self.kill_each(),
            other => other,
        }
    }

    /// [`Cgroup::kill`], again until no process lives there.
    ///
    /// # Errors
    /// `ETIMEDOUT`: one still lived there after `within`, for instance in uninterruptible sleep.
    /// Else those of [`Cgroup::kill`].
    pub fn kill_and_wait(&self, within: Duration) -> Result<()> {
        let deadline = Deadline::after(within);
        loop {
            self.kill()?;
            // A process cloned from outside into the group just after the kill needs another.
            let slice = Duration::from_millis(250).min(deadline.remaining().unwrap_or_default());
            match self.wait_empty(slice) {
                Err(e) if e.is(libc::ETIMEDOUT) && !deadline.passed() => {}
                other => return other,
            }
        }
    }

    fn kill_each(&self) -> Result<()> {
        for name in self.children()? {
            match self.child(name) {
                Ok(child) => child.kill_each()?,
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(e),
            }
        }
        for pid in self.processes()? {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(errno) => return Err(Error::new("kill", errno).on(&self.path)),
                }
            }
        }
        Ok(())
    }

    fn child_path(&self, name: &OsStr) -> Result<PathBuf> {
        check_name(name)?;
        Ok(self.path.join(name))
    }
}

/// The folder of a group and its files that a user has who may make groups below it; cgroups(7),
/// "Cgroups delegation".
const DELEGATED: [&str; 4] = [
    ".",
    "cgroup.procs",
    "cgroup.threads",
    "cgroup.subtree_control",
];

/// `CGROUP2_SUPER_MAGIC` of statfs(2).
const CGROUP2_MAGIC: u32 = 0x6367_7270;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// A single name: nothing that leads elsewhere.
fn check_name(name: &OsStr) -> Result<()> {
    let leads_away = |byte: &u8| [b'/', b'\n', 0].contains(byte);
    let bytes = name.as_bytes();
    if bytes.is_empty() || name == "." || name == ".." || bytes.iter().any(leads_away) {
        return Err(Error::invalid("cgroup", "").about(format!("not a single name: {name:?}")));
    }
    Ok(())
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}
