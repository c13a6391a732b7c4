// SPDX-License-Identifier: Apache-2.0
//! A proc file system as an open folder, and writing to files of it; what it says of processes.
//! Code that writes there on behalf of a container holds on to a proc that was checked, and never
//! goes by a path that the container could have mounted something over (runc's CVE-2025-52881).

use std::fmt::Display;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::{Context, Error, Result};

/// The file system's number of statfs(2).
pub const MAGIC: u32 = 0x9fa0;

/// The proc at `/proc`, checked to be one.
///
/// # Errors
/// `ENOENT`: there is no such folder. `ENODEV`: what is mounted there is no proc.
pub fn open() -> Result<OwnedFd> {
    let path = Path::new("/proc");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)?;
    let kind = rustix::fs::fstatfs(&proc).call_on("fstatfs", path)?.f_type;
    match kind == rustix::fs::FsWord::from(MAGIC) {
        true => Ok(proc),
        false => Err(Error::new("open a proc", Errno::NODEV).on(path)),
    }
}

/// Writes to a file of a proc, by its path below that. What is below another mount in it is
/// refused.
///
/// # Errors
/// `ENOENT`: this kernel has no such file, or this namespace. `EACCES`, `EPERM`: the caller may not
/// write it. `EINVAL`: the kernel doesn't take the value. `EXDEV`: something is mounted on the way.
pub fn write(proc: impl AsFd, path: &str, value: &[u8]) -> Result<()> {
    // `self` is a link, but within.
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let shown = || format!("/proc/{path}");
    let file = rustix::fs::openat2(proc, path, flags, Mode::empty(), within)
        .map_err(|errno| Error::new("open", errno).about(shown()))?;
    let written = rustix::io::write(&file, value);
    written.map_err(|errno| Error::new("write", errno).about(shown()))?;
    Ok(())
}

/// The command line of a process, or its name in brackets where it has none; `None`: there is no
/// such process, or it has ended meanwhile.
pub fn command_line(pid: impl Display) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    if !words.is_empty() {
        return Some(words.join(" "));
    }
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("[{}]", name.trim_end()))
}
