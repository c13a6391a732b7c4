// SPDX-License-Identifier: Apache-2.0
//! What the root of `./x fresh` has from this machine: Rust, and how downloads are configured.
//!
//! Read when the command runs and copied into the root alone, so that no mirror is named here. It
//! is what a user has set up before the first command: on most machines next to nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testkit::exec;

/// Files and folders of this machine that the root gets in their places: where packages come from,
/// whom to trust, how names are resolved.
const COPIED: &[&str] = &[
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d",
    "/etc/apt/auth.conf",
    "/etc/apt/auth.conf.d",
    "/etc/apt/preferences",
    "/etc/apt/preferences.d",
    "/etc/apt/keyrings",
    "/etc/apt/trusted.gpg",
    "/etc/apt/trusted.gpg.d",
    "/usr/share/keyrings",
    "/usr/local/share/ca-certificates",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/npmrc",
];

/// Of the user's home.
const OF_HOME: &[&str] = &[".cargo/config.toml", ".cargo/config", ".npmrc"];

/// Variables that say how to download, by how they begin.
pub(super) const VARIABLES: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
    "NPM_CONFIG_",
    "npm_config_registry",
];

/// Copies the settings into a root.
pub(super) fn copy(root: &Path) -> Result<()> {
    // Those of the Debian name what it was made from.
    let _ = fs::remove_file(root.join("etc/apt/sources.list"));
    for path in COPIED {
        copy_one(Path::new(path), root, path)?;
    }
    if let Some(home) = std::env::var_os("HOME") {
        for name in OF_HOME {
            copy_one(&Path::new(&home).join(name), root, &format!("/root/{name}"))?;
        }
    }
    // How apt downloads, without the programs of this machine that it may run afterwards.
    let acquire = exec::read(Command::new("apt-config").args(["dump", "Acquire"]))?;
    let set = acquire.lines().filter(|line| !line.ends_with(" \"\";"));
    let conf: String = set.map(|line| format!("{line}\n")).collect();
    fs::write(root.join("etc/apt/apt.conf.d/10fresh"), conf)?;
    let certificates = root.join("usr/sbin/update-ca-certificates");
    ensure!(certificates.is_file(), "the Debian has no ca-certificates");
    let mut trust = Command::new("chroot");
    exec::read(trust.arg(root).arg("update-ca-certificates")).map(drop)
}

/// Copies what is there, links as what they lead to.
fn copy_one(from: &Path, root: &Path, to: &str) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    let to = root.join(to.trim_start_matches('/'));
    let parent = to.parent().context("a place in the root")?;
    fs::create_dir_all(parent)?;
    let mut copy = Command::new("cp");
    copy.args([
        "-rL",
        "--preserve=mode",
        "--no-target-directory",
        "--remove-destination",
    ]);
    exec::read(copy.arg(from).arg(&to)).map(drop)
}

/// The Rust toolchain of this machine.
pub(super) struct Rust {
    /// rustup's folder, with the toolchains.
    pub(super) rustup: PathBuf,
    /// The folder of `cargo` and the others.
    pub(super) programs: PathBuf,
    version: String,
}

impl Rust {
    /// As rustup installed it for the user who runs this.
    pub(super) fn find() -> Result<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let folder = |variable: &str, name: &str| {
            let set = std::env::var_os(variable).map(PathBuf::from);
            set.or_else(|| Some(home.as_ref()?.join(name)))
        };
        let rustup = folder("RUSTUP_HOME", ".rustup").context("there is no HOME")?;
        let programs = folder("CARGO_HOME", ".cargo").context("there is no HOME")?;
        let programs = programs.join("bin");
        for needed in [rustup.join("toolchains"), programs.join("cargo")] {
            ensure!(
                needed.exists(),
                "{} isn't there: ./x fresh takes the Rust that rustup installed (https://rustup.rs)",
                needed.display()
            );
        }
        let version = exec::read(Command::new(programs.join("rustc")).arg("--version"))?;
        Ok(Self {
            rustup,
            programs,
            version: version.trim().to_owned(),
        })
    }

    /// Which it is.
    pub(super) fn shown(&self) -> String {
        format!("{} of {}", self.version, self.rustup.display())
    }
}
