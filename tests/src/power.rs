// SPDX-License-Identifier: Apache-2.0
//! Stories of a machine's ends and new beginnings: reboot and halt through the API, ctrl-alt-del,
//! SIGPWR. Told last in the chapter of the boot, on its node: the disk lives through a reboot.

use std::time::Duration;

use anyhow::{Result, ensure};
use testkit::node::Node;

use crate::story::inspect;

/// How long a node may take from an order to the console's next word about it.
const SOON: Duration = Duration::from_secs(60);
/// What [`reboot`] gives the workloads.
const BOUND: Duration = Duration::from_secs(10);
/// What the last sync, the kernel and the host's look at the console take on top, on a busy
/// machine: far less than the hour that the workloads would like.
const SLACK: Duration = Duration::from_secs(30);

/// This boot's id.
fn boot_id(node: &Node) -> Result<String> {
    node.sh("cat /proc/sys/kernel/random/boot_id")
}

/// What the console has shown since.
fn since(node: &Node, mark: usize) -> String {
    node.console().get(mark..).unwrap_or_default().to_owned()
}

/// Waits for the kernel's last words and the next boot.
fn comes_back(node: &mut Node, mark: usize) -> Result<()> {
    node.wait_console(mark, "reboot: Restarting system", SOON)?;
    node.comes_back()?;
    let shown = since(node, mark);
    ensure!(
        shown.contains("auraed: the end"),
        "it ended otherwise: {shown}"
    );
    ensure!(!shown.contains("panic"), "the kernel panicked: {shown}");
    node.sh("until aurae ps >/dev/null 2>&1; do sleep 0.1; done")
        .map(drop)
}

/// Three who don't want to end: one is deaf to its stop signal and has an hour's grace, one stands
/// still in a frozen cell, one has a child that left its session.
const STUBBORN: &str = "aurae cell run kept && aurae cell run ice \
    && aurae run --cell kept --name deaf --stop-grace 1h -d -- \
        sh -c 'trap \"\" TERM; echo deaf; while :; do sleep 1; done' \
    && aurae run --cell kept --name child --stop-grace 1h -d -- \
        sh -c 'trap \"\" TERM; setsid sleep 1000 & wait' \
    && aurae run --cell ice --name still --stop-grace 1h -d -- sleep 1000 \
    && aurae cell freeze ice";

pub(crate) fn reboot(node: &mut Node) -> Result<()> {
    let before = boot_id(node)?;
    node.sh(STUBBORN)?;
    node.sh_fails(
        "aurae run --cell kept --name job -- sh -c 'echo done; exit 3'",
        3,
    )?;
    let mark = node.console().len();
    let bound = BOUND.as_secs();
    let _cut_off = node.start(&format!("exec aurae node reboot --bound {bound}s"))?;
    let order = format!("the daemon asks for it: Reboot follows, in {bound}s at most");
    let ordered = node.wait_console(mark, &order, SOON)?;
    let down = node.wait_console(mark, "reboot: Restarting system", SOON)?;
    let took = down - ordered;
    ensure!(
        took < BOUND + SLACK,
        "{took:?} passed, {BOUND:?} were said\n{}",
        since(node, mark)
    );
    comes_back(node, mark)?;
    ensure!(boot_id(node)? != before, "it is the same boot");
    let job = inspect(node, "kept/job")?;
    ensure!(
        job.pointer("/executable/exit/code") == Some(&3.into()),
        "the record of the finished one: {job}"
    );
    for (name, said) in [("kept/job", "done\n"), ("kept/deaf", "deaf\n")] {
        let log = node.sh(&format!("aurae logs {name}"))?;
        ensure!(log == said, "the log of {name} says {log:?}");
    }
    let running = node.sh("aurae ps | grep -c kept/deaf.*running || true")?;
    ensure!(running.trim() == "0", "it isn't known to have ended");
    Ok(())
}

pub(crate) fn ctrl_alt_del(node: &mut Node) -> Result<()> {
    let before = boot_id(node)?;
    let caught = node.sh("cat /proc/sys/kernel/ctrl-alt-del")?;
    ensure!(caught.trim() == "0", "the kernel reboots by itself");
    let polite = "trap \"echo told; exit 4\" TERM; echo there; while :; do sleep 0.1; done";
    node.sh(&format!(
        "aurae cell run polite && aurae run --cell polite --name p -d -- sh -c '{polite}' \
         && until aurae logs polite/p | grep -q there; do sleep 0.1; done"
    ))?;
    let mark = node.console().len();
    node.monitor("sendkey ctrl-alt-delete")?;
    node.wait_console(mark, "auraed: SIGINT: Reboot follows, in ", SOON)?;
    comes_back(node, mark)?;
    ensure!(boot_id(node)? != before, "it is the same boot");
    let log = node.sh("aurae logs polite/p")?;
    ensure!(log == "there\ntold\n", "the log says {log:?}");
    let told = inspect(node, "polite/p")?;
    ensure!(
        told.pointer("/executable/exit/code") == Some(&4.into()),
        "its end: {told}"
    );
    Ok(())
}

pub(crate) fn halt(node: &mut Node) -> Result<()> {
    let before = boot_id(node)?;
    let mark = node.console().len();
    let _cut_off = node.start("exec aurae node shutdown --halt")?;
    node.wait_console(mark, "reboot: System halted", SOON)?;
    let shown = since(node, mark);
    for line in ["Halt follows, in ", "auraed: the end"] {
        ensure!(shown.contains(line), "{line:?} isn't in {shown}");
    }
    ensure!(node.has_power()?, "the machine is off, not halted");
    // The reset button is pressed; the file system was left in order.
    node.monitor("system_reset")?;
    node.comes_back()?;
    ensure!(boot_id(node)? != before, "it is the same boot");
    let kernel = node.sh("dmesg | grep -i 'ext4-fs' || true")?;
    ensure!(
        !kernel.contains("recovery"),
        "the disk was in use: {kernel}"
    );
    Ok(())
}

/// The chapter's node has a watchdog of 40 s, which the stories before have taken longer than. Who
/// stops giving signs is PID 1, in a group that the kernel has frozen.
pub(crate) fn watchdog(node: &mut Node) -> Result<()> {
    let before = boot_id(node)?;
    let seen = node.sh("cd /sys/class/watchdog/watchdog0 && cat state timeout")?;
    ensure!(seen == "active\n40\n", "the watchdog is {seen}");
    let features = node.sh("aurae node info -o json")?;
    let features: serde_json::Value = serde_json::from_str(&features)?;
    let there = features.get("features").and_then(|it| it.as_array());
    let there = there
        .into_iter()
        .flatten()
        .find(|it| it["name"] == "watchdog");
    ensure!(
        there.is_some_and(|it| it["available"] == true),
        "the node doesn't say so: {features}"
    );
    let mark = node.console().len();
    let _cut_off =
        node.start("echo 1 > /sys/fs/cgroup/aurae/_init/cgroup.freeze; exec sleep 600")?;
    node.wait_console(mark, "softdog: Initiating system reboot", SOON)?;
    node.comes_back()?;
    ensure!(boot_id(node)? != before, "it is the same boot");
    node.sh("until aurae ps >/dev/null 2>&1; do sleep 0.1; done")
        .map(drop)
}

/// What the console has shown where the chapter's node went off by SIGPWR.
pub(crate) fn by_sigpwr(console: &str) -> Result<()> {
    for line in [
        "auraed: SIGPWR: PowerOff follows, in ",
        "reboot: Power down",
    ] {
        ensure!(console.contains(line), "{line:?} isn't on the console");
    }
    Ok(())
}
