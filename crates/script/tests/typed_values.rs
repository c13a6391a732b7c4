// SPDX-License-Identifier: Apache-2.0
//! A file of values held against the types that the program declares: what it may say, what it may
//! not and where, and what the defaults decide because no type does.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod support;

use std::sync::Arc;

use language::check::Environment;
use language::compile::Options as Compile;
use language::declare::aurae_d_ts;
use language::prelude;
use language::program::Entry;
use script::program::{Loaded, Place};
use script::protocol::{Module, Start, Values};

/// Of a program that declares what its values are, in every way that there is.
const SETTINGS: &str = r#"
interface Port { name: string; port: number; protocol?: "tcp" | "udp" }
type Volume =
  | { kind: "disk"; path: string }
  | { kind: "memory"; bytes: number | bigint };
interface Tree { name: string; below?: Tree[] }
interface Settings {
  mode: "fast" | "safe";
  size: number | "auto";
  big: bigint;
  note?: string;
  fallback: string | null;
  ports: Port[];
  volume: Volume;
  range: [number, number];
  labels: Record<string, string>;
  tree?: Tree;
  free: any;
}
const defaults: Settings = {
  mode: "fast", size: 1, big: 1n, fallback: "a", ports: [], range: [1, 2],
  volume: { kind: "disk", path: "/a" }, labels: { app: "web" }, free: 1,
};
"#;

/// What the program prints of its values with this file over them, or what is wrong.
async fn laid(program: &str, file: &str) -> Result<String, String> {
    let shown = "(_, it) => typeof it === \"bigint\" ? `${it}n` : it";
    let code = format!("{program}\nprint(JSON.stringify(v, {shown}));");
    let entry = Entry::Text {
        name: "main.ts".to_owned(),
        text: code,
    };
    let names = prelude::globals();
    let loaded = Loaded::load(Place::Nowhere, entry, &names, Compile::default());
    let (running, modules) = loaded.unwrap();
    let environment = Arc::new(Environment::new(aurae_d_ts().unwrap()));
    let start = Start {
        prelude: vec![Module {
            name: prelude::NAME.to_owned(),
            code: prelude::JAVASCRIPT.to_owned(),
        }],
        values: Some(Values {
            name: "prod.yaml".to_owned(),
            text: file.to_owned(),
            expected: running.expected(&environment),
        }),
        ..Start::default()
    };
    let (mut session, host) = support::session(support::options(start)).await;
    let done = session.run(modules, "main.ts").await;
    let text = host.text().trim_end().to_owned();
    done.map(|()| text).map_err(|thrown| thrown.message)
}

async fn settled(file: &str) -> Result<String, String> {
    laid(&format!("{SETTINGS}const v = values(defaults);"), file).await
}

