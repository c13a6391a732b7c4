// SPDX-License-Identifier: Apache-2.0
//! A Debian disk with its services, under systemd and then under auraed: the same disk, the same
//! units, the same script, one after the other in one run. What is typed is typed on both; what
//! `aurae-bench` does over a connection that is held stands beside what is typed at systemd, as its
//! own client's start is a part of every command there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::disk::Copy;
use testkit::node::{Bed, Options};

use super::peers::{number, told_within};
use super::table::Row;
use super::{Bench, PROGRAM};

/// The units, and a file of the journal's: on both machines.
const FILES: [(&str, &str); 7] = [
    (
        "system/bench-up.service",
        "[Unit]\nDefaultDependencies=no\nAfter=graphical.target\n[Service]\nType=oneshot\n\
         RemainAfterExit=yes\nExecStart=/bin/busybox cp /proc/uptime /run/bench-up\n",
    ),
    (
        "system/graphical.target.d/bench.conf",
        "[Unit]\nWants=bench-up.service\n",
    ),
    (
        "system/bench-one.service",
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=exec\nExecStart=/bin/busybox sleep 1000000\n",
    ),
    (
        "system/bench-many@.service",
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=exec\nExecStart=/bin/busybox sleep 1000000\n",
    ),
    (
        "system/bench-boxed.service",
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=exec\n\
         ExecStart=/bin/busybox sleep 1000000\nUser=daemon\nPrivateTmp=yes\nPrivateDevices=yes\n\
         ProtectSystem=strict\nProtectHome=yes\nProtectKernelTunables=yes\n\
         ProtectKernelModules=yes\nProtectControlGroups=yes\nNoNewPrivileges=yes\n\
         RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\nSystemCallFilter=@system-service\n\
         CapabilityBoundingSet=\nLockPersonality=yes\nMemoryDenyWriteExecute=yes\n\
         RestrictRealtime=yes\nStateDirectory=bench-boxed\n",
    ),
    (
        "journald.conf.d/bench.conf",
        "[Journal]\nRateLimitIntervalSec=0\nRateLimitBurst=0\nStorage=persistent\n",
    ),
    (
        "system/node-agent.service",
        "[Unit]\nDescription=The test bed's agent\n[Service]\n\
         ExecStart=/usr/local/lib/aurae-testbed/node-agent\nEnvironment=HOME=/root\n\
         WorkingDirectory=/root\n",
    ),
];

/// systemd as init, with the agent, and no question asked at the first boot.
const SYSTEMD: &str = "init=/lib/systemd/systemd systemd.wants=node-agent.service \
    systemd.firstboot=off";
/// auraed, whose journal leaves nothing out either.
const AURAED: &str = "init=/usr/sbin/auraed aurae.journal.rate_burst=4294967295";
/// No manager at all: a script as init.
const FLOOR: &str = "init=/usr/local/lib/aurae-testbed/floor";

/// The programs that the boot of both executes, one after the other, and those that stay, beside
/// each other: what no manager of units can be quicker than, but by what it does beside them.
const PROGRAMS: &str = r#"#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs -o mode=755 run /run
fsck -T -n / >/dev/null 2>&1; mount -o remount,rw /
for module in configfs dm_mod drm efi_pstore fuse loop; do modprobe -q $module & done
swapon -a & mount -a -O no_netdev & /lib/systemd/systemd-modules-load &
/lib/systemd/systemd-udevd --daemon
udevadm trigger --type=all --action=add --prioritized-subsystem=module,block,tpmrm,net,tty,input
/lib/systemd/systemd-sysctl & /lib/systemd/systemd-random-seed load &
systemd-sysusers; systemd-tmpfiles --prefix=/dev --create --boot
systemd-tmpfiles --create --remove --boot --exclude-prefix=/dev
wait
mkdir -p /run/dbus /run/sshd
dbus-daemon --system --fork
/lib/systemd/systemd-logind & cron & rsyslogd & chronyd -F 1 &
sshd -t && sshd & nginx -t -q && nginx &
agetty -o '-p -- \u' --noclear tty1 linux & agetty -o '-p -- \u' --keep-baud 115200 ttyS0 vt220 &
until pidof sshd && pidof nginx && pidof rsyslogd && pidof chronyd; do :; done >/dev/null
cp /proc/uptime /run/bench-up
mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
/usr/local/lib/aurae-testbed/node-agent
"#;

