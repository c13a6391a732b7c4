// SPDX-License-Identifier: Apache-2.0
//! `./x bench`: the figures that we promise, ours and the reference in one run.
//!
//! The binaries are those of `./x dist`. What a host can do is measured natively, with a daemon of
//! its own as a service; the rest, and everything that has systemd, crun or journald beside it, in
//! a VM. `aurae-bench` measures; this file has nodes ready for it and prints the table. A row that
//! can't be measured is in the table with the reason, and the others go on.

mod containers;
mod machine;
pub(crate) mod native;
mod peers;
pub(crate) mod pull;
mod record;
mod script;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use testkit::disk::Copy;
use testkit::node::{Bed, Node, Options};

use crate::build::{self, Profile};
use table::Row;

/// The rows that there are, and whether `aurae-bench` is who measures them.
const ROWS: [(&str, bool); 13] = [
    ("run", true),
    ("cell", true),
    ("memory", true),
    ("restart", true),
    ("logs", true),
    ("growth", true),
    ("density", true),
    ("neighbour", true),
    ("boot", false),
    ("script", false),
    ("pull", false),
    ("containers", false),
    ("machine", false),
];
/// Where the VM has the measuring program.
const PROGRAM: &str = "/usr/local/lib/aurae-testbed/aurae-bench";
/// The VM that the figures speak of: a thousand cells have room in it.
const MEMORY_MIB: u32 = 3072;
/// Rows that share their many cells. One of them wants a daemon that has done nothing yet.
const AMONG_MANY: [&str; 5] = ["cell", "memory", "growth", "density", "restart"];
/// A VM that measures for longer hangs.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// What `./x dist` ships, and what measures it.
const PACKAGES: [&str; 8] = [
    "-p",
    "auraed",
    "-p",
    "aurae",
    "-p",
    "testkit",
    "-p",
    "aurae-bench",
];

/// Measures a node against the bare kernel, systemd, containerd and container runtimes.
#[derive(Args)]
#[command(after_help = "Examples:
  ./x bench                     every row; about an hour after the build
  ./x bench run cell            two of them
  ./x bench run --only native   without a VM
  ./x bench boot -o json
  ./x bench --write             and docs/guide/figures.md from what came out")]
pub(crate) struct Bench {
    /// run, cell, memory, growth, restart, logs, density, neighbour, boot, script, pull,
    /// containers, machine; none: all
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
    /// How many cells are as many as a node may have; natively alone
    #[arg(long, default_value_t = 5000)]
    dense: usize,
    /// How often a program runs beside each attack of row `neighbour`
    #[arg(long, default_value_t = 300)]
    runs: usize,
    /// How often each contender of rows `containers` and `machine` has its turn, and how many idle
    /// containers have their supervisors weighed
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// How many services row `machine` starts at once
    #[arg(long, default_value_t = 200)]
    units: usize,
    /// How many lines row `machine` writes to the journal's socket
    #[arg(long, default_value_t = 100_000)]
    lines: usize,
    /// How many pods stand in row `containers` when the daemon is killed
    #[arg(long, default_value_t = 300)]
    pods: usize,
    /// Keep what came out in docs/guide/figures.json, and write figures.md from it
    #[arg(long)]
    write: bool,
    /// Only write figures.md anew from figures.json; measure nothing
    #[arg(long, conflicts_with_all = ["rows", "write", "only"])]
    render: bool,
}

/// Runs the command.
pub(crate) fn run(bench: &Bench) -> Result<ExitCode> {
    if bench.render {
        record::render()?;
        return Ok(ExitCode::SUCCESS);
    }
    let known = |row: &str| ROWS.iter().any(|(name, _)| *name == row);
    if let Some(unknown) = bench.rows.iter().find(|row| !known(row)) {
        let all: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
        bail!("no row {unknown}: there are {}", all.join(", "));
    }
    let binaries = binaries()?;
    let started = Instant::now();
    let mut rows = Vec::new();
    if bench.in_place("native") {
        rows.extend(natively(bench, &binaries));
    }
    if bench.in_place("vm") {
        rows.extend(in_vms(bench, &binaries));
    }
    eprintln!("bench: {:.0?} in all", started.elapsed());
    ensure!(!rows.is_empty(), "nothing of this is measured there");
    table::print(&rows, &bench.output)?;
    if bench.write {
        record::keep(&rows)?;
    }
    let good = rows.iter().all(Row::is_good);
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Bench {
    fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|one| one == row)
    }

    fn in_place(&self, place: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == place)
    }

    /// How much `aurae-bench` is to do, as its flags.
    fn sizes(&self) -> Vec<String> {
        let sizes = [
            ("--cells", self.cells),
            ("--dense", self.dense),
            ("--runs", self.runs),
        ];
        let flags = sizes.map(|(flag, size)| format!("{flag}={size}"));
        flags.into()
    }

    /// The wanted rows that `aurae-bench` measures.
    fn inner(&self) -> Vec<&'static str> {
        let inner = ROWS.iter().filter(|(row, inner)| *inner && self.wants(row));
        inner.map(|(row, _)| *row).collect()
    }
}

