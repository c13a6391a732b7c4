// SPDX-License-Identifier: Apache-2.0
//! A mount namespace of a program's own.
//!
//! Copies of all places are taken first, while they are as on the node; then the root gets its
//! attributes, then each place is mounted over what is there, parents before what is in them, with
//! the attributes set beforehand. So attributes are added only, never taken from a mount that the
//! node has made read-only, and no place is looked up in a mount that a program has a hand in.
//!
//! Paths are followed once, to a descriptor, whose path the kernel tells. When it is mounted the
//! path must lead there through no link at all: what is exchanged meanwhile is a failure, and
//! no other place.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kernel::fsutil::OpenFlags;
use kernel::mount::{self, Attributes, Change, NewFileSystem, Propagation};
use kernel::namespace::{self, Namespaces as Kinds};
use kernel::{Context, Error, Result, process};
use rustix::fs::{FileType, Mode, OFlags};

use super::devices::{self, Taken};
use super::places::{self, Place};
use crate::cell::follow;
use crate::cell::launch::path_of;
use crate::failure::InStep;
use crate::protocol::sandbox::{Entry, Kind, Mounts, Spread};
use crate::protocol::{Failure, Step};

/// Makes the namespace.
pub(super) fn build(wanted: &Mounts) -> std::result::Result<(), Failure> {
    let umask = process::set_umask(0);
    let root = Path::new("/");
    namespace::unshare(Kinds::MOUNT).step(Step::Sandbox)?;
    mount::set_propagation(root, Propagation::Slave, true).step(Step::Sandbox)?;
    let mut builder = Builder::new(&wanted.entries)?;
    builder.take_sources()?;
    let prefix = enter_root(wanted.root.as_deref()).step(Step::Sandbox)?;
    let found = builder.find(prefix.as_deref())?;
    let places = places::places(&wanted.entries, found);
    builder.mount(&places)?;
    if wanted.no_suid {
        let change = Change {
            set: Attributes::NO_SUID,
            recursive: true,
            ..Change::default()
        };
        mount::set_attributes_of(root, &change).step(Step::Sandbox)?;
    }
    let spread = match wanted.propagation {
        Spread::Shared => Some(Propagation::Shared),
        Spread::Slave => None,
        Spread::Private => Some(Propagation::Private),
    };
    if let Some(spread) = spread {
        mount::set_propagation(root, spread, true).step(Step::Sandbox)?;
    }
    process::set_umask(umask);
    Ok(())
}

/// Makes a folder the root. Answers its path, without links.
fn enter_root(root: Option<&[u8]>) -> Result<Option<PathBuf>> {
    let Some(root) = root else { return Ok(None) };
    let folder = follow::folder(path_of(root))?;
    let path = Names::open()?.of(&folder)?;
    if path == Path::new("/") {
        return Ok(None);
    }
    let copy = mount::copy_tree_at(&folder, Path::new(""), true)?;
    mount::attach_on(&copy, &folder)?;
    mount::pivot_root(&copy)?;
    Ok(Some(path))
}

/// The kernel's word for where a descriptor is: `/proc/self/fd`, kept open over a change of root.
struct Names(OwnedFd);

impl Names {
    fn open() -> Result<Names> {
        let path = Path::new("/proc/self/fd");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        opened.call_on("open", path).map(Names)
    }

    fn of(&self, fd: &OwnedFd) -> Result<PathBuf> {
        let number = fd.as_raw_fd().to_string();
        let path = rustix::fs::readlinkat(&self.0, number, Vec::new()).call("readlink")?;
        Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
    }
}

/// What is mounted somewhere.
enum New {
    Mount(OwnedFd),
    Devices(Taken),
}

struct Builder<'a> {
    entries: &'a [Entry],
    names: Names,
    /// By entry: what is shown there.
    new: Vec<Option<New>>,
    /// By entry: it is optional, and its source isn't there.
    absent: Vec<bool>,
}

