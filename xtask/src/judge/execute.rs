// SPDX-License-Identifier: Apache-2.0
//! `./x judge execute`: the units of Debian's `systemd-tests` by which systemd tests how it
//! executes programs, run by a node. The package is fetched by apt and unpacked below `target`;
//! nothing of it is installed. The test that runs them and knows what each should come to is
//! `auraed/tests/api/units_judge.rs`.
//!
//! It runs in a mount namespace with empty file systems where units write, as systemd's own test
//! does, so that nothing is left on the machine.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use testkit::exec;

use super::archive;
use crate::build;

/// Where the package has them among its data.
const UNITS: &str = "test-execute";
/// Where units write.
const EMPTIED: &str = "/dev/shm /root /tmp /var/tmp /var/lib /run/credstore";
/// What `PassEnvironment=` is tried with.
const VARIABLES: [(&str, &str); 5] = [
    ("VAR1", "word1 word2"),
    ("VAR2", "word3"),
    ("VAR3", "$word 5 6"),
    ("VAR4", "new\nline"),
    ("VAR5", "passwordwithbackslashes"),
];

pub(super) fn run() -> Result<ExitCode> {
    let units = archive::data()?.join(UNITS);
    let test = binary()?;
    let mut all_good = true;
    // Without the variables, with them, and with another search path.
    for (variables, path) in [(false, None), (true, None), (true, Some("/usr"))] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "slave", "/bin/sh", "-ec"]);
        command.arg(format!(
            "for at in {EMPTIED}; do mkdir -p $at; mount -t tmpfs -o nosuid,nodev tmpfs $at; done; \
             chmod 1777 /tmp /var/tmp /dev/shm; mount --make-rshared /; exec \"$@\""
        ));
        command.arg("sh");
        if let Some(path) = path {
            command.args(["/usr/bin/env", &format!("PATH={path}")]);
        }
        command.arg(&test).args(["units_judge", "--nocapture"]);
        command.env("AURAE_JUDGE_UNITS", &units);
        for (name, value) in VARIABLES {
            match variables {
                true => command.env(name, value),
                false => command.env_remove(name),
            };
        }
        let status = command.status().context("unshare")?;
        all_good &= status.success();
    }
    Ok(match all_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The test's program, built: cargo says where it is.
fn binary() -> Result<PathBuf> {
    let mut cargo = build::cargo();
    cargo.args(["test", "--workspace", "--test", "api", "--no-run"]);
    let output = exec::capture(&mut cargo)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}", exec::last_lines(&said, 40));
    // `Executable tests/api/main.rs (target/debug/deps/api-0123456789abcdef)`
    let line = said.lines().rfind(|it| it.contains("tests/api/main.rs"));
    let path = line.and_then(|it| it.rsplit_once('(')).map(|(_, it)| it);
    let path = path.context("cargo doesn't say where the test is")?;
    Ok(build::root()?.join(path.trim_end_matches(')')))
}
