// SPDX-License-Identifier: Apache-2.0
//! `./x bench`: the figures that we promise, ours and the reference in one run.
//!
//! The binaries are those of `./x dist`. What a host can do is measured natively, with a daemon of
//! its own as a service; the rest, and everything that has systemd, crun or journald beside it, in
//! a VM. `aurae-bench` measures; this file has nodes ready for it and prints the table.

mod native;
mod peers;
mod table;

use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use testkit::disk::Copy;
use testkit::node::{Bed, Options};

use crate::build::{self, Profile};
use table::Row;

/// The rows that there are.
const ROWS: [&str; 7] = [
    "run", "cell", "memory", "restart", "logs", "density", "boot",
];
/// Where the VM has the measuring program.
const PROGRAM: &str = "/usr/local/lib/aurae-testbed/aurae-bench";
/// The VM that the figures speak of.
const MEMORY_MIB: u32 = 2048;

/// Measures a node against the bare kernel, systemd and container runtimes.
#[derive(Args)]
#[command(after_help = "Examples:
  ./x bench                     every row; about half an hour
  ./x bench run cell            two of them
  ./x bench run --only native   without a VM
  ./x bench boot -o json")]
pub(crate) struct Bench {
    /// run, cell, memory, restart, logs, density, boot; none: all
    #[arg(value_name = "ROW")]
    rows: Vec<String>,
    /// `table` or `json`
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
    /// Measure only here: `native` or `vm`
    #[arg(long, value_parser = ["native", "vm"])]
    only: Option<String>,
    /// How many cells stand for a thousand
    #[arg(long, default_value_t = 1000)]
    cells: usize,
}

/// Runs the command.
pub(crate) fn run(bench: &Bench) -> Result<ExitCode> {
    if let Some(unknown) = bench.rows.iter().find(|row| !ROWS.contains(&row.as_str())) {
        bail!("no row {unknown}: there are {}", ROWS.join(", "));
    }
    eprintln!("bench: building what `./x dist` ships");
    let packages = [
        "-p",
        "auraed",
        "-p",
        "aurae",
        "-p",
        "testkit",
        "-p",
        "aurae-bench",
    ];
    let binaries = build::build(Profile::Dist, &packages)?;
    let place = |name: &str| bench.only.as_deref().is_none_or(|only| only == name);
    let inner: Vec<&str> = bench
        .rows
        .iter()
        .map(String::as_str)
        .filter(|row| *row != "boot")
        .collect();
    let measured = bench.rows.is_empty() || !inner.is_empty();
    let mut rows = Vec::new();
    if place("native") && measured {
        eprintln!("bench: natively");
        rows.extend(native::measure(&binaries, &inner, bench.cells)?);
    }
    if place("vm") {
        let bed = Bed::new(&build::target()?, &binaries)?;
        let copies = vec![Copy::new(binaries.join("aurae-bench"), PROGRAM)];
        let options = Options {
            memory_mib: MEMORY_MIB,
            copies,
            ..Options::default()
        };
        if measured {
            eprintln!("bench: in a VM");
            rows.extend(in_vm(&bed, &options, &inner, bench.cells)?);
        }
        rows.extend(peers::measure(&bed, &options, bench, &rows)?);
    }
    ensure!(!rows.is_empty(), "nothing was measured");
    table::print(&rows, &bench.output)?;
    let missed = rows.iter().filter(|row| row.met == Some(false)).count();
    Ok(if missed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Bench {
    fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|one| one == row)
    }
}

fn in_vm(bed: &Bed, options: &Options, rows: &[&str], cells: usize) -> Result<Vec<Row>> {
    let node = bed.boot(options)?;
    let cells = cells.to_string();
    let mut words = vec![PROGRAM, "--vm", "--cells", &cells];
    words.extend(rows);
    let finished = node.start_program(&words)?.finish()?;
    let said = String::from_utf8_lossy(&finished.err);
    ensure!(
        finished.status == 0,
        "aurae-bench on the node: {said}\n{}",
        node.console()
    );
    let figures = String::from_utf8_lossy(&finished.out).into_owned();
    node.shutdown()?;
    table::read(&figures, "vm").context("what aurae-bench printed")
}
