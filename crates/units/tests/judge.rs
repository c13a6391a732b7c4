// SPDX-License-Identifier: Apache-2.0
//! Whether a value is right: each directive with each of some values, judged by us and by
//! `systemd-analyze verify`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by them"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use units::calendar::zones::UtcOnly;
use units::name::{UnitName, UnitType};
use units::specifier::NoHost;
use units::table;
use units::unit::from_texts;
use units::value::Kind;

/// One of each kind, and a few that are none.
const VALUES: [&str; 36] = [
    "",
    "yes",
    "1",
    "5s",
    "infinity",
    "10%",
    "foo",
    "/abs/path",
    "a b",
    "-1",
    "0755",
    "SIGTERM",
    "~CAP_CHOWN",
    "1:2",
    "1K",
    "AF_UNIX",
    "/dev/null rw",
    "10.0.0.0/8",
    "~foo",
    "99999999999",
    "A=b",
    "null",
    "full",
    "file:/x",
    "0-3",
    "journal",
    "kill",
    "EPERM",
    "2.5G",
    "%Q",
    "daily",
    "strict",
    "main",
    "on-failure",
    "80",
    "[::1]:80",
];

/// Where we don't agree, and why.
const DIFFERENT: [(&str, &str); 41] = [
    (
        "ImportCredential",
        "of systemd 254, and systemd 252 doesn't know it",
    ),
    (
        "AmbientCapabilities",
        "systemd says nothing of names that it doesn't know",
    ),
    (
        "CapabilityBoundingSet",
        "systemd says nothing of names that it doesn't know",
    ),
    ("AppArmorProfile", "the text is the kernel's to judge"),
    ("SELinuxContext", "the text is the kernel's to judge"),
    ("SmackProcessLabel", "the text is the kernel's to judge"),
    ("BlockIOAccounting", "of cgroup v1: always a warning"),
    ("BlockIOWeight", "of cgroup v1: always a warning"),
    ("StartupBlockIOWeight", "of cgroup v1: always a warning"),
    ("BPFProgram", "the types of programs aren't listed"),
    ("CPUQuota", "infinity is taken"),
    ("MountAPIVFS", "an empty one is told"),
    ("CPUSchedulingPolicy", "numbers without a policy are told"),
    ("ConfigurationDirectory", "a link is taken"),
    ("DisableControllers", "yes and no are taken"),
    ("ExecSearchPath", "a second word is told"),
    ("ExtensionImages", "not read any further"),
    ("MountImages", "not read any further"),
    ("RootHash", "not read any further"),
    ("RootHashSignature", "not read any further"),
    ("RootImageOptions", "not read any further"),
    ("StandardInputData", "not read any further"),
    ("SetCredentialEncrypted", "not read any further"),
    ("SystemCallFilter", "names are judged by who applies them"),
    ("SystemCallLog", "names are judged by who applies them"),
    (
        "RestrictFileSystems",
        "names are judged by who applies them",
    ),
    ("LimitNICE", "infinity is taken"),
    (
        "LoadCredential",
        "a relative path is a credential of the node",
    ),
    (
        "LoadCredentialEncrypted",
        "a relative path is a credential of the node",
    ),
    ("MemoryLimit", "old, and taken"),
    ("RequiresOverridable", "old, and taken"),
    ("RequisiteOverridable", "old, and taken"),
    ("SecureBits", "not read any further"),
    ("Slice", "that a slice has no other one is told later"),
    ("Sockets", "the type is judged later"),
    ("SystemCallErrorNumber", "numbers without an error are told"),
    ("SyslogFacility", "numbers above 23 are told"),
    ("TCPCongestion", "specifiers are put in"),
    ("TimerSlackNSec", "no end is told"),
    ("MessageQueueMessageSize", "less than nothing is told"),
    ("MessageQueueMaxMessages", "less than nothing is told"),
];

/// Of dependencies systemd takes what is no name, and says nothing.
fn is_different(row: &table::Directive) -> bool {
    DIFFERENT.iter().any(|(name, _)| *name == row.name)
        || matches!(row.kind, Kind::Units | Kind::Commands | Kind::InstallUnits)
}

