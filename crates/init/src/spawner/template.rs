// SPDX-License-Identifier: Apache-2.0
//! The template: every cell's mount namespace is a copy of this one.
//!
//! It is made once, with the node's privileges, by the spawner, which then stays in it. A clone
//! into a new user *and* mount namespace gets a copy in which all of this is locked: the cell's
//! root can't remount, unmount or look under any of it, whatever capabilities it has there. Made by
//! the cell itself it could all be undone.
//!
//! * `/`: a read-only tmpfs with an allow-list of the node's folders ([`super::root`]);
//! * `/dev`: a read-only tmpfs with the six devices that need no privilege, and what programs
//!   expect there;
//! * `/proc`, `/sys`: of a pid and a network namespace that no process is in. The kernel lets a
//!   cell mount its own over them because they are there.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::clone::{self, Cloned};
use kernel::mount::{self, Attributes, Change, Propagation};
use kernel::namespace::{self, Namespaces};
use kernel::seqpacket::{self, Mode};
use kernel::wait::{self, ExitStatus, Reap, Target};
use kernel::{Context, Error, Result, process};
use rustix::fs::{CWD, FileType, Mode as FileMode};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::root;
use crate::cell::setup::{EMPTY, STAGE};

/// Devices of every cell: name, major, minor.
pub(crate) const DEVICES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];
/// Links in `/dev`: name, target.
pub(crate) const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Moves this process into a new mount namespace with the template as its root.
///
/// `hide` are folders of the node that no cell sees; `allowed` is what it sees of the node's root.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`; `EINVAL` from `pivot_root` where the root is an initramfs; what
/// `allowed` names and no cell can be shown.
pub(super) fn enter(hide: &[PathBuf], allowed: &[PathBuf]) -> Result<()> {
    let (proc, sys) = (empty_proc()?, empty_sys()?);
    namespace::unshare(Namespaces::MOUNT)?;
    mount::set_propagation(Path::new("/"), Propagation::Private, true)?;
    let plan = root::plan(hide, allowed)?;
    let (devices, bound) = devices()?;
    let root = root::empty()?;
    // Over the old root, which everything here is copied from and nothing needs any more.
    mount::attach(&root, Path::new("/"))?;
    mount::pivot_root(root)?;
    plan.carry_out()?;
    mount::attach(&proc, Path::new("/proc"))?;
    mount::attach(&sys, Path::new("/sys"))?;
    mount::attach(&devices, Path::new("/dev"))?;
    for (name, device) in bound {
        mount::attach(&device, &Path::new("/dev").join(name))?;
    }
    root::seal()
}

/// A proc that shows nothing: its pid namespace ends with the child that mounts it.
fn empty_proc() -> Result<OwnedFd> {
    made_in(Namespaces::PID, || mount::proc(quiet()))
}

/// A sysfs without any network device.
fn empty_sys() -> Result<OwnedFd> {
    made_in(Namespaces::NET, || {
        mount::sysfs(quiet() | Attributes::READ_ONLY)
    })
}

fn quiet() -> Attributes {
    Attributes::NO_SUID | Attributes::NO_DEV | Attributes::NO_EXEC
}

/// Lets a child in new namespaces create a mount and send it.
fn made_in(namespaces: Namespaces, make: impl Fn() -> Result<OwnedFd>) -> Result<OwnedFd> {
    let (ours, theirs) = seqpacket::pair(Mode::Blocking)?;
    match clone::clone(clone::Options {
        namespaces,
        ..Default::default()
    })? {
        Cloned::Child => {
            let sent = make().and_then(|fd| seqpacket::send(&theirs, &[0], &[fd.as_fd()]));
            process::exit(sent.map_or_else(|error| error.errno(), |()| 0))
        }
        Cloned::Parent(pid, _) => {
            drop(theirs);
            let exit = wait::wait(Target::Pid(pid), Reap::Yes)?;
            let mut buffer = [0; 1];
            let packet = seqpacket::receive(&ours, &mut buffer)?;
            packet
                .and_then(|packet| packet.fds.into_iter().next())
                .ok_or_else(|| {
                    let errno = match exit.status {
                        ExitStatus::Code(code) => i32::from(code),
                        ExitStatus::Signal { .. } => Errno::CHILD.raw_os_error(),
                    };
                    Error::from_raw("mount an empty proc or sysfs", errno)
                })
        }
    }
}

