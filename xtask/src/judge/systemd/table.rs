// SPDX-License-Identifier: Apache-2.0
//! systemd's scripts by number: what each is about, and why some aren't run.

use std::time::Duration;

/// What becomes of a script here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is run, for this many minutes at most.
    Run(u64),
    /// It ends with the machine: one that is rebooted for it.
    Reboots,
    /// It is not, for this reason.
    Left(&'static str),
}

/// A script of the package.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    /// As in `testsuite-NUMBER.service`.
    pub(super) number: &'static str,
    pub(super) what: &'static str,
    pub(super) fate: Fate,
    /// What its own disk has beyond this one's: a shell command.
    pub(super) setup: &'static str,
}

impl Script {
    pub(super) fn limit(&self) -> Option<Duration> {
        match self.fate {
            Fate::Run(minutes) => Some(Duration::from_secs(60 * minutes)),
            Fate::Reboots | Fate::Left(_) => None,
        }
    }

    const fn after(mut self, setup: &'static str) -> Self {
        self.setup = setup;
        self
    }
}

/// On the emulated machine a script takes ten times as long as where it was written.
const USUAL: u64 = 5;

const fn script(number: &'static str, what: &'static str, fate: Fate) -> Script {
    Script {
        number,
        what,
        fate,
        setup: "",
    }
}

const fn of(number: &'static str, what: &'static str) -> Script {
    script(number, what, Fate::Run(USUAL))
}

const fn slow(number: &'static str, what: &'static str, minutes: u64) -> Script {
    script(number, what, Fate::Run(minutes))
}

const fn left(number: &'static str, what: &'static str, why: &'static str) -> Script {
    script(number, what, Fate::Left(why))
}

const SELF: &str = "tests a library of systemd's, not PID 1";
const IMAGES: &str = "needs images of file systems that the package doesn't have";
const NSPAWN: &str = "needs systemd-nspawn";
const USER: &str = "needs a manager of a user's units, which there is not";
const NATIVE: &str = "tests systemd-journald: the journal is the daemon's own";
const DEVICES: &str = "tests systemd-udevd with devices that this machine hasn't";
const HERE_NOT: &str = "the package has no script: the file that starts the machine is the test";
const ENDS: &str = "what it tests is how the machine goes off behind it";
const GROUPS: &str = "looks below /sys/fs/cgroup/system.slice, where units here have no groups";
const KEYS: &str = "needs a TPM or encrypted disks";

