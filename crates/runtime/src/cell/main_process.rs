// SPDX-License-Identifier: Apache-2.0
//! Which process is an executable's main one where that isn't the executed one: the process that a
//! PID file names, the only one that is left, one that a subsystem of the node names, or none.
//! Looks, and decides nothing else; the cell-init is told by the owner.
//!
//! ```text
//!          exits with 0              found              the cell-init knows
//!  FIRST ───────────────► SEEKING ─────────► ASKED ───────────────────────► KNOWN
//!                            │ not found      │ it has ended meanwhile
//!                            └────────────────┴─────────────────────────► NONE
//! ```
//!
//! The end of a known main process is the executable's, unless its PID file names another living
//! one of the same executable by then.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kernel::cgroup::{Cgroup, find};
use kernel::fsutil::{self, OpenFlags, Resolve};
use model::cell::Namespace;
use model::error::{Error, Reason};
use model::executable::Effective;
use model::exit::Exit;
use model::launch::MainProcess;
use model::name::Uid;
use tokio::sync::oneshot;

use super::executable::Executable;
use super::leaf;
use super::owner::Event;
use super::state::Cell;

/// The longest PID file: a number and a line's end.
const PID_FILE: u64 = 64;
/// How long to wait before a PID file is looked for again, at first and at most.
const AGAIN: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(500)];

/// What is known of an executable's main process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Main {
    /// It is the one that the cell-init calls so.
    Known,
    /// The executed process is another one, and runs.
    First,
    /// It is looked for.
    Seeking,
    /// It is found; the cell-init is being told.
    Asked,
    /// There is none: the executable runs as long as a process of it.
    None,
}

impl Main {
    /// Of an executable whose program was just executed.
    pub(crate) fn at_start(effective: &Effective) -> Self {
        match effective.ending.main_process.forks() {
            true => Main::First,
            false => Main::Known,
        }
    }

    /// Whether the start is over.
    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Main::Known | Main::None)
    }

    /// Whether the first process has ended, and no other is the main one yet, or ever.
    pub(crate) fn is_headless(self) -> bool {
        matches!(self, Main::Seeking | Main::None)
    }
}

/// A process that is to be the main one.
pub(crate) struct Found {
    pub(crate) pidfd: OwnedFd,
    /// Its number in the daemon's pid namespace.
    pub(crate) pid: i32,
    /// Its number in the cell-init's.
    pub(crate) inside: i32,
}

/// A PID file is the node's, and names a process by the node's number.
pub(super) fn check(effective: &Effective, cell: &Cell) -> Result<(), Error> {
    let wants_file = effective.ending.main_process == MainProcess::PidFile;
    // The daemon reads it as the node's root, so the cell's root must be that, too.
    if !wants_file || cell.has_nodes(&[Namespace::Mount, Namespace::Pid, Namespace::User]) {
        return Ok(());
    }
    let problem = "is read where the cell shares the node's mount, pid and user namespaces alone";
    Err(
        Error::new(Reason::Unsupported, format!("a PID file {problem}"))
            .field("executable.spec.ending.pid_file")
            .hint("use GUESSED, or run it in a cell that shares them"),
    )
}

impl Executable {
    /// Its first process has exited with 0: looks for the main one.
    pub(super) fn forked(&mut self, exit: Exit, init: i32, cell: &Cell) {
        self.first = Some(exit);
        self.main = Main::Seeking;
        self.status.pid = None;
        self.publish(cell);
        // Where nothing is left there is no main process to wait for.
        self.watch_leaf(None, cell);
        let (uid, leaf) = (self.uid(), self.leaf.clone());
        // A file may name its own processes alone, or any of a cell that is a unit's.
        let group = match cell.record.spec.light {
            true => cell.group.clone(),
            false => leaf.clone(),
        };
        let (seeking, settled) = oneshot::channel();
        self.seeking = Some(seeking);
        let how = self.effective.ending.main_process;
        let file = self.effective.ending.pid_file.clone();
        cell.beside(async move {
            let found = match how {
                MainProcess::PidFile => tokio::select! {
                    found = named(Path::new(&file), &leaf, &group, init) => found,
                    // A caller has named it, or it has ended.
                    _ = settled => None,
                },
                MainProcess::Guessed => guessed(&leaf, init),
                MainProcess::Executed | MainProcess::None => None,
            };
            Event::MainFound(uid, found.map(Box::new))
        });
    }

    /// Whether its PID file may name another process once the main one has ended
    /// (systemd.service(5), `PIDFile=`): so does a server that executes its new program beside the
    /// old one.
    pub(super) fn may_move(&self) -> bool {
        self.effective.ending.main_process == MainProcess::PidFile
            && self.main == Main::Known
            && self.left.is_none()
    }

    /// Its main process has ended so: looks once whether its PID file names another of its own.
    pub(super) fn look_for_successor(&mut self, exit: Exit, init: i32, cell: &Cell) {
        self.left = Some(exit);
        let (uid, leaf) = (self.uid(), self.leaf.clone());
        let file = self.effective.ending.pid_file.clone();
        cell.beside(async move {
            let found = named_now(Path::new(&file), &leaf, init).await;
            // Mostly the file names what has just ended, still. Where node-init is the parent, that
            // is told before it is reaped.
            let found = found.filter(|it| !kernel::pidfd::has_ended(&it.pidfd).unwrap_or(true));
            Event::MainFound(uid, found.map(Box::new))
        });
    }

