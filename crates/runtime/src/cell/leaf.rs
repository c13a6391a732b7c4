// SPDX-License-Identifier: Apache-2.0
//! One executable's cgroup: making it, knowing when it is empty, killing what is in it. Effects on
//! the kernel and nothing else; the owner of the cell decides.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use kernel::cgroup::{Cgroup, find};
use kernel::signal::Signal;
use model::error::{Error, Reason};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::record;

/// How long to wait between two kills of a group that doesn't get empty: its processes are in the
/// kernel and can't be killed yet.
const AGAIN: Duration = Duration::from_millis(500);

/// How many runs of a cell may be there whose processes may outlive their main one.
const MOST_LEFT: usize = 128;

/// How long a final signal other than SIGKILL has before that follows.
pub(super) const LAST_GRACE: Duration = Duration::from_secs(10);

/// What the files of a group answer that is gone, to who held them before.
const NO_GROUP: i32 = Errno::NODEV.raw_os_error();

/// Makes a leaf that the cell's root may clone into.
pub(crate) fn make(cell: &Cgroup, name: &str, root_id: u32) -> Result<Cgroup, kernel::Error> {
    let leaf = match cell.create(name) {
        Err(error) if error.is(Errno::EXIST.raw_os_error()) => {
            // What an earlier daemon began and did not finish; no living run has this name.
            kill(&cell.child(name)?);
            cell.remove(name, Duration::from_millis(200))?;
            cell.create(name)?
        }
        other => other?,
    };
    if root_id != 0 {
        give(&leaf, root_id).inspect_err(|_| remove(cell, name))?;
    }
    Ok(leaf)
}

/// Groups that a main process may make below its own, and how deep: systemd makes one for each
/// unit that runs, and one for each slice. Each takes memory of the kernel's.
const GROUPS: [u32; 2] = [1024, 16];

/// Lets a user and its group make groups below a leaf.
pub(crate) fn delegate(leaf: &Cgroup, owner: (u32, u32)) -> Result<(), kernel::Error> {
    let [groups, depth] = GROUPS;
    leaf.delegate(owner, groups, depth)
}

/// The kernel lets the cell's root clone into a group only where it may write its `cgroup.procs`.
fn give(leaf: &Cgroup, root_id: u32) -> Result<(), kernel::Error> {
    let file = leaf.path().join("cgroup.procs");
    std::os::unix::fs::chown(&file, Some(root_id), Some(root_id))
        .map_err(|e| kernel::Error::from_io("chown", &e).on(&file))
}

/// Removes an empty leaf; what can't be removed is said in the log and removed by the next daemon.
pub(crate) fn remove(cell: &Cgroup, name: &str) {
    if let Err(error) = cell.remove(name, Duration::ZERO) {
        tracing::warn!(%error, "a cgroup stays behind for now");
    }
}

/// SIGKILL to everything in it; what can't be said to the kernel is said again later.
pub(crate) fn kill(leaf: &Cgroup) {
    if let Err(error) = leaf.kill()
        && !error.is_not_found()
    {
        tracing::warn!(%error, "a cgroup could not be killed");
    }
}

/// Whether a process lives in it. A group that is gone has none.
pub(crate) fn populated(group: &Cgroup) -> bool {
    match group.events() {
        Ok(events) => events.populated,
        Err(error) if is_gone(&error) => false,
        Err(error) => {
            tracing::warn!(%error, "a cgroup could not be read");
            true
        }
    }
}

/// Whether a call failed because the group was removed, before it was opened or after.
fn is_gone(error: &kernel::Error) -> bool {
    error.is_not_found() || error.is(NO_GROUP)
}

