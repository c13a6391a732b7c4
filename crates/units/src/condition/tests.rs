// SPDX-License-Identifier: Apache-2.0
//! Each test of systemd.unit(5), on a machine that is told.

use super::*;

struct Machine;

impl Facts for Machine {
    fn path(&self, test: PathTest, path: &str) -> Option<bool> {
        Some(test == PathTest::Exists && path == "/there")
    }

    fn text(&self, what: &str) -> Option<String> {
        let text = match what {
            "architecture" => "x86-64",
            "kernel-release" => "6.1.0-13",
            "machine-id" => "0123456789abcdef0123456789abcdef",
            "host-name" => "web1",
            "firmware" => "uefi",
            "user" | "group" => "0",
            _ => return None,
        };
        Some(text.to_owned())
    }

    fn number(&self, what: &str) -> Option<u64> {
        Some(if what == "cpus" { 4 } else { 2 << 30 })
    }

    fn has(&self, what: &str, word: &str) -> Option<bool> {
        let there = [
            "security apparmor",
            "capability CAP_CHOWN",
            "controller memory",
            "controller v2",
            "users-name root",
            "groups-name root",
            "credential key",
        ];
        Some(there.contains(&&*format!("{what} {word}")))
    }

    fn virtualization(&self) -> Option<Option<Virtualization>> {
        Some(Some(Virtualization {
            name: "kvm".to_owned(),
            container: false,
        }))
    }

    fn command_line(&self) -> Option<Vec<String>> {
        Some(vec!["quiet".to_owned(), "root=/dev/sda".to_owned()])
    }

    fn environment(&self, name: &str) -> Option<String> {
        (name == "LANG").then(|| "C".to_owned())
    }

    fn os_release(&self, field: &str) -> Option<String> {
        match field {
            "ID" => Some("debian".to_owned()),
            "VERSION_ID" => Some("12".to_owned()),
            _ => None,
        }
    }

    fn on_mains(&self) -> Option<bool> {
        Some(true)
    }

    fn first_boot(&self) -> Option<bool> {
        Some(false)
    }

    fn pressure(&self, resource: &str, _: Option<&str>) -> Option<u64> {
        (resource == "memory").then_some(1500)
    }
}

fn condition(test: &'static str, parameter: &str, triggering: bool, negated: bool) -> Condition {
    Condition {
        test,
        triggering,
        negated,
        parameter: parameter.to_owned(),
    }
}

#[test]
fn each_test_is_as_the_manual_says() {
    for (name, parameter, expected) in [
        ("PathExists", "/there", true),
        ("PathIsDirectory", "/there", false),
        ("FirstBoot", "no", true),
        ("ACPower", "true", true),
        ("Architecture", "native", true),
        ("Architecture", "arm64", false),
        ("Firmware", "uefi", true),
        ("Virtualization", "yes", true),
        ("Virtualization", "vm", true),
        ("Virtualization", "container", false),
        ("Virtualization", "kvm", true),
        ("Host", "web*", true),
        ("Host", "01234567-89ab-cdef-0123-456789abcdef", true),
        ("KernelCommandLine", "quiet", true),
        ("KernelCommandLine", "root", true),
        ("KernelCommandLine", "root=/dev/sdb", false),
        ("KernelVersion", ">=5.0", true),
        // systemd's own unit `exec-basic` has these.
        ("KernelVersion", "\">=2.0\" \"<=60\" \"!=1.4\"", true),
        ("KernelVersion", "\" >= 2.0\" \" <= 60 \" \"!= 1.4\"", true),
        ("KernelVersion", "\" >= 2.0\" \" * \" \"*.*\"", true),
        ("KernelVersion", ">= 5.0", true),
        ("KernelVersion", "6.* <5", false),
        ("KernelVersion", "=6.1.0-13", true),
        ("KernelVersion", "=6.1.0.13", false),
        ("KernelVersion", "==6.1.0.13", true),
        ("KernelVersion", "!$=5.*", true),
        ("OSRelease", "ID=debian VERSION_ID>=11", true),
        ("OSRelease", "ID!=debian", false),
        ("Credential", "key", true),
        ("Security", "apparmor", true),
        ("Security", "selinux", false),
        ("Capability", "CAP_CHOWN", true),
        ("Memory", "1G", true),
        ("Memory", "<1G", false),
        ("CPUs", ">=4", true),
        ("CPUs", "5", false),
        ("Environment", "LANG", true),
        ("Environment", "LANG=de", false),
        ("User", "root", true),
        ("User", "@system", true),
        ("User", "0", true),
        ("Group", "wheel", false),
        ("ControlGroupController", "memory", true),
        ("ControlGroupController", "memory cpu", false),
        ("ControlGroupController", "v2", true),
        ("MemoryPressure", "20%", true),
        ("MemoryPressure", "10%/5min", false),
        ("CPUPressure", "1%", true),
    ] {
        let one = condition(name, parameter, false, false);
        assert_eq!(test(&one, &Machine), Ok(expected), "{name}={parameter}");
    }
    assert!(test(&condition("Nothing", "", false, false), &Machine).is_err());
}

#[test]
fn all_must_hold_and_one_of_the_triggering_ones() {
    let yes = |triggering| condition("PathExists", "/there", triggering, false);
    let no = |triggering| condition("PathExists", "/there", triggering, true);
    assert_eq!(evaluate(&[], &Machine), Verdict::Holds);
    assert_eq!(
        evaluate(&[yes(false), no(true), yes(true)], &Machine),
        Verdict::Holds
    );
    assert_eq!(
        evaluate(&[yes(false), no(true)], &Machine),
        Verdict::Fails("PathExists=|!/there".into())
    );
    assert_eq!(
        evaluate(&[yes(true), no(false)], &Machine),
        Verdict::Fails("PathExists=!/there".into())
    );
}
