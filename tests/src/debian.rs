// SPDX-License-Identifier: Apache-2.0
//! Stories of a Debian disk, as its packages have installed it, under auraed as PID 1: what its
//! fstab says is mounted, its services come up by their own unit files, and end in their order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use testkit::node::{Node, Options};

use crate::guide;
use crate::logins;
use crate::story::{Chapter, Story, powered_off};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "debian",
    options: || Options {
        services: true,
        units: true,
        append: "init=/usr/sbin/auraed".into(),
        off: "exec poweroff".into(),
        ..Options::default()
    },
    stories: &[
        Story {
            name: "a Debian disk comes up under auraed, and no unit fails",
            tell: comes_up,
        },
        Story {
            name: "the root is checked and writable, and fstab's mounts and swaps are there",
            tell: fstab,
        },
        Story {
            name: "its services serve",
            tell: services,
        },
        Story {
            name: "udev has named the devices, and tmpfiles made the folders",
            tell: devices,
        },
        Story {
            name: "a mount is a unit whoever mounts it",
            tell: mounts,
        },
        Story {
            name: "cells see what is mounted when local-fs.target is active",
            tell: cells_see_disks,
        },
        Story {
            name: "who uses an automount waits for its mount, and what is not used goes",
            tell: automounts,
        },
        Story {
            name: "a device that comes starts what it wants, and one that goes stops who is bound",
            tell: devices_come_and_go,
        },
        Story {
            name: "a getty has its terminal, and addresses that are denied are not reached",
            tell: terminals_and_addresses,
        },
        Story {
            name: "a reload reads fstab again, and a killed daemon does not",
            tell: generators,
        },
        Story {
            name: "a login is a session with a scope, a slice and a runtime directory",
            tell: logins::comes_in,
        },
        Story {
            name: "every process has an owner, and one that has none is named",
            tell: logins::everything_has_an_owner,
        },
        Story {
            name: "neither logind's death nor the daemon's loses a session",
            tell: logins::outlives_both,
        },
        Story {
            name: "a session ends with its logout, also without a daemon, and by loginctl",
            tell: logins::goes,
        },
        Story {
            name: "a login at a terminal is the getty's, in the session's scope",
            tell: logins::at_a_terminal,
        },
        Story {
            name: "every program knows the name of a dynamic user, for as long as it is there",
            tell: dynamic_users,
        },
        Story {
            name: "every program of the guide's pages on units runs",
            tell: guide::units,
        },
        Story {
            name: "the daemon's death ends no service",
            tell: daemon_dies,
        },
        Story {
            name: "the death of the units' own init ends no service",
            tell: init_dies,
        },
        Story {
            name: "what is logged while there is no daemon is in the journal of the next one",
            tell: logged_meanwhile,
        },
        Story {
            name: "units that end in their order are left on the disk",
            tell: leaves_a_trace,
        },
    ],
    at_the_end: ended_in_order,
};

/// How long a boot may take on a busy machine.
const UP: Duration = Duration::from_secs(500);

pub(crate) fn comes_up(node: &mut Node) -> Result<()> {
    let up = "until systemctl is-active -q graphical.target; do sleep 0.5; done; \
        cut -d' ' -f1 /proc/uptime";
    let finished = node.start(up)?.finish_within(UP);
    let shown = node.try_sh("systemctl list-jobs; systemctl list-units --failed")?;
    let shown = String::from_utf8_lossy(&shown.out).into_owned();
    let finished = finished.map_err(|error| error.context(shown.clone()))?;
    let seconds = String::from_utf8_lossy(&finished.out).into_owned();
    println!("        up after {} s", seconds.trim());
    let exe = node.sh("readlink /proc/1/exe")?;
    ensure!(exe.trim() == "/usr/sbin/auraed", "PID 1 is {exe}");
    node.sh("test -d /run/systemd/system")?;
    let failed = node.sh("systemctl list-units --failed --no-legend --plain | cut -d' ' -f1")?;
    ensure!(failed.trim().is_empty(), "these failed: {failed}");
    for unit in [
        "systemd-udevd",
        "dbus",
        "ssh",
        "nginx",
        "cron",
        "rsyslog",
        "chrony",
        "systemd-tmpfiles-setup",
        "systemd-sysctl",
        "serial-getty@ttyS0",
    ] {
        let state = node.sh(&format!("systemctl is-active {unit} || true"))?;
        ensure!(state.trim() == "active", "{unit} is {state}");
    }
    Ok(())
}

