// SPDX-License-Identifier: Apache-2.0
//! Builds the binaries that a node gets, and finds where cargo has put them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use testkit::exec;

/// How the binaries are built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Profile {
    /// Quick to build; what `cargo test` shares.
    Dev,
    /// What is shipped: slow to build, small and quick.
    Dist,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Dist => "dist",
        }
    }

    const fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Dist => "dist",
        }
    }
}

/// The project's root.
pub(crate) fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here
        .parent()
        .context("xtask lies in the project's root")?
        .to_owned())
}

/// Where cargo builds.
pub(crate) fn target() -> Result<PathBuf> {
    let set = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    set.map_or_else(|| Ok(root()?.join("target")), Ok)
}

/// cargo, as the one that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Builds `auraed`, `aurae` and the test bed's agent; returns their folder. `AURAE_BINARIES` names
/// a folder that has them already, such as the one of another build.
pub(crate) fn binaries(profile: Profile) -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("AURAE_BINARIES") {
        return Ok(PathBuf::from(folder));
    }
    build(profile, &["-p", "auraed", "-p", "aurae", "-p", "testkit"])
}

/// Builds these packages; returns the folder of their binaries.
pub(crate) fn build(profile: Profile, packages: &[&str]) -> Result<PathBuf> {
    let mut build = cargo();
    build
        .current_dir(root()?)
        .args(["build", "--quiet", "--profile", profile.name()]);
    exec::run(build.args(packages))?;
    Ok(target()?.join(host()?).join(profile.folder()))
}

/// The triple that cargo calls `host-tuple`.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Ok(
        exec::read(Command::new(rustc).args(["--print", "host-tuple"]))?
            .trim()
            .to_owned(),
    )
}
