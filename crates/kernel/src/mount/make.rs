// SPDX-License-Identifier: Apache-2.0
//! New file systems, as detached mounts: `fsopen`, `fsconfig`, `fsmount`.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::Attributes;
use crate::{Error, Result};

/// A file system being configured.
#[derive(Debug)]
pub struct NewFileSystem {
    context: OwnedFd,
    kind: Cow<'static, str>,
}

impl NewFileSystem {
    /// Starts one of this type.
    ///
    /// # Errors
    /// `ENODEV`: the kernel doesn't know the type. `EPERM`: without `CAP_SYS_ADMIN` in the user
    /// namespace of the mount namespace.
    pub fn open(kind: impl Into<Cow<'static, str>>) -> Result<NewFileSystem> {
        let kind = kind.into();
        let opened = rustix::mount::fsopen(&*kind, FsOpenFlags::FSOPEN_CLOEXEC);
        match opened {
            Ok(context) => Ok(NewFileSystem { context, kind }),
            Err(errno) => Err(Error::new("fsopen", errno).about(kind)),
        }
    }

    /// Sets an option (`size`, `mode`, `source`).
    ///
    /// # Errors
    /// `EINVAL`: the type has no such option, or refuses the value; the message has the kernel's
    /// words.
    pub fn set(self, key: &str, value: &str) -> Result<NewFileSystem> {
        rustix::mount::fsconfig_set_string(self.context.as_fd(), key, value)
            .map_err(|errno| self.explain("fsconfig", errno, &format!("{key}={value}")))?;
        Ok(self)
    }

    /// Gives all files a label of SELinux's; an empty one is none.
    ///
    /// # Errors
    /// `EINVAL`: the kernel has no such label, or doesn't use SELinux.
    pub fn label(self, label: &str) -> Result<NewFileSystem> {
        match label {
            "" => Ok(self),
            label => self.set("context", label),
        }
    }

    /// Sets an option without a value (`ro`, `nsdelegate`).
    ///
    /// # Errors
    /// `EINVAL`: the type has no such option; the message has the kernel's words.
    pub fn flag(self, key: &str) -> Result<NewFileSystem> {
        rustix::mount::fsconfig_set_flag(self.context.as_fd(), key)
            .map_err(|errno| self.explain("fsconfig", errno, key))?;
        Ok(self)
    }

    /// Makes the file system and a detached mount of it.
    ///
    /// # Errors
    /// `EPERM`: the type can't be mounted in the caller's user namespace. `EINVAL`: options that
    /// don't go together. `ENOMEM`, `ENOSPC`: the kernel has no room for it. The message has the
    /// kernel's words.
    pub fn mount(self, attributes: Attributes) -> Result<OwnedFd> {
        rustix::mount::fsconfig_create(self.context.as_fd())
            .map_err(|errno| self.explain("fsconfig", errno, "create"))?;
        let flags = MountAttrFlags::from_bits_retain(attributes.bits());
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
///
/// # Errors
/// `EPERM`: without `CAP_SYS_ADMIN` in the user namespace of the mount namespace. `EINVAL`: `mode`
/// has bits beyond 07777.
pub fn tmpfs(size_bytes: u64, mode: u32, attributes: Attributes) -> Result<OwnedFd> {
    labelled_tmpfs(size_bytes, mode, "", attributes)
}

/// The same, all of whose files have a label of SELinux's; empty: what the policy says.
///
/// # Errors
/// Those of [`tmpfs`]. `EINVAL`: the kernel has no such label. `EACCES`: its policy doesn't let the
/// caller give it.
pub fn labelled_tmpfs(
    size_bytes: u64,
    mode: u32,
    label: &str,
    attributes: Attributes,
) -> Result<OwnedFd> {
    NewFileSystem::open("tmpfs")?
        .set("source", "tmpfs")?
        .set("size", &size_bytes.to_string())?
        .set("mode", &format!("{mode:o}"))?
        .label(label)?
        .mount(attributes)
}

/// What is on a disk with an ext4 on it; `label` as of [`labelled_tmpfs`]. Inode tables that its
/// maker has left for later stay as they are.
///
/// # Errors
/// `EINVAL`, `EUCLEAN`: it isn't one. `EPERM`: without `CAP_SYS_ADMIN` in the initial user
/// namespace. `ENODEV`: the kernel has no ext4.
pub fn ext4(device: &Path, label: &str, attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("ext4")?
        .set("source", &device.to_string_lossy())?
        .flag("noinit_itable")?
        .label(label)?
        .mount(attributes)
}

/// The proc of the caller's pid namespace.
///
/// # Errors
/// `EPERM`: without `CAP_SYS_ADMIN` in the namespace's user namespace, or where parts of the proc
/// that this user namespace sees are masked by other mounts.
pub fn proc(attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("proc")?
        .set("source", "proc")?
        .mount(attributes)
}

/// The sysfs of the caller's network namespace.
///
/// # Errors
/// `EPERM`: without `CAP_SYS_ADMIN` in the namespace's user namespace, or where parts of the sysfs
/// that this user namespace sees are masked by other mounts.
pub fn sysfs(attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("sysfs")?
        .set("source", "sysfs")?
        .mount(attributes)
}

/// A cgroup2, rooted at the caller's cgroup namespace. Options are the hierarchy's own
/// (`nsdelegate`, `favordynmods`, `memory_recursiveprot`); those of a hierarchy that is mounted
/// already change it, and only the initial namespaces may.
///
/// # Errors
/// `EINVAL`: this kernel has no such option. `EPERM`: without `CAP_SYS_ADMIN` in the user namespace
/// of the cgroup namespace. `EBUSY`, `ENODEV`: cgroup2 is switched off on this machine.
pub fn cgroup2(options: &[&str], attributes: Attributes) -> Result<OwnedFd> {
    let new = NewFileSystem::open("cgroup2")?.set("source", "cgroup2")?;
    options
        .iter()
        .try_fold(new, |new, option| new.flag(option))?
        .mount(attributes)
}

/// A devpts with terminals of its own: `ptmx` for all users, terminals 0620 of group `gid`.
///
/// # Errors
/// `EINVAL`: `gid` has no mapping in the caller's user namespace. `EPERM`: without `CAP_SYS_ADMIN`
/// in it. `ENODEV`: the kernel has no pseudo-terminals.
pub fn devpts(gid: u32, attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("devpts")?
        .set("source", "devpts")?
        .set("ptmxmode", "0666")?
        .set("mode", "0620")?
        .set("gid", &gid.to_string())?
        .mount(attributes)
}

/// The POSIX message queues of the caller's IPC namespace.
///
/// # Errors
/// `EPERM`: without `CAP_SYS_ADMIN` in the user namespace of the IPC namespace. `ENODEV`: the
/// kernel has no message queues.
pub fn mqueue(attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("mqueue")?
        .set("source", "mqueue")?
        .mount(attributes)
}
