// SPDX-License-Identifier: Apache-2.0
//! The units of systemd's own package (and udev's), one by one: which of them the node runs as
//! they are, which it does itself, and which it doesn't run at all. A folder of ours in front of
//! the package's has what follows from that: what isn't run is masked there. What an administrator
//! has in `/etc` counts before it. The page `docs/guide/replacing-systemd.md` has these rows; a
//! test holds it to them.

use units::files::{Entry, Kind};

/// The name of the folder in the load path. It is no folder of the machine.
pub const ROWS: &str = "/@aurae/rows";

/// What becomes of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// It runs as its file says.
    AsItIs,
    /// The node does it: the unit is masked.
    Native,
    /// The node does it: the unit is active without a process, since others require it and look
    /// whether it is.
    Present,
    /// It isn't done at all: the unit is masked.
    Masked,
}

use How::{AsItIs, Masked, Native, Present};

/// Units, what becomes of them, and why.
struct Row(&'static [&'static str], How, &'static str);

const ROWS_OF_SYSTEMD: &[Row] = &[
    Row(
        &["systemd-journald.service", "systemd-journal-flush.service"],
        Present,
        "the journal is the daemon's (`journal.enabled`): these are active, and can't be stopped",
    ),
    Row(
        &["systemd-journald.socket", "systemd-journald-dev-log.socket"],
        Present,
        "the journal's sockets are the daemon's (`journal.enabled`): these are active, and can't \
         be stopped",
    ),
    Row(
        &[
            "systemd-journald-audit.socket",
            "systemd-journald@.service",
            "systemd-journald@.socket",
            "systemd-journald-varlink@.socket",
        ],
        Native,
        "there is one journal; audit messages stay in the kernel's log",
    ),
    Row(
        &["auraed.service", "aurae-cells.service"],
        Native,
        "the package's own, for a machine whose PID 1 is systemd: here PID 1 is auraed",
    ),
    Row(
        &["systemd-initctl.service", "systemd-initctl.socket"],
        Native,
        "`telinit` and `shutdown` speak to the daemon; `/run/initctl` isn't read",
    ),
    Row(
        &[
            "systemd-update-utmp.service",
            "systemd-update-utmp-runlevel.service",
        ],
        Masked,
        "no records of boots in utmp and wtmp; there are no run levels",
    ),
    Row(
        &["systemd-logind.service", "user-runtime-dir@.service"],
        AsItIs,
        "a login is a session with its scope, `XDG_RUNTIME_DIR` and `loginctl`; the daemon is asked \
         by `org.freedesktop.systemd1`",
    ),
    Row(
        &["user@.service"],
        Masked,
        "`systemd --user` needs a session of PAM of its own (`PAMName=`) and a group below its user's \
         slice, which services don't have; logind bears that, and sessions have no units of a user",
    ),
    Row(
        &[
            "systemd-poweroff.service",
            "systemd-reboot.service",
            "systemd-halt.service",
            "systemd-kexec.service",
            "systemd-exit.service",
        ],
        Native,
        "PID 1 ends the machine: `systemctl poweroff`, `aurae node shutdown`; kexec is not done",
    ),
    Row(
        &[
            "getty@.service",
            "serial-getty@.service",
            "console-getty.service",
            "container-getty@.service",
        ],
        AsItIs,
        "their terminal is reset, hung up and handed over as the unit says",
    ),
    Row(
        &[
            "systemd-udevd.service",
            "systemd-udevd-control.socket",
            "systemd-udevd-kernel.socket",
            "systemd-udev-trigger.service",
            "systemd-udev-settle.service",
        ],
        AsItIs,
        "the daemon listens to udev's events as systemd does: `SYSTEMD_WANTS=`, `SYSTEMD_READY=`, \
         `SYSTEMD_ALIAS=` of its rules count",
    ),
    Row(
        &[
            "systemd-fsck-root.service",
            "systemd-fsck@.service",
            "systemd-fsckd.service",
            "systemd-fsckd.socket",
            "systemd-remount-fs.service",
        ],
        AsItIs,
        "PID 1 has checked the root and mounted it writable before, so that of the root is skipped",
    ),
    Row(
        &[
            "systemd-modules-load.service",
            "systemd-sysctl.service",
            "systemd-sysusers.service",
            "systemd-tmpfiles-setup.service",
            "systemd-tmpfiles-setup-dev.service",
            "systemd-tmpfiles-clean.service",
            "systemd-tmpfiles-clean.timer",
            "systemd-random-seed.service",
            "systemd-binfmt.service",
            "systemd-machine-id-commit.service",
            "systemd-firstboot.service",
            "systemd-user-sessions.service",
            "systemd-pstore.service",
            "systemd-backlight@.service",
            "systemd-rfkill.service",
            "systemd-rfkill.socket",
            "kmod-static-nodes.service",
            "modprobe@.service",
            "rc-local.service",
            "quotaon.service",
            "systemd-quotacheck.service",
        ],
        AsItIs,
        "their programs need no systemd",
    ),
    Row(
        &[
            "dev-hugepages.mount",
            "dev-mqueue.mount",
            "sys-fs-fuse-connections.mount",
            "sys-kernel-config.mount",
            "sys-kernel-debug.mount",
            "sys-kernel-tracing.mount",
            "proc-sys-fs-binfmt_misc.mount",
            "proc-sys-fs-binfmt_misc.automount",
        ],
        AsItIs,
        "mount units, and an automount",
    ),
    Row(
        &["syslog.socket"],
        AsItIs,
        "rsyslog's socket; the daemon's journal sends it a copy of what it gets",
    ),
    Row(
        &[
            "systemd-ask-password-console.path",
            "systemd-ask-password-console.service",
            "systemd-ask-password-wall.path",
            "systemd-ask-password-wall.service",
        ],
        AsItIs,
        "their programs ask on the console; nothing of ours asks for a password",
    ),
    Row(
        &["emergency.service", "rescue.service", "debug-shell.service"],
        AsItIs,
        "`sulogin` on the console, which is taken from the process that has it (`tty-force`)",
    ),
    Row(
        &["systemd-networkd.service", "systemd-networkd.socket"],
        AsItIs,
        "off unless enabled",
    ),
    Row(
        &[
            "systemd-hostnamed.service",
            "systemd-localed.service",
            "systemd-timedated.service",
        ],
        AsItIs,
        "the bus starts them when a client calls",
    ),
];

