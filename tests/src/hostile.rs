// SPDX-License-Identifier: Apache-2.0
//! Stories of a Debian disk whose services, files and power mean harm. The machine comes up, says
//! what is wrong, serves the others meanwhile, and loses nothing that it has acknowledged.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use testkit::how_much;
use testkit::node::{Node, Options};

use crate::debian::{SERVING, comes_up};
use crate::story::{Chapter, Story, powered_off};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "hostile",
    options: || Options {
        services: true,
        units: true,
        reboots: true,
        // For a thousand units, and their groups.
        memory_mib: 2048,
        append: "init=/usr/sbin/auraed".into(),
        off: "exec poweroff".into(),
        ..Options::default()
    },
    stories: &[
        Story {
            name: "a Debian disk comes up",
            tell: comes_up,
        },
        Story {
            name: "a fork bomb takes its own unit's tasks alone",
            tell: fork_bomb,
        },
        Story {
            name: "units of a slice share its limit, whichever daemon looks after them",
            tell: slice,
        },
        Story {
            name: "a unit that floods its log takes no line of another's",
            tell: flood,
        },
        Story {
            name: "a unit that ignores its stop signal is killed after its time, and has failed",
            tell: deaf,
        },
        Story {
            name: "hundreds of units start and stop together",
            tell: many,
        },
        Story {
            name: "a clock that jumps ends nothing, and a timer elapses once",
            tell: clock,
        },
        Story {
            name: "on a full disk services serve and are started again",
            tell: full_disk,
        },
        Story {
            name: "a power cut loses nothing that was acknowledged, and a cycle is named and broken",
            tell: power,
        },
        Story {
            name: "a disk that is missing leads to emergency.target, and its repair out of it",
            tell: missing_disk,
        },
    ],
    at_the_end: powered_off,
};

/// How long the machine may take for much work at once, when it is busy.
const LONG: Duration = Duration::from_secs(500);

/// Writes a unit's file. Its text is between single quotes.
fn file(unit: &str, text: &str) -> String {
    let text = text.replace('\n', "\\n");
    format!("printf '{text}' > /etc/systemd/system/{unit}; ")
}

/// What each of these stories finds served while it goes on: a page, and a program that starts.
const OTHERS: &str = "curl -sf -m 30 http://127.0.0.1/ >/dev/null && systemd-run -q --wait true";

/// Runs a script that takes long.
fn long(node: &Node, script: &str) -> Result<String> {
    let finished = node.start(script)?.finish_within(LONG)?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        finished.status == 0,
        "on the node: {script}\nended with {}\n{}{}",
        finished.status,
        said(&finished.out),
        said(&finished.err)
    );
    Ok(said(&finished.out))
}

fn fork_bomb(node: &mut Node) -> Result<()> {
    node.sh(&format!(
        "{}systemctl daemon-reload && systemctl start bomb",
        file(
            "bomb.service",
            "[Service]\nTasksMax=50\nTimeoutStopSec=2\nExecStart=/usr/bin/perl -e \"fork while 1\"\n"
        )
    ))?;
    // Linux 6.1 counts a refusal in the group of the process that forks alone.
    let refused = "group=/sys/fs/cgroup/$(systemctl show -p ControlGroup --value bomb); \
        until grep -qs '^max [1-9]' $group/pids.events $group/*/pids.events; \
        do systemctl is-active -q bomb || exit 1; sleep 0.1; done";
    node.sh(refused)?;
    node.sh(OTHERS)?;
    node.sh("systemctl stop bomb; systemctl reset-failed; ! pgrep -f '[f]ork while 1'")
        .map(drop)
}

/// A value of a property of a unit, in a shell.
fn show(unit: &str, property: &str) -> String {
    format!("$(systemctl show -p {property} --value {unit})")
}

