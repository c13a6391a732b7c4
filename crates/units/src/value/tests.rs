// SPDX-License-Identifier: Apache-2.0
//! Values of directives as their manual pages have them: each line of a table is a few assignments
//! of one directive, and what they come to.

use crate::calendar::zones::UtcOnly;
use crate::finding::Severity;
use crate::name::UnitName;
use crate::specifier::NoHost;
use crate::unit::{Unit, from_texts};
use crate::value::Value;

fn unit(name: &str, text: &str) -> Unit {
    let name = UnitName::parse(name).unwrap();
    from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly)
}

/// The value of the one field that is set, as Rust shows it, and how many findings there are.
fn value(lines: &[&str]) -> (String, usize) {
    let unit = unit("a@b.service", &format!("[Service]\n{}\n", lines.join("\n")));
    let values: Vec<&Value> = unit.settings.iter().map(|(_, it)| &it.value).collect();
    let shown = match values[..] {
        [] => "-".to_owned(),
        [one] => format!("{one:?}"),
        _ => panic!("{lines:?} set more than one"),
    };
    (shown, unit.findings.iter().count())
}

fn check(cases: &[(&[&str], &str, usize)]) {
    for (lines, expected, findings) in cases {
        assert_eq!(
            value(lines),
            ((*expected).to_owned(), *findings),
            "{lines:?}"
        );
    }
}

#[test]
fn single_values() {
    // systemd.exec(5), systemd.service(5), systemd.kill(5), systemd.resource-control(5).
    check(&[
        (&["PrivateTmp=yes"], "Flag(true)", 0),
        (&["PrivateTmp=perhaps"], "-", 1),
        (&["ProtectSystem=strict"], "Word(\"strict\")", 0),
        (&["ProtectSystem=yes"], "Flag(true)", 0),
        (&["ProtectHome=nowhere"], "-", 1),
        (&["Nice=-20"], "Number(-20)", 0),
        (&["Nice=20"], "-", 1),
        (&["UMask=0027"], "Mode(23)", 0),
        (&["KillSignal=SIGQUIT"], "Signal(Signal(3))", 0),
        (&["TimeoutStopSec=0"], "Span(Span(18446744073709551615))", 0),
        (&["RestartSec=100ms"], "Span(Span(100000))", 0),
        (&["MemoryMax=1G"], "Limit(Of(1073741824))", 0),
        (&["MemoryMax=25%"], "Limit(Share(2500))", 0),
        (&["TasksMax=infinity"], "Limit(Infinity)", 0),
        (&["CPUWeight=idle"], "Limit(Of(0))", 0),
        (&["CPUWeight=0"], "-", 1),
        (&["CPUQuota=150%"], "Quota(Some(15000))", 0),
        (&["LimitNOFILE=1K"], "-", 1),
        (
            &["LimitNOFILE=1024:infinity"],
            "Bounds(Bounds { soft: Some(1024), hard: None })",
            0,
        ),
        (&["TimerSlackNSec=50"], "Number(50)", 0),
        (&["TimerSlackNSec=1us"], "Number(1000)", 0),
        (&["SyslogIdentifier=%p-%i"], "Text(\"a-b\")", 0),
        (&["SyslogIdentifier=a", "SyslogIdentifier="], "-", 0),
        (&["Type=notify", "Type="], "Word(\"notify\")", 1),
        (&["SyslogIdentifier=%Q"], "-", 1),
        (&["BusName=org"], "-", 1),
        (&["RootDirectory=srv"], "-", 1),
        (&["RootDirectory=/srv//x/"], "Text(\"/srv/x\")", 0),
        (&["Slice=system-x.slice"], "Units([system-x.slice])", 0),
        (&["Slice=a.service"], "-", 1),
        (&["StandardOutput=syslog"], "Text(\"journal\")", 0),
        (
            &["StandardOutput=append:/var/log/x"],
            "Text(\"append:/var/log/x\")",
            0,
        ),
        (&["StandardOutput=append:x"], "-", 1),
        (&["CPUShares=1024"], "-", 1),
    ]);
}

