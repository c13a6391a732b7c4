// SPDX-License-Identifier: Apache-2.0
//! What `./x` runs: the project's own commands. Not installed, not part of a node.
//!
//! Each command is a file. `x` itself has installed the Debian packages that the command needs.

mod bench;
mod build;
mod ci;
mod demo;
mod dist;
mod editors;
mod fresh;
mod judge;
mod soak;
mod test;
mod vm;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "x",
    bin_name = "./x",
    about = "Builds, boots, tests and measures Aurae"
)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Boot a node and watch its story: a cell, nginx, logs, the daemon's death
    Demo,
    /// Boot a node: a shell on its console, or a script and its exit status
    Vm(vm::Vm),
    /// Run the tests: every crate's own, and the stories on booted nodes
    Test(test::Test),
    /// Measure a node against the bare kernel, systemd and container runtimes
    Bench(bench::Bench),
    /// Have others' programs decide: servers and inits of Debian, run as images
    Judge(judge::Judge),
    /// Make what is shipped: static binaries, a Debian package, images
    Dist(dist::Dist),
    /// Run a command of the README on a bare Debian, in a clean clone
    Fresh(fresh::Fresh),
    /// Run the long searches in full: faults, kills, fuzzing
    Soak(soak::Soak),
    /// What CI runs: form, lints, licences, the demo, then the tests
    Ci,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("x: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Task::Demo => demo::run(),
        Task::Vm(vm) => vm::run(&vm),
        Task::Test(test) => test::run(&test),
        Task::Bench(bench) => bench::run(&bench),
        Task::Judge(judge) => judge::run(&judge),
        Task::Dist(dist) => dist::run(&dist),
        Task::Fresh(fresh) => fresh::run(&fresh),
        Task::Soak(soak) => soak::run(&soak),
        Task::Ci => ci::run(),
    }
}