/// What both do. ROUNDS, MANY and LINES are numbers, PROGRAM is `aurae-bench`.
const SCRIPT: &str = r#"
until test -s /run/bench-up; do sleep 0.5; done
echo boot_s $(cut -d' ' -f1 /run/bench-up)
sleep 15
now() { date +%s%N; }
pss() {
    for folder in /proc/[0-9]*; do
        case "$(readlink $folder/exe) $(tr '\0' ' ' <$folder/cmdline)" in
            /lib/systemd/*|/usr/lib/systemd/*|/usr/bin/dbus-daemon*|/bin/udevadm*|/usr/bin/udevadm*|\
            */auraed\ *|*\ auraed-spawner*|*\ aurae-cell*)
                awk '/^Pss:/ {print $2}' $folder/smaps_rollup;;
        esac
    done | awk '{sum += $1} END {print sum}'
}
echo pss_kib $(pss)
pair() {
    systemctl start $1 && systemctl stop $1 || exit 1
    begin=$(now); for try in $(seq ROUNDS); do systemctl start $1; systemctl stop $1; done; end=$(now)
    both=$(((end - begin) / ROUNDS / 1000))
    sum=0
    for try in $(seq ROUNDS); do
        begin=$(now); systemctl start $1 || exit 1; sum=$((sum + $(now) - begin)); systemctl stop $1
    done
    echo $2_us $((sum / ROUNDS / 1000))
    echo $2_stop_us $((both - sum / ROUNDS / 1000))
}
pair bench-one typed
pair bench-boxed typed_boxed
begin=$(now); for try in 1 2 3; do systemctl daemon-reload || exit 1; done
echo typed_reload_us $((($(now) - begin) / 3000))
many=$(for one in $(seq MANY); do echo bench-many@$one; done)
begin=$(now); systemctl start $many || exit 1; echo typed_many_us $((($(now) - begin) / 1000))
test $(systemctl is-active $many | grep -cx active) = MANY || exit 1
begin=$(now); systemctl stop $many || exit 1; echo typed_many_stop_us $((($(now) - begin) / 1000))
begin=$(now)
systemd-cat -t bench PROGRAM --write-lines LINES
journalctl --sync
echo lines_per_s $((LINES * 1000000000 / ($(now) - begin)))
echo lines_stored $(journalctl -t bench -o cat --no-pager | wc -l)
"#;

/// A machine that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(45 * 60);

/// Measures both; what fails is a row that says so.
pub(super) fn measure(bed: &Bed, bench: &Bench, binaries: &Path, rows: &mut Vec<Row>) {
    match both(bed, bench, binaries) {
        Ok((ours, theirs)) => rows.extend(compared(&ours, &theirs)),
        Err(error) => rows.push(Row::failed("machine", "vm", &error)),
    }
}

type Told = BTreeMap<String, f64>;

/// The name of what is told of the script.
const FLOOR_S: &str = "floor_s";

fn both(bed: &Bed, bench: &Bench, binaries: &Path) -> Result<(Told, Told)> {
    let scratch = tempfile::tempdir()?;
    let mut copies = vec![Copy::new(binaries.join("aurae-bench"), PROGRAM)];
    for (name, text) in FILES {
        let file = scratch.path().join(name);
        fs::create_dir_all(file.parent().context("a folder")?)?;
        fs::write(&file, text)?;
        copies.push(Copy::new(&file, Path::new("/etc/systemd").join(name)));
    }
    let options = Options {
        services: true,
        units: true,
        copies,
        ..Options::default()
    };
    let rounds = bench.rounds.to_string();
    let many = bench.units.to_string();
    let lines = bench.lines.to_string();
    let script = SCRIPT
        .replace("ROUNDS", &rounds)
        .replace("MANY", &many)
        .replace("LINES", &lines)
        .replace("PROGRAM", PROGRAM);
    eprintln!("bench: a Debian's services under systemd");
    let theirs = {
        let options = Options {
            append: SYSTEMD.into(),
            run: String::new(),
            ..options.clone()
        };
        let node = bed.boot(&options).context("Debian with systemd")?;
        // The originals, and not the links in front of them.
        let script = format!("PATH=/usr/sbin:/usr/bin:/sbin:/bin\n{script}");
        let told = told_within(&node, &script, TIMEOUT)?;
        let _ = node.start("systemctl poweroff"); // its power is cut when this is over
        told
    };
    let floor = floor(bed, options.clone(), scratch.path())?;
    eprintln!("bench: the same under auraed");
    let options = Options {
        append: AURAED.into(),
        ..options
    };
    let node = bed.boot(&options).context("Debian with auraed")?;
    let mut ours = told_within(&node, &script, TIMEOUT)?;
    let held = format!("{PROGRAM} --vm --units {rounds} --many {many}");
    ours.extend(told_within(&node, &held, TIMEOUT)?);
    node.shutdown()?;
    ours.insert(FLOOR_S.to_owned(), floor);
    Ok((ours, theirs))
}

