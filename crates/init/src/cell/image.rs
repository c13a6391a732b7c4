// SPDX-License-Identifier: Apache-2.0
//! A cell with the root of an image: into that root, and what the OCI runtime specification's Linux
//! part has there (default file systems and devices, masked and read-only paths).
//!
//! The cell-init finds the root as a mount of its namespace, with flags that it can't clear
//! (`spawner/stage.rs`). It takes a copy, which keeps them, to where no lock holds it, goes there
//! by `pivot_root`, and lets go of the old root: of the node and of the template there is nothing
//! left then, but the devices, of which each is a copy of the template's.
//!
//! [`renew`] does for the PID 1 of an inner pid namespace what isn't the same there.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kernel::fsutil::OpenFlags;
use kernel::mount::{self, Attributes, Change, Propagation};
use kernel::{Context, Error, Result};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::follow;
use super::setup::{self, EMPTY, Mounts, STAGE};
use crate::failure::InStep;
use crate::protocol::{CellLaunch, Failure, ImageRoot, Namespaces, Root, Step};
use crate::spawner::stage::ROOT;
use crate::spawner::{DEVICES, LINKS};

/// The size of `/dev`, in bytes: programs put sockets and little files there.
const DEV_BYTES: u64 = 64 * 1024;
/// The size of what masks a folder, in bytes.
const MASK_BYTES: u64 = 4096;
/// Nothing can be put there.
const MASKING: Attributes = Attributes::READ_ONLY;
/// What masks a file.
const NULL: &str = "/dev/null";

const QUIET: Attributes = Attributes::NO_SUID
    .and(Attributes::NO_DEV)
    .and(Attributes::NO_EXEC);

/// Goes into the root and furnishes it.
pub(super) fn enter(
    launch: &CellLaunch,
    image: &ImageRoot,
    mounts: &Mounts,
) -> Result<(), Failure> {
    let root = mount::copy_tree(Path::new(ROOT), false).step(Step::Root)?;
    // While those of the template can be seen: without them the kernel refuses.
    let proc = view(&mounts.proc, || mount::proc(QUIET))?;
    let sys = view(&mounts.sys, || mount::sysfs(QUIET | Attributes::READ_ONLY))?;
    setup::set_parameters(launch, Some(proc.as_fd()))?;
    let devices = Devices::take(&image.file_label).step(Step::Mount)?;
    mount::attach(&root, Path::new("/")).step(Step::Root)?;
    mount::pivot_root(&root).step(Step::Root)?;
    put(&proc, "/proc")?;
    put(&sys, "/sys")?;
    devices.put().step(Step::Mount)?;
    setup::mount_terminals(launch)?;
    mount_memory(image, &mounts.queues)?;
    restrict(image, "/")?;
    share()
}

/// Lets the mounts that the cell gets later come into the namespaces of executables that have one
/// of their own.
pub(super) fn share() -> Result<(), Failure> {
    mount::set_propagation(Path::new("/"), Propagation::Shared, true).step(Step::Mount)
}

fn view(
    given: &Option<OwnedFd>,
    make: impl FnOnce() -> Result<OwnedFd>,
) -> Result<OwnedFd, Failure> {
    match given {
        Some(given) => given.try_clone().call("dup"),
        None => make(),
    }
    .step(Step::Mount)
}

/// Attaches at a path that no link of the image leads away from.
fn put(mount: &OwnedFd, path: &str) -> Result<(), Failure> {
    let path = Path::new(path);
    let target = follow::plainly(path).step(Step::Mount)?;
    mount::attach_on(mount, target)
        .map_err(|error| error.on(path))
        .step(Step::Mount)
}

/// The devices of the template and its empty folder, and what they are attached in.
struct Devices {
    dev: OwnedFd,
    bound: Vec<(&'static str, OwnedFd)>,
    empty: OwnedFd,
}

impl Devices {
    fn take(label: &str) -> Result<Devices> {
        let flags = Attributes::NO_SUID | Attributes::NO_EXEC;
        let dev = mount::labelled_tmpfs(DEV_BYTES, 0o755, label, flags)?;
        let mut bound = Vec::new();
        for (name, ..) in DEVICES {
            let path = Path::new("/dev").join(name);
            bound.push((name, mount::copy_tree(&path, false)?));
        }
        Ok(Devices {
            dev,
            bound,
            empty: mount::copy_tree(Path::new(EMPTY), false)?,
        })
    }

    fn put(&self) -> Result<()> {
        let dev = &self.dev;
        mount::attach_on(dev, follow::plainly(Path::new("/dev"))?)?;
        for (name, target) in LINKS {
            rustix::fs::symlinkat(target, dev, name).call("symlink")?;
        }
        let below = |path: &'static str| path.strip_prefix("/dev/").unwrap_or(path);
        for name in ["pts", "shm", "mqueue", below(EMPTY), below(STAGE)] {
            rustix::fs::mkdirat(dev, name, Mode::from_raw_mode(0o755)).call("mkdir")?;
        }
        for (name, device) in &self.bound {
            let mode = Mode::from_raw_mode(0o666);
            rustix::fs::mknodat(dev, *name, FileType::RegularFile, mode, 0).call("mknod")?;
            on(dev, name, device)?;
        }
        on(dev, below(EMPTY), &self.empty)
    }
}

/// Attaches on a file or folder of a mount.
fn on(dev: &OwnedFd, name: &str, mount: &OwnedFd) -> Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = rustix::fs::openat(dev, name, flags, Mode::empty());
    mount::attach_on(mount, target.call_on("open", Path::new(name))?)
}