/// A device of the node, to be attached at `/dev/NAME`.
type Bound = (&'static str, OwnedFd);

/// The `/dev` of every cell, and what is to be attached in it. What changes (terminals, shared
/// memory) each cell mounts on top.
fn devices() -> Result<(OwnedFd, Vec<Bound>)> {
    let dev = mount::tmpfs(64 * 1024, 0o755, Attributes::NO_SUID | Attributes::NO_EXEC)?;
    let mut bound = Vec::new();
    for (name, major, minor) in DEVICES {
        if !make_device(&dev, name, rustix::fs::makedev(major, minor))? {
            bound.push((
                name,
                mount::copy_tree(&Path::new("/dev").join(name), false)?,
            ));
        }
    }
    for (name, target) in LINKS {
        rustix::fs::symlinkat(target, &dev, name).call("symlink")?;
    }
    let below = |path: &'static str| path.strip_prefix("/dev/").unwrap_or(path);
    for name in ["pts", "shm", below(EMPTY), below(STAGE)] {
        rustix::fs::mkdirat(&dev, name, FileMode::from_raw_mode(0o755)).call("mkdir")?;
    }
    let set = Attributes::READ_ONLY;
    mount::set_attributes(
        &dev,
        &Change {
            set,
            ..Change::default()
        },
    )?;
    Ok((dev, bound))
}

/// A device node; `false` where none may be made (in a container), and a file stands there to be
/// bound over.
fn make_device(dev: &OwnedFd, name: &str, number: u64) -> Result<bool> {
    let mode = FileMode::from_raw_mode(0o666);
    match rustix::fs::mknodat(dev, name, FileType::CharacterDevice, mode, number) {
        Ok(()) => Ok(true),
        Err(Errno::PERM) => {
            rustix::fs::mknodat(dev, name, FileType::RegularFile, mode, 0).call("mknod")?;
            Ok(false)
        }
        Err(errno) => Err(Error::new("mknod", errno).about(name.to_owned())),
    }
}

/// Whether a cell can be created from here: a trial of a cell-init's steps with all namespaces new,
/// in a child.
///
/// In a container whose /proc is masked, or where user namespaces are off, the kernel refuses, and
/// it is better to know before the first cell.
pub(super) fn try_isolation() -> Result<()> {
    const QUIET: MountFlags = MountFlags::NOSUID
        .union(MountFlags::NODEV)
        .union(MountFlags::NOEXEC);
    fn mount_both() -> Result<()> {
        let mount = |kind: &'static CStr, path: &'static str, flags: MountFlags| {
            rustix::mount::mount(kind, path, kind, QUIET | flags, None)
                .call_on("mount", Path::new(path))
        };
        mount(c"proc", "/proc", MountFlags::empty())?;
        // As in a cell: the visible one is read-only, so a writable one would show more.
        mount(c"sysfs", "/sys", MountFlags::RDONLY)
    }
    let options = clone::Options {
        namespaces: Namespaces::ALL,
        ..Default::default()
    };
    match clone::clone(options)? {
        Cloned::Child => process::exit(mount_both().map_or_else(|error| error.errno(), |()| 0)),
        Cloned::Parent(pid, _) => match wait::wait(Target::Pid(pid), Reap::Yes)?.status {
            ExitStatus::Code(0) => Ok(()),
            ExitStatus::Code(errno) => {
                let about =
                    "a cell's own proc and sysfs: is the node's /proc masked by a container?";
                Err(Error::from_raw("mount", errno.into()).about(about))
            }
            ExitStatus::Signal { .. } => {
                Err(Error::new("clone3", Errno::CHILD).about("the trial was killed"))
            }
        },
    }
}

/// Nothing but `/dev/null` as standard streams: what cell-inits inherit.
pub(super) fn forget_streams() -> Result<()> {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let null = rustix::fs::openat(CWD, "/dev/null", flags, FileMode::empty())
        .call_on("open", Path::new("/dev/null"))?;
    (0..3).try_for_each(|number| process::place_fd(null.as_fd(), number))
}
