// SPDX-License-Identifier: Apache-2.0
//! Stories of two tenants on one node, of which `red` means harm and sets no limit to its cells:
//! what it takes is its own, `blue` and the node go on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::node::{Node, Options};

use crate::callers::{PEOPLE, of};
use crate::daemon::DIE;
use crate::image;
use crate::story::{Chapter, Story, inspect, powered_off};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "tenants",
    options: Options::default,
    stories: &[
        Story {
            name: "a tenant's protected memory is protected by the groups around it",
            tell: protected,
        },
        Story {
            name: "each quota of the kernel is a limit of the tenant's group",
            tell: told_to_the_kernel,
        },
        Story {
            name: "a fork bomb takes its own tenant's processes alone",
            tell: fork_bombs,
        },
        Story {
            name: "tenants that take all processes leave administrators theirs",
            tell: all_processes,
        },
        Story {
            name: "memory that a tenant fills is its own",
            tell: full_memory,
        },
        Story {
            name: "a tenant out of memory loses none of its cell-inits",
            tell: spared_inits,
        },
        Story {
            name: "a tenant reads no more of a disk than its quota, and another as it likes",
            tell: disks,
        },
        Story {
            name: "what a tenant writes to a disk of its own is bounded by its quota, too",
            tell: own_disks,
        },
        Story {
            name: "a quota is refused by its name, at once and after the daemon's death",
            tell: quotas,
        },
    ],
    at_the_end: powered_off,
};

/// Starts processes until the kernel refuses one; what was started stays. The program itself only
/// waits: its end would end them.
const BOMB: &str = "(while :; do sleep 1000 & done) 2>/dev/null & exec sleep 1000";

/// A quota of a tenant: its use and its limit.
fn quota(node: &Node, tenant: &str, name: &str) -> Result<(u64, u64)> {
    let shown = node.sh(&format!("aurae tenant show {tenant} -o json"))?;
    let shown: Value = serde_json::from_str(&shown)?;
    let usage = shown.get("usage").and_then(Value::as_array);
    let found = usage
        .into_iter()
        .flatten()
        .find(|q| q.get("quota") == Some(&name.into()));
    // 64-bit numbers are texts in protobuf's JSON.
    let number = |field: &str| {
        let value = found
            .and_then(|quota| quota.get(field))
            .and_then(Value::as_str);
        value.and_then(|text| text.parse().ok())
    };
    match (number("used"), number("limit")) {
        (Some(used), Some(limit)) => Ok((used, limit)),
        _ => anyhow::bail!("no {name} in {shown}"),
    }
}

/// The [`quota`] of a busy tenant's rate: the mean since the last look, which a story before took,
/// if there was one.
fn rate(node: &Node, tenant: &str, name: &str) -> Result<(u64, u64)> {
    let mut seen = quota(node, tenant, name);
    for _ in 0..20 {
        node.sh("busybox usleep 3000000")?;
        seen = quota(node, tenant, name);
        if seen.as_ref().is_ok_and(|(used, _)| *used > 0) {
            break;
        }
    }
    seen
}

/// What is said of a script that is refused.
fn refused(node: &Node, script: &str) -> Result<String> {
    let answer = node.try_sh(script)?;
    let said = String::from_utf8_lossy(&answer.err).into_owned();
    ensure!(answer.status != 0, "`{script}` is not refused: {said}");
    Ok(said)
}

/// Makes the users of both, where no story before has.
fn people(node: &Node) -> Result<()> {
    node.sh(&format!("test -e /tmp/blue.toml && exit; {PEOPLE}"))
        .map(drop)
}