/// Builds what is measured and what measures. `AURAE_BINARIES` names a folder that has it.
fn binaries() -> Result<std::path::PathBuf> {
    if let Some(folder) = std::env::var_os("AURAE_BINARIES") {
        return Ok(folder.into());
    }
    eprintln!("bench: building what `./x dist` ships");
    build::build(Profile::Dist, &PACKAGES)
}

fn natively(bench: &Bench, binaries: &Path) -> Vec<Row> {
    let inner = bench.inner();
    let mut rows = Vec::new();
    if !inner.is_empty() {
        eprintln!("bench: natively");
        let measured = native::measure(binaries, &inner, bench);
        let failed = |error| vec![Row::failed(&inner.join(", "), "native", &error)];
        rows.extend(measured.unwrap_or_else(failed));
    }
    if bench.wants("script") {
        eprintln!("bench: the language");
        rows.extend(script::measure(binaries));
    }
    if bench.wants("pull") {
        eprintln!("bench: pulls of images, beside containerd");
        rows.extend(pull::measure(binaries));
    }
    if bench.wants("containers") {
        eprintln!("bench: containers, beside podman, containerd, crun and runc");
        rows.extend(containers::measure(binaries, bench));
    }
    rows
}

fn in_vms(bench: &Bench, binaries: &Path) -> Vec<Row> {
    let bed = build::target().and_then(|target| Bed::new(&target, binaries));
    let bed = match bed {
        Ok(bed) => bed,
        Err(error) => return vec![Row::failed("every row", "vm", &error)],
    };
    let copies = vec![Copy::new(binaries.join("aurae-bench"), PROGRAM)];
    let options = Options {
        memory_mib: MEMORY_MIB,
        copies,
        ..Options::default()
    };
    let mut rows = Vec::new();
    let inner = bench.inner();
    if !inner.is_empty() {
        eprintln!("bench: in a VM");
        let outcome = ours(bench, &bed, &options, &inner, &mut rows);
        if let Err(error) = outcome {
            rows.push(Row::failed(&inner.join(", "), "vm", &error));
        }
    }
    peers::measure(&bed, &options, bench, &mut rows);
    if bench.wants("containers") {
        containers::vm::measure(&bed, bench, binaries, &mut rows);
    }
    if bench.wants("machine") {
        machine::measure(&bed, bench, binaries, &mut rows);
    }
    rows
}

/// What is measured on a node of ours: by `aurae-bench`, and the container runtimes beside it.
fn ours(
    bench: &Bench,
    bed: &Bed,
    options: &Options,
    inner: &[&str],
    rows: &mut Vec<Row>,
) -> Result<()> {
    let node = bed.boot(options)?;
    let (many, alone): (Vec<&str>, Vec<&str>) =
        inner.iter().partition(|row| AMONG_MANY.contains(row));
    let many = (!many.is_empty()).then_some(many);
    // One after the other, so that what fails or hangs costs its own rows.
    for wanted in many
        .into_iter()
        .chain(alone.into_iter().map(|row| vec![row]))
    {
        let (names, started) = (wanted.join(", "), Instant::now());
        match figures(&node, &wanted, bench) {
            Ok(measured) => rows.extend(measured),
            Err(error) => rows.push(Row::failed(&names, "vm", &error)),
        }
        eprintln!("bench: in a VM: {names}: {}s", started.elapsed().as_secs());
    }
    if bench.wants("cell") {
        peers::containers(&node, rows);
    }
    node.shutdown()
}

fn figures(node: &Node, rows: &[&str], bench: &Bench) -> Result<Vec<Row>> {
    let sizes = bench.sizes();
    let mut words = vec![PROGRAM, "--vm"];
    words.extend(sizes.iter().map(String::as_str));
    words.extend(rows);
    let finished = node.start_program(&words)?.finish_within(TIMEOUT)?;
    let said = String::from_utf8_lossy(&finished.err);
    eprint!("{said}");
    ensure!(
        finished.status == 0,
        "aurae-bench on the node: {said}\n{}",
        node.console()
    );
    let figures = String::from_utf8_lossy(&finished.out);
    table::read(&figures, "vm").context("what aurae-bench printed")
}
