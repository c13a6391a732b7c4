// SPDX-License-Identifier: Apache-2.0
//! The image for containers: Debian's smallest system with the package, auraed as PID 1. An archive
//! in OCI's layout, which `skopeo copy oci-archive:FILE …`, `podman load` and `aurae image import`
//! take.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use testkit::exec;

use super::{Place, debian, from};

/// What a node's workloads find beyond the smallest system.
const PACKAGES: [&str; 3] = ["ca-certificates", "iproute2", "procps"];
/// What the image says of its program: docs/guide/in-a-container.md.
const WORDS: [&str; 4] = [
    "--config.entrypoint=/usr/sbin/auraed",
    "--config.stopsignal=SIGTERM",
    "--config.volume=/var/lib/aurae",
    "--config.label=org.opencontainers.image.title=aurae",
];

/// Makes `aurae_VERSION.oci.tar`.
pub(super) fn make(place: &Place, package: &Path) -> Result<PathBuf> {
    let scratch = tempfile::tempdir_in(&place.folder)?;
    let (tree, layout) = (scratch.path().join("tree.tar"), scratch.path().join("oci"));
    let mut tree_of = debian(place, package, &PACKAGES)?;
    tree_of.arg("--format=tar");
    for unused in ["doc", "man", "locale"] {
        tree_of.arg(format!("--dpkgopt=path-exclude=/usr/share/{unused}/*"));
    }
    from(&mut tree_of, &tree)?;
    let umoci = |words: &[&str]| exec::read(Command::new("umoci").args(words)).map(drop);
    let (layout_word, tree_word) = (layout.display().to_string(), tree.display().to_string());
    let image = format!("{layout_word}:{}", place.version);
    umoci(&["init", "--layout", &layout_word])?;
    umoci(&["new", "--image", &image])?;
    let mut date = Command::new("date");
    let date = exec::read(date.args(["-u", "+%FT%TZ", &format!("-d@{}", place.epoch)]))?;
    let (date, dated) = (date.trim(), "--history.created");
    umoci(&[
        "raw",
        "add-layer",
        "--image",
        &image,
        dated,
        date,
        &tree_word,
    ])?;
    let config = ["config", "--image", &image, "--created", date, dated, date];
    umoci(&[&config, &WORDS[..]].concat())?;
    umoci(&["gc", "--layout", &layout_word])?;
    let made = scratch.path().join("image");
    let mut pack = Command::new("tar");
    pack.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    pack.arg(format!("--mtime=@{}", place.epoch));
    exec::read(pack.arg("-C").arg(&layout).arg("-cf").arg(&made).arg("."))?;
    let there = place
        .folder
        .join(format!("aurae_{}.oci.tar", place.version));
    fs::rename(made, &there)?;
    Ok(there)
}
