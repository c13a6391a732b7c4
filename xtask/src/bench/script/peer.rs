// SPDX-License-Identifier: Apache-2.0
//! Node.js with @grpc/grpc-js, installed by npm below `target` on first use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use testkit::exec;

use super::super::native::Service;
use crate::build;

/// What npm installs; the versions that the figures speak of.
const PACKAGES: [&str; 2] = ["@grpc/grpc-js@1.13", "@grpc/proto-loader@0.7"];

/// The folder with the programs and what they import.
pub(super) struct NodeJs {
    folder: PathBuf,
}

impl NodeJs {
    pub(super) fn obtain() -> Result<Self> {
        exec::read(Command::new("node").arg("--version")).context("Node.js isn't here")?;
        let folder = build::target()?.join("bench-node");
        fs::create_dir_all(&folder)?;
        if !folder.join("node_modules/@grpc/proto-loader").is_dir() {
            fs::write(folder.join("package.json"), "{\"private\":true}\n")?;
            let mut install = Command::new("npm");
            install
                .current_dir(&folder)
                .args(["install", "--no-audit", "--no-fund"]);
            exec::read(install.args(PACKAGES)).context("npm can't install the peer")?;
        }
        let first = build::root()?.join("bench/script/first.mjs");
        fs::copy(first, folder.join("first.mjs"))?;
        Ok(Self { folder })
    }

    /// One call to the node.
    pub(super) fn first(&self, service: &Service) -> Result<Command> {
        let mut node = Command::new("node");
        node.arg(self.folder.join("first.mjs"));
        node.arg(service.socket()).arg(service.pki());
        node.arg(build::root()?.join("proto"));
        Ok(node)
    }

    /// A file without types, as a module.
    pub(super) fn run(&self, file: &Path) -> Result<Command> {
        let copy = self.folder.join("program.mjs");
        fs::copy(file, &copy)?;
        let mut node = Command::new("node");
        node.arg(copy);
        Ok(node)
    }
}
