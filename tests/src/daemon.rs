// SPDX-License-Identifier: Apache-2.0
//! Stories of the daemon's death: no workload notices, nothing is lost, nothing is stuck.

use anyhow::{Result, ensure};
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story, powered_off};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "daemon",
    options: Options::default,
    stories: &[
        Story {
            name: "kill -9 ends no workload and changes no view",
            tell: view_stays,
        },
        Story {
            name: "an exit without a daemon is told afterwards",
            tell: exits_are_kept,
        },
        Story {
            name: "no line is lost or doubled over ten deaths",
            tell: logs_are_whole,
        },
        Story {
            name: "what was there before can be ended and named again",
            tell: not_stuck,
        },
        Story {
            name: "without its database the daemon finds the workloads",
            tell: no_database,
        },
        Story {
            name: "SIGTERM to the daemon leaves the workloads running",
            tell: graceful,
        },
        Story {
            name: "a second daemon says who holds the state",
            tell: one_instance,
        },
    ],
    at_the_end: powered_off,
};

/// Kills the daemon and waits until the next one answers. The brackets keep pkill from finding the
/// shell that runs this.
pub(crate) const DIE: &str =
    "pkill -KILL -f '[s]erve --init-fd' && until aurae ps >/dev/null 2>&1; do :; done";
/// What of a view must stay: names, uids, pids.
const VIEW: &str = "aurae ps -o json | grep -E '\"(path|uid|pid|state)\"' | sort";

fn view_stays(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run stay && for i in 1 2 3; do \
        aurae run --cell stay --name s$i -d -- sleep 1000; done")?;
    let before = node.sh(VIEW)?;
    node.sh(DIE)?;
    let after = node.sh(VIEW)?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    node.sh("aurae rm -rf stay").map(drop)
}

fn exits_are_kept(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run ends")?;
    let script = "for i in $(seq 10); do \
        aurae run --cell ends --name e$i -d -- sh -c \"busybox usleep ${i}00000; exit $i\"; done; \
        pkill -KILL -f '[s]erve --init-fd'; until aurae ps >/dev/null 2>&1; do sleep 0.1; done; \
        for i in $(seq 10); do said=$(aurae wait ends/e$i 2>&1); \
        test \"$said\" = $i || echo \"wrong: $i $said\"; done";
    let wrong = node.sh(script)?;
    let wrong: Vec<&str> = wrong
        .lines()
        .filter(|line| line.starts_with("wrong:"))
        .collect();
    ensure!(wrong.is_empty(), "not as it ended: {wrong:?}");
    node.sh("aurae rm -rf ends").map(drop)
}

fn logs_are_whole(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run whole")?;
    let print = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); echo line $i; done";
    node.sh(&format!(
        "aurae run --cell whole --name w -d -- sh -c '{print}'"
    ))?;
    for _death in 0..10 {
        node.sh(DIE)?;
    }
    node.sh("aurae wait whole/w && aurae logs whole/w > /tmp/whole")?;
    node.sh("seq 200000 | sed 's/^/line /' | cmp - /tmp/whole")?;
    node.sh("aurae rm -rf whole").map(drop)
}

fn not_stuck(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run again && aurae run --cell again --name a -d -- sleep 1000")?;
    node.sh(DIE)?;
    node.sh("aurae stop again/a && aurae run --cell again --name a -- true")?;
    node.sh("aurae rm -rf again && aurae cell run again && aurae rm -rf again")
        .map(drop)
}

fn no_database(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run base && aurae run --cell base --name b -d -- sleep 1000")?;
    let before = node.sh(VIEW)?;
    node.sh(&format!("rm -f /var/lib/aurae/aurae.db*; {DIE}"))?;
    let after = node.sh(VIEW)?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    node.sh("aurae rm -rf base").map(drop)
}

fn graceful(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run calm && aurae run --cell calm --name c -d -- sleep 1000")?;
    let before = node.sh(VIEW)?;
    node.sh(&DIE.replace("KILL", "TERM"))?;
    ensure!(before == node.sh(VIEW)?, "the view has changed");
    node.sh("aurae rm -rf calm").map(drop)
}

fn one_instance(node: &mut Node) -> Result<()> {
    node.sh("auraed credentials | grep -q spiffe://")?;
    let said = node.try_sh("timeout -k 5 20 auraed --run-dir /tmp/second-run 2>&1")?;
    let text = String::from_utf8_lossy(&said.out);
    ensure!(
        said.status != 0 && text.contains("/var/lib/aurae"),
        "the second one said: {text}"
    );
    Ok(())
}