    /// The main process is this one, or there is none.
    pub(super) fn settled(&mut self, main: Option<i32>, cell: &Cell) {
        if self.exit.is_some() {
            return;
        }
        self.seeking = None;
        self.main = if main.is_some() {
            Main::Known
        } else {
            Main::None
        };
        self.status.pid = main.and_then(|pid| u32::try_from(pid).ok());
        self.publish(cell);
        self.tell_starter(cell);
    }

    /// How it has ended, where nothing lives in its leaf and it has no main process to say so.
    pub(super) fn headless_end(&self) -> Option<Exit> {
        let ended = self
            .first
            .filter(|_| self.main.is_headless() && self.exit.is_none())?;
        Some(Exit {
            finished: Some(crate::now()),
            ..ended
        })
    }
}

/// The process that the file names, as soon as it does; none where nothing is left to wait for.
async fn named(file: &Path, leaf: &Arc<Cgroup>, cell: &Cgroup, init: i32) -> Option<Found> {
    let [mut pause, most] = AGAIN;
    loop {
        if let Some(found) = named_now(file, cell, init).await {
            return Some(found);
        }
        if !leaf::populated(leaf) {
            return None;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(most);
    }
}

/// The process of the group that the file names now.
async fn named_now(file: &Path, group: &Cgroup, init: i32) -> Option<Found> {
    let path = file.to_owned();
    let read = tokio::task::spawn_blocking(move || read_pid(&path)).await;
    of_group(read.ok().flatten()?, group, init)
}

/// What is in the file counts as a process's claim: it is looked up in the cell's group.
fn read_pid(file: &Path) -> Option<i32> {
    let root = fsutil::open_directory(Path::new("/")).ok()?;
    // Looked at first: to open a device or a FIFO may do something. No link leads to it.
    let flags = OpenFlags::PATH | OpenFlags::NOFOLLOW;
    let place = fsutil::open_below(root, file, flags, 0, Resolve::InRoot).ok()?;
    let place = File::from(place);
    if !place.metadata().ok()?.is_file() {
        return None;
    }
    let file = File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()?;
    let mut text = String::new();
    file.take(PID_FILE).read_to_string(&mut text).ok()?;
    text.trim().parse().ok().filter(|pid| *pid > 1)
}

/// A process of the group, or of one in it.
pub(super) fn of_group(pid: i32, group: &Cgroup, init: i32) -> Option<Found> {
    let pidfd = kernel::pidfd::open(pid).ok()?;
    let inside = find::path_of_process(pid).ok()?;
    if !inside.starts_with(group.path()) {
        return None;
    }
    let inside = number_inside(pid, init)?;
    // What was read is of this process, and not of a later one of its number.
    if !kernel::pidfd::exists(&pidfd).ok()? {
        return None;
    }
    Some(Found { pidfd, pid, inside })
}

/// The only child of the cell-init in the leaf: a service's own children stay its children. Where
/// the init is another than the one that has started it, it is a child of node-init, which is the
/// daemon's parent (ADR 77).
fn guessed(leaf: &Cgroup, init: i32) -> Option<Found> {
    let all = leaf.processes().ok()?;
    let parents = [init, kernel::process::parent_id()];
    let is_child = |pid: &i32| parents.iter().any(|parent| is_living_child(*pid, *parent));
    let mut children = all.into_iter().filter(is_child);
    let only = children.next()?;
    match children.next() {
        None => of_group(only, leaf, init),
        Some(_) => None,
    }
}

fn is_living_child(pid: i32, parent: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may have any character.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next();
    let its_parent = fields.next().and_then(|field| field.parse::<i32>().ok());
    its_parent == Some(parent) && state.is_some_and(|state| state != "Z" && state != "X")
}

/// A process's number in the pid namespace of the cell-init.
fn number_inside(pid: i32, init: i32) -> Option<i32> {
    let depth = numbers(init)?.len().checked_sub(1)?;
    numbers(pid)?.get(depth).copied()
}

/// A process's numbers from the daemon's pid namespace inwards.
fn numbers(pid: i32) -> Option<Vec<i32>> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    let numbers = line.split_ascii_whitespace().map(str::parse);
    numbers.collect::<Result<_, _>>().ok()
}

/// Why a process can't be the main one.
pub(super) fn refused(uid: Uid, pid: i32) -> Error {
    let message = format!("process {pid} is none of the cell of {uid}");
    Error::new(Reason::WrongState, message).hint("name a living process of the same cell")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_is_a_number_in_a_regular_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pid");
        assert_eq!(read_pid(&path), None);
        for (text, pid) in [("42\n", Some(42)), ("1", None), ("-4", None), ("a", None)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_pid(&path), pid, "{text:?}");
        }
        assert_eq!(read_pid(folder.path()), None);
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read_pid(&fifo), None);
        std::fs::write(&path, "42").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read_pid(&link), None);
    }

    #[test]
    fn a_process_has_its_own_number_where_its_init_is() {
        let own = kernel::process::id();
        assert_eq!(number_inside(own, own), Some(own));
        assert!(is_living_child(own, kernel::process::parent_id()));
        assert!(!is_living_child(own, own));
    }
}
