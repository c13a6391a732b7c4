// SPDX-License-Identifier: Apache-2.0
//! `./x ci`: what `.ci/run` calls. Form first, since it is quick; the tests last.

use std::process::{Command, ExitCode};

use anyhow::Result;
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
    println!("ci: licences, duplicates and sources of the dependencies");
    deny()?;
    println!("ci: the README's first command");
    // It ends with an error, or has told all of its story.
    demo::run()?;
    test::run(&test::Test::everything())
}

fn step(what: &str, arguments: &[&str]) -> Result<()> {
    println!("ci: {what}");
    exec::run(build::cargo().current_dir(build::root()?).args(arguments))
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
