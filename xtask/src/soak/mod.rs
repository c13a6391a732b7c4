// SPDX-License-Identifier: Apache-2.0
//! `./x soak`: the long searches in full, of which `./x test` runs a short form: a fault at every
//! system call, kills at thousands of moments, properties with thousands of cases, fuzzing, and
//! thousands of questions to systemd's own program and to Debian's cron.
//!
//! The tests ask `testkit::how_much`, which answers by the variable that is set here.

mod fuzz;

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use testkit::exec;

use crate::judge::archive;
use crate::{build, test};

/// Cases of each property, also of those that say how many an ordinary run has: the variable counts
/// before what the source says.
const CASES: &str = "5000";
/// Cases that a property may turn down: one that turns down every second one passes the default,
/// 1,024, with so many.
const TURNED_DOWN: &str = "100000";

/// A test binary, and which of its tests are long searches.
struct Search {
    name: &'static str,
    what: &'static str,
    arguments: &'static [&'static str],
}

impl Search {
    /// How many questions systemd's program is asked: a score takes it far longer than a time.
    fn questions(&self) -> &'static str {
        match self.name {
            "scores" => "1000",
            _ => "10000",
        }
    }

    /// Whether it succeeded.
    fn passes(&self) -> Result<bool> {
        let mut cargo = build::cargo();
        cargo
            .current_dir(build::root()?)
            .arg("test")
            .args(self.arguments);
        cargo
            .env(test::SOAK, "1")
            .env("AURAE_ORACLE", self.questions())
            .env("PROPTEST_CASES", CASES)
            .env("PROPTEST_MAX_GLOBAL_REJECTS", TURNED_DOWN);
        if let Err(error) = self.give(&mut cargo) {
            println!("soak: {}: FAILED: {error:#}", self.name);
            return Ok(false);
        }
        Ok(told(self.name, self.what, &mut cargo))
    }

    /// Names the packages that it compares with, unpacked: cron, and what sets its clock.
    fn give(&self, cargo: &mut Command) -> Result<()> {
        if self.name == "cron" {
            cargo.env("AURAE_CRON", archive::unpacked("cron")?);
            cargo.env("AURAE_FAKETIME", archive::unpacked("libfaketime")?);
        }
        Ok(())
    }
}

const SEARCHES: &[Search] = &[
    Search {
        name: "faults",
        what: "a failure of every system call of the inits",
        arguments: &["-p", "init", "--test", "inits", "--", "bears_a_failure"],
    },
    Search {
        name: "deaths",
        what: "a daemon that dies at any moment, seen by a cell-init",
        arguments: &["-p", "init", "--test", "inits", "--", "dies_at_any_moment"],
    },
    Search {
        name: "containers",
        what: "containers made and ended, and what starts beside one that hunts for it",
        arguments: &[
            "-p",
            "init",
            "--test",
            "inits",
            "--",
            "containers_come_and_go",
            "beside_can_not_be_traced",
        ],
    },
    Search {
        name: "network",
        what: "the network's owner killed at any instant",
        arguments: &["-p", "net", "--test", "host", "--", "killed_at_any_instant"],
    },
    Search {
        name: "kills",
        what: "daemons and cell-inits killed at random moments",
        arguments: &["-p", "auraed", "--test", "runtime", "--", "moments"],
    },
    Search {
        name: "names",
        what: "a name used again as soon as its end is told",
        arguments: &["-p", "auraed", "--test", "runtime", "--", "again"],
    },
    Search {
        name: "cycles",
        what: "containers made and removed while the daemon is killed",
        arguments: &[
            "-p",
            "auraed",
            "--test",
            "api",
            "--",
            "come_and_go",
            "--nocapture",
        ],
    },
    Search {
        name: "mover",
        what: "the mover of logs killed at random moments",
        arguments: &["-p", "observe", "--lib", "--", "killed_at_random"],
    },
    Search {
        name: "layers",
        what: "layers of any tree, and of seeds with changed bytes",
        arguments: &["-p", "image", "--test", "fair", "--test", "corpus"],
    },
    Search {
        name: "oracle",
        what: "calendar expressions and spans of time, beside systemd-analyze",
        arguments: &["-p", "units", "--test", "oracle", "--", "--nocapture"],
    },
    Search {
        name: "cron",
        what: "crontabs at any date, beside Debian's cron",
        arguments: &["-p", "units", "--test", "crond", "--", "--nocapture"],
    },
    Search {
        name: "scores",
        what: "what services leave open, beside systemd-analyze",
        arguments: &["-p", "units", "--test", "scores", "--", "--nocapture"],
    },
    Search {
        name: "properties",
        what: "properties of every crate that has some",
        arguments: PROPERTIES,
    },
];

