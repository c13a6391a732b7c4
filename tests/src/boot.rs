// SPDX-License-Identifier: Apache-2.0
//! Stories of a machine whose PID 1 is auraed: what is mounted, who runs, how it ends.

use anyhow::{Result, ensure};
use testkit::node::{Node, Options};

use crate::power;
use crate::story::{Chapter, Story};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "boot",
    options: || Options {
        reboots: true,
        off: "kill -PWR 1".into(),
        append: "aurae.watchdog.timeout=40s".into(),
        ..Options::default()
    },
    stories: &[
        Story {
            name: "auraed is PID 1 on the root disk",
            tell: auraed_is_pid_1,
        },
        Story {
            name: "the file systems of a node are mounted",
            tell: file_systems,
        },
        Story {
            name: "loopback is up and the host has its name",
            tell: loopback_and_name,
        },
        Story {
            name: "orphans are reaped",
            tell: orphans_are_reaped,
        },
        Story {
            name: "a reboot keeps records and logs, and no workload holds it past its bound",
            tell: power::reboot,
        },
        Story {
            name: "ctrl-alt-del stops in order and reboots",
            tell: power::ctrl_alt_del,
        },
        Story {
            name: "a halted node stands still, and its disk is in order",
            tell: power::halt,
        },
        Story {
            name: "a machine whose init stands still is started anew by its watchdog",
            tell: power::watchdog,
        },
    ],
    at_the_end: power::by_sigpwr,
};

fn auraed_is_pid_1(node: &mut Node) -> Result<()> {
    let exe = node.sh("readlink /proc/1/exe")?;
    ensure!(exe.trim() == "/usr/sbin/auraed", "PID 1 is {exe}");
    let root = node.sh("stat -f -c %T /")?;
    ensure!(root.trim() == "ext2/ext3", "the root is a {root}");
    Ok(())
}

fn file_systems(node: &mut Node) -> Result<()> {
    // A shell's `<(…)` and what writes to /dev/stderr need these, udev or none.
    node.sh("test $(readlink /dev/fd) = /proc/self/fd && echo there > /dev/stderr")?;
    let mounts = node.sh("cat /proc/self/mounts")?;
    for (place, kind) in [
        ("/proc", "proc"),
        ("/sys", "sysfs"),
        ("/dev", "devtmpfs"),
        ("/dev/pts", "devpts"),
        ("/dev/shm", "tmpfs"),
        ("/run", "tmpfs"),
        ("/tmp", "tmpfs"),
        ("/sys/fs/cgroup", "cgroup2"),
    ] {
        let there = mounts.lines().any(|line| {
            let mut words = line.split(' ').skip(1);
            words.next() == Some(place) && words.next() == Some(kind)
        });
        ensure!(there, "{place} is no {kind}:\n{mounts}");
    }
    Ok(())
}

fn loopback_and_name(node: &mut Node) -> Result<()> {
    node.sh("ping -q -c 1 -W 5 127.0.0.1 && ping -q -c 1 -W 5 ::1")?;
    let name = node.sh("cat /proc/sys/kernel/hostname")?;
    ensure!(name.trim() == "node", "the host is called {name}");
    let id = node.sh("cat /etc/machine-id")?;
    ensure!(id.trim().len() == 32, "the machine's id is {id:?}");
    Ok(())
}

fn orphans_are_reaped(node: &mut Node) -> Result<()> {
    let script = "for i in $(seq 200); do (setsid true &) & done; wait
        for try in $(seq 300); do
            grep -qs '^State:.Z' /proc/[0-9]*/status || exit 0
            busybox usleep 200000
        done
        grep -l '^State:.Z' /proc/[0-9]*/status; exit 1";
    node.sh(script).map(drop)
}
