// SPDX-License-Identifier: Apache-2.0
//! `./x judge fstab`: the words of kernel command lines by which systemd tests its generator of
//! mount units (`test-fstab-generator`, of Debian's `systemd-tests`). Debian's generator is run
//! unmodified, as a node runs generators (systemd.generator(7)): with three folders, and with the
//! words that systemd's own runner sets. What it makes has the files that systemd expects, and is
//! read by the crate `units` without a finding and with the same values: the test that reads it is
//! `crates/units/tests/fstab.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use testkit::exec;

use super::archive;
use crate::build;

/// Where the package has them among its data.
const TABLES: &str = "test-fstab-generator";
/// The generator in its package.
const GENERATOR: &str = "lib/systemd/system-generators/systemd-fstab-generator";
/// Its libraries, of another package.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu/systemd";
/// fsck is looked for there.
const SEARCHED: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) fn run() -> Result<ExitCode> {
    let tables = archive::data()?.join(TABLES);
    let generator = archive::unpacked("systemd")?.join(GENERATOR);
    let libraries = archive::unpacked("libsystemd-shared")?.join(LIBRARIES);
    let top = build::target()?.join("judge/fstab");
    if top.exists() {
        fs::remove_dir_all(&top)?;
    }
    let mut failed = 0;
    println!("| words of the kernel's command line | files as expected |\n|---|---|");
    for input in inputs(&tables)? {
        let name = stem(&input)?;
        let words = fs::read_to_string(&input)?;
        let made = top.join(&name);
        generate(&generator, &libraries, words.trim(), &made)?;
        let (made, wanted) = (below(&made)?, below(&input.with_extension("expected"))?);
        let same = made == wanted;
        let word = if same { "yes" } else { "**no**" };
        println!("| `{}` | {word} |", words.trim());
        if !same {
            failed += 1;
            println!("    {name}: {made:?} instead of {wanted:?}");
        }
    }
    let mut test = build::cargo();
    test.args([
        "test",
        "--quiet",
        "-p",
        "units",
        "--test",
        "fstab",
        "--",
        "--nocapture",
    ]);
    let read = test.env("AURAE_JUDGE_FSTAB", &top).status()?;
    Ok(match failed == 0 && read.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn inputs(tables: &Path) -> Result<Vec<PathBuf>> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(tables)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "input") {
            inputs.push(path);
        }
    }
    inputs.sort();
    ensure!(!inputs.is_empty(), "the package has no {TABLES}");
    Ok(inputs)
}

fn stem(path: &Path) -> Result<String> {
    let stem = path.file_stem().context("a table has a name")?;
    Ok(stem.to_string_lossy().into_owned())
}

/// Runs the generator. What is found goes to the folder of ordinary units: to the two others it
/// writes nothing.
fn generate(generator: &Path, libraries: &Path, words: &str, made: &Path) -> Result<()> {
    let beside = made.with_extension("beside");
    let folders = [made.to_owned(), beside.join("early"), beside.join("late")];
    for folder in &folders {
        fs::create_dir_all(folder)?;
    }
    let mut command = Command::new(generator);
    command
        .args(&folders)
        .current_dir("/")
        .env_clear()
        .env("PATH", SEARCHED)
        .env("LD_LIBRARY_PATH", libraries)
        .env("SYSTEMD_IN_INITRD", "yes")
        .env("SYSTEMD_FORCE_MEASURE", "0")
        .env("SYSTEMD_PROC_CMDLINE", format!("fstab=no {words}"));
    exec::read(&mut command)?;
    for folder in folders.iter().skip(1) {
        ensure!(
            below(folder)?.is_empty(),
            "{words}: it wrote to {}",
            folder.display()
        );
    }
    fs::remove_dir_all(beside)?;
    Ok(())
}

/// The paths below a folder.
fn below(folder: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            let inner = below(&entry.path())?;
            found.extend(inner.into_iter().map(|it| format!("{name}/{it}")));
        }
        found.insert(name);
    }
    Ok(found)
}
