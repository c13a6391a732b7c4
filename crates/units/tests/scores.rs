// SPDX-License-Identifier: Apache-2.0
//! How much a service leaves open, beside `systemd-analyze security --offline=true`: services of
//! packages (of this machine, or of the folder that `AURAE_UNITS` names) and settings at random, as
//! many as `AURAE_ORACLE` says, or 150.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by them"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use units::calendar::zones::UtcOnly;
use units::name::UnitName;
use units::security::{Score, score};
use units::specifier::NoHost;
use units::unit::from_texts;

/// So many units are given to one call.
const AT_ONCE: usize = 50;

/// What systemd's program says of one unit.
#[derive(Debug)]
struct Said {
    overall: String,
    level: String,
    /// By what it calls them: `None` is what has no meaning, a bare `0.0` what is closed.
    rows: BTreeMap<String, Option<String>>,
}

fn has_program() -> bool {
    let version = Command::new("systemd-analyze").arg("--version").output();
    let text = version.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    if text.unwrap_or_default().starts_with("systemd 252") {
        return true;
    }
    testkit::skip("systemd-analyze of systemd 252 is not there");
    false
}

fn analyze(files: &[PathBuf], json: &str) -> String {
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=true", "--no-pager", json]);
    let output = command.args(files).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// One answer for each file, in their order.
fn asked(files: &[PathBuf]) -> Vec<Said> {
    let overall = analyze(files, "--json=off");
    let overall = overall.lines().filter_map(|line| {
        let (_, said) = line.split_once("exposure level for ")?;
        let mut words = said.split_once(": ")?.1.split(' ');
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    });
    let rows = analyze(files, "--json=short");
    let rows = rows.split_inclusive("}]").filter(|it| it.contains('{'));
    let said = overall.zip(rows).map(|((overall, level), rows)| Said {
        overall,
        level,
        rows: rows.split_inclusive('}').filter_map(row).collect(),
    });
    said.collect()
}

/// `{"set":…,"name":…,"json_field":"…","description":…,"exposure":…}`. A description has no braces.
fn row(text: &str) -> Option<(String, Option<String>)> {
    let value = |key: &str| {
        let (_, rest) = text.split_once(&format!("\"{key}\":"))?;
        rest.split([',', '}']).next()
    };
    // One name has a bracket too many there.
    let id = value("json_field")?.trim_matches('"').replace(')', "");
    let exposure = match (value("set")?, value("exposure")?) {
        ("null", _) => None,
        (_, "null") => Some("0.0".to_owned()),
        (_, exposure) => Some(exposure.trim_matches('"').to_owned()),
    };
    Some((id, exposure))
}

fn ours(name: &str, path: &Path) -> Score {
    let name = UnitName::parse(name).unwrap();
    let name = match name.is_template() {
        // systemd's program calls the instance so.
        true => name.instantiated("i").unwrap(),
        false => name,
    };
    let text = std::fs::read(path).unwrap();
    let unit = from_texts(&name, &[("/unit", &text)], &NoHost, &UtcOnly);
    score(&unit).unwrap()
}

/// Holds all of them against ours; the names of those that differ, with what differs.
fn differing(files: &[PathBuf]) -> Vec<String> {
    let mut different = Vec::new();
    let mut compared = 0;
    for files in files.chunks(AT_ONCE) {
        let said = asked(files);
        assert_eq!(said.len(), files.len(), "it says something of each");
        for (path, said) in files.iter().zip(said) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let score = ours(name, path);
            let mut wrong = Vec::new();
            if (score.overall.to_string(), score.level.to_string())
                != (said.overall.clone(), said.level)
            {
                wrong.push(format!("all: {} and {}", score.overall, said.overall));
            }
            assert_eq!(score.answers.len(), said.rows.len(), "{name}");
            for answer in &score.answers {
                let exposure = answer.exposure.map(|it| it.to_string());
                let theirs = &said.rows[&answer.id];
                compared += 1;
                if exposure != *theirs {
                    wrong.push(format!("{}: {exposure:?} and {theirs:?}", answer.id));
                }
            }
            if !wrong.is_empty() {
                different.push(format!("{}: {wrong:?}", path.display()));
            }
        }
    }
    println!("{} units, {compared} answers", files.len());
    different
}

#[test]
fn services_of_packages_are_scored_as_systemd_does() {
    if !has_program() {
        return;
    }
    let folder = std::env::var_os("AURAE_UNITS").map_or_else(|| "/".into(), PathBuf::from);
    let mut files = BTreeSet::new();
    for below in ["usr/lib/systemd/system", "lib/systemd/system"] {
        for entry in folder.join(below).read_dir().into_iter().flatten() {
            let path = entry.unwrap().path();
            // Links are aliases and masks.
            let is_file = path.symlink_metadata().unwrap().is_file();
            if is_file && path.extension().is_some_and(|it| it == "service") {
                files.insert(path.canonicalize().unwrap());
            }
        }
    }
    let files: Vec<PathBuf> = files.into_iter().collect();
    if files.len() < 5 {
        return testkit::skip("no package with units is installed");
    }
    let different = differing(&files);
    assert!(different.is_empty(), "{different:#?}");
}

/// Numbers that look random and are the same each time (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.next() % of.len() as u64).unwrap()]
    }
}

const BOOLEANS: &[&str] = &["yes", "no", "true", "off", "1"];