/// What the node keeps for itself is in the numbers of its group, too: 64 MiB twice.
fn protected(node: &mut Node) -> Result<()> {
    let base = "cat /sys/fs/cgroup/aurae/memory.min";
    let tenants = "cat /sys/fs/cgroup/aurae/tenants/memory.min";
    let bytes = |node: &mut Node, what: &str| -> Result<u64> { Ok(node.sh(what)?.trim().parse()?) };
    ensure!(bytes(node, base)? == 128 << 20, "the node's reserve");
    node.sh("aurae tenant set green memory_min=16M")?;
    node.sh("aurae --tenant green cell run kept --memory-min 8M")?;
    ensure!(bytes(node, tenants)? == 16 << 20, "the tenants'");
    ensure!(
        bytes(node, base)? == 144 << 20,
        "the node's with the tenants'"
    );
    let cell = "cat /sys/fs/cgroup/aurae/tenants/green/kept/memory.min";
    ensure!(bytes(node, cell)? == 8 << 20, "the cell's");
    let shown = inspect(node, "--tenant green kept")?;
    let pid = shown.pointer("/cell/pid").and_then(Value::as_u64);
    let title = format!("tr '\\0' ' ' </proc/{}/cmdline", pid.unwrap_or_default());
    let title = node.sh(&title)?;
    ensure!(
        title.trim() == "aurae-cell green/kept",
        "its init is {title}"
    );
    let run = "aurae --tenant green cell run more";
    let beyond = refused(node, &format!("{run} --memory-min 32M"))?;
    let named = ["resources.memory.min", "green has 16777216"];
    ensure!(named.iter().all(|it| beyond.contains(it)), "{beyond}");
    let low = refused(node, &format!("{run} --memory-low 1M"))?;
    let named = ["resources.memory.low", "ask for memory.min instead"];
    ensure!(named.iter().all(|it| low.contains(it)), "{low}");
    ensure!(
        !node.sh("aurae --tenant green cell ls")?.contains("more"),
        "it is there"
    );
    node.sh("aurae tenant set green memory_min=0")?;
    let lost = "for i in $(seq 400); do test $(cat /sys/fs/cgroup/aurae/memory.min) = 134217728 && \
        exit 0; busybox usleep 200000; done; exit 1";
    node.sh(lost)?;
    let info = node.sh("aurae node info")?;
    let line = info.lines().find(|line| line.contains("reserve.memory"));
    ensure!(line.is_some_and(|l| l.contains("yes")), "{info}");
    node.sh("aurae --tenant green rm -rf kept").map(drop)
}

/// Also where cells are there already, and back again. Only some schedulers of disks have weights.
fn told_to_the_kernel(node: &mut Node) -> Result<()> {
    node.sh("aurae --tenant green cell run told")?;
    let group = "/sys/fs/cgroup/aurae/tenants/green";
    let is = |node: &mut Node, file: &str, value: &str| -> Result<()> {
        let look = format!(
            "for i in $(seq 400); do test \"$(cat {group}/{file})\" = '{value}' && exit 0; \
            busybox usleep 200000; done; cat {group}/{file}; exit 1"
        );
        node.sh(&look).map(drop)
    };
    node.sh(
        "aurae tenant set green memory_max=256M memory_high=128M cpu_max=0.5 cpu_weight=20 pids=300",
    )?;
    is(node, "memory.max", "268435456")?;
    is(node, "memory.high", "134217728")?;
    is(node, "cpu.max", "50000 100000")?;
    is(node, "cpu.weight", "20")?;
    is(node, "pids.max", "300")?;
    if node.try_sh(&format!("test -e {group}/io.weight"))?.status == 0 {
        node.sh("aurae tenant set green io_weight=20")?;
        is(node, "io.weight", "default 20")?;
    }
    node.sh(
        "aurae tenant set green memory_max=default memory_high=default cpu_max=default \
        cpu_weight=default pids=default",
    )?;
    is(node, "memory.high", "max")?;
    is(node, "cpu.max", "max 100000")?;
    is(node, "cpu.weight", "100")?;
    node.sh("aurae --tenant green rm -rf told")?;
    kept_by_the_kernel(node)
}

/// The kernel's half of the node's reserve: what all tenants together may have.
fn kept_by_the_kernel(node: &mut Node) -> Result<()> {
    let base = "/sys/fs/cgroup/aurae";
    let number = |script: &str| -> Result<u64> {
        let said = node.sh(script)?;
        let number = said.trim().parse();
        number.with_context(|| format!("{script}: {said:?}"))
    };
    let memory = number("echo $(( $(awk '/MemTotal/ {print $2}' /proc/meminfo) * 1024 ))")?;
    let may = number(&format!("cat {base}/tenants/memory.max"))?;
    // A tenth is the reserve, and a quarter may be cell-inits'.
    let share = may as f64 / memory as f64;
    ensure!((0.6..0.7).contains(&share), "memory: {may} of {memory}");
    let processes = number(
        "for file in pid_max threads-max; do cat /proc/sys/kernel/$file; done | sort -n | head -1",
    )?;
    let may = number(&format!("cat {base}/tenants/pids.max"))?;
    ensure!(
        may == processes - processes / 10,
        "pids: {may} of {processes}"
    );
    for own in ["_init", "_daemon"] {
        let weight = number(&format!("cat {base}/{own}/cpu.weight"))?;
        ensure!(weight == 1000, "{own} has the weight {weight}");
    }
    // Administrators are beside all tenants, with what the node keeps for them.
    node.sh("aurae cell run told")?;
    // The kernel takes whole pages.
    for (file, most, page) in [
        ("memory.max", memory - memory / 10, 4096),
        ("pids.max", may, 0),
    ] {
        let bound = number(&format!("cat {base}/system/{file}"))?;
        ensure!(
            bound.abs_diff(most) <= page,
            "system's {file}: {bound} and not {most}"
        );
    }
    let group = node.sh("aurae inspect -o json told | grep '\"cgroup\"'")?;
    ensure!(group.contains("aurae/system/told"), "{group}");
    ensure!(
        node.try_sh(&format!("test -e {base}/tenants/system"))?
            .status
            != 0
    );
    node.sh("aurae rm -rf told").map(drop)
}