/// All that the package has, by number.
pub(super) const SCRIPTS: &[Script] = &[
    left("01", "a boot", HERE_NOT),
    left("02", "unit tests", SELF),
    of("03", "jobs: merging, waiting, irreversible ones, cycles"),
    left("04", "the journal", NATIVE),
    left(
        "05",
        "limits of resources of system.conf",
        "needs systemd's system.conf: the daemon reads its own",
    ),
    left("06", "SELinux", "needs SELinux with its policy"),
    of("07", "masking a timer that has a drop-in"),
    left("08", "-.mount with a drop-in", HERE_NOT),
    left("09", "many mounts at boot", HERE_NOT),
    left(
        "10",
        "a socket whose service fails its conditions",
        HERE_NOT,
    ),
    of("11", "the limit of starts ends restarts"),
    left(
        "12",
        "a socket's group",
        "wants a socket to be closed when its file is gone; here it listens on",
    ),
    left("13", "nspawn", NSPAWN),
    left(
        "14",
        "the machine's id",
        "changes the id that the machine was booted with",
    ),
    slow(
        "15",
        "drop-ins: top level, hierarchical, transient, templates, aliases, masks",
        30,
    ),
    of("16", "EXTEND_TIMEOUT_USEC= and RuntimeMaxSec="),
    left("17", "udev", DEVICES),
    script(
        "18",
        "FailureAction= and SuccessAction= that end the machine",
        Fate::Reboots,
    ),
    left("19", "delegated groups", GROUPS),
    of("20", "which process may notify, and PID files"),
    left("21", "hostile calls on the bus", "needs dfuzzer"),
    left(
        "22",
        "systemd-tmpfiles",
        "tests a program of systemd's, not PID 1",
    ),
    of("23", "when a start counts as done, by Type="),
    left("24", "encrypted disks", KEYS),
    left(
        "25",
        "systemd-importd",
        "tests a program of systemd's, not PID 1",
    ),
    slow("26", "systemctl", 10)
        // It edits a unit that is masked here; such a file counts before that.
        .after("cp /lib/systemd/system/user@.service /etc/systemd/system/"),
    of("27", "StandardOutput=file: and its like"),
    left("28", "%J in WantedBy=", HERE_NOT),
    left("29", "portable services", IMAGES),
    of("30", "timers of the clock's change and the zone's")
        // timedated sets no clock that a program sets.
        .after("systemctl disable --now chrony"),
    of("31", "no device goes away while the machine boots"),
    left("32", "OOMPolicy=", GROUPS),
    of("33", "cleaning a unit's folders"),
    slow("34", "folders of dynamic users and of others", 15),
    left(
        "35",
        "systemd-logind",
        "needs a seat's devices and a manager of a user's units",
    ),
    left(
        "36",
        "NUMA policies",
        "needs a machine with NUMA nodes, and the journal of PID 1",
    ),
    of("37", "folders of mounts"),
    left("38", "frozen units", GROUPS),
    of("39", "ExecReload= that fails"),
    of("40", "prefixes of commands of transient units"),
    of("41", "restarts of oneshot services"),
    of("42", "ExecStopPost= of every Type="),
    left("43", "sandboxes of a user's units", USER),
    left("44", "namespaces of the journal", NATIVE),
    left(
        "45",
        "systemd-timedated",
        "tests a program of systemd's, not PID 1",
    ),
    left("46", "home folders", "needs systemd-homed"),
    of("47", "a process that its unit leaves behind"),
    of(
        "48",
        "starts right after a stop, with files that have come since",
    ),
    of("49", "mounts into a running unit"),
    left("50", "images", IMAGES),
    of("51", "restarts of services without a main process"),
    left("52", "the first shutdown is the one that counts", ENDS),
    of("53", "a timer after the clock was set back"),
    of("54", "credentials"),
    left(
        "55",
        "systemd-oomd",
        "needs systemd-oomd and its kernel's pressure files",
    ),
    of("56", "ExitType=cgroup"),
    of(
        "57",
        "OnSuccess=, OnFailure=, Upholds=, StopPropagatedFrom=, BindsTo=",
    ),
    left(
        "58",
        "systemd-repart",
        "tests a program of systemd's, not PID 1",
    ),
    of("59", "restarts while reloading"),
    left(
        "60",
        "the limit of mount events",
        "looks for words in the log of systemd's own PID 1",
    ),
    left("61", "loop devices", SELF),
    left(
        "62",
        "RestrictNetworkInterfaces=",
        "the kernel's BPF programs are not made here",
    ),
    of("63", "path units and their trigger limit"),
    left("64", "udev and storage", DEVICES),
    slow("65", "systemd-analyze", 10),
    of("66", "DevicePolicy= over daemon-reload"),
    left("67", "checksums of disks", KEYS),
    of("68", "what OnFailure= passes on"),
    left("69", "messages at the shutdown", HERE_NOT),
    left("70", "systemd-cryptenroll", KEYS),
    of("71", "systemd-hostnamed, started by the bus"),
    left(
        "72",
        "systemd-sysupdate",
        "tests a program of systemd's, not PID 1",
    ),
    left("73", "systemd-localed", "needs the machine's locales"),
    of(
        "74",
        "systemd-cgls, systemd-cgtop, systemd-delta and others",
    ),
    left(
        "75",
        "systemd-resolved",
        "needs systemd-resolved and systemd-networkd",
    ),
    of("76", "systemd-sysctl"),
];
