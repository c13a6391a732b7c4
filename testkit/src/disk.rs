// SPDX-License-Identifier: Apache-2.0
//! Root disks: a Debian made once, and copies of it that hold the files of the day.
//!
//! The Debian is kept as long as its recipe is the same. A copy gets its files by `debugfs`,
//! without mounting anything and without root, so a new build of the daemon costs a second and no
//! new disk. What a run writes goes to a throw-away layer of QEMU's: every boot starts from the
//! same disk.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail, ensure};

use crate::exec;
use crate::recipes::{
    BARE, ENGINES, FINISH, FINISH_ARCHIVE, FINISH_SERVICES, PACKAGES, PODMAN, SERVICES, SUITE,
};

/// Apparent size; the file is sparse.
const SIZE: &str = "4G";
/// Copies kept beside each other; the least recently used go.
const COPIES: usize = 4;

/// What a disk is made of.
pub(crate) struct Recipe {
    /// Of its file.
    pub(crate) name: &'static str,
    pub(crate) packages: String,
    pub(crate) finish: String,
}

/// A file to put on a disk.
#[derive(Clone, Debug)]
pub struct Copy {
    /// On this machine: a file or a folder.
    pub from: PathBuf,
    /// On the node: an absolute path.
    pub to: PathBuf,
}

impl Copy {
    /// A copy of `from` that the node has at `to`.
    pub fn new(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
        }
    }
}

/// Something that changes when the file does: its path, size, inode and time of change.
///
/// # Errors
/// When the file isn't there.
pub fn fingerprint(path: &Path) -> Result<String> {
    let metadata = fs::metadata(path).with_context(|| path.display().to_string())?;
    let changed = metadata
        .modified()?
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let (size, inode) = (metadata.len(), metadata.ino());
    Ok(format!(
        "{} {size} {inode} {}",
        path.display(),
        changed.as_nanos()
    ))
}

/// The Debian in `folder`, made on first use (about a minute and 400 MB).
///
/// # Errors
/// When mmdebstrap or mke2fs fails.
pub fn debian(folder: &Path) -> Result<PathBuf> {
    make(
        folder,
        &Recipe {
            name: "debian",
            packages: PACKAGES.to_owned(),
            finish: FINISH.into(),
        },
    )
}

/// The Debian with services in `folder`, as an installer leaves it, made on first use.
///
/// # Errors
/// When mmdebstrap or mke2fs fails.
pub fn debian_with_services(folder: &Path) -> Result<PathBuf> {
    make(
        folder,
        &Recipe {
            name: "services",
            packages: SERVICES.to_owned(),
            finish: FINISH_SERVICES.into(),
        },
    )
}

/// A small Debian in `folder` on which apt can install these packages without a network, made on
/// first use.
///
/// # Errors
/// When mmdebstrap or mke2fs fails.
pub fn debian_with_archive(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    make(
        folder,
        &Recipe {
            name: "archive",
            packages: BARE.to_owned(),
            finish: FINISH_ARCHIVE.replace("@PACKAGES@", &packages.join(" ")),
        },
    )
}

/// The Debian with podman in `folder`, made on first use.
///
/// # Errors
/// When mmdebstrap or mke2fs fails.
pub fn debian_with_podman(folder: &Path) -> Result<PathBuf> {
    debian_with(folder, "podman", PODMAN)
}

/// The Debian with what runc's suite of tests is run by, made on first use.
///
/// # Errors
/// When mmdebstrap or mke2fs fails.
pub fn debian_with_suite(folder: &Path) -> Result<PathBuf> {
    debian_with(folder, "suite", SUITE)
}

/// The Debian with container engines and runtimes in `folder`, made on first use.
///
/// # Errors
/// When mmdebstrap or mke2fs fails.
pub fn debian_with_engines(folder: &Path) -> Result<PathBuf> {
    debian_with(folder, "engines", &format!("{PODMAN},{ENGINES}"))
}

fn debian_with(folder: &Path, name: &'static str, more: &str) -> Result<PathBuf> {
    let recipe = Recipe {
        name,
        packages: format!("{PACKAGES},{more}"),
        finish: FINISH.into(),
    };
    make(folder, &recipe)
}

