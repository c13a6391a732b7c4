// SPDX-License-Identifier: Apache-2.0
//! What others take for the same, in the same VM on the same disk: systemd, its journal, crun and
//! runc.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::disk::Copy;
use testkit::node::{AGENT, Bed, Node, Options};

use super::table::Row;
use super::{Bench, PROGRAM};

/// The agent as a service of systemd; the kernel's command line wants it.
const UNIT: &str = "[Unit]
Description=The test bed's agent
[Service]
ExecStart=/usr/local/lib/aurae-testbed/node-agent
Environment=HOME=/root
WorkingDirectory=/root
";
/// systemd as init, with the agent, and no question asked at the first boot.
const SYSTEMD: &str = "init=/lib/systemd/systemd systemd.wants=node-agent.service \
    systemd.firstboot=off";

const SYSTEMD_RUN: &str = r#"
systemctl is-system-running --wait >/dev/null
for try in 1 2 3; do systemd-run --quiet --wait /bin/busybox true; done
begin=$(date +%s%N)
for try in $(seq 20); do systemd-run --quiet --wait /bin/busybox true; done
echo run_us $((($(date +%s%N) - begin) / 20000))
"#;

const BOOT_OF_SYSTEMD: &str = r#"
systemctl is-system-running --wait >/dev/null
systemctl show -p ActiveEnterTimestampMonotonic multi-user.target | sed 's/.*=/target_us /'
dmesg | sed -n 's/^\[ *\([0-9.]*\)\] Run \/init as init process.*/init_s \1/p'
"#;

const JOURNAL: &str = r#"
systemctl is-system-running --wait >/dev/null
mkdir -p /var/log/journal /run/systemd/journald.conf.d
printf '[Journal]\nRateLimitBurst=0\nSystemMaxUse=3G\n' > /run/systemd/journald.conf.d/bench.conf
systemctl restart systemd-journald && journalctl --flush
lines=100000
journal=$(systemctl show -P MainPID systemd-journald)
cpu() { awk '{print $1}' /proc/$journal/schedstat; }
used() { du -s -B1 /var/log/journal | cut -f1; }
cpu0=$(cpu); used0=$(used); begin=$(date +%s%N)
systemd-run --quiet --wait -u writer PROGRAM --write-lines $lines
journalctl --sync
end=$(date +%s%N)
echo lines_per_second $((lines * 1000000000 / (end - begin)))
echo cpu_ns_per_line $((($(cpu) - cpu0) / lines))
echo bytes_percent $((($(used) - used0) / lines))
echo stored $(journalctl -u writer -o cat | grep -c xxx)
"#;

const CONTAINERS: &str = r#"
mkdir -p /tmp/bundle/rootfs/bin && cd /tmp/bundle && cp /bin/busybox rootfs/bin/
crun spec && sed -i 's/"terminal": true/"terminal": false/; s/"sh"/"\/bin\/busybox", "true"/' config.json
for runtime in crun runc; do
    $runtime run warm || exit 1
    begin=$(date +%s%N)
    for try in $(seq 20); do $runtime run bench || exit 1; done
    echo ${runtime}_us $((($(date +%s%N) - begin) / 20000))
done
"#;

/// Two slices with half of the memory and 40 % of the processes each, as a tenant has by default.
const TWO_SLICES: &str = r#"
timeout 200 systemctl is-system-running --wait >/dev/null
for slice in fair worst; do
    systemctl set-property --runtime $slice.slice MemoryMax=50% TasksMax=40% || exit 1
done
mkdir -p /var/tmp/attack
"#;

/// The attacks named NAMES, which need no API, in one slice beside runs in the other one. A run
/// that takes longer than ten seconds counts as failed: under a fork bomb some never come back.
const IN_A_SLICE: &str = r#"
run() { timeout 10 systemd-run --quiet --wait --slice=fair.slice /bin/busybox true; }
for name in NAMES; do
    folder=/tmp; test $name != io || folder=/var/tmp/attack
    timeout 60 systemd-run --quiet --slice=worst.slice --unit=attack-TURN-$name -p Restart=always \
        -p StartLimitIntervalSec=0 -p TemporaryFileSystem=/tmp \
        PROGRAM --attack $name --folder $folder || exit 1
done
for try in 1 2; do run; done
: > /run/failed
for try in $(seq 10); do
    begin=$(date +%s%N)
    run || echo $try >> /run/failed
    echo $((($(date +%s%N) - begin) / 1000))
done | sort -n > /run/times
echo slowest_us $(tail -n 1 /run/times)
echo failed $(wc -l < /run/failed)
timeout 30 systemctl kill --signal=KILL 'attack-*.service'
timeout 30 systemctl stop 'attack-*.service'
echo stopped $?
"#;

/// Those attacks, one at a time and then together.
const ATTACKS: &[(&str, &str)] = &[
    ("forks", "forks"),
    ("memory", "memory"),
    ("cpu", "cpu"),
    ("tmpfs", "tmpfs"),
    ("io", "io"),
    // The forks come last: beside them systemd doesn't get the others started within a minute.
    ("all", "memory cpu tmpfs io forks"),
];

