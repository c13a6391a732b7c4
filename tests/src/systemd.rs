// SPDX-License-Identifier: Apache-2.0
//! Stories of auraed as a service: Debian's systemd is PID 1, and `dist/auraed.service` is
//! installed as the guide says.

use anyhow::{Result, ensure};
use testkit::disk::Copy;
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story};

/// The unit that is shipped.
const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist/auraed.service");

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "systemd",
    options: || Options {
        copies: vec![Copy::new(UNIT, "/etc/systemd/system/auraed.service")],
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
    ],
    farewell: |_| Ok(()),
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
    ensure!(group.contains("auraed.service"), "its cgroup: {group}");
    node.sh("aurae rm -rf limited").map(drop)
}

fn daemon_dies(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run stay && aurae run --cell stay --name s -d -- sleep 1000")?;
    let before = node.sh(VIEW)?;
    node.sh("systemctl reload auraed")?;
    node.sh(&format!("pkill -KILL -f '[s]erve --init-fd' && {SERVING}"))?;
    let after = node.sh(VIEW)?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    let active = node.sh("systemctl is-active auraed")?;
    ensure!(active.trim() == "active", "the service is {active}");
    node.sh("aurae rm -rf stay").map(drop)
}
