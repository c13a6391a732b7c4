// SPDX-License-Identifier: Apache-2.0
//! Stories of auraed as PID 1 of a container, on the node whose PID 1 is Debian's systemd: made by
//! `crun` as `docker run --privileged --cgroupns=private` makes one, and as `docker run` does.

use anyhow::{Result, ensure};
use testkit::disk::Copy;
use testkit::node::Node;

/// The bundle's configuration, and where the node has it.
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/container/config.json");
const PLACE: &str = "/srv/container/config.json";

pub(crate) fn config() -> Copy {
    Copy::new(CONFIG, PLACE)
}

/// The container's root is the node's, without what is mounted on it.
const BUNDLE: &str = "mkdir -p /srv/box && mount --bind / /srv/box && cd /srv/container";
const RUN: &str = "exec crun --cgroup-manager=systemd run box";
/// Until it answers inside.
const SERVING: &str = "until crun exec box aurae ps >/dev/null 2>&1; do sleep 0.2; done";

pub(crate) fn runs_cells(node: &mut Node) -> Result<()> {
    let container = node.start(&format!("{BUNDLE} && {RUN}"))?;
    node.sh(SERVING)?;
    let inside = |script: &str| node.sh(&format!("crun exec box sh -c '{script}'"));
    let info = inside("readlink /proc/1/exe; aurae node info")?;
    ensure!(
        info.contains("/usr/sbin/auraed\n") && info.contains("container"),
        "inside: {info}"
    );
    let limits = inside(
        "aurae cell run web --memory 64M && cat /sys/fs/cgroup/aurae/system/web/memory.max",
    )?;
    ensure!(limits.contains("67108864"), "the cell's limit: {limits}");
    bounded_by_its_group(node)?;
    let polite = "trap \"echo told; exit 4\" TERM; echo there; while :; do sleep 0.1; done";
    inside(&format!(
        "aurae run --cell web --name p -d -- sh -c \"$0\"; \
         until aurae logs web/p | grep -q there; do sleep 0.1; done' '{polite}"
    ))?;
    node.sh("crun kill box TERM")?;
    let ended = container.finish_within(std::time::Duration::from_secs(60))?;
    let said = String::from_utf8_lossy(&[ended.out, ended.err].concat()).into_owned();
    ensure!(ended.status == 0, "it ended with {}: {said}", ended.status);
    for line in ["auraed: SIGTERM: Exit follows, in ", "auraed: stopped"] {
        ensure!(said.contains(line), "{line:?} isn't in {said}");
    }
    node.sh("umount /srv/box").map(drop)
}

/// The pools of the node are of the container's size: a limit of its group counts from the next
/// look on, which is at start and at a reload.
fn bounded_by_its_group(node: &Node) -> Result<()> {
    // Of the container's PID 1, without what it has made itself.
    let group = "pid=$(crun state box | sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p'); \
        group=/sys/fs/cgroup$(sed -n 's/^0:://; s:/aurae/_init$::p' /proc/$pid/cgroup)";
    let set = |pids: &str, memory: &str| {
        node.sh(&format!(
            "{group}; echo {pids} > $group/pids.max && echo {memory} > $group/memory.max && \
             crun exec box aurae node reload"
        ))
    };
    let held = || -> Result<(u64, u64)> {
        let read = "cd /sys/fs/cgroup/aurae/tenants; cat pids.max memory.max";
        let said = node.sh(&format!("crun exec box sh -c '{read}'"))?;
        let numbers: Vec<u64> = said.lines().filter_map(|it| it.parse().ok()).collect();
        match numbers[..] {
            [pids, memory] => Ok((pids, memory)),
            _ => anyhow::bail!("not two bounds: {said}"),
        }
    };
    let before = held()?;
    set("700", "536870912")?;
    let (pids, memory) = held()?;
    ensure!(pids == 630, "tenants may have {pids} of 700 processes");
    ensure!(
        (300 << 20..400 << 20).contains(&memory),
        "tenants may have {memory} bytes of 512 MiB"
    );
    set("max", "max")?;
    ensure!(held()? == before, "the limits that are lifted still count");
    Ok(())
}

pub(crate) fn says_what_it_needs(node: &mut Node) -> Result<()> {
    let config =
        "mkdir -p /srv/plain && sed 's/\"rw\"/\"ro\"/' config.json > /srv/plain/config.json";
    let script = format!("{BUNDLE} && {config} && cd /srv/plain && {RUN} 2>&1");
    let came = node.try_sh(&script)?;
    let said = String::from_utf8_lossy(&came.out).into_owned();
    ensure!(came.status == 1, "it ended with {}: {said}", came.status);
    for word in [
        "no cgroup of our own",
        "Read-only file system",
        "--cgroupns=private",
    ] {
        ensure!(said.contains(word), "no {word:?} in {said}");
    }
    node.sh("umount /srv/box").map(drop)
}