/// A script on a peer's machine that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(900);
/// An attack in a slice, with twelve runs beside it of ten seconds at the most.
const ATTACK_TIMEOUT: Duration = Duration::from_secs(600);

/// Measures what the wanted rows have beside them on a Debian with systemd; `rows` are the VM's
/// figures so far, and get more.
pub(super) fn measure(bed: &Bed, options: &Options, bench: &Bench, rows: &mut Vec<Row>) {
    let wanted: Vec<&str> = ["boot", "run", "logs"]
        .into_iter()
        .filter(|row| bench.wants(row))
        .collect();
    if !wanted.is_empty() {
        quiet(bed, options, &wanted, rows);
    }
    if bench.wants("neighbour") {
        eprintln!("bench: two slices of systemd in a VM");
        let beside = slices(bed, options, rows);
        rows.extend(beside);
    }
}

/// The rows of one machine that nothing attacks.
fn quiet(bed: &Bed, options: &Options, wanted: &[&str], rows: &mut Vec<Row>) {
    eprintln!("bench: systemd in a VM");
    let systemd = match boot_systemd(bed, options) {
        Ok(systemd) => systemd,
        Err(error) => {
            let row = format!("{}, beside systemd", wanted.join(", "));
            return rows.push(Row::failed(&row, "vm", &error));
        }
    };
    for row in wanted {
        let measured = match *row {
            "boot" => boot(bed, options, &systemd),
            "run" => systemd_run(&systemd, rows),
            _ => journal(&systemd, rows),
        };
        let failed = |error| vec![Row::failed(&format!("{row}, beside systemd"), "vm", &error)];
        rows.extend(measured.unwrap_or_else(failed));
    }
    let _ = systemd.start("systemctl poweroff"); // its power is cut when this is over
}

/// What the VM has of ours whose name begins so.
fn ours_of(rows: &[Row], name: &str) -> Result<f64> {
    let found = rows
        .iter()
        .find(|row| row.place == "vm" && row.row.starts_with(name));
    found
        .and_then(|row| row.ours)
        .with_context(|| format!("there is no `{name}` of ours in the VM to compare"))
}

/// crun and runc on a node of ours.
pub(super) fn containers(node: &Node, rows: &mut Vec<Row>) {
    let measured = ours_of(rows, "cell p50, 10 beside").and_then(|ours| {
        let told = told(node, CONTAINERS)?;
        let row = |row, goal| Row::alone(row, "vm", "us", ours, goal);
        let crun = ("crun run", number(&told, "crun_us")?);
        let runc = ("runc run", number(&told, "runc_us")?);
        Ok(vec![
            row("cell, beside crun", "<= 0.25").beside(crun),
            row("cell, beside runc", "").beside(runc),
        ])
    });
    let failed = |error| vec![Row::failed("cell, beside crun and runc", "vm", &error)];
    rows.extend(measured.unwrap_or_else(failed));
}

fn systemd_run(systemd: &Node, rows: &[Row]) -> Result<Vec<Row>> {
    let ours = ours_of(rows, "run p50")?;
    let told = told(systemd, SYSTEMD_RUN)?;
    let theirs = ("systemd-run --wait", number(&told, "run_us")?);
    let row = Row::alone("run, beside systemd", "vm", "us", ours, "<= 0.1");
    Ok(vec![row.beside(theirs)])
}

/// Two slices under the same attacks; the slowest of ten runs there beside the p99 here. An attack
/// that the machine doesn't come back from is a row that says so; the next one has a new machine.
fn slices(bed: &Bed, options: &Options, rows: &[Row]) -> Vec<Row> {
    let mut machine = None;
    let beside = |(attack, names): &(&str, &str)| {
        let name = format!("neighbour, {attack}, beside two slices");
        slice(bed, options, &mut machine, (attack, names))
            .and_then(|(slowest, failed)| {
                let ours = ours_of(rows, &format!("neighbour, {attack}, run p99"))?;
                let mut theirs = "the slowest of 10 systemd-run --wait in another slice".to_owned();
                if failed > 0.0 {
                    theirs = format!("{theirs}; {failed} of them failed");
                }
                Ok(Row::alone(&name, "vm", "us", ours, "").beside((&theirs, slowest)))
            })
            .unwrap_or_else(|error| Row::failed(&name, "vm", &error))
    };
    ATTACKS.iter().map(beside).collect()
}

