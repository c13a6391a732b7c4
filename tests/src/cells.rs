// SPDX-License-Identifier: Apache-2.0
//! Stories of cells: what is shared, what is limited, what is hidden, and that it stays so from
//! inside.

use anyhow::{Result, ensure};
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story, inspect, powered_off, text};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "cells",
    options: Options::default,
    stories: &[
        Story {
            name: "a cell shares no namespace with the node",
            tell: nothing_is_shared,
        },
        Story {
            name: "a namespace is shared when named",
            tell: sharing_is_explicit,
        },
        Story {
            name: "limits are the kernel's, and change live",
            tell: limits,
        },
        Story {
            name: "a cell's limits are not its init's",
            tell: limits_spare_inits,
        },
        Story {
            name: "a frozen cell stands still",
            tell: frozen,
        },
        Story {
            name: "cells nest, and go recursively on demand only",
            tell: nested,
        },
        Story {
            name: "the node's root is read-only and /tmp is private",
            tell: read_only,
        },
        Story {
            name: "what only root may read can't be read",
            tell: hidden,
        },
        Story {
            name: "a read grant lets in what it names",
            tell: read_grant,
        },
        Story {
            name: "a writable mount acts as its owner, without setuid",
            tell: write_grant,
        },
        Story {
            name: "the jail can't be undone from inside",
            tell: jail_holds,
        },
        Story {
            name: "a fork bomb stays in its cell",
            tell: fork_bomb,
        },
        Story {
            name: "a removed cell leaves no cgroup",
            tell: nothing_left,
        },
    ],
    at_the_end: powered_off,
};

const KINDS: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
/// An attacker's process: the cell's root with every capability of its user namespace and no
/// seccomp.
const ATTACKER: &str = "--rm --cap-add ALL --seccomp unconfined --allow-new-privileges";

fn nothing_is_shared(node: &mut Node) -> Result<()> {
    for kind in KINDS {
        let ours = node.sh(&format!("readlink /proc/1/ns/{kind}"))?;
        let theirs = node.sh(&format!("aurae run --rm -- readlink /proc/self/ns/{kind}"))?;
        ensure!(
            theirs.contains(kind) && ours != theirs,
            "{kind}: {ours} and {theirs}"
        );
    }
    Ok(())
}

fn sharing_is_explicit(node: &mut Node) -> Result<()> {
    let script = "aurae run --rm --share net -- readlink /proc/self/ns/net /proc/self/ns/uts";
    let theirs = node.sh(script)?;
    let ours = node.sh("readlink /proc/1/ns/net /proc/1/ns/uts")?;
    let (theirs, ours): (Vec<&str>, Vec<&str>) = (theirs.lines().collect(), ours.lines().collect());
    ensure!(
        theirs.first() == ours.first(),
        "net isn't shared: {theirs:?} {ours:?}"
    );
    ensure!(theirs.last() != ours.last(), "uts is shared: {theirs:?}");
    Ok(())
}

fn limits(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run limited --memory 64M --cpus 0.5 --pids-limit 32")?;
    let cell = inspect(node, "limited")?;
    let group = format!("/sys/fs/cgroup/{}", text(&cell, &["cell", "cgroup"])?);
    let read = |file: &str| node.sh(&format!("cat {group}/{file}"));
    ensure!(
        read("memory.max")?.trim() == "67108864",
        "memory.max {}",
        read("memory.max")?
    );
    ensure!(
        read("pids.max")?.trim() == "32",
        "pids.max {}",
        read("pids.max")?
    );
    ensure!(
        read("cpu.max")?.trim() == "50000 100000",
        "cpu.max {}",
        read("cpu.max")?
    );
    node.sh("aurae cell update limited --memory 128M")?;
    ensure!(
        read("memory.max")?.trim() == "134217728",
        "memory.max {}",
        read("memory.max")?
    );
    ensure!(
        read("pids.max")?.trim() == "32",
        "an update touched pids.max"
    );
    node.sh("aurae cell rm -rf limited").map(drop)
}

