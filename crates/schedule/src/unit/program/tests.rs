// SPDX-License-Identifier: Apache-2.0
//! What directives become, by systemd.exec(5) and systemd.service(5).

use super::*;
use units::calendar::zones::UtcOnly;
use units::name::UnitName;
use units::service::Defaults;
use units::specifier::NoHost;
use units::unit::from_texts;

fn prepared(text: &str, phase: Phase) -> Result<ExecutableSpec, Failure> {
    let told = Told {
        main_pid: Some(7),
        ended: Some(End::Signalled(9)),
        result: Outcome::Signal,
        invocation: "abc".to_owned(),
        ..Told::default()
    };
    prepared_with(text, phase, &told)
}

fn prepared_with(text: &str, phase: Phase, told: &Told) -> Result<ExecutableSpec, Failure> {
    let name = UnitName::parse("a.service").unwrap();
    let text = format!("[Service]\n{text}\n");
    let unit = from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly);
    assert!(!unit.findings.has_error(), "{:?}", unit.findings);
    let (service, _) = Service::of(&unit, Defaults::default());
    let told = Told {
        shared: "/nonexistent".into(),
        ..told.clone()
    };
    let step = Step {
        phase,
        index: 0,
        round: 0,
    };
    prepare(&unit, &service, step, &told).map(|ready| ready.spec)
}

#[test]
fn directives_become_the_fields_of_a_program() {
    let spec = prepared(
        "ExecStart=sh -c 'echo' $A ${B}\nEnvironment=A='1 2' B='3 4' C=5 D=6\nUMask=0077\nNice=5\n\
         UnsetEnvironment=C D=7\nOOMScoreAdjust=100\nLimitNOFILE=10:20\nLimitCORE=infinity\n\
         WorkingDirectory=-/nowhere\nKillSignal=SIGINT\nTimeoutStopSec=7\nCPUAffinity=0\n\
         CapabilityBoundingSet=CAP_CHOWN CAP_KILL\nNoNewPrivileges=yes\nMemoryMax=64M\n\
         TasksMax=10\nCPUWeight=50\nCPUQuota=20%\nUser=root\nSupplementaryGroups=7",
        Phase::Start,
    )
    .unwrap();
    assert!(spec.argv[0].ends_with("/sh"), "{:?}", spec.argv);
    assert_eq!(spec.argv[1..], ["-c", "echo", "1", "2", "3 4"]);
    let var = |name: &str| spec.env.get(name).map(String::as_str);
    assert_eq!(
        (var("C"), var("D"), var("USER")),
        (None, Some("6"), Some("root"))
    );
    assert_eq!((var("SERVICE_RESULT"), var("MAINPID")), (None, Some("7")));
    assert_eq!(
        (spec.umask, spec.nice, spec.oom_score_adj),
        (Some(0o77), Some(5), Some(100))
    );
    assert_eq!((&*spec.cwd, &*spec.stop_signal), ("", "SIGINT"));
    assert_eq!(spec.stop_grace, Some(Duration::from_secs(7)));
    let limit = |name: &str| {
        let found = spec.rlimits.iter().find(|it| it.name == name).unwrap();
        (found.soft, found.hard)
    };
    assert_eq!(limit("NOFILE"), (Some(10), Some(20)));
    assert_eq!(limit("CORE"), (None, None));
    let capabilities = spec.capabilities.as_ref().unwrap();
    assert_eq!(capabilities.bounding.len(), 2, "{capabilities:?}");
    assert!(
        capabilities.bounding[0].contains("CHOWN"),
        "{capabilities:?}"
    );
    assert_eq!(spec.no_new_privileges, Some(true));
    // Limits of all commands together are those of the unit's cell.
    assert!(spec.resources.is_empty());
    assert_eq!((&*spec.user, &*spec.group), ("0", "0"));
    assert!(spec.groups.contains(&"7".to_owned()));
    assert_eq!(spec.cpu_affinity, [0]);
}

#[test]
fn prefixes_lift_what_they_lift() {
    // systemd.service(5), table 1.
    let text = "User=1\nNoNewPrivileges=yes\nCapabilityBoundingSet=CAP_KILL\nExecStart=";
    for (prefix, user, no_new, capabilities) in [
        ("", "1", true, 1),
        ("!", "", true, 1),
        ("!!", "1", true, 1),
        ("+", "", false, CapabilitySet::ALL.names().len()),
    ] {
        let spec = prepared(&format!("{text}{prefix}/bin/x"), Phase::Start).unwrap();
        assert_eq!(spec.user, user, "{prefix}");
        assert_eq!(spec.no_new_privileges, Some(no_new), "{prefix}");
        let bounding = &spec.capabilities.as_ref().unwrap().bounding;
        assert_eq!(bounding.len(), capabilities, "{prefix}");
    }
}

