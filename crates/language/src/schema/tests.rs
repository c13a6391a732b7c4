// SPDX-License-Identifier: Apache-2.0
//! What the schema says of our own API.

use super::*;

fn api() -> &'static Schema {
    Schema::of_api().expect("the built-in descriptors")
}

#[test]
fn subsystems_and_methods_are_named_as_policies_name_them() {
    let names: Vec<_> = api().subsystems.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "image", "runtime", "observe", "identity", "node", "tenant", "sets", "pod", "schedule"
        ]
    );
    let actions: Vec<_> = api()
        .subsystems
        .iter()
        .flat_map(|s| s.methods.iter().map(|m| (m.action.clone(), m.path.clone())))
        .collect();
    let known: Vec<_> = ::api::action::ACTIONS
        .iter()
        .map(|action| (action.name.to_owned(), action.rpc.to_owned()))
        .collect();
    assert_eq!(actions, known);
}

#[test]
fn what_only_reads_is_marked_in_the_protos() {
    let reading: Vec<_> = api()
        .subsystems
        .iter()
        .flat_map(|s| &s.methods)
        .filter(|m| !m.mutating)
        .map(|m| m.action.as_str())
        .collect();
    let expected = [
        "image.List",
        "image.Get",
        "image.Export",
        "runtime.Get",
        "runtime.List",
        "runtime.Watch",
        "runtime.Wait",
        "observe.Logs",
        "observe.Journal",
        "observe.Usage",
        "observe.WatchUsage",
        "identity.ListUsers",
        "identity.ListCertificates",
        "identity.Explain",
        "identity.Audit",
        "identity.WhoAmI",
        "node.Get",
        "node.GetConfig",
        "node.ListUnowned",
        "tenant.List",
        "tenant.Get",
        "sets.Get",
        "sets.List",
        "pod.Get",
        "pod.List",
        "pod.Watch",
        "schedule.Get",
        "schedule.List",
        "schedule.Watch",
        "schedule.History",
        "schedule.Why",
        "schedule.GetConfig",
        "schedule.ListConfigs",
        "schedule.ListUnits",
        "schedule.GetUnit",
        "schedule.GetUnitManager",
    ];
    assert_eq!(reading, expected);
}

#[test]
fn fields_have_their_names_kinds_presence_and_comments() {
    let spec = api().message_named("runtime.ExecutableSpec").unwrap();
    assert!(spec.sent && spec.received);
    let adjust = spec.field("oomScoreAdj").unwrap();
    assert_eq!(adjust.proto_name, "oom_score_adj");
    assert_eq!(
        (&adjust.kind, adjust.presence),
        (&Kind::Int32, Presence::Explicit)
    );
    assert_eq!(adjust.docs, "-1000 to 1000. Default 0.");
    let argv = spec.field("argv").unwrap();
    assert_eq!(
        (argv.cardinality, argv.presence),
        (Cardinality::List, Presence::Implicit)
    );
    let env = spec.field("env").unwrap();
    assert_eq!(
        (&env.kind, env.cardinality),
        (&Kind::String, Cardinality::Map(MapKey::String))
    );
    assert_eq!(spec.field("stopGrace").unwrap().kind, Kind::Duration);
    let names: Vec<_> = spec
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(names[..3], ["argv", "env", "cwd"]);
}

#[test]
fn oneofs_group_their_members_and_optional_is_none() {
    let exit = api().message_named("runtime.Exit").unwrap();
    assert_eq!(exit.oneofs, ["how"]);
    let of = |name| exit.field(name).unwrap().oneof;
    assert_eq!((of("code"), of("unknown")), (Some(0), Some(0)));
    assert_eq!((of("oomKills"), of("coreDumped")), (None, None));
    assert!(!exit.sent && exit.received);
}