/// Sends a signal to every process that is in a group now, and in those below it. Each is held by
/// its pidfd and looked up again before, so that a number that was used anew is not hit.
pub(crate) fn signal_all(group: &Cgroup, signal: Signal) -> Result<usize, kernel::Error> {
    let mut reached = signal_here(group, signal)?;
    for name in group.children()? {
        let below = group.child(&name);
        match below.and_then(|below| signal_all(&below, signal)) {
            Ok(more) => reached += more,
            // It had no process when it went. A container that removes groups of its own meanwhile
            // keeps the signal from no other.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(reached)
}

fn signal_here(leaf: &Cgroup, signal: Signal) -> Result<usize, kernel::Error> {
    let mut reached = 0;
    for pid in leaf.processes()? {
        let Ok(pidfd) = kernel::pidfd::open(pid) else {
            continue;
        };
        let inside = find::path_of_process(pid).is_ok_and(|path| path.starts_with(leaf.path()));
        if inside && kernel::pidfd::send_signal(&pidfd, signal).is_ok() {
            reached += 1;
        }
    }
    Ok(reached)
}

/// The last word to what is in a group: SIGKILL, or first another signal.
fn end(group: &Cgroup, last: &mut Signal) -> Duration {
    if *last == Signal::KILL {
        kill(group);
        return AGAIN;
    }
    if let Err(error) = signal_all(group, *last) {
        tracing::warn!(%error, "the processes of a cgroup were not signalled");
    }
    *last = Signal::KILL;
    LAST_GRACE
}

/// Resolves when nothing lives in the group. From the moment in `kill_at` on, kills until then;
/// where `last` isn't SIGKILL that comes first, and SIGKILL after [`LAST_GRACE`].
pub(crate) async fn emptied(
    group: Arc<Cgroup>,
    mut last: Signal,
    mut kill_at: watch::Receiver<Option<Instant>>,
) {
    let events = match watch_events(&group) {
        Ok(events) => Some(events),
        Err(error) => {
            tracing::warn!(%error, "cgroup.events can't be watched; asking again and again");
            None
        }
    };
    let mut again: Option<Instant> = None;
    while still_populated(&group, events.as_ref()) {
        let due = again.or(*kill_at.borrow_and_update());
        tokio::select! {
            () = changed(events.as_ref()) => {}
            () = until(due) => {
                again = Some(Instant::now() + end(&group, &mut last));
            }
            // The sender is the owner's; where that is gone the wait isn't shortened any more.
            Ok(()) = kill_at.changed() => {}
        }
    }
}

/// Removes what a main process has left behind once nothing lives in it.
pub(crate) async fn reclaim(cell: Arc<Cgroup>, left: Arc<Cgroup>, name: String) {
    let (_never, kill_at) = watch::channel(None);
    emptied(left, Signal::KILL, kill_at).await;
    // Where the cell is gone by then, so is this.
    if cell
        .children()
        .is_ok_and(|names| names.iter().any(|it| it.to_str() == Some(&name)))
    {
        remove(&cell, &name);
    }
}

/// Refuses one more run whose processes may stay behind where as many leaves are there as may be:
/// without a name they count as no executables.
pub(crate) fn admit_left(cell: &Cgroup) -> Result<(), Error> {
    let names = cell.children().unwrap_or_default();
    let left = names.iter().filter_map(|name| name.to_str());
    let left = left.filter(|name| record::is_left_behind(name)).count();
    if left < MOST_LEFT {
        return Ok(());
    }
    let message = format!(
        "{left} runs of this cell have left processes behind, or may; at most {MOST_LEFT} can"
    );
    Err(Error::new(Reason::LimitExceeded, message)
        .field("executable.spec.ending.kill_mode")
        .hint("end those processes, or run it with another kill mode"))
}

fn watch_events(group: &Cgroup) -> Result<AsyncFd<File>, kernel::Error> {
    watch(group, "cgroup.events")
}

/// How often the kernel has ended a process for want of memory, by a group's `memory.events`;
/// `None`: the group is gone.
pub(crate) fn oom_kills(events: &AsyncFd<File>) -> Option<u64> {
    let mut buffer = [0; 512];
    let length = events.get_ref().read_at(&mut buffer, 0).ok()?;
    let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
    let line = text.lines().find_map(|it| it.strip_prefix("oom_kill "));
    line?.trim().parse().ok()
}

/// A file of the group's that says when it has changed.
///
/// # Errors
/// `EOPNOTSUPP`: its controller isn't there. `ENOENT`: the group is gone.
pub(crate) fn watch(group: &Cgroup, name: &str) -> Result<AsyncFd<File>, kernel::Error> {
    let file = group.open_events(name)?;
    crate::watched::watch(File::from(file), Interest::PRIORITY)
        .map_err(|e| kernel::Error::from_io("epoll", &e))
}

/// Reads through the watched descriptor: the kernel wakes a poll only for what was not read through
/// it.
fn still_populated(group: &Cgroup, events: Option<&AsyncFd<File>>) -> bool {
    let Some(events) = events else {
        return populated(group);
    };
    let mut buffer = [0; 256];
    match events.get_ref().read_at(&mut buffer, 0) {
        Ok(length) => {
            let text = buffer.get(..length).unwrap_or_default();
            text.split(|b| *b == b'\n')
                .any(|line| line == b"populated 1")
        }
        Err(error) => error.raw_os_error() != Some(NO_GROUP) && populated(group),
    }
}

async fn changed(events: Option<&AsyncFd<File>>) {
    let Some(events) = events else {
        return tokio::time::sleep(AGAIN).await;
    };
    match events.ready(Interest::PRIORITY).await {
        Ok(mut guard) => guard.clear_ready(),
        Err(_) => tokio::time::sleep(AGAIN).await,
    }
}

/// Resolves at that moment; never without one.
pub(crate) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Resolves when the group is frozen (or thawed), or empty; `false` where that took too long.
pub(crate) async fn settled(group: &Cgroup, frozen: bool, within: Duration) -> bool {
    const POLL: Duration = Duration::from_millis(20);
    let deadline = Instant::now() + within;
    let Ok(watched) = watch_events(group) else {
        return false;
    };
    loop {
        match group.events() {
            Ok(events) if events.frozen == frozen || !events.populated => return true,
            Ok(_) => {}
            Err(_) => return true,
        }
        // A change between the read above and the wait is seen after POLL at the latest.
        let pause = tokio::time::timeout(POLL, changed(Some(&watched)));
        if Instant::now() >= deadline {
            return false;
        }
        let _ = pause.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_behind_in_a_cell_is_bounded() {
        // A folder stands for the group: its names are what counts.
        let folder = tempfile::tempdir().unwrap();
        let opened = kernel::fsutil::open_directory(folder.path()).unwrap();
        let cell = Cgroup::from_fd(opened, folder.path());
        for number in 1..MOST_LEFT {
            std::fs::create_dir(folder.path().join(format!("server.{number}"))).unwrap();
            std::fs::create_dir(folder.path().join(format!("named-{number}"))).unwrap();
        }
        assert!(admit_left(&cell).is_ok());
        std::fs::create_dir(folder.path().join("server.0")).unwrap();
        let refused = admit_left(&cell).unwrap_err();
        assert_eq!(refused.reason, Reason::LimitExceeded);
    }

    #[tokio::test]
    async fn what_is_left_behind_is_removed_when_it_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let opened = kernel::fsutil::open_directory(folder.path()).unwrap();
        let cell = Arc::new(Cgroup::from_fd(opened, folder.path()));
        let left = Arc::new(cell.ensure("server.1").unwrap());
        // No `cgroup.events`: nothing can live in it.
        reclaim(cell.clone(), left, "server.1".to_owned()).await;
        assert!(cell.children().unwrap().is_empty());
    }
}