/// What the folder has by a name; `None`: nothing.
fn row(name: &str) -> Option<How> {
    let of = |Row(units, how, _): &Row| units.contains(&name).then_some(*how);
    ROWS_OF_SYSTEMD.iter().find_map(of)
}

/// Why a unit is masked at a path of the folder, in words.
pub(crate) fn why(path: &str) -> Option<&'static str> {
    let name = path.strip_prefix(ROWS)?.strip_prefix('/')?;
    let mut rows = ROWS_OF_SYSTEMD.iter();
    rows.find_map(|Row(units, _, why)| units.contains(&name).then_some(*why))
}

/// A unit that is active, and has nothing to begin or to end.
const PRESENT: &str = "[Unit]\nDescription=Journal (the daemon's own)\nDefaultDependencies=no\n\
    IgnoreOnIsolate=yes\nRefuseManualStop=yes\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
    ExecStop=/bin/true\n";

/// Sockets of the same kind, and where the daemon listens in their place.
const SOCKETS: [(&str, &str); 2] = [
    (
        "systemd-journald.socket",
        "ListenDatagram=/run/systemd/journal/socket\nListenStream=/run/systemd/journal/stdout\n",
    ),
    (
        "systemd-journald-dev-log.socket",
        "ListenDatagram=/run/systemd/journal/dev-log\n",
    ),
];

fn present(name: &str) -> String {
    let Some((_, listens)) = SOCKETS.iter().find(|(socket, _)| *socket == name) else {
        return PRESENT.to_owned();
    };
    format!(
        "[Unit]\nDescription=Journal Socket (the daemon's own)\nDefaultDependencies=no\n\
         IgnoreOnIsolate=yes\nRefuseManualStop=yes\n[Socket]\n{listens}\
         Service=systemd-journald.service\n"
    )
}

/// Whether a unit's file is of one that is active without anything begun: of a socket, without one
/// that is opened.
pub(crate) fn is_present(fragment: &str) -> bool {
    let name = fragment
        .strip_prefix(ROWS)
        .and_then(|it| it.strip_prefix('/'));
    name.and_then(row) == Some(Present)
}

/// The text at a path of the folder; an empty one masks.
pub(crate) fn read(path: &str) -> Option<String> {
    let name = path.strip_prefix(ROWS)?.strip_prefix('/')?;
    match row(name)? {
        Native | Masked => Some(String::new()),
        Present => Some(present(name)),
        AsItIs => None,
    }
}