/// Says whose failure it is.
fn of(entry: &Entry, error: &Error) -> Failure {
    let what = match error.detail() {
        "" => error.call().to_owned(),
        detail => format!("{} {detail}", error.call()),
    };
    Failure::new(
        Step::Sandbox,
        error.errno(),
        format!("{}: {what}", entry.why),
    )
}

impl<'a> Builder<'a> {
    fn new(entries: &'a [Entry]) -> std::result::Result<Builder<'a>, Failure> {
        Ok(Builder {
            entries,
            names: Names::open().step(Step::Sandbox)?,
            new: entries.iter().map(|_| None).collect(),
            absent: vec![false; entries.len()],
        })
    }

    /// Takes what is shown at places, while the root is still the node's.
    fn take_sources(&mut self) -> std::result::Result<(), Failure> {
        for (number, entry) in self.entries.iter().enumerate() {
            match source(entry) {
                Ok(new) => {
                    if let Some(slot) = self.new.get_mut(number) {
                        *slot = new;
                    }
                }
                Err(error) if entry.optional && error.is_not_found() => {
                    if let Some(absent) = self.absent.get_mut(number) {
                        *absent = true;
                    }
                }
                Err(error) => return Err(of(entry, &error)),
            }
        }
        Ok(())
    }

    /// Where the entries are, without links.
    fn find(&self, prefix: Option<&Path>) -> std::result::Result<Vec<(PathBuf, usize)>, Failure> {
        let mut found = Vec::new();
        for (number, entry) in self.entries.iter().enumerate() {
            if self.absent.get(number) == Some(&true) {
                continue;
            }
            let target = path_of(&entry.target);
            let target = match prefix.filter(|_| !entry.in_root) {
                None => target,
                // A place of the node's that isn't below the root isn't there at all.
                Some(prefix) => match target.strip_prefix(prefix) {
                    Ok(below) => below,
                    Err(_) => continue,
                },
            };
            let target = Path::new("/").join(target);
            let makes = makes_its_place(&entry.kind);
            let path = match self.new_above(entry).filter(|_| makes) {
                Some((above, rest)) => self.place(&above).map(|path| path.join(rest)),
                None => self.place(&target),
            };
            let path = match path {
                Err(error) if error.is_not_found() && makes => self.to_be(&target),
                Err(error) if error.is_not_found() && entry.optional => continue,
                path => path,
            };
            found.push((path.map_err(|error| of(entry, &error))?, number));
        }
        Ok(found)
    }

    /// The place of what is there, without links.
    fn place(&self, target: &Path) -> Result<PathBuf> {
        let there = follow::open(target, OpenFlags::PATH)?;
        self.names.of(&there)
    }

    /// The empty file system that is to be above an entry's place, and the way on from there: no
    /// link of the node's leads out of it, since it is empty.
    fn new_above(&self, entry: &Entry) -> Option<(PathBuf, PathBuf)> {
        let target = path_of(&entry.target);
        let new = self
            .entries
            .iter()
            .filter(|it| matches!(it.kind, Kind::Temporary { .. }) && it.in_root == entry.in_root);
        let above = new.map(|it| path_of(&it.target));
        let above = above.filter(|it| *it != target && target.starts_with(it));
        let top = above.min_by_key(|it| it.components().count())?;
        let rest = target.strip_prefix(top).ok()?;
        Some((Path::new("/").join(top), rest.to_owned()))
    }

    /// Where something is going to be that isn't there: the nearest folder, without links, and the
    /// rest.
    fn to_be(&self, target: &Path) -> Result<PathBuf> {
        for above in target.ancestors().skip(1) {
            match follow::folder(above) {
                Ok(there) => {
                    let rest = target.strip_prefix(above).unwrap_or(Path::new(""));
                    return Ok(self.names.of(&there)?.join(rest));
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(target.to_owned())
    }

    fn mount(&mut self, places: &[Place]) -> std::result::Result<(), Failure> {
        let mut taken = Vec::new();
        // Places that aren't there are made while the root can be written.
        for place in places.iter().filter(|it| !it.in_new) {
            if let Some(entry) = self.entries.get(place.entry)
                && let Some(Some(new)) = self.new.get(place.entry)
            {
                target(&place.path, new).map_err(|error| of(entry, &error))?;
            }
        }
        for place in places {
            taken.push(self.take(place)?);
        }
        for (place, new) in places.iter().zip(taken) {
            let Some(entry) = self.entries.get(place.entry) else {
                continue;
            };
            // What isn't in something new needs no hiding.
            let hides = place.in_new && entry.kind == Kind::Inaccessible;
            if hides && follow::plainly(&place.path).is_err_and(|it| it.is_not_found()) {
                continue;
            }
            let late = place.in_new && places::shows_the_same(&entry.kind) && !place.as_above;
            let done = match late {
                true => attach_late(place, entry),
                false => attach(place, new),
            };
            done.map_err(|error| of(entry, &error))?;
        }
        // What is empty at first is made read-only when all that is in it has its place.
        for place in places {
            let Some(entry) = self.entries.get(place.entry) else {
                continue;
            };
            if let Kind::Temporary { .. } = entry.kind
                && place.read_only
            {
                let change = Change {
                    set: Attributes::READ_ONLY,
                    ..Change::default()
                };
                let there = follow::plainly(&place.path);
                let changed = there.and_then(|it| mount::set_attributes(it, &change));
                changed.map_err(|error| of(entry, &error))?;
            }
        }
        Ok(())
    }

    /// What is to be mounted at a place, with its attributes.
    fn take(&mut self, place: &Place) -> std::result::Result<Option<New>, Failure> {
        let Some(entry) = self.entries.get(place.entry) else {
            return Ok(None);
        };
        let same = places::shows_the_same(&entry.kind);
        if place.as_above || same && (place.in_new || place.path == Path::new("/")) {
            return Ok(None);
        }
        let sourced = self.new.get_mut(place.entry).and_then(Option::take);
        let new = match sourced {
            Some(new) => Ok(new),
            None if entry.kind == Kind::Inaccessible => inaccessible(&place.path).map(New::Mount),
            None => copy_of(&place.path).map(New::Mount),
        };
        let new = new.map_err(|error| of(entry, &error))?;
        if let New::Mount(mount) = &new {
            let late = matches!(entry.kind, Kind::Temporary { .. });
            let set = match late {
                true => place.attributes().without(Attributes::READ_ONLY),
                false => place.attributes(),
            };
            let set = mount::set_attributes(mount, &everywhere(set));
            set.map_err(|error| of(entry, &error))?;
        }
        Ok(Some(new))
    }
}

/// Whether something is mounted there that doesn't come from the place itself.
fn makes_its_place(kind: &Kind) -> bool {
    !places::shows_the_same(kind) && *kind != Kind::Inaccessible
}

/// With all that is mounted below.
fn everywhere(set: Attributes) -> Change<'static> {
    Change {
        set,
        recursive: true,
        ..Change::default()
    }
}

/// A copy of what is there, with all below.
fn copy_of(path: &Path) -> Result<OwnedFd> {
    let there = follow::plainly(path)?;
    mount::copy_tree_at(there, Path::new(""), true)
}

/// What an entry brings from elsewhere.
fn source(entry: &Entry) -> Result<Option<New>> {
    let quiet = Attributes::NO_SUID | Attributes::NO_DEV | Attributes::NO_EXEC;
    let mount =
        match &entry.kind {
            Kind::Bind {
                source, recursive, ..
            } => {
                let there = follow::open(path_of(source), OpenFlags::PATH)?;
                mount::copy_tree_at(there, Path::new(""), *recursive)?
            }
            Kind::Temporary {
                options,
                attributes,
            } => {
                let set = |new: NewFileSystem, option: &crate::protocol::sandbox::MountOption| {
                    match option.value.is_empty() {
                        true => new.flag(&option.name),
                        false => new.set(&option.name, &option.value),
                    }
                };
                let new = NewFileSystem::open("tmpfs")?.set("source", "tmpfs")?;
                let attributes = Attributes::of(*attributes).without(Attributes::READ_ONLY);
                options.iter().try_fold(new, set)?.mount(attributes)?
            }
            Kind::Devices => return devices::take().map(|taken| Some(New::Devices(taken))),
            Kind::Processes { hide, only } => {
                let mut new = NewFileSystem::open("proc")?.set("source", "proc")?;
                if !hide.is_empty() {
                    new = new.set("hidepid", hide)?;
                }
                if *only {
                    new = new.set("subset", "pid")?;
                }
                new.mount(quiet)?
            }
            Kind::Kernel => mount::sysfs(quiet)?,
            Kind::Queues => mount::mqueue(quiet)?,
            Kind::Inaccessible | Kind::ReadOnly | Kind::ReadWrite | Kind::NoExec | Kind::Exec => {
                return Ok(None);
            }
        };
    Ok(Some(New::Mount(mount)))
}

fn attach(place: &Place, new: Option<New>) -> Result<()> {
    let Some(new) = new else {
        // The root, which is what it is: with other attributes. All copies are taken.
        if place.path == Path::new("/") && place.attributes() != Attributes::NONE {
            return mount::set_attributes_of(&place.path, &everywhere(place.attributes()));
        }
        return Ok(());
    };
    let target = target(&place.path, &new)?;
    match new {
        New::Mount(mount) => mount::attach_on(&mount, &target),
        New::Devices(taken) => {
            let devices = taken.put(&target)?;
            match place.attributes() {
                Attributes::NONE => Ok(()),
                // Asked for beside it: then it counts for what is mounted in it, too.
                set => mount::set_attributes(&devices, &everywhere(set)),
            }
        }
    }
}

/// A place in something that is only now mounted: other attributes of what is there.
fn attach_late(place: &Place, entry: &Entry) -> Result<()> {
    let copy = match copy_of(&place.path) {
        Err(error) if error.is_not_found() && entry.optional => return Ok(()),
        other => other?,
    };
    mount::set_attributes(&copy, &everywhere(place.attributes()))?;
    mount::attach_on(&copy, follow::plainly(&place.path)?)
}

/// Where something is mounted: a folder or a file, made where it isn't there.
fn target(path: &Path, new: &New) -> Result<OwnedFd> {
    match follow::plainly(path) {
        Err(error) if error.is_not_found() => match new {
            New::Mount(mount) if !is_folder(mount)? => follow::make_file(path),
            New::Mount(_) | New::Devices(_) => follow::make_folder(path),
        },
        other => other,
    }
}

fn is_folder(fd: impl AsFd) -> Result<bool> {
    let stat = rustix::fs::fstat(fd).call("fstat")?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// What stands for something that can't be seen: a folder of mode 0000, or a device that can't be
/// opened.
fn inaccessible(path: &Path) -> Result<OwnedFd> {
    let quiet = Attributes::NO_SUID | Attributes::NO_DEV | Attributes::NO_EXEC;
    if is_folder(follow::plainly(path)?)? {
        return mount::tmpfs(4096, 0, quiet);
    }
    // A part of a mount is copied only where that is attached: this one is, for a moment.
    let new = mount::tmpfs(4096, 0o755, quiet)?;
    let (kind, nothing) = (FileType::RegularFile, Mode::empty());
    rustix::fs::mknodat(&new, "file", kind, nothing, 0).call("mknod")?;
    let at = Path::new("/dev");
    mount::attach(&new, at)?;
    let file = rustix::fs::openat(&new, "file", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let copy = file
        .call("open")
        .and_then(|file| mount::copy_tree_at(file, Path::new(""), false));
    mount::unmount(at, true)?;
    copy
}
