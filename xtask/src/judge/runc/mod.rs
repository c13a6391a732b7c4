// SPDX-License-Identifier: Apache-2.0
//! `./x judge runc`: runc's own suite of integration tests on nodes of the test bed, with
//! `auraed oci` in runc's place. A node has all controllers of cgroup v2, and its PID 1 is auraed;
//! as root and as an ordinary user the containers make their groups themselves. What is asked of
//! a node is `suite.sh` beside this file.
//!
//! The suite is none of ours and no part of this tree: `AURAE_RUNC` names a checkout of runc with
//! its helper programs and root file systems. What each test is to come to is in [`table`].

mod table;
mod tap;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use testkit::disk::{self, Copy};
use testkit::node::{Bed, Node, Options};

use super::machine::end;
use crate::build::{self, Profile};
use table::{Came, Table, User};
use tap::{Heard, Tap};

const SCRIPT: &str = include_str!("suite.sh");
/// Where a node has the suite.
const PLACE: &str = "/srv/runc";
/// What the suite makes block devices of, and the scheduler whose weights it sets.
const MODULES: [&str; 2] = ["loop", "bfq"];
/// Helper programs that the suite's Makefile builds.
const HELPERS: [&str; 6] = [
    "fs-idmap",
    "key_label",
    "pidfd-kill",
    "recvtty",
    "remap-rootfs",
    "seccompagent",
];
/// Root file systems that the suite would download.
const ROOTS: [&str; 2] = ["busybox-amd64.tar.xz", "debian-amd64.tar.xz"];

/// Runs the suite: `root` or `rootless`, none: as both; and files of these names, none: all.
pub(super) fn run(names: &[String]) -> Result<ExitCode> {
    let suite = suite()?;
    let known = files(&suite)?;
    let (users, files): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| User::of(name).is_some());
    if let Some(wrong) = files.iter().find(|name| !known.contains(**name)) {
        bail!(
            "the suite has no file {wrong}.bats; it has: {}",
            list(&known)
        );
    }
    let files: Vec<&str> = match files.is_empty() {
        true => known.iter().map(String::as_str).collect(),
        false => files.iter().map(|name| name.as_str()).collect(),
    };
    let table = Table::read()?;
    let bed = Bed::new(&build::target()?, &build::binaries(Profile::Dev)?)?;
    let node = bed.boot(&options(&bed, &suite)?)?;
    let mut wrong = 0;
    for user in User::ALL {
        if users.is_empty() || users.iter().any(|name| User::of(name) == Some(user)) {
            println!("runc's suite as {}", user.word());
            wrong += judge(&node, &table, user, &files)?;
        }
    }
    Ok(end(node, wrong))
}

/// How many tests have come to something else than the table says.
fn judge(node: &Node, table: &Table, user: User, files: &[&str]) -> Result<usize> {
    let mut words = vec!["/bin/bash", "-c", SCRIPT, "suite", user.word()];
    words.extend(files);
    let mut tap = Tap::new(|heard: &Heard| {
        let expected = table.of(heard, user);
        match expected == heard.came {
            true => println!("{}: {}: {}", heard.file, heard.name, heard.came.word()),
            false => print!("{}", complaint(heard, expected)),
        }
    });
    let status = node
        .start_program(&words)?
        .stream(&mut tap, &mut std::io::stderr().lock())?;
    ensure!(status == 0, "the script on the node ended with {status}");
    let heard = tap.into_heard();
    let count = |came: Came| heard.iter().filter(|one| one.came == came).count();
    println!(
        "as {}: {} passed, {} skipped, {} failed",
        user.word(),
        count(Came::Passed),
        count(Came::Skipped),
        count(Came::Failed)
    );
    let wrong = heard
        .iter()
        .filter(|one| table.of(one, user) != one.came)
        .count();
    let silent = missing(&heard, files);
    for file in &silent {
        println!("{file}.bats ended before its last test");
    }
    println!("{wrong} came to something else than docs/reference/runc-tests.md says");
    Ok(wrong + silent.len())
}

fn complaint(heard: &Heard, expected: Came) -> String {
    let mut said = format!(
        "{}: {}: {}, where the table says {}\n",
        heard.file,
        heard.name,
        heard.came.word(),
        expected.word()
    );
    for line in &heard.said {
        said.push_str("    ");
        said.push_str(line);
        said.push('\n');
    }
    said
}

/// Files of which not every planned test was heard.
fn missing<'a>(heard: &[Heard], files: &[&'a str]) -> Vec<&'a str> {
    let whole = |file: &str| {
        let mut of = heard.iter().filter(|one| one.file == file).peekable();
        let planned = of.peek().map(|one| one.planned);
        planned == Some(of.count())
    };
    files.iter().copied().filter(|file| !whole(file)).collect()
}

fn options(bed: &Bed, suite: &Path) -> Result<Options> {
    let mut copies = vec![
        Copy::new(suite.join("tests"), format!("{PLACE}/tests")),
        Copy::new(suite.join("VERSION"), format!("{PLACE}/VERSION")),
    ];
    // In the order in which they are loaded.
    for (number, module) in bed.kernel.modules(&MODULES)?.into_iter().enumerate() {
        copies.push(Copy::new(module, format!("{PLACE}/modules/{number}.ko")));
    }
    Ok(Options {
        memory_mib: 3072,
        disk: Some(disk::debian_with_suite(&bed.folder)?),
        copies,
        ..Options::default()
    })
}

/// The checkout, complete.
fn suite() -> Result<PathBuf> {
    let folder = std::env::var_os("AURAE_RUNC").map(PathBuf::from).context(
        "AURAE_RUNC must name a checkout of runc with its helper programs built \
         (`make test-binaries`) and its root file systems \
         (`tests/integration/get-images.sh`, or tar archives of the same names)",
    )?;
    let mut wanted = vec![
        "VERSION".to_owned(),
        "tests/integration/helpers.bash".to_owned(),
    ];
    wanted.extend(HELPERS.map(|name| format!("tests/cmd/_bin/{name}")));
    wanted.extend(ROOTS.map(|name| format!("tests/integration/testdata/{name}")));
    let missing: Vec<&String> = wanted
        .iter()
        .filter(|it| !folder.join(it).is_file())
        .collect();
    ensure!(
        missing.is_empty(),
        "AURAE_RUNC={}: not there: {missing:?}; `make test-binaries` builds the programs, \
         tests/integration/get-images.sh gets the root file systems",
        folder.display()
    );
    Ok(folder)
}

/// Names of the suite's files, without their ending.
fn files(suite: &Path) -> Result<BTreeSet<String>> {
    let folder = suite.join("tests/integration");
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        files.extend(name.strip_suffix(".bats").map(str::to_owned));
    }
    ensure!(!files.is_empty(), "{} has no *.bats", folder.display());
    Ok(files)
}

fn list(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.join(", ")
}
