// SPDX-License-Identifier: Apache-2.0
//! Stories of auraed as a service: Debian's systemd is PID 1, and `dist/auraed.service` is
//! installed as the guide says.

use anyhow::{Result, ensure};
use testkit::disk::Copy;
use testkit::node::{Node, Options};

use crate::container;
use crate::story::{Chapter, Story, inspect, text};

/// The units that are shipped.
const DIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist");

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "systemd",
    options: || Options {
        copies: vec![Copy::new(DIST, "/etc/systemd/system"), container::config()],
        append: "init=/sbin/init systemd.wants=auraed.service".into(),
        off: "systemctl poweroff".into(),
        ..Options::default()
    },
    stories: &[
        Story {
            name: "systemd is PID 1, and knows when auraed is ready",
            tell: ready,
        },
        Story {
            name: "a reload and the daemon's death end no workload",
            tell: daemon_dies,
        },
        Story {
            name: "systemd starts a killed init again beside its workloads",
            tell: init_dies,
        },
        Story {
            name: "as PID 1 of a container auraed runs cells, and stops in order",
            tell: container::runs_cells,
        },
        Story {
            name: "without a cgroup of its own a container's auraed says what it needs",
            tell: container::says_what_it_needs,
        },
    ],
    at_the_end: |_| Ok(()),
};

/// What must stay: names, uids, pids.
const VIEW: &str = "aurae ps -o json | grep -E '\"(path|uid|pid|state)\"' | sort";
/// Until the daemon answers.
const SERVING: &str = "until aurae ps >/dev/null 2>&1; do sleep 0.05; done";

fn ready(node: &mut Node) -> Result<()> {
    let first = node.sh("cat /proc/1/comm")?;
    ensure!(first.trim() == "systemd", "PID 1 is {first}");
    let shown = node.sh("systemctl show -p Type,ActiveState,SubState,NRestarts auraed")?;
    for wanted in [
        "Type=notify",
        "ActiveState=active",
        "SubState=running",
        "NRestarts=0",
    ] {
        ensure!(
            shown.lines().any(|line| line == wanted),
            "{wanted}: {shown}"
        );
    }
    let group = node.sh("aurae cell run limited --memory 64M && aurae inspect -o json limited")?;
    ensure!(group.contains("aurae-cells.service"), "its cgroup: {group}");
    node.sh("aurae rm -rf limited").map(drop)
}

fn init_dies(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run stay --memory 64M && aurae run --cell stay --name s -d -- sleep 1000")?;
    let group = text(&inspect(node, "stay")?, &["cell", "cgroup"])?;
    let limit = || node.sh(&format!("cat /sys/fs/cgroup/{group}/memory.max"));
    let (before, bound) = (node.sh(VIEW)?, limit()?);
    let main = "systemctl show -p MainPID --value auraed";
    let first = node.sh(main)?;
    node.sh("kill -KILL $(systemctl show -p MainPID --value auraed)")?;
    let again = "until [ $(systemctl show -p NRestarts --value auraed) = 1 ] \
        && systemctl is-active -q auraed; do sleep 0.1; done";
    node.sh(&format!("{again}; {SERVING}"))?;
    ensure!(node.sh(main)? != first, "the same init");
    let after = node.sh(VIEW)?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    // Nor does a reload of all units take a limit or a controller away.
    node.sh("systemctl daemon-reload && aurae run --cell stay --name t -- true")?;
    ensure!(limit()? == bound, "the limit was {bound}");
    node.sh("aurae cell run more --memory 32M && aurae rm -rf more")?;
    node.sh("aurae stop stay/s && aurae rm -rf stay").map(drop)
}

fn daemon_dies(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run stay && aurae run --cell stay --name s -d -- sleep 1000")?;
    let before = node.sh(VIEW)?;
    node.sh("systemctl reload auraed")?;
    node.sh(&format!(
        "pkill -KILL -f '[s]erve .*--init-fd' && {SERVING}"
    ))?;
    let after = node.sh(VIEW)?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    let active = node.sh("systemctl is-active auraed")?;
    ensure!(active.trim() == "active", "the service is {active}");
    node.sh("aurae rm -rf stay").map(drop)
}
