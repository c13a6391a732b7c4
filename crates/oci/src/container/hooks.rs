// SPDX-License-Identifier: Apache-2.0
//! Runs the programs of `hooks`, each with the container's state on its standard input.

use std::ffi::OsStr;
use std::time::Duration;

use kernel::run::{self, End, Program};

use super::state::Shown;
use crate::config::Hook;
use crate::error::{Doing, Error, Result};

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
    let env = if hook.env.is_empty() { env } else { &hook.env };
    let pairs = env.iter().filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (OsStr::new(name), OsStr::new(value)));
    let program = Program {
        path: &hook.path,
        argv: hook.args.iter().map(OsStr::new).collect(),
        env: (!env.is_empty()).then(|| pairs.collect()),
        timeout: hook
            .timeout
            .map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
    };
    let path = hook.path.display();
    match (run::run(&program, state)?, hook.timeout) {
        (End::TooLong, Some(seconds)) => {
            let text = format!("{path}: ended after its timeout of {seconds} s");
            Err(Error::new(text))
        }
        (end, _) => match end.why() {
            Some(why) => Err(Error::new(format!("{path}: {why}"))),
            None => Ok(()),
        },
    }
}
