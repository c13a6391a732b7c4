// SPDX-License-Identifier: Apache-2.0
//! `./x fresh`: a command of the README where nothing is prepared: a bare Debian made for the
//! purpose, a clean clone, Rust as rustup installs it.
//!
//! What comes from this machine is what a user would have set up before the first command: the Rust
//! toolchain (read-only) and how downloads are configured ([`settings`]). The root is entered with
//! `pivot_root` in namespaces of its own ([`inside`]): the kernel makes no user namespace in a
//! chroot, and cells need one. Not a test: it says what a new user would see.

mod inside;
mod root;
mod settings;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use testkit::exec;

use crate::build;

/// How many of the last lines are shown again at the end.
const LAST: usize = 12;

/// Runs a command on a bare Debian, in a clean clone of this repository's HEAD.
#[derive(Args)]
#[command(
    long_about = "Runs a command of the README where nothing is prepared: in a bare Debian made for \
        the purpose (mmdebstrap's minbase, in namespaces of its own), in a clean clone of HEAD.\n\n\
        From this machine come the Rust toolchain, read-only, and how apt, cargo and npm find \
        their mirrors. All else the command has to get by itself. The Debian is kept in \
        target/fresh between runs; what a run changes is gone with it. It needs root, and for \
        ./x test about 25 GB of disk.",
    after_help = "Examples:
  ./x fresh ./x demo              the README's first command, as a new user meets it
  ./x fresh ./x test              the second
  ./x fresh --keep ./x test       leaves the root behind, to look at
  ./x fresh bash                  a shell there"
)]
pub(crate) struct Fresh {
    /// Leave the root behind when the command has ended
    #[arg(long)]
    keep: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(fresh: &Fresh) -> Result<ExitCode> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "./x fresh makes namespaces and a Debian: run it as root"
    );
    let folder = build::target()?.join("fresh");
    fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let base = root::base(&folder)?;
    println!("fresh: unpacking the Debian");
    let root = root::Root::unpack(&folder, &base, fresh.keep)?;
    clone(root.path())?;
    settings::copy(root.path())?;
    let rust = settings::Rust::find()?;
    println!("fresh: Rust, read-only: {}", rust.shown());
    let shown = fresh.command.join(" ");
    println!("fresh: running `{shown}` in a clean clone\n");
    let log = folder.join("last.log");
    let started = Instant::now();
    let ended = told(&root, &rust, &fresh.command, &log)?;
    let took = started.elapsed();
    let left = root.left_groups();
    println!("\nfresh: the last lines of `{shown}`:");
    for line in &ended.last {
        println!("  {line}");
    }
    if fresh.keep {
        println!("fresh: kept: {}", root.path().display());
    }
    root.remove()?;
    println!("fresh: all of it is in {}", log.display());
    Ok(verdict(&shown, ended.status, took, &left))
}

fn verdict(shown: &str, status: i32, took: Duration, left: &[String]) -> ExitCode {
    let minutes = took.as_secs_f64() / 60.0;
    println!("fresh: `{shown}` ended with {status} after {minutes:.1} minutes");
    if !left.is_empty() {
        println!("fresh: it left cgroups behind: {}", left.join(" "));
    }
    match u8::try_from(status).unwrap_or(1) {
        0 if !left.is_empty() => ExitCode::FAILURE,
        code => ExitCode::from(code),
    }
}

/// A clean clone of HEAD, where a user would have it.
fn clone(root: &Path) -> Result<()> {
    let from = build::root()?;
    let git = |words: &[&str]| exec::read(Command::new("git").current_dir(&from).args(words));
    let head = git(&["log", "-1", "--format=%h %s"])?;
    println!("fresh: a clone of {}", head.trim());
    if !git(&["status", "--porcelain"])?.is_empty() {
        println!("fresh: what isn't committed here isn't in it");
    }
    let place = inside::place(root);
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--depth", "1"]);
    // A bare path would share its objects by links.
    clone.arg(format!("file://{}", from.canonicalize()?.display()));
    exec::read(clone.arg(place)).map(drop)
}

/// How the command came out.
struct Ended {
    status: i32,
    last: VecDeque<String>,
}

/// Runs it with its output on ours and in the log.
fn told(root: &root::Root, rust: &settings::Rust, words: &[String], log: &Path) -> Result<Ended> {
    let mut command = inside::command(root, rust, words)?;
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("can't start unshare")?;
    let output = child.stdout.take().context("its output")?;
    let mut log = File::create(log)?;
    let mut last = VecDeque::new();
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? > 0 {
        stdout().write_all(&line)?;
        stdout().flush()?;
        log.write_all(&line)?;
        last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        if last.len() > LAST {
            last.pop_front();
        }
        line.clear();
    }
    let status = child.wait()?;
    Ok(Ended {
        status: status.code().unwrap_or(128),
        last,
    })
}
