// SPDX-License-Identifier: Apache-2.0
//! Stories about specs: what is refused and under which field's name, what the defaults are, and
//! that no valid spec is too large for a record, nor any record able to smuggle in an invalid one.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::time::Duration;

use model::cell::{self, Access, CellSpec, Mount, Namespace, Propagation, Volume};
use model::executable::{self, ExecutableSpec, LogPolicy, Principal};
use model::seccomp::Seccomp;
use proptest::prelude::*;

fn program(argv: &[&str]) -> executable::Draft {
    executable::Draft {
        argv: argv.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

fn check(draft: executable::Draft) -> Result<ExecutableSpec, String> {
    ExecutableSpec::try_from(draft).map_err(|e| e.field.clone().unwrap())
}

#[test]
fn a_program_alone_gets_safe_defaults() {
    let spec = check(program(&["nginx"])).unwrap();
    let effective = spec.effective(LogPolicy::default());
    assert!(effective.no_new_privileges);
    assert_eq!(effective.user, Principal::Id(0));
    assert_eq!(effective.cwd, "/");
    assert_eq!(effective.umask, 0o022);
    assert_eq!(effective.stop_signal.to_string(), "SIGTERM");
    assert_eq!(effective.stop_grace, Duration::from_secs(10));
    assert_eq!(effective.ambient.bits(), 0);
    assert!(effective.env["PATH"].contains("/usr/bin"));
    assert!(!effective.env.contains_key("TERM"));
}

#[test]
fn the_effective_spec_is_itself_a_spec_that_means_the_same() {
    let mut draft = program(&["sh", "-c", "exit 3"]);
    draft.user = "www-data".into();
    draft.groups = vec!["27".into()];
    draft.terminal = Some(executable::Terminal {
        rows: 0,
        columns: 132,
    });
    draft.rlimits = vec![model::rlimit::Rlimit {
        name: "nofile".into(),
        soft: Some(1024),
        hard: None,
    }];
    draft.seccomp = Seccomp {
        errno: "ENOSYS".into(),
        ..Default::default()
    };
    let logs = LogPolicy {
        max_bytes: Some(1 << 20),
        max_age: None,
    };
    let effective = check(draft).unwrap().effective(logs);
    let again = check(effective.to_draft())
        .unwrap()
        .effective(LogPolicy::default());
    assert_eq!(again, effective);
}

#[test]
fn what_no_program_can_be_given_is_refused_by_field() {
    assert_eq!(check(program(&[])).unwrap_err(), "argv");
    assert_eq!(check(program(&[""])).unwrap_err(), "argv");
    assert_eq!(check(program(&["a", "b\0c"])).unwrap_err(), "argv[1]");
    for (name, field) in [
        ("", "env[\"\"]"),
        ("A=B", "env[\"A=B\"]"),
        ("A\n", "env[\"A\\n\"]"),
    ] {
        let mut draft = program(&["a"]);
        draft.env.insert(name.into(), "x".into());
        assert_eq!(check(draft).unwrap_err(), field);
    }
}

#[test]
fn a_megabyte_of_arguments_or_a_million_variables_is_refused_with_sizes() {
    let word = "x".repeat(executable::MAX_WORD);
    let words = |count: usize| {
        let mut draft = program(&["echo"]);
        draft.argv.extend(vec![word.clone(); count]);
        draft
    };
    ExecutableSpec::try_from(words(11)).unwrap();
    let error = ExecutableSpec::try_from(words(12)).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("argv"));
    assert!(
        error.message.contains("1572895") && error.message.contains("1572864"),
        "{error}"
    );
    // No single one is longer than the kernel takes.
    let error = ExecutableSpec::try_from(program(&["echo", &format!("{word}x")])).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("argv[1]"));
    let mut draft = program(&["env"]);
    draft.env.insert("LONG".to_owned(), word);
    let error = ExecutableSpec::try_from(draft).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("env[\"LONG\"]"));
    assert!(error.message.contains("131076 bytes"), "{error}");

    let mut draft = program(&["env"]);
    draft.env = (0..1_000_000)
        .map(|i| (format!("V{i}"), String::new()))
        .collect();
    let error = ExecutableSpec::try_from(draft).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("env"));

    // A filter in Docker's form has a bound of its own.
    let mut draft = program(&["echo"]);
    let room = " ".repeat(48 << 10);
    draft.seccomp.custom = format!(r#"{{"defaultAction":"SCMP_ACT_ERRNO"{room}}}"#);
    let error = ExecutableSpec::try_from(draft).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("seccomp.custom"));
}