fn fstab(node: &mut Node) -> Result<()> {
    let root = node.sh("findmnt -no OPTIONS,PROPAGATION /")?;
    ensure!(
        root.starts_with("rw,") && root.contains("errors=remount-ro") && root.contains("shared"),
        "the root is {root}"
    );
    let console = node.console();
    ensure!(console.contains("auraed: / is checked"), "{console}");
    node.sh(
        "findmnt -no FSTYPE /srv/scratch | grep -qx tmpfs && test $(cat /srv/bound/file) = bound",
    )?;
    let swaps = node.sh("cat /proc/swaps")?;
    ensure!(swaps.contains("/swap"), "no swap: {swaps}");
    for unit in [
        "srv-scratch.mount",
        "srv-bound.mount",
        "swap.swap",
        "-.mount",
    ] {
        let state = node.sh(&format!("systemctl is-active -- {unit} || true"))?;
        ensure!(state.trim() == "active", "{unit} is {state}");
    }
    // Nothing waits for a mount that may fail, and systemctl doesn't say that it is there.
    let absent = node.sh("systemctl is-active srv-absent.mount || true")?;
    ensure!(absent.trim() != "active", "a device that there isn't");
    Ok(())
}

fn services(node: &mut Node) -> Result<()> {
    let page = node.sh("curl -sf http://127.0.0.1/")?;
    ensure!(page.contains("nginx"), "{page}");
    let banner =
        node.sh("exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/22; read -r line <&3; echo \"$line\"'")?;
    ensure!(banner.starts_with("SSH-2.0-OpenSSH"), "{banner}");
    let names = node.sh(
        "dbus-send --system --print-reply --dest=org.freedesktop.DBus / \
         org.freedesktop.DBus.ListNames",
    )?;
    ensure!(names.contains("org.freedesktop.DBus"), "{names}");
    node.sh("logger -t story told-by-logger; for try in $(seq 100); do \
         grep -q told-by-logger /var/log/syslog && exit 0; sleep 0.1; done; exit 1")?;
    // What a unit prints, and what the daemon says.
    node.sh(
        "systemd-run -q --wait -u story-prints sh -c 'echo told-by-a-unit' && \
         for try in $(seq 100); do grep -q 'sh.*: told-by-a-unit' /var/log/syslog && \
         grep -q 'auraed: a unit changed unit=story-prints.service' /var/log/syslog && exit 0; \
         sleep 0.1; done; tail /var/log/syslog; exit 1",
    )?;
    node.sh("chronyc -n sources >/dev/null && pgrep -x cron >/dev/null")?;
    let journal = node.sh("journalctl -q -u ssh --no-pager | tail -n 3")?;
    ensure!(journal.contains("listening"), "ssh's journal: {journal}");
    Ok(())
}

fn devices(node: &mut Node) -> Result<()> {
    node.sh("test -e /dev/disk/by-label/aurae && test -n \"$(ls /run/udev/data)\"")?;
    node.sh("test -d /run/lock && test -d /tmp/.X11-unix && udevadm info -q name -n /dev/vda")
        .map(drop)
}

fn mounts(node: &mut Node) -> Result<()> {
    let is = |node: &Node, wanted: &str| {
        node.sh(&format!(
            "for try in $(seq 100); do \
             test \"$(systemctl is-active srv-scratch.mount)\" = {wanted} && exit 0; \
             sleep 0.1; done; systemctl status srv-scratch.mount; exit 1"
        ))
    };
    node.sh("umount /srv/scratch")?;
    is(node, "inactive")?;
    node.sh("mount /srv/scratch")?;
    is(node, "active")?;
    node.sh("systemctl stop srv-scratch.mount && ! findmnt /srv/scratch")?;
    node.sh("systemctl start srv-scratch.mount && findmnt /srv/scratch")
        .map(drop)
}

