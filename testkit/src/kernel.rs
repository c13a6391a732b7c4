// SPDX-License-Identifier: Apache-2.0
//! Gets a kernel to boot: Debian's cloud kernel with its modules, as a package unpacked into a
//! folder of ours.
//!
//! Nothing is installed on the machine and root isn't needed. Where the package can't be had, a
//! cloud kernel that is installed already is used.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::exec;

/// The package that always points at Debian's current cloud kernel.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// Where the test bed keeps its images: below the folder that cargo builds in.
#[must_use]
pub fn images() -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = || Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target");
    set.unwrap_or_else(target).join("vm")
}

/// A kernel and where its modules are.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What `uname -r` says on it.
    pub version: String,
    /// The path of the bootable image.
    pub image: PathBuf,
    /// The folder that holds `lib/modules/VERSION`.
    pub root: PathBuf,
}

impl Kernel {
    /// The kernel in `folder`, which is filled on first use (about 30 MB are downloaded).
    ///
    /// # Errors
    /// When there is no kernel, neither in Debian's archive nor in /boot, or kmod's programs fail.
    pub fn obtain(folder: &Path) -> Result<Self> {
        if let Some(kernel) = Self::unpacked_in(folder) {
            return Ok(kernel);
        }
        println!("vm: getting Debian's {PACKAGE}");
        match download(folder) {
            Ok(kernel) => Ok(kernel),
            Err(error) => {
                let installed = Self::unpacked_in(Path::new("/"));
                let kernel = installed.with_context(|| {
                    format!("{error:#}\nand no cloud kernel is in /boot: `apt install {PACKAGE}`")
                })?;
                println!("vm: {error:#}\nvm: using {}", kernel.image.display());
                Ok(kernel)
            }
        }
    }

    /// A kernel image of the user's own; its modules are looked up beside the usual one's or in
    /// `/lib/modules`.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn at(image: &Path, fallback: &Self) -> Result<Self> {
        fs::File::open(image).with_context(|| format!("kernel {}", image.display()))?;
        let name = image
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let version = name.and_then(|name| name.strip_prefix("vmlinuz-").map(str::to_owned));
        let roots = [fallback.root.clone(), PathBuf::from("/")];
        let known = version.and_then(|version| {
            let root = roots
                .into_iter()
                .find(|root| modules_of(root, &version).is_dir())?;
            Some(Self {
                version,
                image: image.to_owned(),
                root,
            })
        });
        // Without modules of its own it must have its drivers built in: then none are loaded.
        let bare = || Self {
            version: String::new(),
            image: image.to_owned(),
            root: PathBuf::from("/nonexistent"),
        };
        Ok(known.unwrap_or_else(bare))
    }

    /// The files that must be loaded for these modules, each after those it needs.
    ///
    /// # Errors
    /// When modprobe fails, e.g. because there is no such module.
    pub fn modules(&self, names: &[&str]) -> Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = Vec::new();
        if self.version.is_empty() {
            return Ok(files);
        }
        for name in names {
            let mut modprobe = Command::new("modprobe");
            modprobe
                .arg("-d")
                .arg(&self.root)
                .args(["-S", &self.version, "--show-depends", name]);
            let listed = exec::read(&mut modprobe)?;
            let paths = listed
                .lines()
                .filter_map(|line| line.strip_prefix("insmod "));
            for path in paths.filter_map(|rest| rest.split_whitespace().next()) {
                if !files.iter().any(|known| known == Path::new(path)) {
                    files.push(path.into());
                }
            }
        }
        Ok(files)
    }

    fn unpacked_in(folder: &Path) -> Option<Self> {
        let mut found: Vec<Self> = fs::read_dir(folder.join("boot"))
            .ok()?
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let version = name.strip_prefix("vmlinuz-")?.to_owned();
                let image = folder.join("boot").join(&name);
                Some(Self {
                    version,
                    image,
                    root: folder.to_owned(),
                })
            })
            .filter(|kernel| kernel.version.ends_with("-cloud-amd64"))
            .filter(|kernel| {
                modules_of(folder, &kernel.version)
                    .join("modules.dep")
                    .is_file()
            })
            .collect();
        found.sort_by(|a, b| a.version.cmp(&b.version));
        found.pop()
    }
}

fn modules_of(root: &Path, version: &str) -> PathBuf {
    root.join("lib/modules").join(version)
}

fn download(folder: &Path) -> Result<Kernel> {
    let depends = exec::read(Command::new("apt-cache").args(["depends", PACKAGE]))?;
    let package = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .with_context(|| format!("apt knows no {PACKAGE}: `apt-get update` may be due"))?;
    let parent = folder
        .parent()
        .context("the kernel's folder has no parent")?;
    fs::create_dir_all(parent)?;
    let scratch = tempfile::tempdir_in(parent)?;
    let mut fetch = Command::new("apt-get");
    exec::read(
        fetch
            .args(["-q", "download", package])
            .current_dir(scratch.path()),
    )?;
    let deb = fs::read_dir(scratch.path())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get download left no package of {package}"))?;
    let unpacked = scratch.path().join("root");
    exec::read(Command::new("dpkg").arg("-x").arg(&deb).arg(&unpacked))?;
    let version = package
        .trim_start_matches("linux-image-")
        .trim_end_matches("-unsigned");
    if !modules_of(&unpacked, version).is_dir() {
        bail!("{package} holds no modules of {version}");
    }
    exec::read(Command::new("depmod").arg("-b").arg(&unpacked).arg(version))?;
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::rename(&unpacked, folder)?;
    Kernel::unpacked_in(folder).with_context(|| format!("{package} holds no kernel"))
}