/// What a folder of it has; `None`: it is none of these.
pub(crate) fn list(folder: &str) -> Option<Vec<Entry>> {
    let rest = folder.strip_prefix(ROWS)?;
    let entry = |name: &str| Entry {
        name: name.to_owned(),
        kind: Kind::File,
    };
    if !rest.is_empty() {
        return Some(Vec::new());
    }
    let masked = ROWS_OF_SYSTEMD
        .iter()
        .filter(|Row(_, how, _)| *how != AsItIs);
    let names = masked.flat_map(|Row(units, ..)| units.iter());
    Some(names.map(|it| entry(it)).collect())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::unit::disk::Disk;
    use units::calendar::zones::UtcOnly;
    use units::load::Catalog;
    use units::name::UnitName;
    use units::specifier::NoHost;
    use units::unit::{Loader, Unit};

    fn table() -> String {
        let mut page = String::from("| unit | what becomes of it | why |\n|---|---|---|\n");
        for Row(units, how, why) in ROWS_OF_SYSTEMD {
            let units: Vec<String> = units.iter().map(|it| format!("`{it}`")).collect();
            let how = match how {
                AsItIs => "as it is",
                Native | Present => "native",
                Masked => "not run",
            };
            let _ = writeln!(page, "| {} | {how} | {why} |", units.join(" "));
        }
        page
    }

    /// Run with `AURAE_UPDATE=1` to write the page's table.
    #[test]
    fn the_page_has_the_rows_that_are_in_force() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/guide/replacing-systemd.md"
        );
        let text = std::fs::read_to_string(page).unwrap();
        let (before, rest) = text.split_once("<!-- rows -->\n").unwrap();
        let (old, after) = rest.split_once("<!-- /rows -->").unwrap();
        if std::env::var_os("AURAE_UPDATE").is_some() {
            let new = format!("{before}<!-- rows -->\n{}<!-- /rows -->{after}", table());
            return std::fs::write(page, new).unwrap();
        }
        assert_eq!(
            old,
            table(),
            "AURAE_UPDATE=1 cargo test --workspace --lib rows"
        );
    }

    #[test]
    fn no_unit_has_two_rows_and_every_one_has_a_name() {
        let mut all: Vec<&str> = ROWS_OF_SYSTEMD
            .iter()
            .flat_map(|it| it.0.to_vec())
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        for name in all {
            assert!(UnitName::parse(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_row_masks_what_the_package_has_and_etc_counts_before() {
        let top = std::env::temp_dir().join(format!("aurae-rows-{}", std::process::id()));
        let folder = |name: &str| top.join(name).display().to_string();
        let (etc, lib) = (folder("etc"), folder("lib"));
        for path in [&etc, &lib] {
            std::fs::create_dir_all(path).unwrap();
        }
        let own = "[Service]\nExecStart=/bin/own\n";
        let text = "[Service]\nExecStart=/bin/x - y\n";
        for name in [
            "systemd-udevd.service",
            "user@.service",
            "systemd-initctl.service",
            "systemd-journald.service",
            "systemd-journald.socket",
        ] {
            std::fs::write(format!("{lib}/{name}"), text).unwrap();
        }
        std::fs::write(format!("{etc}/systemd-initctl.service"), own).unwrap();
        let catalog = Catalog::read(&Disk, &[&etc, ROWS, &lib]);
        let load = |name: &str| -> Unit {
            let loader = Loader {
                files: &Disk,
                catalog: &catalog,
                host: &NoHost,
                zones: &UtcOnly,
            };
            loader.load(&UnitName::parse(name).unwrap()).unwrap()
        };
        let users = load("user@1000.service").masked.unwrap();
        assert!(why(&users).unwrap().contains("sessions"), "{users}");
        assert!(load("systemd-initctl.service").masked.is_none());
        assert!(load("systemd-udevd.service").masked.is_none());
        let journal = load("systemd-journald.service");
        assert!(journal.masked.is_none());
        assert!(journal.settings.commands("ExecStart").is_empty());
        let socket = load("systemd-journald.socket");
        assert!(is_present(&socket.fragment.unwrap()) && socket.masked.is_none());
        assert!(socket.findings.iter().next().is_none());
        assert_eq!(
            units::depend::triggered(&load("systemd-journald-dev-log.socket")).unwrap(),
            journal.id
        );
        assert!(!is_present(&format!("{ROWS}/user@.service")));
        assert!(!is_present(&format!("{etc}/systemd-journald.socket")));
        std::fs::remove_dir_all(top).unwrap();
    }
}
