// SPDX-License-Identifier: Apache-2.0
//! `./x judge systemd`: the scripts of Debian's package `systemd-tests` (`TEST-NN-…`) that concern
//! PID 1, unmodified, on a Debian whose PID 1 is auraed. Each is a service that is started by
//! `systemctl start`, with its helper units in the load path, as systemd's own runner does it; it
//! has passed when it has written `/testok` and not `/failed`.
//!
//! Unlike there all are run by one boot, one after the other: what a script leaves is stopped.
//! Scripts of systemd's other programs are not run; why, is in [`table`].

mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use testkit::disk::{self, Copy};
use testkit::node::{Bed, Node, Options};

use super::archive;
use super::machine::{SHOWN, end, step, up};
use crate::build::{self, Profile};
use table::{Fate, SCRIPTS, Script};

/// How long other steps may take.
const STEP: Duration = Duration::from_secs(300);
/// What scripts use beside systemd's tests: programs, and units of systemd's.
const BESIDE: [&str; 6] = [
    "systemd-container",
    "systemd-timesyncd",
    "netcat-openbsd",
    "jq",
    "libjq1",
    "libonig5",
];
const ARCHIVES: &str = "/var/lib/judge";
const DATA: &str = "/usr/lib/systemd/tests/testdata";

/// Runs those with these numbers; none: all.
pub(super) fn run(numbers: &[String]) -> Result<ExitCode> {
    let known = |number: &String| SCRIPTS.iter().any(|it| it.number == number);
    if let Some(unknown) = numbers.iter().find(|number| !known(number)) {
        bail!("the package has no script {unknown}");
    }
    let wanted = |it: &&Script| numbers.is_empty() || numbers.iter().any(|one| one == it.number);
    let bed = Bed::new(&build::target()?, &build::binaries(Profile::Dev)?)?;
    let mut node = boot(&bed)?;
    println!("| number | what it is about | result |\n|---|---|---|");
    let (mut passed, mut failed) = (0, 0);
    for script in SCRIPTS.iter().filter(wanted) {
        let begun = Instant::now();
        let result = match script.fate {
            Fate::Left(why) => {
                println!("| {} | {} | not run: {why} |", script.number, script.what);
                continue;
            }
            Fate::Reboots => reboots(&bed, script),
            Fate::Run(_) => judge(&node, script),
        };
        let word = if result.is_ok() {
            "passed"
        } else {
            "**failed**"
        };
        println!("| {} | {} | {word} |", script.number, script.what);
        eprintln!("{}: {:.0} s", script.number, begun.elapsed().as_secs_f64());
        match result {
            Ok(()) => passed += 1,
            Err(error) => {
                failed += 1;
                println!("    {}: {error:#}", script.number);
            }
        }
        // What has ended the machine has not ended the judge.
        if node.try_sh("true").is_err() {
            let console = node.console();
            let said = testkit::exec::last_lines(&console, SHOWN);
            println!("    {}: the machine is gone: {said}", script.number);
            drop(node);
            node = boot(&bed)?;
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(end(node, failed))
}

fn options(bed: &Bed) -> Result<Options> {
    let mut copies = bed.packages()?;
    for name in BESIDE.iter().chain(&[archive::TESTS]) {
        copies.push(Copy::new(
            archive::fetched(name)?,
            format!("{ARCHIVES}/{name}.deb"),
        ));
    }
    Ok(Options {
        disk: Some(disk::debian_with_services(&bed.folder)?),
        copies,
        append: "init=/usr/sbin/auraed".into(),
        memory_mib: 2048,
        units: true,
        off: "exec poweroff".into(),
        ..Options::default()
    })
}

/// A machine that is up, with all that scripts want.
fn boot(bed: &Bed) -> Result<Node> {
    let node = bed.boot(&options(bed)?)?;
    prepare(&node)?;
    Ok(node)
}

fn prepare(node: &Node) -> Result<()> {
    up(node)?;
    // The package's links to the client are meant, not the disk's own, which the scripts' services
    // would find first. Dependencies of what is unpacked are there as far as they are needed.
    let prepared = format!(
        "set -e; export DEBIAN_FRONTEND=noninteractive; \
         find /usr/local/bin -lname aurae -delete; \
         dpkg -i {}/aurae-1.deb; dpkg --force-depends,conflicts -i {ARCHIVES}/*.deb; \
         id testuser 2>/dev/null || useradd --uid 4711 --create-home --shell /bin/bash testuser; \
         systemctl daemon-reload",
        testkit::deb::PACKAGES
    );
    step(node, &prepared, STEP).context("the machine can't be prepared")?;
    Ok(())
}

/// Puts a script's units where the manager finds them. They don't replace what the machine was
/// booted with.
fn laid_out(script: &Script) -> String {
    let number = script.number;
    let setup = match script.setup {
        "" => "true",
        setup => setup,
    };
    format!(
        "cd {DATA} || exit 1; rm -f /testok /failed /skipped; mkdir -p /run/systemd/system; \
         for it in units/testsuite-{number}[-.]* testsuite-{number}.units/*; do \
         case $it in *.sh | *'*') ;; *) cp -a $it /run/systemd/system/ ;; esac; done; \
         {setup}; systemctl daemon-reload"
    )
}

/// Stops what it has begun, and takes its units away.
fn cleared(script: &Script) -> String {
    let number = script.number;
    format!(
        "cd {DATA}; systemctl kill -s KILL testsuite-{number}.service 2>/dev/null; \
         for it in units/testsuite-{number}[-.]* testsuite-{number}.units/*; do \
         name=${{it##*/}}; test -e /run/systemd/system/$name || continue; \
         case $name in *.service | *.socket | *.target | *.path | *.timer) \
         timeout 60 systemctl stop $name 2>/dev/null ;; esac; \
         rm -rf /run/systemd/system/$name; done; \
         for it in /run/systemd/transient/*; do test -e $it && timeout 60 systemctl stop \
         ${{it##*/}} 2>/dev/null; done; systemctl daemon-reload; systemctl reset-failed"
    )
}

fn judge(node: &Node, script: &Script) -> Result<()> {
    let limit = script.limit().context("it is not run")?;
    step(node, &laid_out(script), STEP)?;
    let unit = format!("testsuite-{}.service", script.number);
    let started = format!("timeout {} systemctl start {unit}", limit.as_secs());
    let done = step(node, &started, limit + STEP);
    let verdict = verdict(node, &unit, done);
    // A machine that has gone down has nothing to be cleared.
    let _ = step(node, &cleared(script), STEP);
    verdict
}

/// Whether it has written that it passed; otherwise what it said last.
fn verdict(node: &Node, unit: &str, done: Result<String>) -> Result<()> {
    let wrote = "test -e /testok && ! test -s /failed";
    let wrote = step(node, wrote, STEP).map_err(|_| anyhow::anyhow!("there is no /testok"));
    let Err(error) = done.and(wrote) else {
        return Ok(());
    };
    let log = format!(
        "cat /failed 2>/dev/null | tail -n 5; \
         journalctl --no-pager -o cat -u {unit} -n {SHOWN}; systemctl --failed --no-legend"
    );
    let said = step(node, &log, STEP).unwrap_or_default();
    bail!("{error:#}\n{said}")
}

/// A script that reboots the machine in its midst, is started by the boot, and switches the machine
/// off at its end.
fn reboots(bed: &Bed, script: &Script) -> Result<()> {
    let mut node = bed.boot(&Options {
        reboots: true,
        ..options(bed)?
    })?;
    prepare(&node)?;
    step(&node, &laid_out(script), STEP)?;
    let unit = format!("testsuite-{}.service", script.number);
    // It ends with the machine, which nothing answers any more.
    let _begun = node.start(&format!("systemctl start {unit}"))?;
    node.comes_back().context("there was no reboot")?;
    step(&node, &laid_out(script), STEP)?;
    let _begun = node.start(&format!("systemctl start {unit}"))?;
    node.wait_off(STEP).context("it wasn't switched off")
}
