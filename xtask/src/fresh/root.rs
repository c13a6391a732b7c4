// SPDX-License-Identifier: Apache-2.0
//! The bare Debian of `./x fresh`: made once, unpacked for each run, and gone with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testkit::{disk, exec};

/// Beyond Debian's minimum: what a user needed to get Rust.
const PACKAGES: &str = "ca-certificates";

/// The packed Debian in `folder`, made on first use.
pub(super) fn base(folder: &Path) -> Result<PathBuf> {
    let suite = disk::suite()?;
    let base = folder.join("debian.tar");
    let recipe = folder.join("debian.recipe");
    let wanted = format!("{suite}\n{PACKAGES}\n");
    if base.is_file() && fs::read_to_string(&recipe).is_ok_and(|had| had == wanted) {
        return Ok(base);
    }
    println!("fresh: making a bare Debian {suite} (once; about a minute)");
    let scratch = folder.join(format!("debian.{}.tar", std::process::id()));
    let mut make = Command::new("mmdebstrap");
    make.args(["--variant=minbase", "--include", PACKAGES, &suite]);
    let made = exec::read(make.arg(&scratch).args(disk::sources()?));
    if let Err(error) = made {
        let _ = fs::remove_file(&scratch);
        return Err(error);
    }
    fs::rename(&scratch, &base)?;
    fs::write(&recipe, wanted)?;
    Ok(base)
}

/// A root for one run, with a cgroup that all of the run is in.
pub(super) struct Root {
    folder: PathBuf,
    group: PathBuf,
    keep: bool,
}

impl Root {
    /// Unpacks the Debian beside it.
    pub(super) fn unpack(folder: &Path, base: &Path, keep: bool) -> Result<Self> {
        let name = format!("aurae-fresh-{}", std::process::id());
        let root = Self {
            folder: folder.join(&name),
            group: cgroups()?.join(&name),
            keep,
        };
        fs::create_dir(&root.folder).with_context(|| root.folder.display().to_string())?;
        fs::create_dir(&root.group).with_context(|| root.group.display().to_string())?;
        let mut unpack = Command::new("tar");
        unpack.args(["--numeric-owner", "-xpf"]).arg(base);
        exec::read(unpack.arg("-C").arg(&root.folder))?;
        Ok(root)
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// The cgroup of the run: what it takes for the machine's.
    pub(super) fn group(&self) -> &Path {
        &self.group
    }

    /// The cgroups that the run has left, by name: of cells that nothing ended, say.
    pub(super) fn left_groups(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.group).into_iter().flatten().flatten();
        let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let names = groups.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|name| name != super::inside::OWN_GROUP)
            .collect()
    }

    /// Removes what is left, or keeps it where that was asked for.
    pub(super) fn remove(self) -> Result<()> {
        remove_groups(&self.group);
        if self.keep {
            return Ok(());
        }
        remove_folder(&self.folder)
    }
}

/// Also where the run broke off.
impl Drop for Root {
    fn drop(&mut self) {
        remove_groups(&self.group);
        if !self.keep
            && self.folder.exists()
            && let Err(error) = remove_folder(&self.folder)
        {
            eprintln!("x: {error:#}");
        }
    }
}

/// Removes the folder where nothing is mounted below it: the run's mounts are gone with its
/// namespace, and through one of this machine's the removal would reach what is mounted.
fn remove_folder(folder: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let inside = |line: &&str| {
        let point = line.split(' ').nth(4).unwrap_or_default();
        Path::new(point).starts_with(folder)
    };
    let mounted = mounts.lines().find(inside);
    ensure!(
        mounted.is_none(),
        "{} isn't removed: something is mounted there",
        folder.display()
    );
    fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))
}

/// Where cgroup v2 is mounted.
fn cgroups() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let point = mount.and_then(|line| line.split(' ').nth(4));
    point
        .map(PathBuf::from)
        .context("no cgroup v2 is mounted on this machine")
}

/// The inner ones first. Everything that lived in them was in the run's pid namespace.
fn remove_groups(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&entry.path());
        }
    }
    if group.exists()
        && let Err(error) = fs::remove_dir(group)
    {
        eprintln!("x: {} stays behind: {error}", group.display());
    }
}