/// One attack on `machine`, which is booted where there is none: the slowest run in microseconds,
/// and how many failed. The machine is kept where it answered.
fn slice(
    bed: &Bed,
    options: &Options,
    machine: &mut Option<Node>,
    (attack, names): (&str, &str),
) -> Result<(f64, f64)> {
    let systemd = match machine.take() {
        Some(systemd) => systemd,
        None => {
            let systemd = boot_systemd(bed, options)?;
            told(&systemd, TWO_SLICES)?;
            systemd
        }
    };
    let script = IN_A_SLICE
        .replace("PROGRAM", PROGRAM)
        .replace("TURN", attack)
        .replace("NAMES", names);
    let told = told_within(&systemd, &script, ATTACK_TIMEOUT)?;
    let seen = (number(&told, "slowest_us")?, number(&told, "failed")?);
    // What has been seen counts where systemd couldn't end the attack; the machine is of no use.
    if number(&told, "stopped")? < 1.0 {
        *machine = Some(systemd);
    }
    Ok(seen)
}

fn boot(bed: &Bed, options: &Options, systemd: &Node) -> Result<Vec<Row>> {
    let theirs = (
        "systemd to its multi-user.target",
        boot_of_systemd(systemd)?,
    );
    let ours = boot_of_ours(bed, options)?;
    let name = "boot, start of init to the first answer";
    let row = Row::alone(name, "vm", "s", ours, "<= 0.05");
    Ok(vec![row.beside(theirs)])
}

fn boot_systemd(bed: &Bed, options: &Options) -> Result<Node> {
    let scratch = tempfile::tempdir()?;
    let unit = scratch.path().join("node-agent.service");
    fs::write(&unit, UNIT)?;
    let mut options = options.clone();
    options
        .copies
        .push(Copy::new(&unit, "/etc/systemd/system/node-agent.service"));
    options.append = SYSTEMD.into();
    options.run = String::new();
    bed.boot(&options).context("Debian with systemd")
}

/// Seconds from the kernel's start of init to `multi-user.target`.
fn boot_of_systemd(node: &Node) -> Result<f64> {
    let told = told(node, BOOT_OF_SYSTEMD)?;
    Ok(number(&told, "target_us")? / 1e6 - number(&told, "init_s")?)
}

/// Seconds from the kernel's start of init to the first answer that the first workload gets.
fn boot_of_ours(bed: &Bed, options: &Options) -> Result<f64> {
    let scratch = tempfile::tempdir()?;
    let clock = scratch.path().join("clock");
    let script = format!(
        "#!/bin/sh\naurae node info >/dev/null && cut -d' ' -f1 /proc/uptime > /run/answered\n\
         exec {AGENT}\n"
    );
    fs::write(&clock, script)?;
    fs::set_permissions(&clock, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let mut options = options.clone();
    let place = "/usr/local/lib/aurae-testbed/clock";
    options.copies.push(Copy::new(&clock, place));
    options.run = place.into();
    let node = bed.boot(&options)?;
    let script = "echo answered_s $(cat /run/answered)
        dmesg | sed -n 's/^\\[ *\\([0-9.]*\\)\\] Run \\/init as init process.*/init_s \\1/p'";
    let told = told(&node, script)?;
    node.shutdown()?;
    Ok(number(&told, "answered_s")? - number(&told, "init_s")?)
}

fn journal(node: &Node, rows: &[Row]) -> Result<Vec<Row>> {
    let ours = |what: &str| ours_of(rows, &format!("logs, 1 writers, {what}"));
    let stored = ours("lines stored per second")?;
    let told = told(node, &JOURNAL.replace("PROGRAM", PROGRAM))?;
    ensure!(
        number(&told, "stored")? > 0.0,
        "journald has stored nothing: {told:?}"
    );
    let rate = ("journald, one writer", number(&told, "lines_per_second")?);
    let cpu = ("journald", number(&told, "cpu_ns_per_line")? / 1e3);
    let bytes = ("journald", number(&told, "bytes_percent")? / 100.0);
    let row = |row, unit, ours, goal| Row::alone(row, "vm", unit, ours, goal);
    let lines = "logs, lines per second beside journald";
    let on_disk = ours("bytes on disk")?;
    Ok(vec![
        row(lines, "1/s", stored, ">= 30").beside(rate),
        row(
            "logs, CPU per line",
            "us",
            ours("CPU of the daemon")?,
            "<= 0.01",
        )
        .beside(cpu),
        row("logs, bytes on disk per byte", "", on_disk, "").beside(bytes),
    ])
}

/// Runs a script that prints names and numbers.
fn told(node: &Node, script: &str) -> Result<BTreeMap<String, f64>> {
    told_within(node, script, TIMEOUT)
}

pub(super) fn told_within(
    node: &Node,
    script: &str,
    bound: Duration,
) -> Result<BTreeMap<String, f64>> {
    let finished = node.start(script)?.finish_within(bound)?;
    let out = String::from_utf8_lossy(&finished.out).into_owned();
    let err = String::from_utf8_lossy(&finished.err);
    ensure!(
        finished.status == 0,
        "{} ended with {}\n{out}{err}",
        script.trim().lines().next().unwrap_or_default(),
        finished.status
    );
    let pairs = out.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect())
}

pub(super) fn number(told: &BTreeMap<String, f64>, name: &str) -> Result<f64> {
    told.get(name)
        .copied()
        .with_context(|| format!("nothing said {name}: {told:?}"))
}