#[test]
fn numbers_out_of_range_are_refused_by_field() {
    type Spoil = fn(&mut executable::Draft);
    let cases: [(&str, Spoil); 9] = [
        ("nice", |d| d.nice = Some(i32::MIN)),
        ("oom_score_adj", |d| d.oom_score_adj = Some(1001)),
        ("umask", |d| d.umask = Some(0o1000)),
        ("stop_grace", |d| {
            d.stop_grace = Some(Duration::from_secs(3601))
        }),
        ("cpu_affinity[0]", |d| d.cpu_affinity = vec![u32::MAX]),
        ("user", |d| d.user = "4294967295".into()),
        ("user", |d| d.user = "ro ot".into()),
        ("stop_signal", |d| d.stop_signal = "SIGNOPE".into()),
        ("cwd", |d| d.cwd = "relative".into()),
    ];
    for (field, spoil) in cases {
        let mut draft = program(&["a"]);
        spoil(&mut draft);
        assert_eq!(check(draft).unwrap_err(), field);
    }
}

#[test]
fn a_record_of_an_older_or_newer_node_loads() {
    let old: ExecutableSpec = serde_json::from_str(r#"{"argv":["a"]}"#).unwrap();
    assert_eq!(old.argv, ["a"]);
    let new: ExecutableSpec =
        serde_json::from_str(r#"{"argv":["a"],"from_the_future":{"x":[1]}}"#).unwrap();
    assert_eq!(new, old);
    let cell: CellSpec = serde_json::from_str("{}").unwrap();
    assert_eq!(cell, CellSpec::default());
}

#[test]
fn a_record_that_breaks_the_rules_does_not_load() {
    for json in [
        r#"{"argv":[]}"#,
        r#"{"argv":["a\u0000"]}"#,
        r#"{"argv":["a"],"nice":77}"#,
    ] {
        assert!(
            serde_json::from_str::<ExecutableSpec>(json).is_err(),
            "{json}"
        );
    }
    let mount = r#"{"mounts":[{"source":"/srv/../root","access":"read"}]}"#;
    assert!(serde_json::from_str::<CellSpec>(mount).is_err());
}

fn mount(source: &str, access: Access) -> Mount {
    Mount {
        source: source.into(),
        target: String::new(),
        access,
        owner_uid: None,
        owner_gid: None,
        allow_root_owner: false,
        propagation: Propagation::None,
    }
}

fn refused(draft: cell::Draft) -> String {
    CellSpec::try_from(draft)
        .unwrap_err()
        .field
        .clone()
        .unwrap()
}

#[test]
fn a_write_mount_names_an_owner_who_is_not_root_by_accident() {
    let cell = |mount| cell::Draft {
        mounts: vec![mount],
        ..Default::default()
    };
    let write = mount("/srv/data", Access::Write);
    assert_eq!(refused(cell(write.clone())), "mounts[0].owner_uid");
    let root = Mount {
        owner_uid: Some(0),
        ..write.clone()
    };
    assert_eq!(refused(cell(root.clone())), "mounts[0].owner_uid");
    let meant = Mount {
        allow_root_owner: true,
        ..root
    };
    CellSpec::try_from(cell(meant)).unwrap();
    let user = Mount {
        owner_uid: Some(33),
        ..write
    };
    let spec = CellSpec::try_from(cell(user)).unwrap();
    assert_eq!(spec.mounts[0].owner(), Some((33, 33)));
    let read = Mount {
        owner_uid: Some(33),
        ..mount("/srv", Access::Read)
    };
    assert_eq!(refused(cell(read)), "mounts[0].owner_uid");
}

#[test]
fn nothing_is_put_over_what_the_cell_makes_itself() {
    for target in ["/", "/proc", "/proc/1", "/sys/fs", "/dev", "/dev/shm/x"] {
        let mounts = vec![Mount {
            target: target.into(),
            ..mount("/srv", Access::Read)
        }];
        assert_eq!(
            refused(cell::Draft {
                mounts,
                ..Default::default()
            }),
            "mounts[0].target"
        );
        let volumes = vec![Volume {
            path: target.into(),
            ..Default::default()
        }];
        assert_eq!(
            refused(cell::Draft {
                volumes,
                ..Default::default()
            }),
            "volumes[0].path"
        );
    }
    let mounts = vec![mount("/srv", Access::Read)];
    let volumes = vec![Volume {
        path: "/srv".into(),
        ..Default::default()
    }];
    let both = cell::Draft {
        mounts,
        volumes,
        ..Default::default()
    };
    assert_eq!(refused(both), "volumes[0].path");
    // Memory that programs share may be of another size, or of a pod's.
    let volumes = vec![Volume {
        path: "/dev/shm".into(),
        ..Default::default()
    }];
    let memory = cell::Draft {
        volumes,
        ..Default::default()
    };
    CellSpec::try_from(memory).unwrap();
}

#[test]
fn sharing_excludes_what_would_reach_the_parent() {
    let sharing = |ns| cell::Draft {
        share: [ns].into(),
        ..Default::default()
    };
    let mut draft = sharing(Namespace::Mount);
    draft.mounts = vec![mount("/srv", Access::Read)];
    assert_eq!(refused(draft), "mounts");
    let mut draft = sharing(Namespace::Uts);
    draft.hostname = "db".into();
    assert_eq!(refused(draft), "hostname");
    let mut draft = sharing(Namespace::User);
    draft.id_range = Some(10);
    assert_eq!(refused(draft), "id_range");
    let all = cell::Draft {
        share: Namespace::ALL.into(),
        ..Default::default()
    };
    CellSpec::try_from(all).unwrap();
}

#[test]
fn a_cells_defaults_follow_from_its_path_and_what_it_shares() {
    let path = "web/db".parse().unwrap();
    let own = CellSpec::default().effective(&path);
    assert_eq!(own.hostname, "db");
    assert_eq!(own.id_range, Some(65_536));
    let all = cell::Draft {
        share: Namespace::ALL.into(),
        ..Default::default()
    };
    let shared = CellSpec::try_from(all).unwrap().effective(&path);
    assert_eq!(shared.hostname, "");
    assert_eq!(shared.id_range, None);
}

/// Bytes of the largest records' other contents: names, ids, times.
const RECORD_REST: usize = 3 * 1024;

proptest! {
    #[test]
    fn a_valid_spec_fits_its_record(
        argv in proptest::collection::vec("[\u{1}-\u{ff}]{0,600}", 1..40),
        env in proptest::collection::btree_map("[A-Z_]{1,40}", "[\u{1}-\u{7f}]{0,300}", 0..60),
        allow in proptest::collection::vec("[a-z0-9_]{1,64}", 0..300),
        cpus in proptest::collection::vec(0u32..8192, 0..512),
    ) {
        let mut draft = executable::Draft { argv, env, cpu_affinity: cpus, ..Default::default() };
        draft.seccomp.allow = allow;
        if let Ok(spec) = ExecutableSpec::try_from(draft) {
            let json = serde_json::to_string(&spec).unwrap();
            prop_assert!(json.len() <= 64 * 1024 - model::label::MAX_LABELS_WEIGHT - RECORD_REST);
            prop_assert_eq!(serde_json::from_str::<ExecutableSpec>(&json).unwrap(), spec);
        }
    }

    #[test]
    fn a_valid_cell_fits_its_record(
        sources in proptest::collection::vec("(/[a-zà-ü\"\\\\ ]{1,60}){1,60}", 0..32),
    ) {
        let mounts = sources.iter().map(|s| mount(s, Access::Read)).collect();
        let draft = cell::Draft { mounts, ..Default::default() };
        if let Ok(spec) = CellSpec::try_from(draft) {
            let json = serde_json::to_string(&spec).unwrap();
            prop_assert!(json.len() <= 64 * 1024 - model::label::MAX_LABELS_WEIGHT - RECORD_REST);
            prop_assert_eq!(serde_json::from_str::<CellSpec>(&json).unwrap(), spec);
        }
    }
}
