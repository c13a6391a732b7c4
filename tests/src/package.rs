// SPDX-License-Identifier: Apache-2.0
//! Stories of the Debian package, as apt installs it on a machine that has none: beside systemd,
//! upgraded under running workloads, as PID 1 of the same disk, and gone again.

use std::time::Duration;

use anyhow::{Result, ensure};
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "package",
    options: || Options {
        services: true,
        package: true,
        units: true,
        reboots: true,
        run: String::new(),
        append: SYSTEMD.into(),
        off: "exec systemctl poweroff".into(),
        ..Options::default()
    },
    stories: &[
        Story {
            name: "apt installs it beside systemd, and its service runs cells",
            tell: installs,
        },
        Story {
            name: "an upgrade replaces the daemon, and no workload",
            tell: upgrades,
        },
        Story {
            name: "one word more, and auraed is PID 1 with every unit active",
            tell: becomes_first,
        },
        Story {
            name: "apt installs a service, and its scripts enable and start it",
            tell: installs_a_service,
        },
        Story {
            name: "PID 1 is upgraded under its services",
            tell: upgrades_the_first,
        },
        Story {
            name: "without the word systemd boots the same disk as before",
            tell: systemd_again,
        },
        Story {
            name: "removed, systemd's commands are back; purged, nothing of it is left",
            tell: goes,
        },
    ],
    at_the_end: |_| Ok(()),
};

const SYSTEMD: &str = "init=/sbin/init";
const AURAED: &str = "init=/usr/sbin/auraed";
/// How long a boot may take on a busy machine.
const UP: Duration = Duration::from_secs(500);
/// Without a question, and without what isn't needed.
const APT: &str = "DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends";
/// How long apt may take there: it unpacks 150 MB.
const UNPACKED: Duration = Duration::from_secs(500);
/// Until the daemon answers.
const SERVING: &str = "until aurae ps >/dev/null 2>&1; do sleep 0.1; done";
/// The daemon's process.
const DAEMON: &str = "$(pgrep -f '[s]erve .*--init-fd')";

/// Has apt do this, and it must succeed.
fn apt(node: &Node, words: &str) -> Result<()> {
    let finished = node.start(&format!("{APT} {words}"))?;
    let finished = finished.finish_within(UNPACKED)?;
    let said = [finished.out, finished.err].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(
        finished.status == 0,
        "apt-get {words}: {}\n{said}",
        finished.status
    );
    Ok(())
}

fn installs(node: &mut Node) -> Result<()> {
    // The test bed's own links.
    node.sh(
        "cd /usr/local/bin && rm -f systemctl journalctl systemd-run systemd-analyze \
         shutdown reboot poweroff halt",
    )?;
    apt(node, "install /srv/packages/aurae-1.deb")?;
    node.sh("systemctl is-active auraed aurae-cells && systemctl is-enabled auraed")?;
    node.sh(SERVING)?;
    let said = node.sh("aurae cell run web --memory 64M && aurae run --cell web -- echo hello")?;
    ensure!(said.contains("hello"), "{said}");
    node.sh("aurae rm -rf web && dpkg --verify aurae")?;
    // Ours have their place, and speak for systemd, which is PID 1.
    let names = "systemctl journalctl systemd-run systemd-analyze shutdown reboot poweroff halt \
        telinit runlevel";
    node.sh(&format!(
        "for name in {names}; do test \"$(readlink -f $(command -v $name))\" = /usr/bin/aurae \
         || exit 1; done"
    ))?;
    let version = node.sh("systemctl --version && journalctl --version && shutdown --help")?;
    ensure!(
        version.starts_with("systemd 252 (252") && version.contains("+PAM"),
        "{version}"
    );
    // The disk leaves manual pages out.
    node.sh("test -s /usr/share/bash-completion/completions/aurae && \
         dpkg -L aurae | grep -qx /usr/share/man/man1/aurae-run.1.gz")
        .map(drop)
}

/// Until the daemon is of the file that is installed.
fn new_daemon(node: &Node) -> Result<()> {
    node.sh(&format!(
        "until [ /usr/sbin/auraed -ef /proc/{DAEMON}/exe ]; do sleep 0.1; done; {SERVING}"
    ))
    .map(drop)
}

fn upgrades(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run stay && aurae run --cell stay --name s -d -- sleep 4321")?;
    let view = "pgrep -fx 'sleep 4321'; systemctl show -p MainPID --value auraed; \
        aurae ps -o json | grep -E '\"(path|uid|pid)\"' | sort";
    let (before, old) = (node.sh(view)?, node.sh(&format!("echo {DAEMON}"))?);
    apt(node, "install /srv/packages/aurae-2.deb")?;
    let version = node.sh("dpkg-query -W -f='${Version}' aurae")?;
    ensure!(version == "0.0.2", "{version} is installed");
    new_daemon(node)?;
    let after = node.sh(view)?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    ensure!(
        node.sh(&format!("echo {DAEMON}"))? != old,
        "the same daemon"
    );
    node.sh("aurae run --cell stay --name t -- true && aurae stop stay/s && aurae rm -rf stay")
        .map(drop)
}

