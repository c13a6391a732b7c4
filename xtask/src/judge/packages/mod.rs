// SPDX-License-Identifier: Apache-2.0
//! `./x judge packages`: Debian's packages on a Debian whose PID 1 is auraed. Each is installed by
//! apt on the running machine, and then started (by its own scripts), used by its own client,
//! restarted, killed, stopped and purged. What apt needs is on the disk: the machine has no
//! network.
//!
//! It prints a row for each, as `docs/reference/packages.md` has them.

mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use testkit::disk;
use testkit::node::{Bed, Node, Options};

use super::machine::{end, step, up};
use crate::build::{self, Profile};
use table::{PACKAGES, Package};

/// How long a step may take: databases are set up, and the machine is slow.
const STEP: Duration = Duration::from_secs(600);
/// As Debian's installer writes it; a root that was made without that has none.
const HOSTS: &str = "test -e /etc/hosts || \
    printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n::1 localhost\\n' $(uname -n) > /etc/hosts";
const APT: &str = "export DEBIAN_FRONTEND=noninteractive; apt-get -q -y --no-install-recommends";

/// Runs those of these names; none: all.
pub(super) fn run(names: &[String]) -> Result<ExitCode> {
    let known = |name: &String| PACKAGES.iter().any(|it| it.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all: Vec<&str> = PACKAGES.iter().map(|it| it.name).collect();
        bail!("no package {unknown}: there are {}", all.join(", "));
    }
    let wanted = |it: &&Package| names.is_empty() || names.iter().any(|one| one == it.name);
    let bed = Bed::new(&build::target()?, &build::binaries(Profile::Dev)?)?;
    let all: Vec<&str> = PACKAGES.iter().map(|it| it.name).collect();
    let node = bed.boot(&Options {
        disk: Some(disk::debian_with_archive(&bed.folder, &all)?),
        copies: bed.packages()?,
        append: "init=/usr/sbin/auraed".into(),
        memory_mib: 2048,
        units: true,
        off: "exec poweroff".into(),
        ..Options::default()
    })?;
    up(&node)?;
    step(&node, HOSTS, STEP)?;
    step(&node, &format!("{APT} install {}", package()), STEP)?;
    println!(
        "| package | unit | installed | started | used | restarted | killed | stopped | purged |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut failed = 0;
    for package in PACKAGES.iter().filter(wanted) {
        let (row, reasons) = judge(&node, package);
        println!(
            "| `{}` | `{}` | {} |",
            package.name,
            package.unit,
            row.join(" | ")
        );
        for reason in &reasons {
            println!("    {}: {reason}", package.name);
        }
        failed += usize::from(!reasons.is_empty());
    }
    println!(
        "{failed} of {} failed",
        PACKAGES.iter().filter(wanted).count()
    );
    Ok(end(node, failed))
}

fn package() -> String {
    format!("{}/aurae-1.deb", testkit::deb::PACKAGES)
}

/// Until the script succeeds, for half a minute.
fn soon(script: &str) -> String {
    format!(
        "for try in $(seq 30); do ({script}) >/tmp/judged 2>&1 && exit 0; sleep 1; done; \
         tail -n 5 /tmp/judged; exit 1"
    )
}

/// The words of its row, and what failed.
fn judge(node: &Node, it: &Package) -> (Vec<&'static str>, Vec<String>) {
    let begun = Instant::now();
    let mut reasons = Vec::new();
    let mut row = Vec::new();
    for (name, script) in steps(it) {
        let done = step(node, &script, STEP);
        row.push(if done.is_ok() { "yes" } else { "**no**" });
        if let Err(error) = done {
            let state = step(node, &shown(it), STEP).unwrap_or_default();
            reasons.push(format!("{name}: {error:#}\n{state}"));
            if name == "installed" {
                break;
            }
        }
    }
    eprintln!("{}: {:.0} s", it.name, begun.elapsed().as_secs_f64());
    if row.len() == 1 {
        let _ = step(
            node,
            &format!("{APT} purge {}; {APT} autoremove --purge", it.name),
            STEP,
        );
    }
    (row, reasons)
}

fn shown(it: &Package) -> String {
    let unit = it.unit;
    // What it says in files of its own, too.
    format!(
        "systemctl status --no-pager -n 8 -- '{unit}' 2>&1 | tail -n 30; \
         find /var/log -name '*.log' -mmin -3 -exec tail -v -n 4 {{}} + 2>&1 | tail -n 30"
    )
}

/// What is done with each, in order.
fn steps(it: &Package) -> [(&'static str, String); 7] {
    let (name, unit) = (it.name, it.unit);
    let active = soon(&format!("systemctl is-active -- '{unit}'"));
    let setup = if it.setup.is_empty() {
        "true"
    } else {
        it.setup
    };
    // Some packages start nothing by themselves: that is their setup.
    let started = format!("{setup}; {active}");
    let used = soon(it.used);
    let again = used.clone();
    let main = format!("$(systemctl show -p MainPID --value -- '{unit}')");
    // What has no main process is not killed. What restarts by itself must; the rest has failed.
    let killed = format!(
        "pid={main}; [ \"${{pid:-0}}\" != 0 ] || exit 0; \
         case $(systemctl show -p Restart --value -- '{unit}') in \
         always | on-failure | on-abnormal | on-abort) wanted=active ;; *) wanted=failed ;; esac; \
         kill -KILL $pid; for try in $(seq 40); do \
         state=$(systemctl is-active -- '{unit}'); now={main}; \
         [ \"$state\" = $wanted ] && [ \"$now\" != $pid ] && exit 0; sleep 1; done; \
         echo \"$state instead of $wanted\"; exit 1"
    );
    // With what would begin it again at the next word, also by another name of its.
    let sockets = format!(
        "$(systemctl list-sockets --no-legend | while read -r listen socket activates; do \
         [ \"$(systemctl show -P Id -- $activates)\" = '{unit}.service' ] && echo $socket; done)"
    );
    let stopped = format!(
        "systemctl stop -- {sockets} '{unit}' || exit 1; state=$(systemctl is-active -- '{unit}'); \
         echo \"it is $state\"; [ \"$state\" = inactive ] || [ \"$state\" = failed ]"
    );
    [
        ("installed", format!("{APT} install {} {name}", it.with)),
        ("started", started),
        ("used", used),
        (
            "restarted",
            format!("systemctl restart -- '{unit}' && {again}"),
        ),
        ("killed", killed),
        ("stopped", stopped),
        (
            "purged",
            format!("{APT} purge {name} && {APT} autoremove --purge && systemctl reset-failed"),
        ),
    ]
}
