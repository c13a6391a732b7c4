// SPDX-License-Identifier: Apache-2.0
//! Runs the programs of `hooks`, each with the container's state on its standard input.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use kernel::poll::{self, Deadline, Interest};
use rustix::fs::MemfdFlags;

use super::state::Shown;
use crate::config::Hook;
use crate::error::{Doing, Error, Result};

/// The most of a hook's output that an error repeats, in bytes.
const MOST_OUTPUT: u64 = 4096;

/// Runs all of a kind in their order; the first that fails ends it.
pub(crate) fn run(kind: &str, hooks: &[Hook], state: &Shown) -> Result<()> {
    run_with(kind, hooks, state, &[])
}

/// [`run`] with variables for those that have none themselves.
pub(crate) fn run_with(kind: &str, hooks: &[Hook], state: &Shown, env: &[String]) -> Result<()> {
    if hooks.is_empty() {
        return Ok(());
    }
    let state = serde_json::to_vec(state)?;
    for (number, hook) in hooks.iter().enumerate() {
        one(hook, &state, env).doing(format_args!("error running {kind} hook #{number}"))?;
    }
    Ok(())
}

fn one(hook: &Hook, state: &[u8], env: &[String]) -> Result<()> {
    let output = rustix::fs::memfd_create(c"hook", MemfdFlags::CLOEXEC).doing("memfd_create")?;
    let mut output = File::from(output);
    let mut command = Command::new(&hook.path);
    if let [name, rest @ ..] = hook.args.as_slice() {
        command.arg0(name).args(rest);
    }
    let env = if hook.env.is_empty() { env } else { &hook.env };
    if !env.is_empty() {
        let pairs = env.iter().filter_map(|pair| pair.split_once('='));
        command.env_clear().envs(pairs);
    }
    command
        .stdin(Stdio::piped())
        .stdout(output.try_clone().doing("dup")?)
        .stderr(output.try_clone().doing("dup")?);
    let mut child = command.spawn().doing_on("exec", &hook.path)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A hook that doesn't read its state is none the worse.
        let _ = stdin.write_all(state);
    }
    if let Some(seconds) = hook.timeout {
        let bound = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let pid = i32::try_from(child.id()).map_err(|_| Error::new("a pid too large"))?;
        let pidfd = kernel::pidfd::open(pid)?;
        if !poll::wait(&pidfd, Interest::Readable, Deadline::after(bound))? {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::new(format!(
                "{}: ended after its timeout of {seconds} s",
                hook.path.display()
            )));
        }
    }
    let status = child.wait().doing("wait")?;
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    let _ = output.rewind();
    let _ = output.take(MOST_OUTPUT).read_to_string(&mut said);
    let end = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        // As a filter ends it.
        (None, Some(31)) => "signal: bad system call".to_owned(),
        (None, Some(signal)) => format!("signal: {signal}"),
        (None, None) => "an unknown end".to_owned(),
    };
    Err(Error::new(format!(
        "{}: {end}, output: {}",
        hook.path.display(),
        said.trim_end()
    )))
}