/// Its init lives outside of the cell's group: it is no victim of its memory and counts for no
/// process of it, and a cell within a throttled one is made at once.
fn limits_spare_inits(node: &mut Node) -> Result<()> {
    node.sh(
        "aurae cell run tight --memory 20M --memory-swap-max 0 --pids-limit 1 --id-range 262144",
    )?;
    let cell = inspect(node, "tight")?;
    let group = format!("/sys/fs/cgroup/{}", text(&cell, &["cell", "cgroup"])?);
    let read = |node: &mut Node, file: &str| node.sh(&format!("cat {group}/{file}"));
    ensure!(read(node, "pids.current")?.trim() == "0", "its init counts");
    let pid = cell.pointer("/cell/pid").map(ToString::to_string);
    let pid = pid.unwrap_or_default();
    let inits = read(node, "../../_inits/system/cgroup.procs")?;
    ensure!(
        inits.lines().any(|init| init == pid),
        "{pid} is not in _inits: {inits}"
    );
    node.sh("aurae cell update tight --pids-limit 8")?;
    node.sh_fails("aurae run --cell tight --rm -- sh -c 'tail /dev/zero'", 137)?;
    node.sh("aurae run --cell tight --rm -- true")?;
    node.sh("aurae cell update tight --cpus 0.01")?;
    node.sh("aurae run --cell tight -d -- sh -c 'while :; do :; done'")?;
    node.sh("for i in 1 2 3 4 5 6; do aurae cell run tight/inner$i --id-range 1000 & done; wait")?;
    let made = node.sh(&format!("ls -d {group}/inner* | wc -l"))?;
    ensure!(made.trim() == "6", "{made} of 6 cells within were made");
    node.sh("aurae cell update tight --cpus 2 && aurae cell rm -rf tight")
        .map(drop)
}

fn frozen(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run ice")?;
    let count = "i=0; while :; do i=$((i+1)); echo $i; busybox usleep 10000; done";
    node.sh(&format!(
        "aurae run --cell ice --name count -d -- sh -c '{count}'"
    ))?;
    let lines = "aurae logs ice/count | wc -l";
    node.sh("aurae cell freeze ice")?;
    // What it printed before may still be on its way to the log.
    let first = node.sh(&format!(
        "for try in $(seq 40); do now=$({lines}); test \"$now\" = \"$last\" && echo $now && exit; \
         last=$now; busybox usleep 1000000; done; echo \"it counts on: $now\" >&2; exit 1"
    ))?;
    let later = node.sh(&format!("busybox usleep 500000; {lines}"))?;
    ensure!(first == later, "it counts on while frozen: {first} {later}");
    node.sh("aurae cell thaw ice")?;
    let later = later.trim();
    let grown = node.try_sh(&format!(
        "for try in $(seq 60); do test $({lines}) -gt {later} && exit; \
         busybox usleep 500000; done; exit 1"
    ))?;
    ensure!(
        grown.status == 0,
        "it doesn't count after the thaw: {later}"
    );
    node.sh("aurae cell rm -rf ice").map(drop)
}

fn nested(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run outer --id-range 262144 && aurae cell run outer/inner")?;
    node.sh("aurae run --cell outer/inner --name sleeper -d -- sleep 1000")?;
    let refused = node.sh_fails("aurae cell rm -f outer", 1)?;
    ensure!(
        refused.contains("outer"),
        "it doesn't name the cell: {refused}"
    );
    node.sh("aurae inspect outer/inner/sleeper")?;
    node.sh("aurae cell rm -rf outer")?;
    let left = node.sh("aurae ps -a")?;
    ensure!(!left.contains("inner"), "the nested cell is left:\n{left}");
    Ok(())
}

fn read_only(node: &mut Node) -> Result<()> {
    let said = node.sh_fails("aurae run --rm -- touch /etc/motd", 1)?;
    let refused = said.contains("Read-only") || said.contains("denied");
    ensure!(refused, "touch said: {said}");
    node.sh("touch /tmp/of-the-node")?;
    let seen =
        node.sh("aurae run --rm -- sh -c 'touch /tmp/mine /run/mine /dev/shm/mine && ls /tmp'")?;
    ensure!(seen.trim() == "mine", "/tmp of a cell shows {seen}");
    Ok(())
}

fn hidden(node: &mut Node) -> Result<()> {
    node.sh("echo secret > /root/secret; echo secret > /var/log/secret")?;
    for folder in ["/root", "/home", "/boot", "/var/lib/aurae", "/var/log"] {
        let seen = node.sh(&format!(
            "aurae run --rm -- sh -c 'ls -A {folder} 2>/dev/null; true'"
        ))?;
        ensure!(seen.trim().is_empty(), "{folder} of a cell shows {seen}");
    }
    let shadow = format!("aurae run {ATTACKER} -- cat /etc/shadow");
    let said = node.sh_fails(&shadow, 1)?;
    ensure!(said.contains("denied"), "cat said: {said}");
    Ok(())
}

fn read_grant(node: &mut Node) -> Result<()> {
    node.sh("mkdir -p /root/site /srv/site && echo page > /root/site/index")?;
    node.sh("echo key > /root/site/key && chmod 600 /root/site/key")?;
    let run = "aurae run --rm --read /root/site:/srv/site --";
    let page = node.sh(&format!("{run} cat /srv/site/index"))?;
    ensure!(page.trim() == "page", "the granted file holds {page}");
    node.sh_fails(&format!("{run} touch /srv/site/new"), 1)?;
    // A grant lets in, it doesn't lift modes: what only the node's root may read stays his.
    node.sh_fails(&format!("{run} cat /srv/site/key"), 1)?;
    Ok(())
}

