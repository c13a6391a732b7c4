// SPDX-License-Identifier: Apache-2.0
//! `./x test`: every crate's own tests, and the stories on real kernels.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use testkit::exec;

use crate::{build, editors};

/// Runs the tests that the README speaks of.
#[derive(Args)]
#[command(after_help = "Examples:
  ./x test                        everything
  ./x test --stories              the stories on booted nodes alone
  ./x test --stories 'logs:'      those of one chapter")]
pub(crate) struct Test {
    /// Only the stories on booted nodes
    #[arg(long)]
    stories: bool,
    /// Only the stories whose `chapter: story` holds this
    #[arg(requires = "stories")]
    filter: Option<String>,
    /// Searches in full: `./x soak`'s
    #[arg(skip)]
    is_soak: bool,
}

impl Test {
    /// A chapter's stories, with their searches in full.
    pub(crate) fn soaked(chapter: &str) -> Self {
        Self {
            stories: true,
            filter: Some(format!("{chapter}:")),
            is_soak: true,
        }
    }

    pub(crate) const fn everything() -> Self {
        Self {
            stories: false,
            filter: None,
            is_soak: false,
        }
    }
}

/// Twice what the tests take on two slow cores, once they are built.
const LIMIT: Duration = Duration::from_secs(40 * 60);
/// What is given to those behind one that hangs, each time.
const NEXT: Duration = Duration::from_secs(5 * 60);

/// What `testkit::how_much` asks for.
pub(crate) const SOAK: &str = "AURAE_SOAK";

/// Runs the command.
pub(crate) fn run(test: &Test) -> Result<ExitCode> {
    if !test.stories {
        return everything();
    }
    let binaries = build::binaries(build::Profile::Dev)?;
    let mut stories = stories(&binaries)?;
    if test.is_soak {
        stories.env(SOAK, "1");
    }
    Ok(exit(stories.args(&test.filter).status()?))
}

/// Stories wait for a third of their time and tests of the API for nearly all of it, so they go on
/// beside each other, once all is built; what the stories say comes at the end.
fn everything() -> Result<ExitCode> {
    println!("test: building");
    let mut tests = own()?;
    exec::run(own()?.arg("--no-run"))?;
    let binaries = build::binaries(build::Profile::Dev)?;
    let told = build::target()?.join("stories.log");
    let log = fs::File::create(&told)?;
    let mut stories = stories(&binaries)?
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("the stories")?;
    println!(
        "test: stories on booted nodes have begun, see {}",
        told.display()
    );
    println!("test: every crate's own (unit, property, host)");
    let passed = run_to_an_end(&mut tests).and_then(|()| editors::test(&binaries));
    println!("test: stories on booted nodes");
    let status = stories.wait()?;
    io::copy(&mut fs::File::open(&told)?, &mut io::stdout())?;
    passed.map(|()| exit(status))
}

/// Runs tests; one that hangs is a failure that leaves the others, and the stories, their say.
fn run_to_an_end(tests: &mut Command) -> Result<()> {
    let mut cargo = tests.spawn().context("cargo")?;
    let mut limit = LIMIT;
    loop {
        if let Some(status) = exec::wait(&mut cargo, limit)? {
            ensure!(status.success(), "cargo test: {status}");
            return Ok(());
        }
        println!(
            "test: no end after {} minutes: what `has been running` and isn't in a list of \
             failures hangs; its binary is ended",
            LIMIT.as_secs() / 60
        );
        end_children(cargo.id())?;
        limit = NEXT;
    }
}

/// Kills what a process has started and not waited for.
fn end_children(pid: u32) -> Result<()> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let children = children.split_ascii_whitespace();
    for pid in children.filter_map(|it| Pid::from_raw(it.parse().ok()?)) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
    Ok(())
}

/// The tests that cargo runs.
fn own() -> Result<Command> {
    let mut cargo = build::cargo();
    cargo
        .current_dir(build::root()?)
        .args(["test", "--workspace", "--quiet", "--no-fail-fast"]);
    if rustix::process::geteuid().is_root() {
        // Nothing passes that was never run (`testkit::skip`).
        cargo.env("AURAE_NO_SKIP", "1");
    }
    Ok(cargo)
}

/// The teller of stories, built.
fn stories(binaries: &Path) -> Result<Command> {
    let runner = build::build(build::Profile::Dev, &["-p", "stories"])?.join("stories");
    let mut stories = Command::new(runner);
    stories.arg("--target").arg(build::target()?);
    stories.arg("--binaries").arg(binaries);
    Ok(stories)
}

fn exit(status: ExitStatus) -> ExitCode {
    if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
