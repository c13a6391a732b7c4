// SPDX-License-Identifier: Apache-2.0
//! Images of Debian's packages: one file tree that mmdebstrap makes, kept below `target`, and an
//! image of it for each application, which differ in what they say of their program. They are
//! pushed to a registry on the loopback, so that a node pulls them as it would any other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testkit::exec;

use crate::build;

/// The release whose packages are taken.
const SUITE: &str = "bookworm";
/// What is in the tree.
const PACKAGES: &str = "nginx-light,redis-server,postgresql-15,tomcat10,openjdk-17-jre-headless,\
                        radicale,s6,catatonit,curl,systemd-sysv";
/// Left out, since nothing of it is run.
const LEFT_OUT: [&str; 3] = ["doc", "man", "locale"];
/// What Debian's tree lacks: folders that Java's scripts expect, a service of s6.
const HOOKS: [&str; 2] = [
    "--setup-hook=mkdir -p \"$1/usr/share/man/man1\" \"$1/usr/share/man/man7\"",
    "--customize-hook=mkdir -p \"$1/etc/s6/sleep\" && \
     printf '#!/bin/sh\\nexec sleep 1000000\\n' > \"$1/etc/s6/sleep/run\" && \
     chmod 755 \"$1/etc/s6/sleep/run\"",
];

/// A layout of umoci's with the tree as the image `base`.
pub(super) struct Images {
    layout: PathBuf,
}

impl Images {
    /// Makes the tree, unless an earlier run has.
    pub(super) fn make() -> Result<Self> {
        for program in ["mmdebstrap", "umoci", "skopeo", "docker-registry"] {
            ensure!(exec::is_there(program), "there is no {program}: run ./x");
        }
        let folder = build::target()?.join("judge-applications");
        fs::create_dir_all(&folder)?;
        let (tree, layout) = (folder.join("tree.tar"), folder.join("layout"));
        if !tree.exists() {
            println!("Debian's packages are put together: {PACKAGES}");
            debian(&tree)?;
        }
        if layout.exists() {
            fs::remove_dir_all(&layout)?;
        }
        let images = Self { layout };
        let layout = images.layout.display().to_string();
        umoci(&["init", "--layout", &layout])?;
        umoci(&["new", "--image", &images.tag("base")])?;
        let tree = tree.display().to_string();
        umoci(&["raw", "add-layer", "--image", &images.tag("base"), &tree])?;
        Ok(images)
    }

    fn tag(&self, name: &str) -> String {
        format!("{}:{name}", self.layout.display())
    }

    /// Pushes an image of this name whose configuration umoci makes of these words.
    pub(super) fn push(&self, host: &str, name: &str, words: &[&str]) -> Result<String> {
        let base = self.tag("base");
        umoci(&[&["config", "--image", &base, "--tag", name], words].concat())?;
        let image = format!("{host}/{name}:1");
        let (from, to) = (
            format!("oci:{}", self.tag(name)),
            format!("docker://{image}"),
        );
        let mut copy = Command::new("skopeo");
        copy.args(["copy", "--insecure-policy", "--dest-tls-verify=false"]);
        exec::read(copy.args([&from, &to]))?;
        Ok(image)
    }
}

fn umoci(words: &[&str]) -> Result<()> {
    exec::read(Command::new("umoci").args(words)).map(drop)
}

/// Whole or not at all.
fn debian(tree: &Path) -> Result<()> {
    let new = tree.with_extension("new");
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=minbase", "--format=tar"]);
    command.arg(format!("--include={PACKAGES}"));
    let excluded = LEFT_OUT.map(|folder| format!("--dpkgopt=path-exclude=/usr/share/{folder}/*"));
    command.args(excluded).args(HOOKS).arg(SUITE).arg(&new);
    exec::read(&mut command)?;
    fs::rename(&new, tree).with_context(|| tree.display().to_string())
}