fn slice(node: &mut Node) -> Result<()> {
    let limit = |count: &str| {
        // The bomb has a part of a processor, so that the story is quick.
        let text = format!("[Slice]\nTasksMax={count}\nCPUQuota=30%%\n");
        file("few.slice", &text) + "systemctl daemon-reload; "
    };
    let unit = |name: &str, run: &str| {
        // What forks faster than it is asked to end is killed after its time.
        let text = format!("[Service]\nSlice=few.slice\nTimeoutStopSec=2\nExecStart={run}\n");
        file(name, &text)
    };
    node.sh(&format!(
        "{}{}{}systemctl start calm",
        unit("bomb.service", "/usr/bin/perl -e \"fork while 1\""),
        unit("calm.service", "/bin/sleep 1000"),
        limit("12"),
    ))?;
    let group = node.sh(&format!(
        "echo /sys/fs/cgroup{}",
        show("few.slice", "ControlGroup")
    ))?;
    let group = group.trim();
    // Both units' processes count together, and the one that is there first stays.
    node.sh(&format!(
        "systemctl start bomb; until test $(cat {group}/pids.current) -ge 12; do sleep 0.1; done; \
         sleep 1; test $(cat {group}/pids.current) -le 12 && systemctl is-active calm"
    ))?;
    node.sh(OTHERS)?;
    let inside = format!("{group}/cgroup.procs");
    node.sh(&format!(
        "case {} in */_few.slice/calm) ;; *) exit 1;; esac; test ! -s {inside}",
        show("calm", "ControlGroup"),
    ))?;
    // Its daemon dies; the next one finds the units where they are.
    long(
        node,
        &format!(
            "pid={pid}; pkill -KILL -f '[s]erve .*--init-fd'; {SERVING}; \
             until systemctl is-active -q calm; do sleep 0.2; done; \
             test \"$pid\" = {pid} && systemctl is-active bomb",
            pid = show("calm", "MainPID"),
        ),
    )?;
    // What the files say now holds for what runs.
    node.sh(&format!(
        "{}until test $(cat {group}/pids.max) = 16; do sleep 0.1; done",
        limit("16")
    ))?;
    node.sh("systemctl stop bomb; systemctl reset-failed; ! pgrep -f '[f]ork while 1'")?;
    node.sh(&format!(
        "{}until test $(cat {group}/pids.max) = max; do sleep 0.1; done",
        limit("infinity")
    ))?;
    // A slice without a file gets its first limit while a unit that names it runs.
    node.sh(&format!(
        "rm /etc/systemd/system/few.slice; systemctl daemon-reload; systemctl restart calm; \
         test $(cat {group}/pids.max) = max && systemctl set-property --runtime few.slice TasksMax=9; \
         until test $(cat {group}/pids.max) = 9; do sleep 0.1; done; \
         test \"$(systemctl show -P Description few.slice)\" = 'Slice /few' && \
         rm -r /run/systemd/system.control/few.slice.d && systemctl daemon-reload"
    ))?;
    node.sh(&format!(
        "systemctl stop calm; until test ! -e {group}; do sleep 0.1; done"
    ))
    .map(drop)
}

/// So many lines are told by who floods nothing.
const LINES: usize = 200;

fn flood(node: &mut Node) -> Result<()> {
    node.sh(&format!(
        "{}{}systemctl daemon-reload && systemctl start flood",
        file("flood.service", "[Service]\nExecStart=/usr/bin/yes flood\n"),
        file(
            "calm.service",
            &format!(
                "[Service]\nType=oneshot\n\
                 ExecStart=/bin/sh -c \"for i in $(seq {LINES}); do echo calm-$i; done\"\n"
            )
        )
    ))?;
    node.sh("systemctl start calm")?;
    let told = node.sh("journalctl -q --sync; journalctl -q -u calm -o cat | grep -c ^calm-")?;
    ensure!(told.trim() == LINES.to_string(), "{told} of {LINES} lines");
    node.sh(
        "logger -t story beside-the-flood && journalctl -q --sync && \
         journalctl -q -t story -o cat | grep -qx beside-the-flood",
    )?;
    node.sh(OTHERS)?;
    node.sh("systemctl stop flood").map(drop)
}

fn deaf(node: &mut Node) -> Result<()> {
    let unit = "[Service]\nTimeoutStopSec=2\n\
        ExecStart=/bin/sh -c \"trap : TERM; while :; do sleep 1; done\"\n";
    node.sh(&format!(
        "{}systemctl daemon-reload && systemctl start deaf",
        file("deaf.service", unit)
    ))?;
    let pid = node.sh("systemctl show -p MainPID --value deaf")?;
    let result = node.sh("systemctl stop deaf; systemctl show -p Result --value deaf")?;
    ensure!(result.trim() == "timeout", "its result is {result}");
    node.sh(&format!("! kill -0 {} 2>/dev/null", pid.trim()))?;
    // It is there when the machine goes down, too.
    node.sh("systemctl reset-failed deaf && systemctl start deaf")
        .map(drop)
}