fn fork_bombs(node: &mut Node) -> Result<()> {
    people(node)?;
    // As many as a node with more memory would take in a minute.
    node.sh("aurae tenant set red pids=600")?;
    of(
        node,
        "blue",
        "aurae cell run web && aurae run --cell web --name app -d -- sleep 1000",
    )?;
    for cell in ["one", "two"] {
        let bomb = format!("aurae cell run {cell} && aurae run --cell {cell} -d -- sh -c '{BOMB}'");
        of(node, "red", &bomb)?;
    }
    let full = "for i in $(seq 400); do \
        test \"$(cat /sys/fs/cgroup/aurae/tenants/red/pids.current)\" -ge 590 && exit 0; \
        busybox usleep 200000; done; exit 1";
    node.sh(full)?;
    let (used, limit) = quota(node, "red", "pids")?;
    ensure!(limit == 600 && used <= limit, "{used} of {limit}");
    // Who is refused is told the quota. The bombs' own ends leave a few places first.
    let named = "the tenant red uses 600 of its 600 of the quota pids; 1 more is too much";
    let more = format!(
        "for i in $(seq 60); do \
        if ! aurae run --cell one --name more$i -d -- sleep 1000 >/dev/null 2>/tmp/said; \
        then grep -q '{named}' /tmp/said && exit 0; fi; done; cat /tmp/said; exit 1"
    );
    of(node, "red", &more)?;
    // The other tenant and the administrator start what they like.
    of(
        node,
        "blue",
        "for i in $(seq 5); do aurae run --rm -- true || exit 1; done",
    )?;
    node.sh("aurae run --rm -- true")?;
    // And init a daemon in the place of a dead one, which finds everything.
    node.sh(DIE)?;
    of(
        node,
        "blue",
        "aurae run --cell web --name look --rm -- true",
    )?;
    of(node, "red", "aurae rm -rf one two")?;
    of(node, "blue", "aurae rm -rf web").map(drop)
}

/// How long a translated processor of a busy machine may take to start a thousand programs.
const FULL: Duration = Duration::from_secs(400);

/// Each of three tenants may have four in ten processes, and together nine: nothing can be started
/// by any of them. The machine takes fewer than it would, since each needs memory, too.
fn all_processes(node: &mut Node) -> Result<()> {
    people(node)?;
    let most = node.sh("cat /proc/sys/kernel/threads-max")?;
    node.sh("echo 1800 > /proc/sys/kernel/threads-max && aurae node reload")?;
    let all = "/sys/fs/cgroup/aurae/tenants";
    for tenant in ["red", "blue", "green"] {
        node.sh(&format!(
            "aurae --tenant {tenant} cell run bomb && \
             aurae --tenant {tenant} run --cell bomb -d -- sh -c '{BOMB}'"
        ))?;
    }
    // A shell that can't fork ends, and what it has started stays.
    let full = node.start(&format!(
        "test $(cat {all}/pids.max) = 1620 || exit 1; \
         until test $(cat {all}/pids.current) -ge 1610; do busybox usleep 500000; done"
    ))?;
    let full = full.finish_within(FULL)?;
    ensure!(full.status == 0, "the bound of all tenants isn't 1620");
    let refused = node.try_sh("aurae --tenant green run --name late --cell bomb --rm -- true")?;
    for round in 0..5 {
        node.sh("aurae run --rm -- true")?;
        node.sh(&format!(
            "aurae cell run mine{round} && aurae rm -rf mine{round}"
        ))?;
    }
    // Init has a daemon in the place of a dead one, too.
    node.sh(DIE)?;
    node.sh("aurae run --rm -- true")?;
    for tenant in ["red", "blue", "green"] {
        node.sh(&format!("aurae --tenant {tenant} rm -rf bomb"))?;
    }
    node.sh(&format!(
        "echo {} > /proc/sys/kernel/threads-max && aurae node reload",
        most.trim()
    ))?;
    ensure!(refused.status != 0, "a tenant has started one more");
    Ok(())
}