#[test]
fn folders_and_their_links_have_a_colon_between_and_escapes_within() {
    check(&[
        (
            &["RuntimeDirectory=a b/c:d ../e"],
            "Binds([Bind { source: \"a\", target: \"\", optional: false, options: \"\" }, \
             Bind { source: \"b/c\", target: \"d\", optional: false, options: \"\" }])",
            1,
        ),
        (
            &[r"StateDirectory=a:b\:c d\:e f::g:h"],
            "Binds([Bind { source: \"a\", target: \"b:c\", optional: false, options: \"\" }, \
             Bind { source: \"d:e\", target: \"\", optional: false, options: \"\" }, \
             Bind { source: \"f\", target: \"g\", optional: false, options: \"\" }])",
            0,
        ),
        (
            &[r"CacheDirectory=a\x20b:c\q"],
            "Binds([Bind { source: \"a b\", target: \"c\\\\q\", optional: false, options: \"\" }])",
            0,
        ),
    ]);
}

#[test]
fn lists_add_up_and_an_empty_line_begins_anew() {
    // systemd.syntax(7), and the pages of the directives.
    check(&[
        (
            &["Environment=A=1 'B=two words'", "Environment=C=%i 9=x"],
            "Variables([(\"A\", \"1\"), (\"B\", \"two words\"), (\"C\", \"b\")])",
            1,
        ),
        (&["Environment=A=1", "Environment="], "-", 0),
        (
            &["ReadOnlyPaths=/a -/b", "ReadOnlyDirectories=+/c"],
            "Paths([MarkedPath { path: \"/a\", optional: false, in_root: false }, \
             MarkedPath { path: \"/b\", optional: true, in_root: false }, \
             MarkedPath { path: \"/c\", optional: false, in_root: true }])",
            0,
        ),
        (
            &["EnvironmentFile=-/etc/default/%p"],
            "Paths([MarkedPath { path: \"/etc/default/a\", optional: true, in_root: false }])",
            0,
        ),
        (
            &["BindPaths=/a:/b:norbind"],
            "Binds([Bind { source: \"/a\", target: \"/b\", optional: false, options: \"norbind\" }])",
            0,
        ),
        (
            &["CPUAffinity=0-2,5", "CPUAffinity=7"],
            "Indices({0, 1, 2, 5, 7})",
            0,
        ),
        (
            &["SuccessExitStatus=TEMPFAIL 250 SIGKILL NOTHING"],
            "Statuses(Statuses { codes: {75, 250}, signals: {Signal(9)} })",
            1,
        ),
        (
            &[
                "DeviceAllow=/dev/null r",
                "DeviceAllow=char-pts",
                "DeviceAllow=null",
            ],
            "Devices([Device { node: \"/dev/null\", access: \"r\" }, \
             Device { node: \"char-pts\", access: \"rwm\" }])",
            1,
        ),
        (&["IPAddressDeny=any", "IPAddressDeny="], "-", 0),
        (
            &["IPAddressAllow=10.0.0.0/8 localhost x"],
            "Networks([(10.0.0.0, 8), (127.0.0.0, 8), (::1, 128)])",
            1,
        ),
        (
            &["LoadCredential=a:/etc/a", "LoadCredential=b"],
            "Credentials([Credential { name: \"a\", content: \"/etc/a\" }, \
             Credential { name: \"b\", content: \"b\" }])",
            0,
        ),
        (
            &["IOReadBandwidthMax=/dev/sda 5M"],
            "PerDevice([(\"/dev/sda\", 5000000)])",
            0,
        ),
    ]);
}