pub(crate) fn make(folder: &Path, made: &Recipe) -> Result<PathBuf> {
    let Recipe {
        name,
        packages,
        finish,
    } = made;
    let disk = folder.join(format!("{name}.raw"));
    let recipe = folder.join(format!("{name}.recipe"));
    let suite = suite()?;
    let wanted = format!("{suite}\n{packages}\n{SIZE}\n{finish}");
    if disk.is_file() && fs::read_to_string(&recipe).is_ok_and(|had| had == wanted) {
        return Ok(disk);
    }
    println!("vm: making a Debian root disk (once; about a minute)");
    fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let scratch = folder.join(format!("{name}.{}", std::process::id()));
    let script = format!("{scratch}.sh", scratch = scratch.display());
    fs::write(&script, finish)?;
    let mut make = Command::new("mmdebstrap");
    make.args(["--variant=minbase", "--format=null", "--include", packages]);
    for unused in ["doc", "man", "locale", "info"] {
        make.arg(format!("--dpkgopt=path-exclude=/usr/share/{unused}/*"));
    }
    make.arg(format!(
        "--customize-hook=sh {script} \"$1\" {} {SIZE}",
        scratch.display()
    ));
    make.args([&suite, "-"]).args(sources()?);
    let made = exec::read(&mut make);
    let _ = fs::remove_file(&script);
    if let Err(error) = made {
        let _ = fs::remove_file(&scratch);
        return Err(error);
    }
    fs::rename(&scratch, &disk)?;
    fs::write(&recipe, wanted)?;
    Ok(disk)
}

/// A copy of `base` with these files on it, kept in `folder` until one of them changes.
///
/// # Errors
/// When a file isn't there or debugfs can't write it.
pub fn with_files(folder: &Path, base: &Path, copies: &[Copy]) -> Result<PathBuf> {
    let files = expand(copies)?;
    let mut wanted = fingerprint(base)?;
    for file in &files {
        write!(
            wanted,
            "\n{} {}",
            file.to.display(),
            fingerprint(&file.from)?
        )?;
    }
    let mut hasher = DefaultHasher::new();
    wanted.hash(&mut hasher);
    let disk = folder.join(format!("node-{:016x}.raw", hasher.finish()));
    if disk.is_file() {
        let now = std::time::SystemTime::now();
        fs::File::options()
            .append(true)
            .open(&disk)?
            .set_modified(now)?;
        return Ok(disk);
    }
    prune(folder)?;
    let scratch = folder.join(format!("node.{}", std::process::id()));
    copy(base, &scratch)?;
    if let Err(error) = put(&scratch, &files) {
        let _ = fs::remove_file(&scratch);
        return Err(error);
    }
    fs::rename(&scratch, &disk)?;
    Ok(disk)
}

/// Copies an image, without the holes in it.
///
/// # Errors
/// When there is no room for it.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut copy = Command::new("cp");
    copy.args(["--sparse=always", "--reflink=auto"]);
    exec::read(copy.arg(from).arg(to)).map(drop)
}

/// The code name of the Debian that this machine runs.
///
/// # Errors
/// Where it runs another system.
pub fn suite() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
    let debian = release.lines().any(|line| line == "ID=debian");
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    match name {
        Some(name) if debian => Ok(name.to_owned()),
        _ => bail!("the node's disk is made from this machine's Debian, and this isn't Debian"),
    }
}

/// The lines of Debian's own archives that this machine uses.
///
/// # Errors
/// When apt fails or knows none.
pub fn sources() -> Result<Vec<String>> {
    let mut ask = Command::new("apt-get");
    ask.args([
        "indextargets",
        "--format",
        "deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
    ]);
    let listed = exec::read(ask.args(["Created-By: Packages", "Origin: Debian"]))?;
    let mut lines: Vec<String> = listed.lines().map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    ensure!(
        !lines.is_empty(),
        "apt knows no archive of Debian: `apt-get update` may be due"
    );
    Ok(lines)
}

/// Folders become their files.
fn expand(copies: &[Copy]) -> Result<Vec<Copy>> {
    let mut files = Vec::new();
    let mut rest: Vec<Copy> = copies.to_vec();
    while let Some(next) = rest.pop() {
        ensure!(
            next.to.is_absolute() && !next.to.display().to_string().contains(['"', '\n']),
            "{}: the place on the node must be an absolute path without quotes",
            next.to.display()
        );
        if !next.from.is_dir() {
            fs::metadata(&next.from).with_context(|| next.from.display().to_string())?;
            files.push(next);
            continue;
        }
        for entry in fs::read_dir(&next.from)? {
            let entry = entry?;
            rest.push(Copy::new(entry.path(), next.to.join(entry.file_name())));
        }
    }
    files.sort_by(|a, b| a.to.cmp(&b.to));
    Ok(files)
}