/// Searches that are stories on booted nodes: name, chapter, and what is done.
const CHAPTERS: [(&str, &str, &str); 2] = [
    (
        "deb",
        "package",
        "apt installs, upgrades and removes the package",
    ),
    (
        "power",
        "hostile",
        "the power is cut at 200 moments, and units mean harm",
    ),
];

/// The crates with properties, and where these are: in the crate itself, or in one of these tests.
/// The other tests are no searches, or searches of their own, as is the kill in `observe`.
const PROPERTIES: &[&str] = &[
    "-p",
    "api",
    "-p",
    "identity",
    "-p",
    "init",
    "-p",
    "kernel",
    "-p",
    "language",
    "-p",
    "model",
    "-p",
    "net",
    "-p",
    "observe",
    "-p",
    "runtime",
    "-p",
    "script",
    "-p",
    "tenants",
    "-p",
    "units",
    "--lib",
    "--test",
    "conversions",
    "--test",
    "cron",
    "--test",
    "specs",
    "--",
    "--skip",
    "killed_at_random",
];

/// Runs the long searches in full.
#[derive(Args)]
#[command(after_help = "Examples:
  ./x soak                        everything; hours
  ./x soak faults                 one search
  ./x soak fuzz --minutes 60      every fuzz target for an hour; needs a nightly compiler
  ./x soak fuzz --minutes 60 --target program    one of them

Searches: faults, deaths, containers, network, kills, names, cycles, mover, layers, oracle, cron,
scores, properties, deb, power, fuzz. A search that draws its moments prints a seed; AURAE_TEST_SEED=N draws the
same ones again.")]
pub(crate) struct Soak {
    /// Only the searches whose name holds this
    #[arg(default_value = "")]
    filter: String,
    /// Only the fuzz targets whose name holds this
    #[arg(long, value_name = "NAME", default_value = "")]
    target: String,
    /// Minutes for each fuzz target
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u32,
}

/// Runs the command. A search that fails doesn't end the others.
pub(crate) fn run(soak: &Soak) -> Result<ExitCode> {
    let mut failed: Vec<&str> = Vec::new();
    let mut ran = 0;
    for search in SEARCHES
        .iter()
        .filter(|search| search.name.contains(&soak.filter))
    {
        ran += 1;
        if !search.passes()? {
            failed.push(search.name);
        }
    }
    for (name, chapter, what) in CHAPTERS {
        if name.contains(&soak.filter) {
            ran += 1;
            println!("soak: {name}: {what}");
            if test::run(&test::Test::soaked(chapter))? != ExitCode::SUCCESS {
                failed.push(name);
            }
        }
    }
    if "fuzz".contains(&soak.filter) {
        ran += 1;
        if !fuzz::run(soak.minutes, &soak.target)? {
            failed.push("fuzz");
        }
    }
    anyhow::ensure!(ran > 0, "no search is called {:?}", soak.filter);
    println!("soak: {} of {ran} searches passed", ran - failed.len());
    match failed.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => {
            println!("soak: failed: {}", failed.join(" "));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Whether it succeeded.
fn told(name: &str, what: &str, command: &mut Command) -> bool {
    println!("soak: {name}: {what}");
    let started = Instant::now();
    let outcome = exec::run(command);
    let minutes = started.elapsed().as_secs_f64() / 60.0;
    match outcome {
        Ok(()) => println!("soak: {name}: ok after {minutes:.1} minutes"),
        Err(ref error) => println!("soak: {name}: FAILED after {minutes:.1} minutes: {error:#}"),
    }
    outcome.is_ok()
}