/// So many units there are at once; a thousand under `./x soak power`.
fn units_at_once() -> usize {
    how_much(300, 1000)
}

fn many(node: &mut Node) -> Result<()> {
    let many = units_at_once();
    let took = long(
        node,
        &format!(
            "set -e; cd /run/systemd/system; mkdir many.target.wants; \
             printf '[Unit]\\nDescription=Many\\n' > many.target; \
             for i in $(seq {many}); do \
             printf '[Service]\\nExecStart=/bin/sleep 100000\\n' > many-$i.service; \
             ln -s ../many-$i.service many.target.wants/; done; \
             systemctl daemon-reload; begun=$(cut -d. -f1 /proc/uptime); \
             systemctl start many.target; \
             until test $(systemctl list-units 'many-*.service' --state=active --plain \
             --no-legend | wc -l) = {many}; do sleep 0.5; done; \
             echo $(($(cut -d. -f1 /proc/uptime) - begun))"
        ),
    )?;
    println!("        {many} units are active after {} s", took.trim());
    node.sh(OTHERS)?;
    let killed = "pkill -KILL -f '[s]erve .*--init-fd'";
    let running = format!("test $(pgrep -cxf '/bin/sleep 100000') = {many}");
    long(node, &format!("{killed}; {SERVING}; {running}"))?;
    long(
        node,
        "set -e; systemctl stop 'many-*.service' many.target; \
         ! pgrep -xf '/bin/sleep 100000'; \
         rm -r /run/systemd/system/many*; systemctl daemon-reload",
    )?;
    let failed = node.sh("systemctl list-units --failed --no-legend --plain")?;
    ensure!(failed.trim().is_empty(), "these failed: {failed}");
    Ok(())
}

/// The main processes of services that have nothing to do with the clock.
const MAIN: &str = "for unit in ssh nginx cron rsyslog dbus; do \
    systemctl show -p MainPID --value $unit; done";

/// The timers that are active.
const TIMERS: &str = "systemctl list-units --type=timer --no-legend --plain | cut -d' ' -f1";

fn clock(node: &mut Node) -> Result<()> {
    let before = node.sh(MAIN)?;
    // chrony would put the clock right; and what Debian's own timers start (apt, by tomorrow's
    // clock) would still run in the next story, on a disk that is full there.
    node.sh(&format!(
        "{}{}systemctl stop chrony $({TIMERS}); \
         systemctl daemon-reload && systemctl start jump.timer",
        file(
            "jump.timer",
            "[Timer]\nAccuracySec=1us\nOnCalendar=*-*-* 03:00:00\n"
        ),
        file(
            "jump.service",
            "[Service]\nType=oneshot\nExecStart=/bin/sh -c \"echo once >> /run/jumped\"\n"
        )
    ))?;
    node.sh("date -s \"$(date -d tomorrow +%F) 02:59:58\" >/dev/null; \
         until test -e /run/jumped; do sleep 0.1; done")?;
    // Back to the first year that a board without a battery may say, and a daemon that begins then.
    node.sh(&format!(
        "date -s 1980-01-06 >/dev/null; logger -t story of-another-time; \
         pkill -KILL -f '[s]erve .*--init-fd'; {SERVING}; \
         systemd-run -q --on-active=1 touch /run/after-the-jump; \
         until test -e /run/after-the-jump; do sleep 0.1; done"
    ))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    node.sh(&format!("date -s @{now} >/dev/null; {SERVING}"))?;
    node.sh(
        "journalctl -q --sync; journalctl -q -b -t story -o cat | grep -qx of-another-time; \
         test $(wc -l < /run/jumped) = 1; systemctl stop jump.timer; systemctl start chrony",
    )?;
    let after = node.sh(MAIN)?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    Ok(())
}

