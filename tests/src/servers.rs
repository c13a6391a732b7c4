// SPDX-License-Identifier: Apache-2.0
//! Stories of one Debian disk under auraed and then under its own systemd: with databases and a
//! proxy, asked by their own clients, and every unit that is active there is active here.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "servers",
    options: || Options {
        servers: true,
        units: true,
        reboots: true,
        append: AURAED.into(),
        off: format!("{ORIGINALS}; exec systemctl poweroff"),
        ..Options::default()
    },
    stories: &[
        Story {
            name: "a Debian with databases and a proxy comes up under auraed, and no unit fails",
            tell: comes_up,
        },
        Story {
            name: "psql, redis-cli and curl are answered",
            tell: clients,
        },
        Story {
            name: "every unit that is active under systemd is active under auraed",
            tell: compared,
        },
    ],
    at_the_end: |_| Ok(()),
};

const AURAED: &str = "init=/usr/sbin/auraed";
/// With the agent, and no question asked at the first boot.
const SYSTEMD: &str = "init=/lib/systemd/systemd systemd.wants=node-agent.service \
    systemd.firstboot=off";
/// Commands are systemd's own, and not the links in front of them.
const ORIGINALS: &str = "export PATH=/usr/sbin:/usr/bin:/sbin:/bin";
/// How long a boot may take on a busy machine.
const UP: Duration = Duration::from_secs(500);
/// How long a node may take from an order to the console's next word about it.
const SOON: Duration = Duration::from_secs(120);
/// PostgreSQL's unit gives itself so many seconds to stop.
const HOUR: u64 = 3600;

/// Units that are active under systemd alone, and why. `*` stands for the rest of a name, or for
/// its beginning.
const SYSTEMDS_OWN: &[(&str, &str)] = &[
    ("init.scope", "PID 1 has a group that is no unit"),
    (
        "node-agent.service",
        "the test bed's; here `boot.run` runs it",
    ),
    (
        "run-credentials-*",
        "a service's credentials are no mount of the machine's",
    ),
    // Of those that have a unit in a file's words (`dev-ttyS0.device`) none is left out.
    (
        "sys-devices-*",
        "a device's unit is loaded when another unit names it, or a client asks",
    ),
    ("sys-subsystem-*", "the same"),
    (
        "system-modprobe.slice",
        "a slice of services that have ended, which it outlives there",
    ),
    ("system-systemd\\x2dfsck.slice", "no unit checks the root"),
    (
        "systemd-fsck-root.service",
        "PID 1 has checked the root before",
    ),
    (
        "systemd-fsckd.service",
        "systemd-fsck starts it for its progress, and it ends when that is over",
    ),
    ("systemd-initctl.socket", "native"),
    ("systemd-journald-audit.socket", "native"),
    ("systemd-update-utmp.service", "no records in utmp"),
];

/// Waits until the machine has come up.
fn up(node: &Node) -> Result<()> {
    let finished = node
        .start(&format!(
            "{ORIGINALS}; until systemctl is-active -q graphical.target && \
             test -z \"$(systemctl list-jobs --no-legend)\"; do sleep 0.5; done; \
             cut -d' ' -f1 /proc/uptime"
        ))?
        .finish_within(UP);
    let shown = node.try_sh(&format!(
        "{ORIGINALS}; systemctl list-jobs; systemctl list-units --failed"
    ))?;
    let finished = finished.context(String::from_utf8_lossy(&shown.out).into_owned())?;
    let seconds = String::from_utf8_lossy(&finished.out).into_owned();
    println!("        up after {} s", seconds.trim());
    Ok(())
}

fn comes_up(node: &mut Node) -> Result<()> {
    up(node)?;
    let failed = node.sh("systemctl list-units --failed --no-legend --plain | cut -d' ' -f1")?;
    ensure!(failed.trim().is_empty(), "these failed: {failed}");
    Ok(())
}

/// What each server is asked by its own client; what PostgreSQL keeps is looked for later.
fn clients(node: &mut Node) -> Result<()> {
    let answers = [
        (
            "runuser -u postgres -- psql -Atqc 'create table story (word text); \
             insert into story values (42); select word from story'",
            "42\n",
        ),
        (
            "redis-cli set story told && redis-cli get story",
            "OK\ntold\n",
        ),
        (
            "curl -sf http://127.0.0.1:8080/ | grep -o 'Welcome to nginx' | head -n 1",
            "Welcome to nginx\n",
        ),
    ];
    for (script, wanted) in answers {
        let said = node.sh(script)?;
        ensure!(said == wanted, "{script} says {said:?}");
    }
    Ok(())
}

/// The units that are active, as systemd's own client lists them.
fn active(node: &Node) -> Result<BTreeSet<String>> {
    let listed = node.sh(&format!(
        "{ORIGINALS}; systemctl list-units --state=active --plain --no-legend --no-pager"
    ))?;
    let names = listed.lines().filter_map(|it| it.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

/// Why a unit is systemd's alone.
fn row(unit: &str) -> Option<&'static str> {
    let fits = |pattern: &str| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => unit.ends_with(end),
        (_, Some(start)) => unit.starts_with(start),
        _ => unit == pattern,
    };
    let mut rows = SYSTEMDS_OWN.iter();
    rows.find(|(pattern, _)| fits(pattern)).map(|(_, why)| *why)
}

/// The bound that the console says.
fn printed_bound(console: &str) -> Result<u64> {
    let said = console.rsplit("Reboot follows, in ").next();
    let seconds = said.and_then(|it| it.split('s').next());
    seconds
        .and_then(|it| it.parse().ok())
        .with_context(|| format!("no bound: {console}"))
}

fn compared(node: &mut Node) -> Result<()> {
    let ours = active(node)?;
    node.sh(
        "printf '[Service]\\nExecStart=/usr/local/lib/aurae-testbed/node-agent\\n\
         Environment=HOME=/root\\nWorkingDirectory=/root\\n' \
         > /etc/systemd/system/node-agent.service",
    )?;
    let mark = node.console().len();
    let _cut_off = node.start("exec systemctl reboot")?;
    node.wait_console(mark, "Reboot follows, in ", SOON)?;
    node.comes_back_with(AURAED, SYSTEMD)?;
    let console = node.console();
    let bound = printed_bound(console.get(mark..).unwrap_or_default())?;
    ensure!(bound > HOUR, "PostgreSQL has no hour to stop: {bound} s");
    up(node)?;
    let exe = node.sh("readlink /proc/1/exe")?;
    ensure!(exe.trim().ends_with("/systemd"), "PID 1 is {exe}");
    let kept = node.sh("runuser -u postgres -- psql -Atqc 'select word from story'")?;
    ensure!(kept == "42\n", "PostgreSQL has kept {kept:?}");
    let theirs = active(node)?;
    let missing: Vec<&String> = theirs
        .difference(&ours)
        .filter(|unit| row(unit).is_none())
        .collect();
    println!(
        "        {} units are active under systemd, {} under auraed, {} are systemd's own",
        theirs.len(),
        ours.len(),
        theirs.iter().filter(|unit| row(unit).is_some()).count()
    );
    ensure!(
        missing.is_empty(),
        "active under systemd, and not under auraed: {missing:#?}"
    );
    // A row for a unit that is active here, too, would hide its loss.
    let needless: Vec<&String> = ours.iter().filter(|unit| row(unit).is_some()).collect();
    ensure!(
        needless.is_empty(),
        "these have a row for nothing: {needless:?}"
    );
    Ok(())
}