/// Directives that count, and values of theirs, right and wrong ones.
const LINES: &[(&str, &[&str])] = &[
    ("User", &["root", "0", "nobody", "www", "1000", ""]),
    ("DynamicUser", BOOLEANS),
    ("SupplementaryGroups", &["video", "a b", ""]),
    ("PrivateDevices", BOOLEANS),
    ("PrivateMounts", BOOLEANS),
    ("PrivateNetwork", BOOLEANS),
    ("PrivateTmp", BOOLEANS),
    ("PrivateUsers", BOOLEANS),
    ("ProtectControlGroups", BOOLEANS),
    ("ProtectKernelModules", BOOLEANS),
    ("ProtectKernelTunables", BOOLEANS),
    ("ProtectKernelLogs", BOOLEANS),
    ("ProtectClock", BOOLEANS),
    ("ProtectHostname", BOOLEANS),
    ("ProtectHome", &["yes", "no", "read-only", "tmpfs", "odd"]),
    ("ProtectSystem", &["yes", "no", "full", "strict", "odd"]),
    ("RootDirectory", &["/", "/srv/x", ""]),
    ("RootImage", &["/x.raw", ""]),
    ("LockPersonality", BOOLEANS),
    ("MemoryDenyWriteExecute", BOOLEANS),
    ("NoNewPrivileges", BOOLEANS),
    ("RestrictRealtime", BOOLEANS),
    ("RestrictSUIDSGID", BOOLEANS),
    ("RemoveIPC", BOOLEANS),
    ("Delegate", &["yes", "no", "cpu memory", "cpu"]),
    (
        "UMask",
        &[
            "0000", "0022", "0027", "0077", "0006", "0066", "0026", "077",
        ],
    ),
    ("KeyringMode", &["private", "shared", "inherit"]),
    (
        "ProtectProc",
        &["noaccess", "invisible", "ptraceable", "default"],
    ),
    ("ProcSubset", &["all", "pid"]),
    ("NotifyAccess", &["none", "main", "exec", "all"]),
    (
        "SystemCallArchitectures",
        &["native", "x86", "native x86", ""],
    ),
    (
        "CapabilityBoundingSet",
        &[
            "",
            "~",
            "CAP_KILL",
            "~CAP_SYS_ADMIN",
            "CAP_NET_BIND_SERVICE CAP_SETUID",
            "~CAP_MAC_ADMIN",
            "CAP_SYS_TIME",
            "~CAP_DAC_OVERRIDE CAP_BPF",
            "CAP_LEASE CAP_MKNOD",
        ],
    ),
    ("AmbientCapabilities", &["", "CAP_KILL", "~", "~CAP_KILL"]),
    (
        "RestrictNamespaces",
        &[
            "yes", "no", "user mnt", "~user", "~net ipc", "cgroup", "pid uts",
        ],
    ),
    (
        "RestrictAddressFamilies",
        &[
            "",
            "none",
            "AF_UNIX",
            "~AF_UNIX",
            "AF_INET AF_INET6",
            "~AF_PACKET",
            "AF_BLUETOOTH",
            "~AF_INET",
            "AF_NETLINK",
        ],
    ),
    (
        "SystemCallFilter",
        &[
            "",
            "@system-service",
            "~@swap",
            "~@privileged @resources",
            "swapon",
            "~@mount",
            "~mount",
            "@mount",
            "~@clock @module",
            "@raw-io",
            "~reboot:EPERM",
            "~@debug:kill",
            "~@obsolete",
            "~@cpu-emulation",
            "chown setuid",
            "~setuid",
            "@default",
            "~@system-service",
            "~nonesuch",
            "~@nonesuch",
            "setuid:EPERM",
            "@privileged",
            "~uselib ustat",
        ],
    ),
    (
        "IPAddressDeny",
        &["any", "", "10.0.0.0/8", "0.0.0.0/0", "::/0"],
    ),
    (
        "IPAddressAllow",
        &[
            "localhost",
            "",
            "10.0.0.0/8",
            "any",
            "127.0.0.1",
            "::1",
            "link-local",
        ],
    ),
    ("IPIngressFilterPath", &["/sys/fs/bpf/x", ""]),
    ("DevicePolicy", &["auto", "closed", "strict"]),
    ("DeviceAllow", &["/dev/null rw", "char-tty r", ""]),
];

#[test]
fn settings_at_random_are_scored_as_systemd_does() {
    if !has_program() {
        return;
    }
    let given = std::env::var("AURAE_ORACLE").ok();
    let count: usize = given.and_then(|it| it.parse().ok()).unwrap_or(150);
    let seed = std::env::var("AURAE_SEED").ok();
    let mut random = Random(seed.and_then(|it| it.parse().ok()).unwrap_or(12));
    let folder = tempfile();
    let mut files = Vec::new();
    for number in 0..count {
        let mut text = "[Unit]\n".to_owned();
        if random.next().is_multiple_of(8) {
            text += "DefaultDependencies=no\n";
        }
        text += "[Service]\nExecStart=/bin/true\n";
        for _ in 0..random.next() % 40 {
            let (name, values) = LINES[usize::try_from(random.next()).unwrap_or(0) % LINES.len()];
            text += &format!("{name}={}\n", random.one(values));
        }
        let path = folder.join(format!("r{number}.service"));
        std::fs::write(&path, text).unwrap();
        files.push(path);
    }
    let different = differing(&files);
    if different.is_empty() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    assert!(
        different.is_empty(),
        "{} of {count}: {different:#?}",
        different.len()
    );
}

fn tempfile() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("aurae-scores-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