#[tokio::test]
async fn a_file_may_say_what_the_types_allow() {
    // Each is more, less or other than the defaults have.
    for (file, part) in [
        ("mode: safe", r#""mode":"safe""#),
        ("size: auto", r#""size":"auto""#),
        ("big: 7", r#""big":"7n""#),
        ("note: hello", r#""note":"hello""#),
        ("fallback: null", r#""fallback":null"#),
        (
            "ports: [{ name: a, port: 1 }]",
            r#""ports":[{"name":"a","port":1}]"#,
        ),
        (
            "volume: { path: /b }",
            r#""volume":{"kind":"disk","path":"/b"}"#,
        ),
        (
            "labels: { zone: b }",
            r#""labels":{"app":"web","zone":"b"}"#,
        ),
        ("range: [3, 4]", r#""range":[3,4]"#),
        (
            "tree: { name: a, below: [{ name: b }] }",
            r#""below":[{"name":"b"}]"#,
        ),
        ("free: 2", r#""free":2"#),
        // Another form is whole: nothing of the program's is laid under it.
        (
            "volume: { kind: memory, bytes: 5 }",
            r#""volume":{"kind":"memory","bytes":5}"#,
        ),
    ] {
        let printed = settled(file).await.unwrap();
        assert!(printed.contains(part), "{file}: {printed}");
    }
    let kept = settled("{ note: x }").await.unwrap();
    assert!(
        kept.contains(r#""mode":"fast""#) && kept.contains("note"),
        "{kept}"
    );
    // What may be left out is taken away by `null`.
    let with_note = SETTINGS.replace("mode: \"fast\", size", "note: \"n\", mode: \"fast\", size");
    let program = format!("{with_note}const v = values(defaults);");
    let taken = laid(&program, "note: null").await.unwrap();
    assert!(!taken.contains("note"), "{taken}");
}

#[tokio::test]
async fn what_the_types_do_not_allow_is_told_by_its_path_and_place() {
    for (file, wrong) in [
        (
            "mode: fats",
            r#"prod.yaml:1:1: mode is "fast" or "safe", got "fats"; did you mean "fast"?"#,
        ),
        ("mode: 3", r#"mode is "fast" or "safe", got 3"#),
        (
            "size: atuo",
            r#"size is a number or "auto", got "atuo"; did you mean "auto"?"#,
        ),
        ("size: true", r#"size is a number or "auto", got true"#),
        ("big: 1.5", "big is a whole number, got 1.5"),
        ("note: 1", "note is text, got a number"),
        (
            "noet: a",
            "prod.yaml:1:1: noet is no value of this program; did you mean note?",
        ),
        ("mode: null", r#"mode is "fast" or "safe", got nothing"#),
        ("free:\n- 1", "free is a number, got a list"),
        (
            "ports:\n- name: a\n  port: http",
            "prod.yaml:3:3: ports.0.port is a number, got text",
        ),
        ("ports: [{ name: a }]", "ports.0 lacks port"),
        (
            "ports: [{ name: a, port: 1, protocol: icmp }]",
            r#"ports.0.protocol is "tcp" or "udp", got "icmp""#,
        ),
        (
            "volume: { kind: tape }",
            r#"volume.kind is "disk" or "memory", got "tape""#,
        ),
        ("volume: { kind: memory }", "volume lacks bytes"),
        (
            "volume: { kind: memory, bytes: much }",
            "volume.bytes is a number or a whole number, got \"much\"",
        ),
        (
            "volume: { kind: disk, path: /a, bytes: 1 }",
            "volume.bytes is no value of this program",
        ),
        ("range: [1]", "range is a list of 2, got one of 1"),
        ("range: [1, b]", "range.1 is a number, got text"),
        ("labels: { zone: 3 }", "labels.zone is text, got a number"),
        (
            "tree: { name: a, below: [{ name: b, below: [{ nmae: c }] }] }",
            "tree.below.0.below.0.nmae is no value of this program; did you mean name?",
        ),
        ("ports: 3", "ports is a list, got a number"),
        ("[]", "the whole is an object, got a list"),
    ] {
        let told = settled(file).await.unwrap_err();
        assert!(told.contains(wrong), "{file}: {told}");
    }
}

#[tokio::test]
async fn a_type_is_declared_wherever_typescript_takes_one() {
    let declares = "type S = { mode: \"a\" | \"b\"; more?: number };";
    for call in [
        "const v = values<S>({ mode: \"a\" });",
        "const v: S = values({ mode: \"a\" });",
        "const v = values({ mode: \"a\" } as S);",
        "const v = values({ mode: \"a\" } satisfies S);",
        "const v = values({ mode: \"a\" }) as S;",
        "const d: S = { mode: \"a\" }; const v = (values(d));",
        "const v = values({ mode: \"a\" as \"a\" | \"b\", more: 1 });",
        "const d = { mode: \"a\" } satisfies S; const v = values<S>(d);",
    ] {
        let program = format!("{declares}\n{call}");
        let told = laid(&program, "mode: c").await.unwrap_err();
        assert!(
            told.contains(r#"mode is "a" or "b", got "c""#),
            "{call}: {told}"
        );
        let printed = laid(&program, "{ mode: b, more: 2 }").await;
        assert_eq!(printed.as_deref(), Ok(r#"{"mode":"b","more":2}"#), "{call}");
    }
}

#[tokio::test]
async fn where_no_type_is_declared_the_defaults_decide() {
    let program = "const image = \"a\";
        const v = values({ image, size: 1, kinds: [{ a: 1, b: 1 }, { a: 2 }], none: undefined });";
    let printed = laid(program, "{ image: b, kinds: [{ a: 3 }], none: { x: 1 } }").await;
    assert_eq!(
        printed.as_deref(),
        Ok(r#"{"image":"b","size":1,"kinds":[{"a":3}],"none":{"x":1}}"#)
    );
    let told = laid(program, "size: big").await.unwrap_err();
    assert!(told.contains("size is a number, got text"), "{told}");
    // Two calls may ask for two types: which of them runs isn't known before.
    let two = "const many = args.length > 3;
        const v = many ? values<{ a: \"x\" }>({ a: \"x\" }) : values({ a: \"y\" });";
    assert_eq!(laid(two, "a: z").await.as_deref(), Ok(r#"{"a":"z"}"#));
    // A function of the program's own is none of ours.
    let own = "function values<T>(of: T): T { return of; } const v = values<{ a: 1 }>({ a: 1 });";
    assert_eq!(laid(own, "a: 2").await.as_deref(), Ok(r#"{"a":1}"#));
}

#[tokio::test]
async fn types_in_circles_and_a_hostile_file_end_the_judgement_soon() {
    let program = "type T = { a: T; x: 1 } | { a: T; x: 2 } | { a: T; x: 3 } | null;
        const v = values<{ t: T }>({ t: null });";
    let depth = 100;
    let file = format!(
        "t: {}null{}",
        "{ a: ".repeat(depth),
        ", x: 4 }".repeat(depth)
    );
    let told = laid(program, &file).await.unwrap_err();
    assert!(told.starts_with("prod.yaml:1:"), "{told}");
    let right = format!(
        "t: {}null{}",
        "{ a: ".repeat(depth),
        ", x: 3 }".repeat(depth)
    );
    assert!(
        laid(program, &right)
            .await
            .is_ok_and(|it| it.contains("\"x\":3"))
    );
}
