// SPDX-License-Identifier: Apache-2.0
//! `./x soak`: the long searches in full, of which `./x test` runs a short form: a fault at every
//! system call, kills at thousands of moments, properties with thousands of cases, fuzzing, and
//! thousands of questions to systemd's own program.
//!
//! The tests ask `testkit::how_much`, which answers by the variable that is set here.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use testkit::exec;

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

/// What a fuzz target needs beyond its name.
struct Target {
    name: &'static str,
    build: &'static [&'static str],
    limits: &'static [&'static str],
    /// Folders of the repository that have inputs, beside `fuzz/seeds`.
    inputs: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target::plain("config"),
    Target {
        name: "documents",
        build: &["--features", "layer"],
        limits: &["-max_len=16384"],
        inputs: &[],
    },
    Target::plain("init_protocol"),
    Target {
        name: "layer",
        build: &["--features", "layer"],
        limits: &["-max_len=16384", "-timeout=20"],
        inputs: &[],
    },
    Target::plain("log_frames"),
    Target::plain("names"),
    Target::plain("units"),
    Target {
        name: "program",
        build: &["--features", "program"],
        // What glibc keeps for a thread that is just ending passes for a leak.
        limits: &[
            "-rss_limit_mb=4096",
            "-malloc_limit_mb=2048",
            "-timeout=20",
            "-detect_leaks=0",
            "-max_len=8192",
            "-dict=fuzz/program.dict",
        ],
        inputs: &[
            "examples",
            "crates/language/prelude",
            "crates/language/tests/tsc",
        ],
    },
];

impl Target {
    const fn plain(name: &'static str) -> Self {
        Self {
            name,
            build: &[],
            limits: &[],
            inputs: &[],
        }
    }
}

/// Runs the long searches in full.
#[derive(Args)]
#[command(after_help = "Examples:
  ./x soak                        everything; hours
  ./x soak faults                 one search
  ./x soak fuzz --minutes 60      every fuzz target for an hour; needs a nightly compiler
  ./x soak fuzz --minutes 60 --target program    one of them

Searches: faults, deaths, containers, network, kills, names, cycles, mover, layers, oracle, scores,
properties, deb, power, fuzz. A search that draws its moments prints a seed; AURAE_TEST_SEED=N draws the
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
        let mut cargo = build::cargo();
        cargo
            .current_dir(build::root()?)
            .arg("test")
            .args(search.arguments);
        cargo
            .env(test::SOAK, "1")
            .env("AURAE_ORACLE", search.questions())
            .env("PROPTEST_CASES", CASES)
            .env("PROPTEST_MAX_GLOBAL_REJECTS", TURNED_DOWN);
        if !told(search.name, search.what, &mut cargo) {
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
        if !fuzz(soak.minutes, &soak.target)? {
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

/// How fuzz targets are built and run.
#[derive(Clone, Copy)]
enum Tool {
    CargoFuzz,
    /// By a nightly compiler alone, with what cargo-fuzz would tell it.
    Compiler,
}

/// What cargo-fuzz tells the compiler: coverage that libFuzzer reads, and the address sanitizer.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0 -Zsanitizer=address -Cdebug-assertions \
    -Coverflow-checks";

/// A target of its own, so that what runs at build time isn't instrumented.
fn host() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

impl Tool {
    fn found() -> Option<Self> {
        let answers = |arguments: &[&str]| {
            let mut ask = Command::new("cargo");
            exec::capture(ask.args(arguments)).is_ok_and(|output| output.status.success())
        };
        if answers(&["+nightly", "fuzz", "--version"]) {
            return Some(Self::CargoFuzz);
        }
        answers(&["+nightly", "--version"]).then_some(Self::Compiler)
    }

    /// What runs a target from the project's folder; libFuzzer's own arguments follow.
    fn command(self, target: &Target) -> Result<Command> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(build::root()?);
        match self {
            Self::CargoFuzz => {
                // The project's flags for static binaries aren't meant for the sanitizers.
                cargo.env("RUSTFLAGS", "");
                cargo.args(["+nightly", "fuzz", "run"]).args(target.build);
                cargo.arg(target.name);
            }
            Self::Compiler => {
                cargo.env("RUSTFLAGS", INSTRUMENTED);
                cargo.args(["+nightly", "run", "--release", "--manifest-path"]);
                cargo.args(["fuzz/Cargo.toml", "--target", &host()]);
                cargo.args(["--bin", target.name]).args(target.build);
                let found = format!("fuzz/artifacts/{}/", target.name);
                std::fs::create_dir_all(build::root()?.join(&found))?;
                cargo.args(["--".to_owned(), format!("-artifact_prefix={found}")]);
            }
        }
        Ok(cargo)
    }
}

/// Every target of that name for some minutes, where a tool is. Whether all succeeded.
fn fuzz(minutes: u32, name: &str) -> Result<bool> {
    let Some(tool) = Tool::found() else {
        println!(
            "soak: fuzz: left out. It needs a nightly compiler: \
             rustup toolchain install nightly"
        );
        return Ok(true);
    };
    let mut passed = true;
    for target in TARGETS.iter().filter(|target| target.name.contains(name)) {
        let name = target.name;
        let corpus = format!("fuzz/corpus/{name}");
        std::fs::create_dir_all(build::root()?.join(&corpus))?;
        let mut run = tool.command(target)?;
        run.args([&corpus, &format!("fuzz/seeds/{name}")]);
        run.args(target.inputs);
        if matches!(tool, Tool::CargoFuzz) {
            run.arg("--");
        }
        run.arg(format!("-max_total_time={}", minutes * 60))
            .args(target.limits);
        passed &= told(&format!("fuzz {name}"), "foreign bytes", &mut run);
    }
    Ok(passed)
}