/// `/dev/shm` and `/dev/mqueue`.
fn mount_memory(image: &ImageRoot, queues: &Option<OwnedFd>) -> Result<(), Failure> {
    let label = &image.file_label;
    let memory = match image.shared_memory_bytes {
        0 => mount::NewFileSystem::open("tmpfs")
            .and_then(|new| new.set("mode", "1777")?.label(label)?.mount(QUIET)),
        bytes => mount::labelled_tmpfs(bytes, 0o1777, label, QUIET),
    };
    put(&memory.step(Step::Mount)?, "/dev/shm")?;
    let queues = view(queues, || mount::mqueue(QUIET))?;
    put(&queues, "/dev/mqueue")
}

/// Makes paths below `folder` read-only and masks others. What isn't there needs neither.
fn restrict(image: &ImageRoot, folder: &str) -> Result<(), Failure> {
    fn paths(list: &[Vec<u8>]) -> impl Iterator<Item = &Path> {
        list.iter().map(|path| Path::new(OsStr::from_bytes(path)))
    }
    let below = |path: &&Path| path.starts_with(folder);
    for path in paths(&image.read_only).filter(below) {
        each(path, |target| {
            let copy = mount::copy_tree_at(target, Path::new(""), true)?;
            let change = Change {
                set: Attributes::READ_ONLY,
                recursive: true,
                ..Change::default()
            };
            mount::set_attributes(&copy, &change)?;
            mount::attach_on(&copy, target)
        })?;
    }
    if image.masked.is_empty() {
        return Ok(());
    }
    let null = null().step(Step::Mount)?;
    for path in paths(&image.masked).filter(below) {
        each(path, |target| {
            let stat = rustix::fs::fstat(target).call("fstat")?;
            let mask = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => mount::tmpfs(MASK_BYTES, 0o555, QUIET | MASKING)?,
                _ => mount::copy_tree_at(&null, Path::new(""), false)?,
            };
            mount::attach_on(mask, target)
        })?;
    }
    Ok(())
}

/// The null device, looked at: an earlier main process may have put something else in its place,
/// and what is shown in the place of what is masked would be its choice (runc's CVE-2025-31133).
fn null() -> Result<OwnedFd> {
    let replaced = |errno| {
        let about = "/dev/null of the cell is not the null device any more: make the cell anew";
        Error::new("mask", errno).about(about)
    };
    let null = follow::plainly(Path::new(NULL)).map_err(|_| replaced(Errno::NXIO))?;
    let stat = rustix::fs::fstat(&null).map_err(replaced)?;
    let device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    match device && stat.st_rdev == rustix::fs::makedev(1, 3) {
        true => Ok(null),
        false => Err(replaced(Errno::NXIO)),
    }
}

/// Does something with what is at a path, if anything is. A link of the image leads to what it
/// stands for in the image; there is none in what the kernel shows.
fn each(path: &Path, act: impl FnOnce(&OwnedFd) -> Result<()>) -> Result<(), Failure> {
    let of_kernel = ["/proc", "/sys"].iter().any(|at| path.starts_with(at));
    let found = match of_kernel {
        true => follow::plainly(path),
        false => follow::open(path, OpenFlags::PATH),
    };
    let done = match found {
        Err(error) if error.is_not_found() || error.is(Errno::NOTDIR.raw_os_error()) => {
            return Ok(());
        }
        target => target.and_then(|target| act(&target)),
    };
    done.map_err(|error| error.on(path)).step(Step::Mount)
}

/// In the mount namespace of an executable that is PID 1 of its own pid namespace: the proc of that
/// one, restricted as the cell's, and where it has a cgroup namespace of its own, its groups.
pub(super) fn renew(root: &Root, own: Namespaces, node_user: bool) -> Result<(), Failure> {
    // What the cell gets still comes in, and nothing that this one mounts goes out.
    mount::set_propagation(Path::new("/"), Propagation::Slave, true).step(Step::Mount)?;
    let proc = mount::proc(QUIET).step(Step::Mount)?;
    mount::unmount(Path::new("/proc"), true).step(Step::Mount)?;
    put(&proc, "/proc")?;
    let mut writes = Attributes::READ_ONLY;
    match root {
        Root::Image(image) => {
            restrict(image, "/proc")?;
            if image.own_groups {
                writes = Attributes::NONE;
            }
        }
        Root::Node | Root::Bare => setup::mask(node_user)?,
    }
    if !own.has(Namespaces::CGROUP) {
        return Ok(());
    }
    let groups = mount::cgroup2(&[], QUIET | writes).step(Step::Cgroup)?;
    each(Path::new("/sys/fs/cgroup"), |target| {
        mount::attach_on(groups.as_fd(), target)
    })
}