/// [`OTHERS`]; where they aren't served, what there is of them.
fn serves(node: &Node, when: &str) -> Result<()> {
    node.sh(OTHERS).map(drop).or_else(|error| {
        let shown = node.try_sh("systemctl status nginx; ps ax -o pid,ppid,args | grep nginx")?;
        let shown = String::from_utf8_lossy(&shown.out).into_owned();
        Err(error.context(format!("{when}:\n{shown}\n{}", node.console())))
    })
}

fn full_disk(node: &mut Node) -> Result<()> {
    node.sh(&format!(
        "{}systemctl daemon-reload && systemctl start again",
        file(
            "again.service",
            "[Service]\nExecStart=/bin/sleep 100000\nRestart=always\nRestartSec=100ms\n"
        )
    ))?;
    // The node gives space back where its logs are the oldest; this takes that, too.
    long(
        node,
        "fallocate -l $(($(stat -f -c '%f * %S' /))) /full; \
         (while :; do dd if=/dev/zero of=/fuller bs=64k oflag=append conv=notrunc; sleep 0.1; \
         done) >/dev/null 2>&1 & echo $! > /run/filler; \
         while dd if=/dev/zero of=/probe bs=256k count=1 conv=fsync 2>/dev/null; do sleep 0.2; done; \
         rm -f /probe",
    )?;
    let again = "pid=$(systemctl show -p MainPID --value again); kill -KILL $pid; \
        until new=$(systemctl show -p MainPID --value again) && test \"$new\" != 0 && \
        test \"$new\" != \"$pid\"; do sleep 0.1; done";
    node.sh(again)?;
    node.sh("systemctl restart ssh nginx && systemctl is-active ssh nginx")?;
    serves(node, "after restarts")?;
    node.sh(&format!("pkill -KILL -f '[s]erve .*--init-fd'; {SERVING}"))?;
    node.sh(again)?;
    serves(node, "after the daemon's death")?;
    node.sh("kill $(cat /run/filler); rm -f /full /fuller; systemctl stop again")?;
    node.sh(
        "until aurae schedule now --name room -- /bin/true >/dev/null 2>&1; do sleep 0.2; done; \
         aurae schedule rm room",
    )?;
    let failed = node.sh("systemctl list-units --failed --no-legend --plain")?;
    ensure!(failed.trim().is_empty(), "these failed: {failed}");
    Ok(())
}

/// Three units of which each is to come after another.
fn cycle() -> String {
    let unit = |own: &str, other: &str| {
        let text = format!(
            "[Unit]\nAfter={other}.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
             ExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
        );
        file(&format!("{own}.service"), &text)
    };
    let (one, two, three) = ("circle-a", "circle-b", "circle-c");
    let files = [unit(one, two), unit(two, three), unit(three, one)].concat();
    format!("{files}systemctl -q enable circle-a circle-b circle-c; ")
}

/// Prints the name of what was acknowledged, as soon as it is: `one N`.
const ACKNOWLEDGED: &str = "one() { \
    aurae schedule at 2099-01-01T00:00:00Z --name $ROUND-$1 -- /bin/true >/dev/null \
    && echo wish $ROUND-$1; \
    systemctl -q enable kept@$ROUND-$1 && echo link $ROUND-$1; }";

/// Moments in milliseconds after the machine serves, from a seed that a failure can be told by.
fn moments() -> impl Iterator<Item = u64> {
    let seed = std::env::var("AURAE_TEST_SEED").ok();
    let seed = seed.and_then(|it| it.parse().ok());
    let mut state: u64 = seed.unwrap_or_else(|| std::process::id().into());
    println!("        AURAE_TEST_SEED={state}");
    // Knuth's linear congruential generator (MMIX); its upper bits are the good ones.
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 8_000
    })
}

/// Cuts the power while wishes and links are acknowledged; those are returned.
fn cut(node: &mut Node, round: usize, moment: Duration) -> Result<BTreeSet<String>> {
    let first = node.sh(&format!("ROUND=cut{round}; {ACKNOWLEDGED}; one 0"))?;
    let more = "n=0; while :; do n=$((n+1)); one $n; done";
    let running = node.start(&format!("ROUND=cut{round}; {ACKNOWLEDGED}; {more}"))?;
    thread::sleep(moment);
    node.monitor("system_reset")?;
    let (mut said, mut wrong) = (first.into_bytes(), Vec::new());
    let ended = running.stream(&mut said, &mut wrong);
    ensure!(ended.is_err(), "the power wasn't cut: {ended:?}");
    let said = String::from_utf8_lossy(&said);
    // A last line without its end was on its way.
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    Ok(whole.lines().map(str::to_owned).collect())
}

