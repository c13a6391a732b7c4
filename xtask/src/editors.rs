// SPDX-License-Identifier: Apache-2.0
//! The part of `./x test` that is about editors: what is in `editors/`, built and tested with the
//! tools of the world it lives in: npm's for VS Code, Neovim itself. `test` calls it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use testkit::exec;

use crate::build;

/// Tests all of `editors/`.
pub(crate) fn test(binaries: &Path) -> Result<()> {
    vscode(binaries)?;
    neovim(binaries)
}

/// Neovim, headless, as a client of `aurae lsp`.
fn neovim(binaries: &Path) -> Result<()> {
    println!("test: the configuration for Neovim, with Neovim");
    let mut nvim = Command::new("nvim");
    nvim.current_dir(build::root()?.join("editors/neovim"))
        .args(["--headless", "-u", "NONE", "-i", "NONE"])
        .args(["--cmd", "set rtp+=.", "-S", "test/client.lua"])
        .env("AURAE_PATH", binaries.join("aurae"));
    exec::run(&mut nvim)
}

/// Compiles the extension, holds its grammar against samples, and lets its client and its snippets
/// meet the `aurae` of this folder.
fn vscode(binaries: &Path) -> Result<()> {
    println!("test: the extension for VS Code, with npm's tools");
    let folder = build::root()?.join("editors/vscode");
    let npm = |arguments: &[&str]| {
        let mut npm = Command::new("npm");
        npm.current_dir(&folder)
            .args(arguments)
            .env("AURAE_PATH", binaries.join("aurae"));
        exec::run(&mut npm).with_context(|| format!("npm {}", arguments.join(" ")))
    };
    // Without install scripts: nothing that we use needs one, and they are a stranger's code.
    npm(&["ci", "--ignore-scripts", "--loglevel=error"])?;
    npm(&["test", "--silent"])
}
