// SPDX-License-Identifier: Apache-2.0
//! What `./x` runs: the project's own commands. Not installed, not part of a node.
//!
//! Each command is a file. `x` itself has installed the Debian packages that the command needs.

mod build;
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
    /// Boot a node: a shell on its console, or a script and its exit status
    Vm(vm::Vm),
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
        Task::Vm(vm) => vm::run(&vm),
    }
}
