// SPDX-License-Identifier: Apache-2.0
//! New file systems, as detached mounts: `fsopen`, `fsconfig`, `fsmount`.

use std::os::fd::{AsFd, OwnedFd};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::Attributes;
use crate::{Error, Result};

/// A file system being configured.
#[derive(Debug)]
pub struct NewFileSystem {
    context: OwnedFd,
    kind: &'static str,
}

impl NewFileSystem {
    /// Starts one of this type. `ENODEV` where the kernel doesn't know the type.
    pub fn open(kind: &'static str) -> Result<NewFileSystem> {
        let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)
            .map_err(|errno| Error::new("fsopen", errno).about(kind))?;
        Ok(NewFileSystem { context, kind })
    }

    /// Sets an option (`size`, `mode`, `source`).
    pub fn set(self, key: &str, value: &str) -> Result<NewFileSystem> {
        rustix::mount::fsconfig_set_string(self.context.as_fd(), key, value)
            .map_err(|errno| self.explain("fsconfig", errno, &format!("{key}={value}")))?;
        Ok(self)
    }

    /// Sets an option without a value (`ro`, `nsdelegate`).
    pub fn flag(self, key: &str) -> Result<NewFileSystem> {
        rustix::mount::fsconfig_set_flag(self.context.as_fd(), key)
            .map_err(|errno| self.explain("fsconfig", errno, key))?;
        Ok(self)
    }

    /// Makes the file system and a detached mount of it.
    pub fn mount(self, attributes: Attributes) -> Result<OwnedFd> {
        rustix::mount::fsconfig_create(self.context.as_fd())
            .map_err(|errno| self.explain("fsconfig", errno, "create"))?;
        let flags = MountAttrFlags::from_bits_retain(attributes.bits32());
        rustix::mount::fsmount(self.context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
            .map_err(|errno| self.explain("fsmount", errno, ""))
    }

    /// Adds what the kernel itself says, which it keeps in the context as lines of `e MESSAGE`.
    fn explain(&self, call: &'static str, errno: rustix::io::Errno, what: &str) -> Error {
        let mut message = [0; 256];
        let length = rustix::io::read(&self.context, &mut message).unwrap_or(0);
        let message = String::from_utf8_lossy(message.get(..length).unwrap_or_default());
        let message = message.trim_start_matches("e ").trim().to_owned();
        Error::new(call, errno).about(format!("{} {what} {message}", self.kind).trim().to_owned())
    }
}

/// A tmpfs of at most `size_bytes`, its root with this mode.
pub fn tmpfs(size_bytes: u64, mode: u32, attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("tmpfs")?
        .set("source", "tmpfs")?
        .set("size", &size_bytes.to_string())?
        .set("mode", &format!("{mode:o}"))?
        .mount(attributes)
}

/// The proc of the caller's pid namespace. `EPERM` in a user namespace where the visible proc is
/// masked.
pub fn proc(attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("proc")?
        .set("source", "proc")?
        .mount(attributes)
}

/// The sysfs of the caller's network namespace. `EPERM` in a user namespace where the visible one
/// is masked.
pub fn sysfs(attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("sysfs")?
        .set("source", "sysfs")?
        .mount(attributes)
}

/// A cgroup2, rooted at the caller's cgroup namespace. Options are the hierarchy's own
/// (`nsdelegate`, `favordynmods`, `memory_recursiveprot`); those of a hierarchy that is mounted
/// already change it, and only the initial namespaces may.
pub fn cgroup2(options: &[&str], attributes: Attributes) -> Result<OwnedFd> {
    let new = NewFileSystem::open("cgroup2")?.set("source", "cgroup2")?;
    options
        .iter()
        .try_fold(new, |new, option| new.flag(option))?
        .mount(attributes)
}

/// A devpts with terminals of its own: `ptmx` for everybody, terminals 0620 of group `gid`.
pub fn devpts(gid: u32, attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("devpts")?
        .set("source", "devpts")?
        .set("ptmxmode", "0666")?
        .set("mode", "0620")?
        .set("gid", &gid.to_string())?
        .mount(attributes)
}

/// The POSIX message queues of the caller's IPC namespace.
pub fn mqueue(attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("mqueue")?
        .set("source", "mqueue")?
        .mount(attributes)
}
