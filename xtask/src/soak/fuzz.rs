// SPDX-License-Identifier: Apache-2.0
//! `./x soak fuzz`: foreign bytes for every target of `fuzz/`, by cargo-fuzz or by a nightly
//! compiler alone.

use std::process::Command;

use anyhow::Result;
use testkit::exec;

use super::told;
use crate::build;

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
pub(super) fn run(minutes: u32, name: &str) -> Result<bool> {
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
