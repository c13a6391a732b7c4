// SPDX-License-Identifier: Apache-2.0
//! A file system of a bounded size on the node's disk: what a container writes to its root, or an
//! empty volume of a pod's, where that is to be on the disk and not in memory (ADR 85).
//!
//! It is an ext4 in a file without a name, mounted by a loop device that goes with the mount. So it
//! ends with the last process that has it, whatever becomes of the daemon and of the machine, and
//! nothing is kept of it that could be forgotten. All of its bytes are allocated when it is made: a
//! full disk of the node can't break it later, and a tenant that fills its own takes nothing from
//! others. Used by the creation of cells and by [`crate::volume`]; the quota is the index's.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use kernel::fsutil;
use kernel::loopdev::Loop;
use kernel::mount::{self, Attributes};
use model::error::{Error, Reason};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

/// This share of the disk stays free for the node: its audit, records and logs.
const FREE_PERCENT: u64 = 10;
/// What makes the file system (e2fsprogs), found as root's shell would.
const PROGRAM: &str = "mke2fs";
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// The file is its standard input. No journal: after a crash of the machine there is nothing to be
/// mended. Nothing is discarded: the file would lose what was allocated. A file for each 8 KiB, as
/// images have many small ones. Nothing is kept for root: root is the container's.
const WORDS: [&str; 16] = [
    "-q",
    "-F",
    "-t",
    "ext4",
    "-O",
    "^has_journal",
    "-b",
    "4096",
    "-i",
    "8192",
    "-m",
    "0",
    "-E",
    "lazy_itable_init=1,nodiscard,root_owner=0:0",
    "--",
    "/proc/self/fd/0",
];
/// What `mke2fs` makes in each, for `fsck`.
const LOST: &str = "lost+found";

/// Makes one whose files are in this folder's file system, as a mount that is attached nowhere. It
/// blocks: for the time in which so many bytes are allocated, and some MiB are written.
///
/// # Errors
/// `LIMIT_EXCEEDED`: the disk has no room beside what the node keeps free. `UNSUPPORTED`: the
/// node has no `mke2fs` or no loop devices, or the folder's file system can't allocate. `INTERNAL`
/// with the kernel's number.
pub(crate) fn make(folder: &Path, bytes: u64, label: &str) -> Result<OwnedFd, Error> {
    room(folder, bytes)?;
    let file = allocated(folder, bytes)?;
    // Others that were made meanwhile may have taken what was seen to be there.
    room(folder, 0).map_err(|_| full(bytes, 0))?;
    format(&file)?;
    let device = Loop::attach(&file).map_err(|e| {
        let message = format!("the node's kernel gives no loop device for a disk: {e}");
        unsupported(message, "load its module: modprobe loop").errno(e.errno())
    })?;
    let quiet = Attributes::NO_SUID | Attributes::NO_DEV;
    let mounted = mount::ext4(device.path(), label, quiet).map_err(|e| failed(bytes, &e))?;
    match rustix::fs::unlinkat(&mounted, LOST, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(mounted),
        Err(errno) => Err(failed(bytes, &errno)),
    }
}

fn failed(bytes: u64, why: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("a disk of {bytes} bytes can't be made: {why}"))
}

fn unsupported(message: String, hint: &str) -> Error {
    Error::new(Reason::Unsupported, message).hint(hint)
}

/// Whether so much can be taken, and the node keeps its share.
fn room(folder: &Path, bytes: u64) -> Result<(), Error> {
    let space = fsutil::space(folder).map_err(|e| failed(bytes, &e))?;
    let kept = space.total_bytes / 100 * FREE_PERCENT;
    match space.available_bytes.checked_sub(kept) {
        Some(room) if room >= bytes => Ok(()),
        room => Err(full(bytes, room.unwrap_or(0))),
    }
}

fn full(bytes: u64, room: u64) -> Error {
    let message = format!(
        "the node's disk has room for {room} bytes, beside the {FREE_PERCENT} % that stay free: \
         {bytes} are asked for"
    );
    Error::new(Reason::LimitExceeded, message).hint("ask for less, or make room on the node")
}

/// A file without a name, with all of its bytes.
fn allocated(folder: &Path, bytes: u64) -> Result<File, Error> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR);
    let file = file.map_err(|errno| cannot(folder, "hold a file without a name", errno))?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(File::from(file)),
        Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Err(full(bytes, 0)),
        Err(errno) => Err(cannot(folder, "allocate a file's bytes", errno)),
    }
}

fn cannot(folder: &Path, what: &str, errno: Errno) -> Error {
    let message = format!(
        "the file system of {} can't {what}: {}",
        folder.display(),
        io::Error::from(errno)
    );
    let hint = "have the node's state directory on ext4, XFS or btrfs";
    unsupported(message, hint).errno(errno.raw_os_error())
}

/// Makes the file system in it.
fn format(file: &File) -> Result<(), Error> {
    let input = file.try_clone().map_err(|e| failed(0, &e))?;
    let mut command = Command::new(PROGRAM);
    command.args(WORDS).env_clear().env("PATH", PATH);
    command.current_dir("/").stdin(Stdio::from(input));
    let output = command.output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => unsupported(
            format!("the node has no {PROGRAM}, which makes disks"),
            "install e2fsprogs on the node",
        ),
        _ => Error::internal(format!("{PROGRAM} can't be run: {e}")),
    })?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let message = format!("{PROGRAM} ended with {}: {}", output.status, said.trim());
            Err(Error::internal(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_disk_has_no_room_for_is_refused_with_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let error = make(folder.path(), u64::MAX / 2, "").unwrap_err();
        assert_eq!(error.reason, Reason::LimitExceeded);
        assert!(error.message.contains("10 % that stay free"), "{error:?}");
    }

    #[test]
    fn the_nodes_share_stays_free() {
        let folder = tempfile::tempdir().unwrap();
        let space = fsutil::space(folder.path()).unwrap();
        assert!(room(folder.path(), space.available_bytes).is_err());
        room(folder.path(), 4096).unwrap();
    }
}
