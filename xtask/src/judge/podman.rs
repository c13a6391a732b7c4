// SPDX-License-Identifier: Apache-2.0
//! `./x judge podman`: Debian's podman on nodes of the test bed, with `auraed oci` as the only
//! runtime that is there. Once systemd is PID 1 and makes the containers' groups as scopes, once
//! auraed is PID 1 and podman makes them itself. What is asked is `podman.sh` beside this file: as
//! root, then as an ordinary user.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::disk::{self, Copy};
use testkit::node::{Bed, Options};

use crate::build::{self, Profile};

const SCRIPT: &str = include_str!("podman.sh");
/// For all checks together: podman is slow where the machine is emulated.
const LIMIT: Duration = Duration::from_secs(2 * 3600);

/// How a node is booted, and which cgroup manager podman is told to use.
const NODES: [(&str, &str, &str); 2] = [
    (
        "systemd",
        "systemd",
        "init=/sbin/init systemd.wants=auraed.service",
    ),
    ("auraed", "cgroupfs", ""),
];

pub(super) fn run(names: &[String]) -> Result<ExitCode> {
    let known = |name: &String| NODES.iter().any(|(known, ..)| known == name);
    if let Some(wrong) = names.iter().find(|name| !known(name)) {
        anyhow::bail!("no node {wrong}: systemd, auraed");
    }
    let bed = Bed::new(&build::target()?, &build::binaries(Profile::Dev)?)?;
    let mut failed = 0;
    for (name, manager, append) in NODES {
        if names.is_empty() || names.iter().any(|asked| asked == name) {
            println!("podman on a node whose PID 1 is {name}, with the cgroup manager {manager}");
            failed += judge(&bed, manager, append)?;
        }
    }
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// How many checks have failed.
fn judge(bed: &Bed, manager: &str, append: &str) -> Result<usize> {
    let mut options = Options {
        memory_mib: 2048,
        disk: Some(disk::debian_with_podman(&bed.folder)?),
        append: append.to_owned(),
        ..Options::default()
    };
    if manager == "systemd" {
        let units = build::root()?.join("dist");
        options.copies.push(Copy::new(units, "/etc/systemd/system"));
        options.off = "systemctl poweroff".into();
    }
    let node = bed.boot(&options)?;
    let words = ["/bin/sh", "-c", SCRIPT, "podman", manager];
    let came = node.start_program(&words)?.finish_within(LIMIT)?;
    let said = String::from_utf8_lossy(&came.out).into_owned();
    print!("{said}");
    let heard = String::from_utf8_lossy(&came.err).into_owned();
    ensure!(
        came.status == 0,
        "the script ended with {}: {heard}",
        came.status
    );
    let count = |begins: &str| said.lines().filter(|line| line.starts_with(begins)).count();
    let (good, bad) = (count("ok "), count("not ok "));
    ensure!(good + bad > 0, "nothing was checked: {heard}");
    println!("{good} of {} checks hold", good + bad);
    node.shutdown().context("the node's end")?;
    Ok(bad)
}