fn power(node: &mut Node) -> Result<()> {
    node.sh(&format!(
        "{}{}systemctl daemon-reload; sync",
        file(
            "kept@.service",
            "[Service]\nType=oneshot\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
        ),
        cycle()
    ))?;
    let mut acknowledged = BTreeSet::new();
    for (round, moment) in moments().take(how_much(1, 200)).enumerate() {
        acknowledged.extend(cut(node, round, Duration::from_millis(moment))?);
        node.comes_back()?;
        node.sh(SERVING)?;
        let kept = node.sh("aurae schedule ls -o name | sed 's/^/wish /'; \
             ls /etc/systemd/system/multi-user.target.wants | \
             sed -n 's/^kept@\\(.*\\).service$/link \\1/p'")?;
        let kept: BTreeSet<&str> = kept.lines().collect();
        let lost: Vec<&String> = acknowledged
            .iter()
            .filter(|it| !kept.contains(it.as_str()))
            .collect();
        ensure!(lost.is_empty(), "lost after {moment} ms: {lost:?}");
    }
    println!("        {} were acknowledged", acknowledged.len());
    comes_up(node)?;
    named_cycle(node)
}

/// One of the three didn't start, and the words for it are there.
fn named_cycle(node: &Node) -> Result<()> {
    let console = node.console();
    let told = console
        .lines()
        .filter(|it| it.contains("wait for each other"));
    let told = told.collect::<Vec<_>>().join("\n");
    let names = ["circle-a", "circle-b", "circle-c"];
    ensure!(
        names.iter().all(|name| told.contains(name)) && told.contains("was deleted"),
        "{told}"
    );
    node.sh("journalctl -q -b -t auraed -g 'wait for each other' -o cat | grep -q circle-")?;
    let up = node.sh("systemctl is-active circle-a circle-b circle-c || true")?;
    ensure!(
        up.lines().filter(|it| *it == "active").count() == 2,
        "of the three: {up}"
    );
    node.sh("systemctl -q disable circle-a circle-b circle-c")
        .map(drop)
}

fn missing_disk(node: &mut Node) -> Result<()> {
    node.sh(
        "echo 'LABEL=gone /srv/gone ext4 defaults,x-systemd.device-timeout=3s 0 2' >> /etc/fstab",
    )?;
    node.sh("systemd-run -q --wait -u lives echo first-life")?;
    let mark = node.console().len();
    let _cut_off = node.start("exec systemctl reboot")?;
    node.comes_back()?;
    long(
        node,
        "until systemctl is-active -q emergency.target; do sleep 0.5; done",
    )?;
    // sulogin's own words; what it does for a root without a password is its business.
    node.wait_console(mark, "You are in emergency mode", LONG)?;
    let failed = node.sh("systemctl list-units --failed --no-legend --plain --all; \
        systemctl status srv-gone.mount || true")?;
    ensure!(failed.contains("srv-gone.mount"), "{failed}");
    let console = node.console();
    let shown = console.get(mark..).unwrap_or_default();
    ensure!(
        shown.contains("srv-gone.mount") || shown.contains("/srv/gone"),
        "the console doesn't say what is missing:\n{shown}"
    );
    let up = node.sh("systemctl is-active ssh || true")?;
    ensure!(up.trim() != "active", "ssh is {up}");
    // What units printed before is there, of its own boot.
    let before =
        node.sh("journalctl -q -b -1 -u lives -o cat; journalctl -q -b -u lives -o cat")?;
    ensure!(before == "first-life\n", "{before}");
    node.sh("sed -i /LABEL=gone/d /etc/fstab && systemctl daemon-reload")?;
    let _goes_on = node.start("exec systemctl default")?;
    long(
        node,
        "until systemctl is-active -q graphical.target; do sleep 0.5; done; \
         systemctl is-active ssh nginx cron serial-getty@ttyS0",
    )
    .context("after the repair")?;
    let failed = node.sh("systemctl list-units --failed --no-legend --plain")?;
    ensure!(failed.trim().is_empty(), "these failed: {failed}");
    Ok(())
}
