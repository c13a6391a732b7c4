// SPDX-License-Identifier: Apache-2.0
//! Programs that run to their end before an executable ([`Before`]), in its place: its namespaces,
//! its user, what it may do and its filter. Runs in the child alone ([`super::launch`]), whose
//! children they are. What one leaves behind is the executable's child then, as in runc.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use kernel::process;
use kernel::run::{self, Program};
use rustix::io::Errno;

use super::launch::path_of;
use crate::protocol::{Before, Failure, First, Step};

/// Runs all of them; the first that fails ends it.
pub(super) fn run(before: &Before) -> Result<(), Failure> {
    let state = with_pid(&before.state);
    before.programs.iter().try_for_each(|one| {
        let path = path_of(&one.path).display();
        let failed =
            |errno, why: String| Err(Failure::new(Step::Before, errno, format!("{path}: {why}")));
        match run::run(&program(one), &state) {
            Ok(end) => match end.why() {
                Some(why) => failed(Errno::CHILD.raw_os_error(), why),
                None => Ok(()),
            },
            Err(error) => failed(error.errno(), error.to_string()),
        }
    })
}

fn program(one: &First) -> Program<'_> {
    let argv = one.argv.iter().map(|word| OsStr::from_bytes(word));
    let variables = one.env.iter().filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (entry.get(..at)?, entry.get(at + 1..)?);
        Some((OsStr::from_bytes(name), OsStr::from_bytes(value)))
    });
    Program {
        path: path_of(&one.path),
        argv: argv.collect(),
        env: Some(variables.collect()),
        timeout: Some(Duration::from_millis(one.timeout_ms.into())),
    }
}

/// The state with this process's number, as it is seen here.
fn with_pid(state: &[u8]) -> Vec<u8> {
    let pid = format!("{{\"pid\":{},", process::id());
    let rest = state.strip_prefix(b"{").unwrap_or(state);
    [pid.as_bytes(), rest].concat()
}