/// As its administrator would, and with another word at the next boot.
fn reboot(node: &mut Node, old: &str, new: &str) -> Result<()> {
    let asked = node.start("reboot")?;
    node.comes_back_with(old, new).map_err(|error| {
        let said = asked.finish_within(Duration::from_secs(1));
        error.context(format!("`reboot` came to {said:?}"))
    })
}

fn becomes_first(node: &mut Node) -> Result<()> {
    reboot(node, SYSTEMD, AURAED)?;
    let up = "until systemctl is-active -q graphical.target; do sleep 0.5; done; \
        cut -d' ' -f1 /proc/uptime";
    let finished = node.start(up)?.finish_within(UP);
    let shown = node.try_sh("systemctl list-jobs; systemctl list-units --failed")?;
    let shown = String::from_utf8_lossy(&shown.out).into_owned();
    let finished = finished.map_err(|error| error.context(shown.clone()))?;
    let seconds = String::from_utf8_lossy(&finished.out).into_owned();
    println!("        up after {} s", seconds.trim());
    let failed = node.sh("systemctl list-units --failed --no-legend --plain")?;
    ensure!(failed.trim().is_empty(), "these failed: {failed}");
    for unit in ["nginx", "ssh", "cron", "rsyslog", "chrony", "dbus"] {
        let state = node.sh(&format!("systemctl is-active {unit} || true"))?;
        ensure!(state.trim() == "active", "{unit} is {state}");
    }
    let version = node.sh("systemctl --version")?;
    ensure!(version.starts_with("systemd 252 (aurae "), "{version}");
    let status = node.sh("systemctl status nginx && runlevel && curl -sf http://127.0.0.1/")?;
    ensure!(
        status.contains("Active: active (running)") && status.contains("N 5\n"),
        "{status}"
    );
    // The service of another PID 1 is none here.
    let masked = node.sh("systemctl is-enabled auraed || true")?;
    ensure!(masked.starts_with("masked"), "auraed.service is {masked}");
    Ok(())
}

fn installs_a_service(node: &mut Node) -> Result<()> {
    apt(node, "install /srv/packages/at.deb")?;
    let state = node.sh("systemctl is-active atd && systemctl is-enabled atd")?;
    ensure!(state == "active\nenabled\n", "atd is {state}");
    node.sh("echo 'touch /tmp/told-by-at' | at now 2>/dev/null; \
         for try in $(seq 300); do test -e /tmp/told-by-at && exit 0; sleep 0.2; done; exit 1")?;
    apt(node, "purge at")?;
    node.sh("! systemctl is-active -q atd").map(drop)
}

fn upgrades_the_first(node: &mut Node) -> Result<()> {
    let view = "for unit in nginx ssh cron rsyslog dbus; do \
        systemctl show -p MainPID --value $unit; done; stat -Lc %i /proc/1/exe";
    let before = node.sh(view)?;
    apt(node, "install --reinstall /srv/packages/aurae-2.deb")?;
    new_daemon(node)?;
    let after = node.sh(view)?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    // What PID 1 is executed from keeps a name, so that the root can be made read-only.
    node.sh("test /usr/lib/aurae/first -ef /proc/1/exe")?;
    let refused = node.sh_fails(&format!("{APT} remove aurae"), 100)?;
    ensure!(
        refused.contains("auraed is PID 1 of this machine"),
        "{refused}"
    );
    node.sh(
        "systemctl is-active -q nginx && dpkg-query -W -f='${db:Status-Status}' aurae \
         | grep -qx installed",
    )
    .map(drop)
}

fn systemd_again(node: &mut Node) -> Result<()> {
    let seen = node.console().len();
    reboot(node, AURAED, SYSTEMD)?;
    let console = node.console();
    ensure!(
        console
            .get(seen..)
            .is_some_and(|it| it.contains("auraed: the end")),
        "its end isn't on the console"
    );
    node.sh(
        "until systemctl is-active -q nginx auraed; do sleep 0.2; done; \
         test $(cat /proc/1/comm) = systemd && curl -sf http://127.0.0.1/ >/dev/null",
    )
    .map(drop)
}

fn goes(node: &mut Node) -> Result<()> {
    node.sh(SERVING)?;
    let owned = node.sh("dpkg -L aurae")?;
    apt(node, "remove aurae")?;
    node.sh("test -f /bin/systemctl && test ! -L /bin/systemctl && test ! -e /usr/sbin/auraed")?;
    node.sh("dpkg --verify systemd systemd-sysv && test -z \"$(dpkg-divert --list aurae)\"")?;
    node.sh("systemctl is-active nginx && systemctl --version && journalctl -n 1")?;
    // Its state is a user's until it is purged.
    node.sh("test -e /var/lib/aurae/pki && test -e /etc/aurae/config.toml")?;
    apt(node, "purge aurae")?;
    let left: Vec<&str> = owned
        .lines()
        .filter(|path| path.contains("aurae"))
        .collect();
    let left = node.sh(&format!(
        "for path in {}; do test ! -e $path || echo $path; done; \
         find / -xdev '(' -name '*aurae*' -o -lname '*aurae*' ')' \
         -not -path '/usr/local/lib/aurae-testbed*' -not -path '/srv/packages/*'",
        left.join(" ")
    ))?;
    ensure!(left.trim().is_empty(), "these are left:\n{left}");
    Ok(())
}
