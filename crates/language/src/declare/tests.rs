// SPDX-License-Identifier: Apache-2.0
//! What the declarations say; whether TypeScript takes them is `tests/tsc.rs`'s.

use super::*;

fn text() -> &'static str {
    aurae_d_ts().expect("the built-in descriptors")
}

#[test]
fn the_same_descriptors_give_the_same_text() {
    let again = declarations(Schema::of_api().unwrap());
    assert_eq!(text(), again);
}

#[test]
fn every_method_message_and_enum_is_declared() {
    let schema = Schema::of_api().unwrap();
    for subsystem in &schema.subsystems {
        for method in &subsystem.methods {
            assert!(text().contains(&format!("interface {}Method {{", method.name)));
            assert!(text().contains(&format!("readonly action: \"{}\";", method.action)));
        }
        for kind in subsystem
            .enums
            .iter()
            .filter_map(|name| schema.enumeration(name))
        {
            assert!(
                text().contains(&format!("  type {} =\n", kind.name)),
                "{}",
                kind.name
            );
        }
        let messages = subsystem
            .messages
            .iter()
            .filter_map(|name| schema.message(name));
        for message in messages.filter(|message| message.sent || message.received) {
            let name = match message.is_workload() {
                true => format!("{}Message", message.name),
                false => message.name.clone(),
            };
            let declared = [format!("  interface {name} {{"), format!("  type {name} =")];
            let found = declared.iter().any(|line| text().contains(line));
            assert!(found, "{}", message.full_name);
        }
    }
}

/// A message of a name that the declarations use themselves would hide it in its namespace.
#[test]
fn no_type_of_the_api_hides_a_global() {
    let schema = Schema::of_api().unwrap();
    let global = [
        "Promise",
        "AsyncIterable",
        "Record",
        "Uint8Array",
        "Context",
        "Duration",
        "Timestamp",
        "Target",
        "ServerStream",
        "BidiStream",
        "Workload",
        "Lines",
        "LinesOptions",
        "UserHandle",
        "Action",
        "Actions",
        "GrantScope",
        "Ran",
        "Subsystems",
    ];
    for message in schema
        .subsystems
        .iter()
        .flat_map(|subsystem| &subsystem.messages)
    {
        let name = &schema.message(message).unwrap().name;
        assert!(!global.contains(&name.as_str()), "{message}");
    }
}

#[test]
fn both_ways_of_a_field_say_what_they_take_and_give() {
    let both = [("Memory", "bigint | number"), ("MemoryOut", "bigint")];
    for (name, number) in both {
        let docs = "    /**\n     * `memory.min`: never reclaimed.\n     \
                    * @maximum 9223372036854775807\n     */";
        let wanted = format!("  interface {name} {{\n{docs}\n    min?: {number};");
        assert!(text().contains(&wanted), "{wanted}");
    }
    assert!(text().contains("    mounts: MountOut[];"));
    assert!(text().contains("    mounts?: Mount[];"));
    // From the protos' comments, in the language's spelling.
    assert!(text().contains("see `waitFor`"));
    assert!(text().contains("- `\"unspecified\"`: The same as `\"started\"`."));
}

#[test]
fn the_friendly_layer_stands_beside_the_methods() {
    assert!(text().contains("    Stdout(target: Target | readonly Target[]"));
    assert!(text().contains("    User(name: string"));
    assert!(text().contains("    (workload: Cell, options?: RunCellOptions, context?: Context): "));
    assert!(text().contains("    (context: string): Subsystems;"));
    assert!(!text().contains("Friendly"));
}

#[test]
fn what_the_api_does_not_have_is_not_declared() {
    for name in ["secrets", "route", "batch", "mount"] {
        assert!(
            !text().contains(&format!("declare const {name}:")),
            "{name}"
        );
    }
    assert!(!text().contains("RunPod"));
}