#[test]
fn enum_values_lose_their_prefix() {
    let values = |name: &str| -> Vec<String> {
        let found = api().enumeration(name).unwrap();
        found
            .values
            .iter()
            .map(|value| value.name.clone())
            .collect()
    };
    assert_eq!(
        values("aurae.runtime.v0.Kind"),
        ["unspecified", "cell", "executable"]
    );
    assert_eq!(values("aurae.runtime.v0.Seccomp.Profile")[2], "strict");
    assert_eq!(values("aurae.runtime.v0.WaitFor")[1], "started");
    assert_eq!(
        values("aurae.runtime.v0.ErrorReason")[..3],
        ["unspecified", "invalid_field", "not_found"]
    );
    let profile = api()
        .enumeration("aurae.runtime.v0.Seccomp.Profile")
        .unwrap();
    assert_eq!(profile.name, "SeccompProfile");
}

/// Two properties of one name, or two values of one string, would make a field unreachable.
#[test]
fn no_two_names_fall_together() {
    for message in api().subsystems.iter().flat_map(|s| &s.messages) {
        let message = api().message(message).unwrap();
        let mut names: Vec<_> = message.fields.iter().map(|f| &f.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), message.fields.len(), "{}", message.full_name);
    }
    for subsystem in &api().subsystems {
        let messages = subsystem
            .messages
            .iter()
            .map(|n| &api().message(n).unwrap().name);
        let enums = subsystem
            .enums
            .iter()
            .map(|n| &api().enumeration(n).unwrap().name);
        let mut names: Vec<_> = messages.chain(enums).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "{}", subsystem.name);
    }
    for kind in api().subsystems.iter().flat_map(|s| &s.enums) {
        let kind = api().enumeration(kind).unwrap();
        let mut names: Vec<_> = kind.values.iter().map(|v| &v.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), kind.values.len(), "{}", kind.full_name);
    }
}

#[test]
fn every_type_that_a_field_names_is_there() {
    for message in api().subsystems.iter().flat_map(|s| &s.messages) {
        for field in &api().message(message).unwrap().fields {
            match &field.kind {
                Kind::Message(name) => assert!(api().message(name).is_some(), "{name}"),
                Kind::Enum(name) => assert!(api().enumeration(name).is_some(), "{name}"),
                _ => {}
            }
        }
    }
}

#[test]
fn what_declares_is_said_in_the_protos() {
    let methods = api().subsystems.iter().flat_map(|s| &s.methods);
    let declaring: Vec<_> = methods
        .filter_map(|m| Some((m.action.as_str(), m.declares.as_ref()?.kind.as_str())))
        .collect();
    let expected = [
        ("runtime.RunExecutable", "executable"),
        ("runtime.RunCell", "cell"),
        ("identity.CreateUser", "user"),
        ("identity.Allow", "grant"),
        ("identity.Deny", "grant"),
        ("tenant.Set", "tenant"),
        ("pod.Run", "pod"),
        ("schedule.Declare", "schedule"),
        ("schedule.PutConfig", "config"),
    ];
    assert_eq!(declaring, expected);
    let allow = api().method("identity.Allow").unwrap();
    let allow = allow.declares.as_ref().unwrap();
    assert_eq!(allow.key.len(), 5);
    assert_eq!(allow.among, "users.grants");
    let allowed = [("effect".to_owned(), "EFFECT_ALLOW".to_owned())];
    assert_eq!(allow.having, allowed);
    assert_eq!(allow.removed_by, "Withdraw");
}

#[test]
fn the_options_of_the_protos_name_methods_and_fields_that_are_there() {
    let pool = ::api::descriptor_pool().unwrap();
    for service in pool.services() {
        let methods: Vec<_> = service.methods().collect();
        let named = |name: &str| methods.iter().find(|method| method.name() == name);
        for method in &methods {
            let Some(said) = declares::of(method) else {
                continue;
            };
            for path in said.key.iter().chain(&said.compared) {
                let first = path.split('.').next().unwrap();
                let field = method.input().get_field_by_name(first);
                assert!(field.is_some(), "{}: {path}", method.full_name());
            }
            for other in [&said.found_by, &said.removed_by] {
                let there = other.is_empty() || named(other).is_some();
                assert!(there, "{}: {other}", method.full_name());
            }
            if let Some(found_by) = named(&said.found_by) {
                let mut of = found_by.output();
                for part in said.among.split('.').filter(|part| !part.is_empty()) {
                    let field = of.get_field_by_name(part).expect("a field of the answer");
                    of = field.kind().as_message().expect("messages").clone();
                }
            }
        }
    }
}
