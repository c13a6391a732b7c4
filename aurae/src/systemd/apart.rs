// SPDX-License-Identifier: Apache-2.0
//! Whose command it is: ours where the daemon's init is PID 1, the original's where another one is.
//! The package moves the originals aside as `PATH.systemd`; this finds and executes them. Nothing
//! here asks a node.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Name;
use crate::failure::{FAILED, Failure};

/// Where originals are, in the order of a usual PATH.
const FOLDERS: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
/// What the package appends to an original's name.
const SUFFIX: &str = ".systemd";
/// A node that the user names is meant, whatever PID 1 is.
const CHOICES: [&str; 2] = ["AURAE_CONFIG", "AURAE_NODE"];

/// What runs the machine, by the name of PID 1's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Aurae,
    Other,
}

fn first(name: &str) -> First {
    match name.trim_end() {
        "auraed" | "aurae-init" => First::Aurae,
        _ => First::Other,
    }
}

/// Whether this program does it. Without an original it does, too: it then says what is missing.
pub(super) fn is_ours(name: Name) -> bool {
    if names_another_node() {
        return true;
    }
    let comm = std::fs::read_to_string("/proc/1/comm").unwrap_or_default();
    decides_ours(first(&comm), find(name).is_some())
}

fn decides_ours(first: First, has_original: bool) -> bool {
    first == First::Aurae || !has_original
}

/// The moved original. Debian's `shutdown` and its like are links to `systemctl`, which looks at
/// the name that it is called by: the link would lead back to us, the moved `systemctl` doesn't.
fn find(name: Name) -> Option<PathBuf> {
    let file = match name {
        Name::Journalctl | Name::Run | Name::Analyze => name.as_str(),
        _ => "systemctl",
    };
    let own = std::fs::metadata("/proc/self/exe").ok()?;
    let paths = FOLDERS.map(|folder| Path::new(folder).join(format!("{file}{SUFFIX}")));
    paths.into_iter().find(|path| {
        let meta = std::fs::metadata(path);
        meta.is_ok_and(|it| it.is_file() && (it.dev(), it.ino()) != (own.dev(), own.ino()))
    })
}

/// Whether the user means the node of a context, not this machine's.
pub(super) fn names_another_node() -> bool {
    CHOICES.iter().any(|it| std::env::var_os(it).is_some())
}

/// Whether the original is there for what this program doesn't do. It speaks to PID 1 of this
/// machine alone, by the bus: where that is ours, and no other node is named.
pub(super) fn has_original(name: Name) -> bool {
    if names_another_node() {
        return false;
    }
    // It reads journald's files, which there are none of.
    if name == Name::Journalctl {
        return false;
    }
    let comm = std::fs::read_to_string("/proc/1/comm").unwrap_or_default();
    first(&comm) == First::Aurae && find(name).is_some()
}

/// Where the original is.
pub(super) fn path(name: Name) -> Option<PathBuf> {
    has_original(name).then(|| find(name))?
}

/// Executes the original in our place.
pub(super) fn original(name: Name, words: &[OsString]) -> Result<u8, Failure> {
    let Some(path) = find(name) else {
        let words = "System has not been booted with Aurae as init system (PID 1).";
        return Err(Failure::new(words).with_status(FAILED));
    };
    let arguments = words.iter().skip(1);
    // It returns where it failed alone.
    let problem = Command::new(&path)
        .arg0(name.as_str())
        .args(arguments)
        .exec();
    Err(Failure::new(format!("{}: {problem}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_another_first_process_the_original_is_meant() {
        assert_eq!(first("auraed\n"), First::Aurae);
        assert_eq!(first("systemd\n"), First::Other);
        assert!(decides_ours(First::Aurae, true));
        assert!(!decides_ours(First::Other, true));
        assert!(decides_ours(First::Other, false));
    }
}