#[test]
fn an_init_script_is_told_not_to_hand_over_to_systemctl() {
    let told = |text: &str| {
        let spec = prepared(&format!("ExecStart={text}"), Phase::Start).unwrap();
        let value = spec.env.get("SYSTEMCTL_SKIP_REDIRECT");
        value.cloned().unwrap_or_default()
    };
    assert_eq!(told("/etc/init.d/a start"), "1");
    assert_eq!(told("/bin/a start"), "");
    let own = "/etc/init.d/a start\nEnvironment=SYSTEMCTL_SKIP_REDIRECT=yes";
    assert_eq!(told(own), "yes");
}

#[test]
fn with_permissions_start_only_the_other_commands_have_all_rights() {
    // systemd.service(5) of version 230: "applied only to the process started with ExecStart=".
    let text = "User=1\nNoNewPrivileges=yes\nCapabilityBoundingSet=CAP_KILL\nExecStart=/bin/x\n\
                ExecStartPre=/bin/y\nPermissionsStartOnly=";
    let all = CapabilitySet::ALL.names().len();
    for (only, phase, user, capabilities) in [
        ("yes", Phase::Start, "1", 1),
        ("yes", Phase::StartPre, "", all),
        ("no", Phase::StartPre, "1", 1),
    ] {
        let spec = prepared(&format!("{text}{only}"), phase).unwrap();
        assert_eq!(spec.user, user, "{only} {phase:?}");
        let bounding = &spec.capabilities.as_ref().unwrap().bounding;
        assert_eq!(bounding.len(), capabilities, "{only} {phase:?}");
    }
}

#[test]
fn a_filter_takes_privileges_that_are_not_needed_for_it() {
    // systemd.exec(5), NoNewPrivileges=; and what directives take of the bounding set.
    for (text, no_new, capabilities) in [
        ("RestrictRealtime=yes", false, 41),
        ("RestrictRealtime=yes\nUser=1", true, 41),
        (
            "RestrictRealtime=yes\nCapabilityBoundingSet=CAP_KILL",
            true,
            1,
        ),
        ("PrivateDevices=yes\nProtectClock=yes", false, 37),
        ("ProtectHome=yes\nUser=1", false, 41),
    ] {
        let spec = prepared(&format!("{text}\nExecStart=/bin/x"), Phase::Start).unwrap();
        assert_eq!(spec.no_new_privileges, Some(no_new), "{text}");
        let bounding = &spec.capabilities.as_ref().unwrap().bounding;
        assert_eq!(bounding.len(), capabilities, "{text}");
    }
}

#[test]
fn what_a_stop_is_told() {
    // systemd.exec(5), "Environment Variables Set or Propagated by the Service Manager".
    let spec = prepared("ExecStart=/bin/x\nExecStopPost=/bin/y", Phase::StopPost).unwrap();
    let var = |name: &str| spec.env.get(name).map(String::as_str);
    assert_eq!(var("SERVICE_RESULT"), Some("signal"));
    assert_eq!(
        (var("EXIT_CODE"), var("EXIT_STATUS")),
        (Some("killed"), Some("KILL"))
    );
    assert_eq!(var("INVOCATION_ID"), Some("abc"));
}

#[test]
fn what_is_missing_is_told_with_systemds_status() {
    for (text, status) in [
        ("User=nobody-at-all\nExecStart=/bin/x", 217),
        ("Group=nobody-at-all\nExecStart=/bin/x", 216),
        ("WorkingDirectory=/nowhere\nExecStart=/bin/x", 200),
        ("ExecStart=no-such-program-at-all", 203),
        ("EnvironmentFile=/nowhere\nExecStart=/bin/x", 1),
        ("EnvironmentFile=/dev/zero\nExecStart=/bin/x", 1),
        ("EnvironmentFile=/dev\nExecStart=/bin/x", 1),
    ] {
        let failure = prepared(text, Phase::Start).unwrap_err();
        assert_eq!(failure.status, status, "{text}: {failure:?}");
    }
    prepared("EnvironmentFile=-/nowhere\nExecStart=/bin/x", Phase::Start).unwrap();
}

/// `systemctl set-environment`: what the unit says itself, and what the manager tells it, counts
/// more.
#[test]
fn what_callers_have_given_comes_before_what_a_unit_says() {
    let given = |text: &str| {
        let told = Told {
            environment: [("A", "1"), ("B", "2"), ("PATH", "/p"), ("MAINPID", "x")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            main_pid: Some(7),
            ..Told::default()
        };
        prepared_with(text, Phase::Start, &told)
            .unwrap()
            .env
            .clone()
    };
    let env = given("ExecStart=/bin/true\nEnvironment=B=3");
    assert_eq!((env["A"].as_str(), env["B"].as_str()), ("1", "3"));
    assert_eq!((env["PATH"].as_str(), env["MAINPID"].as_str()), ("/p", "7"));
    let env = given("ExecStart=/bin/true\nExecSearchPath=/bin\nUnsetEnvironment=A");
    assert_eq!((env["PATH"].as_str(), env.get("A")), ("/bin", None));
}