/// How long the same programs take without a manager, in seconds since the kernel's start.
fn floor(bed: &Bed, options: Options, scratch: &Path) -> Result<f64> {
    eprintln!("bench: its programs by a script");
    let file = scratch.join("floor");
    fs::write(&file, PROGRAMS)?;
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755))?;
    let mut options = Options {
        append: FLOOR.into(),
        run: String::new(),
        ..options
    };
    options
        .copies
        .push(Copy::new(&file, "/usr/local/lib/aurae-testbed/floor"));
    let node = bed.boot(&options).context("Debian with a script as init")?;
    let told = told_within(
        &node,
        "echo floor_s $(cut -d' ' -f1 /run/bench-up)",
        TIMEOUT,
    )?;
    let _ = node.start("busybox poweroff -f");
    number(&told, "floor_s")
}

/// Row, unit, what it is called by us and by systemd, by how much it is divided, the goal.
const ROWS: [(&str, &str, &str, &str, f64, &str); 14] = [
    (
        "machine, kernel to all active",
        "s",
        "boot_s",
        "boot_s",
        1.0,
        "<= 0.5",
    ),
    (
        "machine, start of a service",
        "ms",
        "held_start_us",
        "typed_us",
        1e3,
        "<= 0.1",
    ),
    (
        "machine, its stop",
        "ms",
        "held_stop_us",
        "typed_stop_us",
        1e3,
        "<= 0.1",
    ),
    (
        "machine, a start as typed",
        "ms",
        "typed_us",
        "typed_us",
        1e3,
        "<= 1",
    ),
    (
        "machine, a stop as typed",
        "ms",
        "typed_stop_us",
        "typed_stop_us",
        1e3,
        "<= 1",
    ),
    (
        "machine, start with a sandbox",
        "ms",
        "held_boxed_us",
        "typed_boxed_us",
        1e3,
        "<= 0.15",
    ),
    (
        "machine, the same as typed",
        "ms",
        "typed_boxed_us",
        "typed_boxed_us",
        1e3,
        "",
    ),
    (
        "machine, many services at once",
        "ms",
        "typed_many_us",
        "typed_many_us",
        1e3,
        "<= 0.2",
    ),
    (
        "machine, their stop",
        "ms",
        "typed_many_stop_us",
        "typed_many_stop_us",
        1e3,
        "",
    ),
    (
        "machine, reload of all files",
        "ms",
        "held_reload_us",
        "typed_reload_us",
        1e3,
        "<= 0.05",
    ),
    (
        "machine, the same as typed, reload",
        "ms",
        "typed_reload_us",
        "typed_reload_us",
        1e3,
        "",
    ),
    (
        "machine, PSS of what manages",
        "MiB",
        "pss_kib",
        "pss_kib",
        1024.0,
        "<= 0.5",
    ),
    (
        "machine, journal sockets, lines",
        "1/s",
        "lines_per_s",
        "lines_per_s",
        1.0,
        ">= 5",
    ),
    (
        "machine, lines that are stored",
        "",
        "lines_stored",
        "lines_stored",
        1.0,
        "",
    ),
];

fn compared(ours: &Told, theirs: &Told) -> Vec<Row> {
    let row = |(name, unit, own, other, by, goal): &(&str, &str, &str, &str, f64, &str)| {
        let both = number(ours, own).and_then(|own| Ok((own / by, number(theirs, other)? / by)));
        // Ours is held, theirs is typed.
        let typed = if own == other { "" } else { ", typed" };
        match both {
            Ok((own, other)) => {
                let against = format!("systemd, the same disk{typed}");
                Row::alone(name, "vm", unit, own, goal).beside((&against, other))
            }
            Err(error) => Row::failed(name, "vm", &error),
        }
    };
    let mut rows: Vec<Row> = ROWS.iter().map(row).collect();
    let name = "machine, kernel to all active, beside its programs alone";
    rows.push(
        match number(ours, "boot_s").and_then(|own| Ok((own, number(ours, FLOOR_S)?))) {
            Ok((own, floor)) => Row::alone(name, "vm", "s", own, "")
                .beside(("the same programs, started by a script as init", floor)),
            Err(error) => Row::failed(name, "vm", &error),
        },
    );
    rows
}
