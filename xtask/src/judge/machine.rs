// SPDX-License-Identifier: Apache-2.0
//! What judges do with a booted machine: wait until its units are up, take a step in a shell, and
//! end it with what came of it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use testkit::node::Node;

/// Until the machine's units are up.
const UP: Duration = Duration::from_secs(900);
/// Lines that are shown of a step that failed.
pub(super) const SHOWN: usize = 14;

/// Waits until the machine's units are up.
pub(super) fn up(node: &Node) -> Result<()> {
    let script = "until systemctl is-active -q multi-user.target; do sleep 1; done";
    step(node, script, UP).map(drop)
}

/// Runs a script; what it said.
///
/// # Errors
/// Its status, and what it said last.
pub(super) fn step(node: &Node, script: &str, limit: Duration) -> Result<String> {
    let finished = node.start(script)?.finish_within(limit)?;
    let said = String::from_utf8_lossy(&[finished.out, finished.err].concat()).into_owned();
    match finished.status {
        0 => Ok(said),
        status => bail!("{status}: {}", testkit::exec::last_lines(&said, SHOWN)),
    }
}

/// Switches the machine off; whether nothing failed, and this neither.
pub(super) fn end(node: Node, failed: usize) -> ExitCode {
    let off = node.shutdown();
    if let Err(error) = &off {
        println!("the machine did not go off in order: {error:#}");
    }
    match failed == 0 && off.is_ok() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
