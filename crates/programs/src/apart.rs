// SPDX-License-Identifier: Apache-2.0
//! A cgroup of its own for each run: what the run leaves is killed with it, and by the next daemon
//! where this one died. Started by a program of the caller's that enters the group.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kernel::cgroup::{Bound, Cgroup, Limits};

use crate::Error;

type Result<T> = std::result::Result<T, Error>;

/// The memory of one run, in bytes: these are small programs that may run others.
const MEMORY: u64 = 512 << 20;
/// Its processes and threads.
const PIDS: u64 = 512;
/// How long what an earlier daemon's programs have left may take to go.
const EMPTYING: Duration = Duration::from_secs(30);
/// How long what was killed may take to go.
const GOING: Duration = Duration::from_secs(10);

/// How programs are kept apart from the caller.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The group in which each run gets its own; none: the machine has none.
    pub group: Option<Arc<Cgroup>>,
    /// The program that starts another one, with its first words. `--group FOLDER`, where there is
    /// one, the path and its words follow. It must see to it that the program ends with the caller.
    pub starter: Vec<OsString>,
}

static RUNS: AtomicU64 = AtomicU64::new(0);

impl Apart {
    pub(super) fn leaf(&self) -> Result<Option<Leaf>> {
        let Some(parent) = self.group.clone() else {
            return Ok(None);
        };
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        let failed = |error| cgroup(parent.path(), "making a group for a program", error);
        let group = parent.create(&name).map_err(failed)?;
        let leaf = Leaf(Some(Inner {
            parent: parent.clone(),
            name,
            group,
        }));
        let enabled = parent.enabled().map_err(failed)?;
        let has = |controller: &str| enabled.iter().any(|name| name == controller);
        let limits = Limits {
            memory_max: has("memory").then_some(Bound::At(MEMORY)),
            pids_max: has("pids").then_some(Bound::At(PIDS)),
            ..Limits::default()
        };
        if let Some(inner) = &leaf.0 {
            inner.group.set_limits(&limits).map_err(failed)?;
        }
        Ok(Some(leaf))
    }

    pub(super) fn command(&self, leaf: Option<&Leaf>, program: &Path) -> Command {
        let mut words = self.starter.iter();
        let mut command = Command::new(words.next().map_or("".as_ref(), OsString::as_os_str));
        command.args(words);
        if let Some(inner) = leaf.and_then(|leaf| leaf.0.as_ref()) {
            command.arg("--group").arg(inner.group.path());
        }
        command.arg(program);
        command
    }
}

/// The group of that name in another one, with nothing in it: what programs of an earlier daemon
/// have left is killed and waited for.
///
/// # Errors
/// Something lives on after 30 s, or the group can't be made.
pub fn group(base: &Cgroup, name: &str) -> kernel::Result<Cgroup> {
    let group = base.ensure(name)?;
    group.kill_and_wait(EMPTYING)?;
    for (name, _) in group.groups() {
        group.remove(&name, EMPTYING)?;
    }
    let mut wanted = group.controllers()?;
    wanted.retain(|name| ["memory", "pids"].contains(&name.as_str()));
    group.enable(&wanted)?;
    Ok(group)
}

fn cgroup(path: &Path, what: &'static str, error: kernel::Error) -> Error {
    Error::io(path, what)(std::io::Error::other(error))
}

/// The group of one run; killed and removed when this is dropped.
pub(super) struct Leaf(Option<Inner>);

struct Inner {
    parent: Arc<Cgroup>,
    name: String,
    group: Cgroup,
}

impl Inner {
    /// Blocks until nothing is left of it.
    fn end(&self) -> kernel::Result<()> {
        self.group.kill_and_wait(GOING)?;
        self.parent.remove(&self.name, GOING)
    }
}

impl Leaf {
    /// Kills what is left of the run, and waits for its end.
    ///
    /// # Errors
    /// Something lives on: nothing may be added or removed for the same cell yet.
    pub(super) async fn end(mut self) -> Result<()> {
        let Some(inner) = self.0.take() else {
            return Ok(());
        };
        let path = inner.group.path().to_owned();
        let ended = tokio::task::spawn_blocking(move || inner.end()).await;
        let ended = ended.map_err(std::io::Error::other);
        let what = "ending what a program has left";
        ended
            .map_err(Error::io(&path, what))?
            .map_err(|error| cgroup(&path, what, error))
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        let Some(inner) = self.0.take() else { return };
        // Who gave the run up doesn't wait; a group that stays is empty, or the next daemon's.
        let _ = inner.group.kill();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || inner.end());
        }
    }
}