fn write_grant(node: &mut Node) -> Result<()> {
    node.sh("mkdir -p /srv/upload && chown 1000:1000 /srv/upload")?;
    node.sh("aurae run --rm --write /srv/upload,owner=1000 -- \
         sh -c 'cp /bin/busybox /srv/upload/tool && chmod 755 /srv/upload/tool'")?;
    // Whatever else it may do.
    let run = format!("aurae run {ATTACKER} --write /srv/upload,owner=1000 -- chmod");
    for mode in ["4755", "2755", "u+s", "g+s"] {
        let said = node.sh_fails(&format!("{run} {mode} /srv/upload/tool"), 1)?;
        ensure!(said.contains("not permitted"), "chmod said: {said}");
    }
    let mode = node.sh("stat -c %a /srv/upload/tool")?;
    ensure!(mode.trim() == "755", "its mode is {mode}");
    let owner = node.sh("stat -c %u:%g /srv/upload/tool")?;
    ensure!(owner.trim() == "1000:1000", "it belongs to {owner}");
    let refused = node.sh_fails("aurae run --rm --write /srv/upload,owner=0 -- true", 125)?;
    ensure!(refused.contains("root"), "it doesn't say why: {refused}");
    Ok(())
}

/// What an attacker tries, and the refusal that it must meet: any other failure may be a mistake of
/// the attempt.
const ATTEMPTS: [(&str, &str); 14] = [
    ("mount -o remount,rw,bind /", "permission denied"),
    ("mount -o remount,rw /", "permission denied"),
    ("umount /root", "not mounted"),
    ("umount -l /tmp && ls /tmp/of-the-node", "No such file"),
    ("umount -l /sys; umount /sys", "not mounted"),
    (
        "mount -t tmpfs none /sys && ls /sys/kernel/debug/tracing",
        "No such file",
    ),
    ("mknod /tmp/vda b 254 0", "Operation not permitted"),
    ("head -c 1 /dev/vda", "No such file"),
    ("nsenter -t 1 -m cat /root/secret", "Permission denied"),
    ("cat /proc/1/root/root/secret", "Permission denied"),
    ("head -c 1 /proc/1/mem", "Permission denied"),
    ("kill -9 1; kill -0 1 && cat /root/secret", "No such file"),
    (
        "echo x > /proc/sys/kernel/core_pattern",
        "Permission denied",
    ),
    ("dmesg", "Operation not permitted"),
];

fn jail_holds(node: &mut Node) -> Result<()> {
    node.sh("mkdir -p /root && echo secret > /root/secret && touch /tmp/of-the-node")?;
    let mut wrong = String::new();
    for (attempt, refusal) in ATTEMPTS {
        let script = format!("aurae run {ATTACKER} -- sh -c '{attempt}'");
        let came = node.try_sh(&script)?;
        let said = String::from_utf8_lossy(&came.err);
        let tried = (1..125).contains(&came.status);
        if !tried || !said.contains(refusal) || came.out.starts_with(b"secret") {
            let status = came.status;
            wrong.push_str(&format!("`{attempt}` ended with {status}: {said}"));
        }
    }
    ensure!(wrong.is_empty(), "not refused as expected:\n{wrong}");
    let fds = node.sh("aurae run --rm -- sh -c 'ls /proc/$$/fd'")?;
    ensure!(
        fds.split_whitespace()
            .all(|fd| fd.parse::<u8>().is_ok_and(|fd| fd < 3 || fd == 10)),
        "{fds}"
    );
    Ok(())
}

fn fork_bomb(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run bomb --pids-limit 50")?;
    node.sh("aurae run --cell bomb --name b -d -- sh -c 'b() { b | b & }; b; sleep 1000'")?;
    node.sh("busybox usleep 500000; aurae node info && aurae ps bomb")?;
    node.sh("aurae cell rm -rf bomb").map(drop)
}

fn nothing_left(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run gone && aurae run --cell gone --name s -d -- sleep 1000")?;
    let group = format!(
        "/sys/fs/cgroup/{}",
        text(&inspect(node, "gone")?, &["cell", "cgroup"])?
    );
    node.sh(&format!(
        "test -d {group} && aurae cell rm -rf gone && test ! -e {group}"
    ))?;
    node.sh("aurae cell run gone && aurae cell rm gone")
        .map(drop)
}