fn full_memory(node: &mut Node) -> Result<()> {
    of(
        node,
        "blue",
        "aurae cell run web && aurae run --cell web --name app -d -- sleep 1000",
    )?;
    let pid = |node: &Node| {
        of(
            node,
            "blue",
            "aurae inspect -o json web/app | grep '\"pid\"'",
        )
    };
    let before = pid(node)?;
    // What is in a cell's /tmp is the tenant's memory.
    let fill = "dd if=/dev/zero of=/tmp/full bs=1M 2>/dev/null; exec sleep 1000";
    for cell in ["one", "two"] {
        let fill = format!("aurae cell run {cell} && aurae run --cell {cell} -d -- sh -c '{fill}'");
        of(node, "red", &fill)?;
    }
    of(
        node,
        "blue",
        "for i in $(seq 10); do aurae run --rm -- true || exit 1; done",
    )?;
    let (used, limit) = quota(node, "red", "memory_max")?;
    ensure!(used <= limit, "{used} of {limit}");
    let whole = node.sh("awk '/MemTotal/ {print $2 * 1024}' /proc/meminfo")?;
    let whole: f64 = whole.trim().parse()?;
    ensure!((limit as f64) < whole * 0.51, "{limit} of {whole}");
    ensure!(before == pid(node)?, "blue's was killed");
    of(node, "red", "aurae rm -rf one two")?;
    of(node, "blue", "aurae rm -rf web").map(drop)
}

/// Files in /tmp are memory that no kill gives back: the OOM killer has taken every program of the
/// tenant when inits are all that is left, and starts go on to ask for memory.
fn spared_inits(node: &mut Node) -> Result<()> {
    people(node)?;
    node.sh("aurae tenant set red memory_max=48M")?;
    let fill = "while :; do dd if=/dev/zero of=/tmp/full bs=1M count=64; tail /dev/zero; done";
    for cell in 1..=4 {
        of(node, "red", &format!("aurae cell run full{cell}"))?;
    }
    let inits = "sort /sys/fs/cgroup/aurae/_inits/red/cgroup.procs";
    let before = node.sh(inits)?;
    ensure!(
        before.lines().count() == 4,
        "the inits of 4 cells: {before}"
    );
    let kills = |node: &Node, group: &str| -> Result<u64> {
        let events = format!("cat /sys/fs/cgroup/aurae/{group}/memory.events");
        let events = node.sh(&events)?;
        let count = events.lines().find_map(|l| l.strip_prefix("oom_kill "));
        Ok(count.unwrap_or_default().parse()?)
    };
    for round in 0..10 {
        for cell in 1..=4 {
            // Some are killed before they begin.
            let start = format!(
                "aurae run --cell full{cell} --name p{round} -d -- sh -c '{fill}' 2>&1 || true"
            );
            of(node, "red", &start)?;
        }
        if kills(node, "tenants/red")? >= 8 {
            break;
        }
    }
    let killed = kills(node, "tenants/red")?;
    ensure!(killed >= 8, "the OOM killer took {killed} programs");
    ensure!(kills(node, "_inits/red")? == 0, "an init was killed");
    ensure!(node.sh(inits)? == before, "an init has gone");
    let listed = of(node, "red", "aurae ps -a -o json")?;
    ensure!(
        !listed.contains("\"unknown\""),
        "an end isn't known: {listed}"
    );
    // Another's cell beside, and this tenant's again once its files are gone.
    of(node, "blue", "aurae run --rm -- true")?;
    of(node, "red", "aurae rm -rf full1 full2 full3 full4")?;
    node.sh("aurae tenant set red memory_max=default")?;
    of(node, "red", "aurae run --rm -- true").map(drop)
}

