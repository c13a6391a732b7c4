// SPDX-License-Identifier: Apache-2.0
//! Which file the next daemon is executed from: the one that lies where node-init itself was
//! executed from, so that an upgrade of the package needs a new daemon and no new init; or
//! node-init's own, also after it was replaced on disk.
//!
//! ```text
//!          another file lies there           it ended before it was ready
//!   Own ───────────────────────────▶ Installed ◀──────────────────▶ Own
//!                                        │ it speaks another version: Own, until yet another file
//! ```
//! The spawner is never another than node-init's own: the two speak without versions.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// This process's binary, whatever lies at its path by now.
const OWN: &str = "/proc/self/exe";
/// What the kernel appends to the path of a file that was removed or replaced.
const GONE: &[u8] = b" (deleted)";
/// Others than the owner may write it.
const WRITABLE: u32 = 0o022;

/// A file, whatever it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct File {
    device: u64,
    inode: u64,
}

/// Where daemons come from, and what became of the last one.
#[derive(Debug)]
pub(super) struct Binary {
    own: Option<File>,
    /// Where node-init was executed from. None: it is told another program, or can't know.
    place: Option<PathBuf>,
    /// What the daemon of now was executed from.
    running: Option<File>,
    /// It spoke another version of the protocol.
    refused: Option<File>,
    /// The last daemon from there ended before it was ready.
    own_next: bool,
}

impl Binary {
    /// Of an init whose options name this program.
    pub(super) fn of(program: &Path) -> Self {
        let own = fs::metadata(OWN).ok().map(|it| identity(&it));
        let place = fs::read_link(OWN).ok().map(without_mark);
        Self {
            own,
            place: place.filter(|_| program == Path::new(OWN)),
            running: None,
            refused: None,
            own_next: false,
        }
    }

    /// What to execute the next daemon from, where it isn't the program of the options.
    pub(super) fn next(&mut self) -> Option<PathBuf> {
        let installed = self.installed();
        let wanted = |file: &File| !self.own_next && self.refused != Some(*file);
        let chosen = installed.filter(|file| wanted(file));
        self.running = chosen.or(self.own);
        chosen.and_then(|_| self.place.clone())
    }

    /// Whether a daemon that is started now would be of another file than the one of now. Asks for
    /// it, whatever became of earlier ones.
    pub(super) fn is_replaced(&mut self) -> bool {
        self.own_next = false;
        let installed = self.installed().filter(|it| self.refused != Some(*it));
        self.running.is_some() && installed.or(self.own) != self.running
    }

    /// The daemon of now speaks another version of the protocol.
    pub(super) fn refuse(&mut self) {
        self.refused = self.running;
    }

    /// The daemon has ended before it was ready: the other one has its turn, if there are two.
    pub(super) fn failed(&mut self) {
        self.own_next = !self.own_next && self.running != self.own;
    }

    /// Another file than node-init's own at its place, which its owner alone may write.
    fn installed(&self) -> Option<File> {
        let there = fs::metadata(self.place.as_deref()?).ok()?;
        let us = rustix::process::geteuid().as_raw();
        let trusted = there.is_file() && there.uid() == us && there.mode() & WRITABLE == 0;
        let found = Some(identity(&there)).filter(|_| trusted);
        found.filter(|file| self.own != Some(*file))
    }
}

fn identity(of: &fs::Metadata) -> File {
    File {
        device: of.dev(),
        inode: of.ino(),
    }
}

fn without_mark(path: PathBuf) -> PathBuf {
    let bytes = path.into_os_string().into_vec();
    let path = bytes.strip_suffix(GONE).unwrap_or(&bytes);
    PathBuf::from(std::ffi::OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// An init whose file is at `place`, of which others may follow.
    fn of(place: &Path) -> Binary {
        Binary {
            own: Some(identity(&fs::metadata(place).unwrap())),
            place: Some(place.to_owned()),
            running: None,
            refused: None,
            own_next: false,
        }
    }

    fn install(place: &Path) {
        let new = place.with_extension("new");
        fs::write(&new, "").unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        // The old one stays open, as the binary of a process does: its number isn't used again.
        let old = fs::File::open(place).ok();
        fs::rename(&new, place).unwrap();
        std::mem::forget(old);
    }

    #[test]
    fn what_is_installed_later_is_the_next_daemons() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("auraed");
        install(&place);
        let mut binary = of(&place);
        assert_eq!(binary.next(), None, "node-init's own");
        assert!(!binary.is_replaced());
        install(&place);
        assert!(binary.is_replaced());
        assert_eq!(binary.next().as_ref(), Some(&place));
        assert!(!binary.is_replaced());
        install(&place);
        assert!(binary.is_replaced(), "and so on");
    }

    #[test]
    fn one_of_another_version_is_not_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("auraed");
        install(&place);
        let mut binary = of(&place);
        install(&place);
        assert!(binary.next().is_some());
        binary.refuse();
        binary.failed();
        assert_eq!(binary.next(), None);
        assert!(!binary.is_replaced());
        binary.failed();
        assert_eq!(binary.next(), None, "however often node-init's own ends");
        install(&place);
        assert!(binary.is_replaced());
        assert!(binary.next().is_some());
    }

    #[test]
    fn one_that_does_not_come_up_takes_turns_with_the_inits_own() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("auraed");
        install(&place);
        let mut binary = of(&place);
        install(&place);
        assert!(binary.next().is_some());
        binary.failed();
        assert_eq!(binary.next(), None);
        binary.failed();
        assert!(binary.next().is_some());
    }

    #[test]
    fn what_others_may_write_or_is_gone_is_not_executed() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("auraed");
        install(&place);
        let mut binary = of(&place);
        install(&place);
        fs::set_permissions(&place, fs::Permissions::from_mode(0o775)).unwrap();
        assert_eq!(binary.next(), None);
        fs::remove_file(&place).unwrap();
        assert_eq!(binary.next(), None);
    }

    #[test]
    fn a_replaced_files_path_is_its_place() {
        let of = |path: &str| without_mark(PathBuf::from(path));
        assert_eq!(of("/usr/sbin/auraed (deleted)"), of("/usr/sbin/auraed"));
    }
}
