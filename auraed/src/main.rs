// SPDX-License-Identifier: Apache-2.0
//! The `auraed` binary: picks its role, and wires the subsystems together for it.
//!
//! `init` runs before any thread exists and never returns; `serve` is the daemon that it starts. What the roles
//! do lives in `init`, `node` and the modules here; this file chooses between them.

mod args;
mod config;
mod host;
mod listen;
mod net;
#[allow(dead_code, reason = "nothing serves it before `serve` is wired")]
mod rpc;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Common, Role};
use config::Loaded;

fn main() -> ExitCode {
    let arguments = if std::process::id() == 1 {
        Arguments::of_pid1()
    } else {
        Arguments::parse()
    };
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("auraed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let common = arguments.common;
    match arguments.role.unwrap_or(Role::Init) {
        Role::Config { output } => print_config(&common, &output),
        _ => anyhow::bail!("not here yet"),
    }
}

fn print_config(common: &Common, output: &str) -> anyhow::Result<ExitCode> {
    let loaded = common.sources().load()?;
    if output == "json" {
        println!("{}", serde_json::to_string_pretty(&json_of(&loaded))?);
    } else {
        for (key, value, origin) in loaded.entries() {
            println!("{:<52} # {origin}", format!("{key} = {value}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn json_of(loaded: &Loaded) -> Vec<serde_json::Value> {
    loaded
        .entries()
        .map(|(key, value, origin)| {
            serde_json::json!({ "key": key, "value": value, "origin": origin.to_string() })
        })
        .collect()
}
