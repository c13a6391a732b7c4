// SPDX-License-Identifier: Apache-2.0
//! `./x ci`: what `.ci/run` calls. Form first, since it is quick; the tests last.

use std::process::{Command, ExitCode};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};
use testkit::exec;

use crate::{build, demo, test};

/// Licences, duplicates and sources of what we depend on. Its database of advisories is a download
/// from elsewhere, so it is a check of its own: `cargo deny check advisories`.
const DENY: [&str; 5] = ["deny", "check", "bans", "licenses", "sources"];

/// Runs the command.
pub(crate) fn run() -> Result<ExitCode> {
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
