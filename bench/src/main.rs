// SPDX-License-Identifier: Apache-2.0
//! Measures a node against the bare kernel, in one run on one machine.
//!
//! Takes a node that serves already (natively or in a VM: `./x bench` prepares both) and prints a
//! JSON list of figures; a row that fails is in it with the reason, and the others go on. What is
//! compared with another system (systemd, crun) is measured by `xtask`, which has them at hand.
//!
//! Two processes: this one talks to the node over a warm connection; the reference is a
//! single-threaded process that clones and waits by itself, in turns with us, so that both see the
//! same machine.

mod attack;
mod prototype;
mod reference;
mod rows;
mod stats;
mod subject;
mod system;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::attack::Attack;
use crate::subject::Subject;

/// Measures a node.
#[derive(Parser)]
struct Arguments {
    /// The node's socket
    #[arg(long, default_value = "/run/aurae/aurae.sock")]
    socket: PathBuf,
    /// The folder of ca.pem, admin.pem and admin.key
    #[arg(long, default_value = "/var/lib/aurae/pki")]
    pki: PathBuf,
    /// The daemon's state directory
    #[arg(long, default_value = "/var/lib/aurae")]
    state: PathBuf,
    /// In a translated VM: other goals hold there
    #[arg(long)]
    vm: bool,
    /// How many cells stand for a thousand
    #[arg(long, default_value_t = 1000)]
    cells: usize,
    /// How many cells are as many as a node may have; natively alone
    #[arg(long, default_value_t = 5000)]
    dense: usize,
    /// How often a program runs beside an attack
    #[arg(long, default_value_t = 300)]
    runs: usize,
    /// run, cell, memory, growth, restart, density, logs, neighbour; none: all
    rows: Vec<String>,
    /// Be the process that clones by itself
    #[arg(long, hide = true)]
    reference: bool,
    /// Write so many lines to stdout, each in a write of its own
    #[arg(long, hide = true)]
    write_lines: Option<usize>,
    /// Start and stop the units of `./x bench machine` so often, over a connection that is held
    #[arg(long, hide = true)]
    units: Option<usize>,
    /// So many at once
    #[arg(long, hide = true, default_value_t = 200)]
    many: usize,
    /// Row neighbour: these attacks alone, and all of them
    #[arg(long, value_delimiter = ',')]
    only: Vec<Attack>,
    /// Be a hostile tenant's program
    #[arg(long, hide = true)]
    attack: Option<Attack>,
    #[command(flatten)]
    place: attack::Place,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match (arguments.write_lines, arguments.attack) {
        (Some(lines), _) => rows::write_lines(lines),
        (None, Some(attack)) => attack::run(attack, &arguments.socket, &arguments.place),
        _ if arguments.reference => reference::serve(),
        _ => measure(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aurae-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let connect = || Subject::connect(&arguments.socket, &arguments.pki, &arguments.state);
    if let Some(rounds) = arguments.units {
        let done = async { rows::units(&connect().await?, rounds, arguments.many).await };
        return runtime.block_on(done);
    }
    let figures = runtime.block_on(async {
        let subject = connect().await?;
        let bench = rows::Bench {
            subject,
            vm: arguments.vm,
            cells: arguments.cells,
            dense: arguments.dense,
            runs: arguments.runs,
            only: arguments.only.clone(),
        };
        bench.measure(&arguments.rows).await
    })?;
    println!("{}", serde_json::Value::from_iter(figures));
    Ok(())
}