/// Writes the files into the ext4 image.
fn put(disk: &Path, files: &[Copy]) -> Result<()> {
    let mut script = String::new();
    for file in files {
        let parent = file.to.parent().context("a file needs a folder")?;
        let name = file
            .to
            .file_name()
            .context("a file needs a name")?
            .to_string_lossy();
        let mut folders: Vec<&Path> = parent.ancestors().collect();
        folders.reverse();
        writeln!(script, "cd /")?; // where debugfs makes a folder of one component
        for folder in folders.iter().skip(1) {
            writeln!(script, "mkdir \"{}\"", folder.display())?;
        }
        let mode = 0o100_000 | (fs::metadata(&file.from)?.permissions().mode() & 0o7777);
        let from = file.from.canonicalize()?;
        writeln!(script, "cd \"{}\"", parent.display())?;
        writeln!(script, "rm \"{name}\"")?;
        writeln!(script, "write \"{}\" \"{name}\"", from.display())?;
        writeln!(script, "sif \"{name}\" mode 0{mode:o}")?;
        writeln!(script, "sif \"{name}\" uid 0")?;
        writeln!(script, "sif \"{name}\" gid 0")?;
    }
    let list = disk.with_extension("debugfs");
    fs::write(&list, script)?;
    let wrote = exec::capture(
        Command::new("debugfs")
            .arg("-w")
            .arg("-f")
            .arg(&list)
            .arg(disk),
    );
    let _ = fs::remove_file(&list);
    let said = String::from_utf8_lossy(&wrote?.stderr).into_owned();
    for file in files {
        check(disk, file).with_context(|| said.clone())?;
    }
    Ok(())
}

/// debugfs ends with 0 whatever happens: look at what is there.
fn check(disk: &Path, file: &Copy) -> Result<()> {
    let size = fs::metadata(&file.from)?.len();
    let mut ask = Command::new("debugfs");
    ask.arg("-R")
        .arg(format!("stat \"{}\"", file.to.display()))
        .arg(disk);
    let stat = exec::read(&mut ask)?;
    let there = stat
        .split("Size:")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next());
    let fits = there.and_then(|text| text.parse::<u64>().ok()) == Some(size);
    ensure!(
        fits,
        "{} could not be put on the node's disk",
        file.to.display()
    );
    Ok(())
}

/// Removes the oldest copies, so that the folder doesn't grow with every build.
fn prune(folder: &Path) -> Result<()> {
    let mut copies: Vec<(std::time::SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("node-") && name.ends_with(".raw") {
            copies.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    copies.sort();
    let surplus = (copies.len() + 1).saturating_sub(COPIES);
    for (_, path) in copies.into_iter().take(surplus) {
        fs::remove_file(&path)?; // a running QEMU keeps its open file
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_land_on_a_disk_with_their_modes() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path().join("base.raw");
        exec::read(
            Command::new("mke2fs")
                .args(["-q", "-t", "ext4"])
                .arg(&base)
                .arg("16M"),
        )
        .unwrap();
        let folder = scratch.path().join("tree");
        fs::create_dir_all(folder.join("deep")).unwrap();
        fs::write(folder.join("deep/a"), "hello").unwrap();
        fs::write(scratch.path().join("tool"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(
            scratch.path().join("tool"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        let copies = [
            Copy::new(&folder, "/opt/tree"),
            Copy::new(scratch.path().join("tool"), "/sbin/tool"),
        ];
        let disk = with_files(scratch.path(), &base, &copies).unwrap();
        let read = |command: &str| {
            exec::read(Command::new("debugfs").args(["-R", command]).arg(&disk)).unwrap()
        };
        assert_eq!(read("cat /opt/tree/deep/a"), "hello");
        assert!(read("stat /sbin/tool").contains("Mode:  0755"));
        assert_eq!(
            with_files(scratch.path(), &base, &copies).unwrap(),
            disk,
            "kept"
        );
    }

    #[test]
    fn a_relative_place_is_refused() {
        let error = expand(&[Copy::new("/etc/passwd", "etc/passwd")]).unwrap_err();
        assert!(error.to_string().contains("absolute"), "{error}");
    }
}
