// SPDX-License-Identifier: Apache-2.0
//! Packages of Debian's whose data judges take, and whose programs a soak runs: fetched by apt,
//! kept below `target`, unpacked there where their files are read. Nothing of them is installed on
//! this machine or is part of the project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use testkit::exec;

use crate::build;

/// systemd's tests, and what they test with.
pub(super) const TESTS: &str = "systemd-tests";
/// Where that package has its data.
const DATA: &str = "usr/lib/systemd/tests/testdata";

/// The package's archive.
pub(super) fn fetched(name: &str) -> Result<PathBuf> {
    let folder = build::target()?.join("judge/archives").join(name);
    fs::create_dir_all(&folder)?;
    if let Some(there) = archive(&folder)? {
        return Ok(there);
    }
    let mut download = Command::new("apt-get");
    download.args(["-q", "download", name]);
    exec::read(download.current_dir(&folder))?;
    archive(&folder)?.with_context(|| format!("apt has fetched nothing for {name}"))
}

fn archive(folder: &Path) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "deb") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The folder in which the package's files are.
pub(crate) fn unpacked(name: &str) -> Result<PathBuf> {
    let folder = build::target()?.join("judge").join(name);
    if !folder.is_dir() {
        let archive = fetched(name)?;
        fs::create_dir_all(&folder)?;
        exec::run(Command::new("dpkg-deb").arg("-x").args([&archive, &folder]))?;
    }
    Ok(folder)
}

/// The folder with the data of systemd's tests.
pub(super) fn data() -> Result<PathBuf> {
    let data = unpacked(TESTS)?.join(DATA);
    fs::metadata(&data).with_context(|| format!("{TESTS} has no {DATA}"))?;
    Ok(data)
}