#[test]
fn sets_may_be_written_as_their_opposite() {
    // systemd.exec(5), CapabilityBoundingSet=, RestrictAddressFamilies=, RestrictNamespaces=,
    // SystemCallFilter=.
    let all = (1_u64 << 41) - 1;
    let caps = |bits: u64| format!("Capabilities({bits})");
    check(&[
        (
            &[
                "CapabilityBoundingSet=CAP_CHOWN",
                "CapabilityBoundingSet=CAP_KILL",
            ],
            &caps(0b10_0001),
            0,
        ),
        (&["CapabilityBoundingSet=~CAP_CHOWN"], &caps(all - 1), 0),
        (
            &[
                "CapabilityBoundingSet=CAP_CHOWN CAP_KILL",
                "CapabilityBoundingSet=~CAP_KILL",
            ],
            &caps(1),
            0,
        ),
        (&["CapabilityBoundingSet="], &caps(0), 0),
        (&["CapabilityBoundingSet=~"], &caps(all), 0),
        (
            &[
                "AmbientCapabilities=CAP_CHOWN",
                "AmbientCapabilities=~CAP_CHOWN CAP_X",
            ],
            &caps(0),
            1,
        ),
        (
            &[
                "RestrictAddressFamilies=AF_UNIX AF_INET",
                "RestrictAddressFamilies=~AF_INET",
            ],
            "Filter(Filter { allow: true, names: {\"AF_UNIX\"} })",
            0,
        ),
        (
            &["RestrictAddressFamilies=~AF_INET"],
            "Filter(Filter { allow: false, names: {\"AF_INET\"} })",
            0,
        ),
        (
            &["RestrictAddressFamilies=none"],
            "Filter(Filter { allow: true, names: {} })",
            0,
        ),
        (
            &["RestrictNamespaces=yes"],
            "Filter(Filter { allow: true, names: {} })",
            0,
        ),
        (
            &["RestrictNamespaces=~user pid ipc net mnt cgroup"],
            "Filter(Filter { allow: true, names: {\"uts\"} })",
            0,
        ),
        (
            &[
                "SystemCallFilter=@system-service",
                "SystemCallFilter=~@mount:EPERM x!",
            ],
            "Syscalls(Syscalls { allow: true, steps: [(false, \"@system-service\", None), \
             (true, \"@mount\", Some(\"EPERM\"))] })",
            1,
        ),
    ]);
}

#[test]
fn conditions_have_their_marks() {
    // systemd.unit(5), "Conditions and asserts".
    let text = "[Unit]\nConditionPathExists=!/a\nConditionHost=|web\nConditionPathExists=x\n\
        AssertPathExists=/b\nConditionACPower=true\n";
    let unit = unit("a.target", text);
    let conditions = unit.settings.conditions("Conditions");
    let shown: Vec<_> = conditions
        .iter()
        .map(|it| (it.test, it.triggering, it.negated, &*it.parameter))
        .collect();
    assert_eq!(
        shown,
        [
            ("PathExists", false, true, "/a"),
            ("Host", true, false, "web"),
            ("ACPower", false, false, "true"),
        ]
    );
    assert_eq!(unit.settings.conditions("Asserts").len(), 1);
    assert_eq!(unit.findings.iter().count(), 1);
}

#[test]
fn a_command_that_can_not_be_run_fails_the_unit() {
    // systemd.service(5), ExecStart=.
    let bad = unit("a.service", "[Service]\nExecStart=bin/x\n");
    let finding = bad.findings.iter().next().unwrap();
    assert_eq!(finding.severity, Severity::Error);
    let ignored = unit(
        "a.service",
        "[Service]\nExecStart=-bin/x\nExecStart=/bin/y\n",
    );
    assert!(!ignored.findings.has_error());
    assert_eq!(ignored.settings.commands("ExecStart").len(), 1);
    let nobody = unit("a.service", "[Service]\nExecStart=/bin/y\nUser=a:b\n");
    assert!(nobody.findings.has_error());
}

#[test]
fn one_empty_clock_or_address_resets_all_of_them() {
    // systemd.timer(5), systemd.socket(5), systemd.path(5).
    let timer = unit(
        "a.timer",
        "[Timer]\nOnCalendar=daily\nOnBootSec=5\nOnUnitActiveSec=\nOnBootSec=7\n",
    );
    assert_eq!(timer.settings.clocks("Clocks").len(), 1);
    let socket = unit(
        "a.socket",
        "[Socket]\nListenStream=80\nListenFIFO=/x\nListenDatagram=\n",
    );
    assert_eq!(socket.settings.listens("Listen").len(), 0);
}

#[test]
fn units_are_named_and_never_taken_back() {
    // systemd.unit(5): "Dependencies can't be reset to an empty list".
    let text = "[Unit]\nAfter=x@%i.service y@.service\nAfter=\nAfter=nothing z.service\n";
    let unit = unit("a@b.service", text);
    let names: Vec<&str> = unit
        .settings
        .units("After")
        .iter()
        .map(UnitName::as_str)
        .collect();
    assert_eq!(names, ["x@b.service", "y@b.service", "z.service"]);
    assert_eq!(unit.findings.iter().count(), 1);
}
