// SPDX-License-Identifier: Apache-2.0
//! `./x ci`: what `.ci/run` calls. Form first, since it is quick; the tests last.

use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use testkit::exec;

use crate::{build, demo, test};

/// Licences, duplicates and sources of what we depend on. Its database of advisories is a download
/// from elsewhere, so it is a check of its own: `cargo deny check advisories`.
const DENY: [&str; 5] = ["deny", "check", "bans", "licenses", "sources"];

/// How long all of it should take on a machine of two processors: where it takes longer, something
/// in it has become too slow.
const BOUND: Duration = Duration::from_secs(40 * 60);

/// Runs the command.
pub(crate) fn run() -> Result<ExitCode> {
    let started = Instant::now();
    let done = steps();
    println!("{}", sum(started.elapsed()));
    done
}

/// How long all took, and whether that is too long. No failure: machines differ.
fn sum(took: Duration) -> String {
    let seconds = took.as_secs();
    let words = format!("ci: all: {} min {:02} s", seconds / 60, seconds % 60);
    match took > BOUND {
        true => format!(
            "{words}: WARNING: more than {} min; the lines above say which step took them",
            BOUND.as_secs() / 60
        ),
        false => words,
    }
}

fn steps() -> Result<ExitCode> {
    step("formatting", &["fmt", "--all", "--check"])?;
    step(
        "house rules, and the edges between crates",
        &["test", "--quiet", "-p", "xtask"],
    )?;
    step(
        "lints",
        &[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    )?;
    // While a node boots, a processor is idle.
    let dependencies =
        thread::spawn(|| timed("licences, duplicates and sources of the dependencies", deny));
    // It ends with an error, or has told all of its story.
    timed("the README's first command", demo::run)?;
    dependencies
        .join()
        .map_err(|_| anyhow!("the check of the dependencies broke off"))??;
    timed("the README's second command", || {
        test::run(&test::Test::everything())
    })
}

fn step(what: &str, arguments: &[&str]) -> Result<()> {
    timed(what, || {
        exec::run(build::cargo().current_dir(build::root()?).args(arguments))
    })
}

/// Says what is done and how long it took: the whole has a bound, and one must see what takes it.
fn timed<T>(what: &str, act: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("ci: {what}");
    let started = Instant::now();
    let done = act();
    println!("ci: {what}: {} s", started.elapsed().as_secs());
    done
}

/// Runs cargo-deny, the machine's own or one installed below `target`.
fn deny() -> Result<()> {
    let tools = build::target()?.join("tools");
    let ours = tools.join("bin/cargo-deny");
    let installed = Command::new("cargo-deny").arg("--version").output();
    let program = if installed.is_ok_and(|output| output.status.success()) {
        "cargo-deny".into()
    } else {
        if !ours.is_file() {
            println!("ci: installing cargo-deny (once; some minutes)");
            let mut install = build::cargo();
            // Not in the project's folder: its flags for static binaries aren't meant for tools.
            install
                .current_dir("/")
                .args(["install", "--quiet", "--locked", "--debug"]);
            exec::run(install.arg("cargo-deny").arg("--root").arg(&tools))?;
        }
        ours
    };
    exec::run(Command::new(program).current_dir(build::root()?).args(DENY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_said_at_the_end() {
        assert_eq!(sum(Duration::from_secs(61)), "ci: all: 1 min 01 s");
        assert_eq!(sum(BOUND), "ci: all: 40 min 00 s");
        let late = sum(BOUND + Duration::from_secs(1));
        assert!(late.contains("WARNING: more than 40 min"), "{late}");
    }
}