/// Their roots are copies of one, which is made anew then.
fn cells_see_disks(node: &mut Node) -> Result<()> {
    let seen = |node: &Node, name: &str| {
        node.sh(&format!(
            "aurae cell run {name} && aurae run --cell {name} -- ls /opt; aurae rm -rf {name}"
        ))
    };
    node.sh("mount -t tmpfs tmpfs /opt && touch /opt/of-the-disk")?;
    let before = seen(node, "early")?;
    ensure!(
        !before.contains("of-the-disk"),
        "it is seen at once: {before}"
    );
    node.sh("systemctl restart local-fs.target && systemctl is-active local-fs.target")?;
    let after = seen(node, "late")?;
    node.sh("umount /opt")?;
    ensure!(after.contains("of-the-disk"), "a cell sees {after:?}");
    Ok(())
}

/// Until a unit is so.
fn wait_for(unit: &str, wanted: &str) -> String {
    format!(
        "for try in $(seq 200); do test \"$(systemctl is-active {unit})\" = {wanted} && break; \
         sleep 0.1; done; test \"$(systemctl is-active {unit})\" = {wanted} || \
         {{ systemctl status {unit}; exit 1; }}"
    )
}

fn automounts(node: &mut Node) -> Result<()> {
    let binfmt = node.sh("systemctl is-active proc-sys-fs-binfmt_misc.automount")?;
    ensure!(binfmt.trim() == "active", "binfmt_misc is {binfmt}");
    node.sh(
        "printf '[Automount]\\nTimeoutIdleSec=2\\n' > /etc/systemd/system/srv-auto.automount; \
         printf '[Mount]\\nWhat=tmpfs\\nType=tmpfs\\nWhere=/srv/auto\\n' \
         > /etc/systemd/system/srv-auto.mount; \
         systemctl daemon-reload && systemctl start srv-auto.automount",
    )?;
    let state = node.sh("systemctl is-active srv-auto.mount || true")?;
    ensure!(state.trim() == "inactive", "nobody has used it: {state}");
    // It is in use for as long as a file of it is open, however slow the node is.
    let uses = "sh -c 'exec 3> /srv/auto/file; exec sleep 1000' >/dev/null 2>&1 & \
                echo $! > /run/holder";
    let opened = "until test -e /srv/auto/file; do sleep 0.1; done";
    node.sh(&format!("{uses}; {}", wait_for("srv-auto.mount", "active")))?;
    node.sh(opened)?;
    node.sh("findmnt -n -t tmpfs /srv/auto && kill $(cat /run/holder)")?;
    node.sh(&wait_for("srv-auto.mount", "inactive"))?;
    // Over the daemon's death, by who came while there was none.
    node.sh(&format!(
        "pkill -KILL -f '[s]erve .*--init-fd'; {uses}; {SERVING}; {}",
        wait_for("srv-auto.mount", "active")
    ))?;
    node.sh(opened)?;
    node.sh("systemctl is-active -q srv-auto.automount && kill $(cat /run/holder)")?;
    node.sh(&wait_for("srv-auto.mount", "inactive"))?;
    node.sh("systemctl stop srv-auto.automount && ! findmnt /srv/auto && test -d /srv/auto")
        .map(drop)
}

fn devices_come_and_go(node: &mut Node) -> Result<()> {
    node.sh(
        "printf 'SUBSYSTEM==\"net\", KERNEL==\"story1\", TAG+=\"systemd\", \
         ENV{SYSTEMD_WANTS}+=\"story-wanted.service\"\\n' > /etc/udev/rules.d/99-story.rules; \
         device=sys-subsystem-net-devices-story0.device; \
         printf \"[Unit]\\nBindsTo=$device\\nAfter=$device\\n[Service]\\nExecStart=/bin/sleep 1000\\n\" \
         > /etc/systemd/system/story-bound.service; \
         printf '[Service]\\nExecStart=/bin/sleep 1000\\n' > /etc/systemd/system/story-wanted.service; \
         systemctl daemon-reload; udevadm control --reload",
    )?;
    node.sh("(sleep 1; ip link add story0 type dummy) & systemctl start story-bound")?;
    node.sh("systemctl is-active story-bound && ip link del story0")?;
    node.sh(&wait_for("story-bound.service", "inactive"))?;
    node.sh("ip link add story1 type dummy")?;
    node.sh(&wait_for("story-wanted.service", "active"))?;
    node.sh("ip link del story1").map(drop)
}