/// Both read from the disk for as long as they may, past the page cache: without a bound each has
/// about half.
fn disks(node: &mut Node) -> Result<()> {
    people(node)?;
    node.sh("aurae tenant set red io_read_bytes=64Ki")?;
    let read = "while dd if=/usr/sbin/auraed of=/dev/null iflag=direct bs=64k; do :; done 2>&1";
    for tenant in ["red", "blue"] {
        let read = format!("aurae cell run io && aurae run --cell io -d -- sh -c '{read}'");
        of(node, tenant, &read)?;
    }
    red_has_the_least(node, "rbytes=")?;
    let (used, limit) = rate(node, "red", "io_read_bytes")?;
    ensure!(
        limit == 64 << 10 && used > 0 && used < 4 * limit,
        "{used} of {limit}"
    );
    let bounds = format!("cat {GROUPS}/red/io.max");
    ensure!(node.sh(&bounds)?.contains("rbps=65536"), "no bound");
    node.sh("aurae tenant set red io_read_bytes=default")?;
    let lifted = format!(
        "for i in $(seq 400); do grep -q rbps=6 {GROUPS}/red/io.max || exit 0; \
        busybox usleep 200000; done; exit 1"
    );
    node.sh(&lifted)?;
    of(node, "red", "aurae rm -rf io")?;
    of(node, "blue", "aurae rm -rf io").map(drop)
}

/// What is written to a loop device is written by the kernel's own threads to the node's disk: that
/// is the tenant's all the same.
fn own_disks(node: &mut Node) -> Result<()> {
    people(node)?;
    node.sh(image::BUSYBOX)?;
    node.sh("aurae tenant set red io_write_bytes=64Ki")?;
    let write = "while :; do busybox dd if=/dev/zero of=/x bs=64k count=64 conv=fsync; done 2>&1";
    let flags = "--pull never --root-on-disk --root-size 32M";
    for tenant in ["red", "blue"] {
        of(
            node,
            tenant,
            &format!(
                "aurae image import --name disk:1 /root/busybox.tar && \
                 aurae run -d --name io {flags} disk:1 -- sh -c '{write}'"
            ),
        )?;
    }
    red_has_the_least(node, "wbytes=")?;
    node.sh("aurae tenant set red io_write_bytes=default")?;
    of(node, "red", "aurae rm -rf io")?;
    of(node, "blue", "aurae rm -rf io").map(drop)
}

const GROUPS: &str = "/sys/fs/cgroup/aurae/tenants";

/// Of the node's disk red has moved something, and blue, which does the same without a bound, far
/// more.
fn red_has_the_least(node: &Node, kind: &str) -> Result<()> {
    let disk = node.sh("mountpoint -d /")?;
    let bytes = |tenant: &str| -> Result<u64> {
        let stat = node.sh(&format!("cat {GROUPS}/{tenant}/io.stat"))?;
        let of_disk = stat.lines().find_map(|line| {
            let words = line.strip_prefix(disk.trim())?.split_whitespace();
            words
                .filter_map(|word| word.strip_prefix(kind)?.parse().ok())
                .next()
        });
        Ok(of_disk.unwrap_or(0))
    };
    let (red_had, blue_had) = (bytes("red")?, bytes("blue")?);
    let (mut red, mut blue) = (0, 0);
    for _ in 0..200 {
        (red, blue) = (bytes("red")? - red_had, bytes("blue")? - blue_had);
        if red > 0 && blue >= 4 * red + (8 << 20) {
            break;
        }
        node.sh("busybox usleep 500000")?;
    }
    ensure!(
        red > 0 && blue >= 4 * red + (8 << 20),
        "of {kind} red has {red}, blue {blue}"
    );
    Ok(())
}

fn quotas(node: &mut Node) -> Result<()> {
    node.sh("aurae tenant set red cells=1")?;
    of(node, "red", "aurae cell run one")?;
    for _ in 0..2 {
        let refused = node.try_sh("AURAE_CONFIG=/tmp/red.toml aurae cell run two")?;
        let said = String::from_utf8_lossy(&refused.err).into_owned();
        let named = said.contains("the tenant red uses 1 of its 1 of the quota cells");
        ensure!(refused.status == 1 && named, "{} {said}", refused.status);
        of(node, "blue", "aurae cell run two && aurae rm -rf two")?;
        node.sh(DIE)?;
    }
    let refused = node.try_sh("AURAE_CONFIG=/tmp/red.toml aurae tenant set red cells=9")?;
    ensure!(refused.status == 1, "a member sets its own quota");
    node.sh("aurae tenant set red cells=default pids=default")?;
    of(node, "red", "aurae cell run two && aurae rm -rf one two").map(drop)
}