/// Rows whose wrong value ends systemd's reading of the file.
fn ends(name: &str) -> bool {
    const ENDING: [&str; 24] = [
        "User",
        "Group",
        "SupplementaryGroups",
        "SocketUser",
        "SocketGroup",
        "WorkingDirectory",
        "RootDirectory",
        "RootImage",
        "RootVerity",
        "DynamicUser",
        "PIDFile",
        "ProtectSystem",
        "ProtectHome",
        "PrivateNetwork",
        "PrivateUsers",
        "PrivateMounts",
        "PrivateIPC",
        "MountFlags",
        "TemporaryFileSystem",
        "BindPaths",
        "BindReadOnlyPaths",
        "NetworkNamespacePath",
        "IPCNamespacePath",
        "ExtensionDirectories",
    ];
    ENDING.contains(&name)
}

/// The files: a name, and a directive for each line from the second on.
fn files() -> BTreeMap<String, (String, Vec<&'static str>)> {
    let mut files = BTreeMap::new();
    for kind in [
        UnitType::Service,
        UnitType::Socket,
        UnitType::Timer,
        UnitType::Path,
    ] {
        for section in [kind.section().unwrap(), "Unit"] {
            if section == "Unit" && kind != UnitType::Service {
                continue;
            }
            let rows = table::all().filter(|(group, row)| {
                let own = group.sections()[0] == section || section == "Service";
                own && group.sections().contains(&section) && !is_different(row)
            });
            let rows: Vec<_> = rows.map(|(_, row)| row).collect();
            for (number, value) in VALUES.iter().enumerate() {
                let mut add = |name: String, names: Vec<&'static str>| {
                    let lines: String = names.iter().map(|it| format!("{it}={value}\n")).collect();
                    files.insert(
                        format!("{name}.{kind}"),
                        (format!("[{section}]\n{lines}"), names),
                    );
                };
                let (alone, together): (Vec<&table::Directive>, Vec<&table::Directive>) =
                    rows.iter().copied().partition(|it| ends(it.name));
                let names = together.iter().map(|it| it.name).collect();
                add(format!("t{}{number}", section.to_lowercase()), names);
                for row in alone {
                    add(
                        format!("a{}{number}", row.name.to_lowercase()),
                        vec![row.name],
                    );
                }
            }
        }
    }
    files
}

#[test]
fn values_are_judged_as_systemd_judges_them() {
    let version = Command::new("systemd-analyze").arg("--version").output();
    let version = version.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    if !version.unwrap_or_default().starts_with("systemd 252") {
        return testkit::skip("systemd-analyze of systemd 252 is not there");
    }
    let files = files();
    let folder = std::env::temp_dir().join(format!("aurae-units-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, (text, _)) in &files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(files.keys().map(|name| folder.join(name)))
        .env("LC_ALL", "C")
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    let told = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
    let prefix = format!("{}/", folder.display());
    let theirs: BTreeSet<(String, usize)> = told
        .lines()
        .filter_map(|line| {
            let (file, rest) = line.strip_prefix(&prefix)?.split_once(':')?;
            Some((file.to_owned(), rest.split_once(':')?.0.parse().ok()?))
        })
        .collect();
    let mut ours = BTreeSet::new();
    for (file, (text, _)) in &files {
        let name = UnitName::parse(file).unwrap();
        let unit = from_texts(&name, &[(file, text.as_bytes())], &NoHost, &UtcOnly);
        for finding in unit.findings.iter() {
            ours.insert((file.clone(), usize::try_from(finding.at.line).unwrap()));
        }
    }
    let lines: usize = files.values().map(|(_, names)| names.len()).sum();
    println!(
        "{lines} values, {} wrong for systemd, {} for us",
        theirs.len(),
        ours.len()
    );
    assert!(theirs.len() > 5000);
    let shown = |(file, line): &(String, usize)| {
        files[file].0.lines().nth(line - 1).unwrap_or("").to_owned()
    };
    let missed: BTreeSet<String> = theirs.difference(&ours).map(shown).collect();
    let surplus: BTreeSet<String> = ours.difference(&theirs).map(shown).collect();
    assert!(
        missed.is_empty() && surplus.is_empty(),
        "missed {missed:?}\nsurplus {surplus:?}"
    );
}