fn terminals_and_addresses(node: &mut Node) -> Result<()> {
    node.sh(
        "set -e; pid=$(systemctl show -p MainPID --value serial-getty@ttyS0); \
         test \"$(readlink /proc/$pid/fd/0)\" = /dev/ttyS0; \
         tr '\\0' '\\n' < /proc/$pid/environ | grep -qx TERM=vt220; \
         tr '\\0' ' ' < /proc/$pid/cmdline | grep -q -- '--keep-baud'",
    )?;
    node.sh(
        "systemd-run -q --wait -p IPAddressDeny=any curl -sf -m 5 http://127.0.0.1/ && exit 1; \
         systemd-run -q --wait -p IPAddressDeny=any -p IPAddressAllow=localhost \
         curl -sf -m 5 http://127.0.0.1/",
    )?;
    // The first one has failed, as it should: later stories look for units that have.
    node.sh("systemctl reset-failed").map(drop)
}

/// Until the daemon answers.
pub(crate) const SERVING: &str = "until aurae ps >/dev/null 2>&1; do sleep 0.05; done";

fn generators(node: &mut Node) -> Result<()> {
    node.sh("echo 'tmpfs /srv/late tmpfs size=1m 0 0' >> /etc/fstab")?;
    node.sh_fails("systemctl cat srv-late.mount", 1)?;
    node.sh("systemctl daemon-reload && systemctl start srv-late.mount && findmnt /srv/late")?;
    node.sh("touch /run/systemd/generator/kept")?;
    node.sh(&format!(
        "pkill -KILL -f '[s]erve .*--init-fd' && {SERVING} && test -e /run/systemd/generator/kept"
    ))
    .map(drop)
}

/// nss-systemd(8): `id`, `ls` and `ps` ask the daemon by way of the machine's name service.
fn dynamic_users(node: &mut Node) -> Result<()> {
    node.sh(
        "printf '[Service]\nDynamicUser=yes\nStateDirectory=story-own\n\
         ExecStart=/bin/sleep 1000\n' > /etc/systemd/system/story-own.service; \
         systemctl daemon-reload && systemctl start story-own",
    )?;
    let known = "pid=$(systemctl show -p MainPID --value story-own); uid=$(stat -c %u /proc/$pid); \
        test \"$(id -un $uid)\" = story-own && test \"$(id -u story-own)\" = $uid && \
        test \"$(getent group $uid | cut -d: -f1)\" = story-own && \
        test \"$(ps -o user:20= -p $pid)\" = story-own && \
        ls -ld /var/lib/private/story-own | grep -q ' story-own *story-own ' && \
        getent passwd story-own";
    let line = node.sh(known)?;
    ensure!(line.contains("Dynamic User"), "getent says {line}");
    node.sh(&format!(
        "pkill -KILL -f '[s]erve .*--init-fd' && {SERVING} && {known}"
    ))?;
    // An unknown one is unknown, and `id` doesn't wait for that: the library would for 45 s.
    node.sh("timeout 30 id nobody-of-that-name; test $? = 1")?;
    node.sh(
        "systemctl stop story-own; for try in $(seq 300); do id story-own >/dev/null 2>&1 || exit 0; \
         sleep 0.1; done; exit 1",
    )
    .map(drop)
}

/// What must stay: the main processes of services.
const MAIN: &str = "for unit in ssh nginx cron rsyslog chrony dbus systemd-udevd; do \
    systemctl show -p MainPID --value $unit; done";

