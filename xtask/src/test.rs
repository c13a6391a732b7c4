// SPDX-License-Identifier: Apache-2.0
//! `./x test`: every crate's own tests, then the stories on real kernels.

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;
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
}

impl Test {
    pub(crate) fn chapter(name: &str) -> Self {
        Self {
            stories: true,
            filter: Some(format!("{name}:")),
        }
    }

    pub(crate) const fn everything() -> Self {
        Self {
            stories: false,
            filter: None,
        }
    }
}

/// Runs the command.
pub(crate) fn run(test: &Test) -> Result<ExitCode> {
    if !test.stories {
        println!("test: every crate's own (unit, property, host)");
        let mut cargo = build::cargo();
        cargo.current_dir(build::root()?).args([
            "test",
            "--workspace",
            "--quiet",
            "--no-fail-fast",
        ]);
        if rustix::process::geteuid().is_root() {
            // Nothing passes that was never run (`testkit::skip`).
            cargo.env("AURAE_NO_SKIP", "1");
        }
        exec::run(&mut cargo)?;
    }
    let binaries = build::binaries(build::Profile::Dev)?;
    if !test.stories {
        editors::test(&binaries)?;
        println!("test: stories on booted nodes");
    }
    let runner = build::build(build::Profile::Dev, &["-p", "stories"])?.join("stories");
    let mut stories = Command::new(runner);
    stories
        .arg("--target")
        .arg(build::target()?)
        .arg("--binaries")
        .arg(binaries);
    stories.args(&test.filter);
    let status = stories.status()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
