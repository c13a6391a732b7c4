// SPDX-License-Identifier: Apache-2.0
//! `auraed plugin`: starts a plugin of CNI in a cgroup of its own, so that it ends with the daemon,
//! is bounded, and is no better kept from the OOM killer than other programs. Started by the daemon
//! (`cell_network`); the plugin takes its place.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use kernel::cgroup::Cgroup;
use kernel::process;
use kernel::signal::Signal;

/// Comes back where the plugin can't be started.
pub(crate) fn run(parent: i32, group: Option<&Path>, program: &Path) -> ExitCode {
    let error = match settle(parent, group) {
        Ok(()) => anyhow::Error::from(Command::new(program).exec()),
        Err(error) => error,
    };
    eprintln!("{}: {error:#}", program.display());
    ExitCode::FAILURE
}

/// Becomes a program of the daemon's, in its group: a hook does so, too (`hooks::program`).
pub(crate) fn settle(parent: i32, group: Option<&Path>) -> anyhow::Result<()> {
    end_with(parent)?;
    if let Some(group) = group {
        let entered = Cgroup::open(group).and_then(|group| group.enter());
        entered.context("its group can't be entered")?;
    }
    // The daemon's own is not for programs of others.
    std::fs::write("/proc/self/oom_score_adj", "0").context("oom_score_adj")
}

/// Has this process end with the daemon.
pub(crate) fn end_with(parent: i32) -> anyhow::Result<()> {
    process::set_parent_death_signal(Some(Signal::KILL))?;
    // It may have died before that.
    ensure!(process::parent_id() == parent, "the daemon is gone");
    Ok(())
}