fn daemon_dies(node: &mut Node) -> Result<()> {
    let before = node.sh(MAIN)?;
    node.sh(&format!(
        "pkill -KILL -f '[s]erve .*--init-fd' && {SERVING}"
    ))?;
    let after = node.sh(MAIN)?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    let failed = node.sh("systemctl list-units --failed --no-legend --plain")?;
    ensure!(failed.trim().is_empty(), "these failed: {failed}");
    node.sh("curl -sf http://127.0.0.1/ >/dev/null").map(drop)
}

/// Of all that the machine's units run in one cell-init is the parent.
fn init_dies(node: &mut Node) -> Result<()> {
    let before = node.sh(MAIN)?;
    node.sh(
        "init=$(pgrep -xf 'aurae-cell system/system'); kill -KILL $init; \
         until new=$(pgrep -xf 'aurae-cell system/system') && test \"$new\" != \"$init\"; do \
         sleep 0.1; done; \
         until systemctl restart cron; do sleep 0.1; done; systemctl is-active cron",
    )?;
    let after = node.sh(MAIN)?;
    let but_cron = |text: &str| -> Vec<String> {
        let lines = text.lines().enumerate().filter(|(at, _)| *at != 2);
        lines.map(|(_, pid)| pid.to_owned()).collect()
    };
    ensure!(
        but_cron(&before) == but_cron(&after) && before != after,
        "before:\n{before}\nafter:\n{after}"
    );
    let failed = node.sh("systemctl list-units --failed --no-legend --plain")?;
    ensure!(failed.trim().is_empty(), "these failed: {failed}");
    node.sh(
        "curl -sf http://127.0.0.1/ >/dev/null && logger -t story-init told && \
         journalctl --sync && journalctl -q -t story-init -o cat | grep -qx told",
    )
    .map(drop)
}

/// By a datagram, and by a connection that a program has had from before.
fn logged_meanwhile(node: &mut Node) -> Result<()> {
    node.sh(&format!(
        "systemd-cat -t story-stream sh -c \
         'echo before; until test -e /run/story-goes-on; do sleep 0.1; done; echo after' & \
         until journalctl -q -t story-stream -o cat | grep -qx before; do sleep 0.1; done; \
         pkill -KILL -f '[s]erve .*--init-fd'; logger -t story-meanwhile told; \
         touch /run/story-goes-on; wait $!; {SERVING}; journalctl --sync"
    ))?;
    let told = node.sh("journalctl -q -t story-meanwhile -t story-stream -o cat")?;
    let mut lines: Vec<&str> = told.lines().collect();
    lines.sort_unstable();
    ensure!(lines == ["after", "before", "told"], "told is {told}");
    Ok(())
}

/// Whether [`leaves_a_trace`] was told: without it there is no end to look for.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// Their ends are told on the console: the disk is gone with the machine.
fn leaves_a_trace(node: &mut Node) -> Result<()> {
    let unit = |name: &str, more: &str| {
        format!(
            "printf '[Unit]\\n{more}[Service]\\nType=oneshot\\nRemainAfterExit=yes\\n\
             ExecStart=/bin/true\\n\
             ExecStop=/bin/sh -c \"echo story-{name}-stops > /dev/console\"\\n' \
             > /etc/systemd/system/{name}.service"
        )
    };
    node.sh(&unit("first", "After=srv-scratch.mount nginx.service\\n"))?;
    node.sh(&unit(
        "second",
        "After=first.service\\nRequires=first.service\\n",
    ))?;
    node.sh("systemctl daemon-reload && systemctl start second && systemctl is-active first")?;
    HAS_LEFT.store(true, Ordering::Relaxed);
    Ok(())
}

fn ended_in_order(console: &str) -> Result<()> {
    powered_off(console)?;
    if !HAS_LEFT.load(Ordering::Relaxed) {
        return Ok(());
    }
    let at = |word: &str| console.find(word);
    let (second, first) = (at("story-second-stops"), at("story-first-stops"));
    ensure!(
        second.is_some() && first > second && at("auraed: the end") > first,
        "they ended otherwise:\n{console}"
    );
    Ok(())
}
