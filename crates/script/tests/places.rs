// SPDX-License-Identifier: Apache-2.0
//! Where errors are said to have come up: through the compiler, the real evaluator and the way
//! back.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod support;

use language::program::Entry;
use script::program::{Loaded, Place};
use script::protocol::{Start, Thrown};

/// Programs that fail. Each frame of the stack, from the innermost one, is to point behind the mark
/// of its number, `§1`; the marks are no part of the program.
const FAILING: &[&str] = &[
    // A function by its name, with values that have no place of their own.
    "function deep(a: number, b: string): never {\n  throw §1new Error(\n    `x${a}`,\n    \
     { cause: b },\n  );\n}\n§2deep(\n  1,\n  'b',\n);",
    // A method, below an `await`.
    "const o = { f(a: unknown, b: unknown): never { throw §1new RangeError('a'); } };\nawait \
     sleep(1);\no.§2f(\n  {\n    k: o,\n    l: [1, o],\n  },\n  await sleep(1),\n);",
    // The outer call and the inner one end at the same place; the names tell them apart.
    "function inner(a: unknown) { return a; }\nfunction outer(a: unknown): never { throw §1new \
     Error('a'); }\nconst x = 1;\n§2outer(\n  inner(\n    x,\n  ),\n);",
    "function inner(a: unknown): never { throw §1new Error('a'); }\nfunction outer(a: unknown) { \
     return a; }\nconst x = 1;\nouter(\n  §2inner(\n    x,\n  ),\n);",
    // What isn't a function.
    "const o = { g: 3 as any };\no\n  .§1g(\n    o,\n    4,\n  );",
    // What has no members: the place of the name.
    "const o = { g: undefined as any };\nfunction f(...all: unknown[]) {}\nf(\n  1,\n  §1o.g.u,\n);",
    // A function of the engine.
    "const text = '{';\nJSON.§1parse(\n  text,\n);",
    // A function that the engine calls back.
    "const list: any[] = [1];\nlist.§2map(\n  (n) => n.§1foo(\n    n,\n  ),\n);",
    // Functions with other names than those they are called by, and with none.
    "const fs = [(a: number, b: number) => { throw §1new Error('a'); }];\nfs[§20]!(\n  1,\n  2,\n);",
    // Classes, and a member that is computed: it was no call.
    "class E extends Error {\n  constructor(text: string) {\n    super(\n      §1text,\n    );\n  \
     }\n  get z(): never {\n    throw §2new E(\n      'b',\n    );\n  }\n}\nconst \
     e = new E('a');\nfunction f(...all: unknown[]) {}\nf(\n  1,\n  §3e.z,\n);",
    // Characters of several bytes before the call, and in its name.
    "const o = { ä(a: unknown, b: string): never { throw §1new Error('a'); } };\nconst x = 1; \
     print('äöü€😀', '', o.§2ä(\n  x,\n  'ß',\n));",
    "const o = { f(...all: unknown[]): never { throw §1new Error('a'); } };\nprint('äöü€😀', \
     `a\n€ ${1 +\n2} b`, [o.§2f(\n  'ß', { a: 1, 'b c': 2 },\n), / [/] x/]);",
    // Templates, operators and a list that is spread.
    "function tag(text: unknown, ...all: unknown[]): never { throw §1new Error('a'); }\nconst x = \
     1;\n§2tag`a ${\n  x\n} b`;",
    "function f(...all: unknown[]): never { throw §1new Error('a'); }\nconst x = [1];\n§2f(\n  \
     'a' +\n    x,\n  ...x,\n  'b',\n);",
    // An `Error` that nothing but a call makes.
    "const why = 'a';\nthrow §1Error(\n  why,\n);",
];

/// The program without its marks, and the marks' places in it.
fn unmarked(marked: &str) -> (String, Vec<String>) {
    let mut text = String::new();
    let mut places = Vec::new();
    for part in marked.split('§') {
        let digit = part.chars().next().and_then(|first| first.to_digit(10));
        let Some(number) = digit.filter(|_| marked.starts_with('§') || !text.is_empty()) else {
            text.push_str(part);
            continue;
        };
        let line = text.matches('\n').count() + 1;
        let column = text.chars().rev().take_while(|c| *c != '\n').count() + 1;
        places.push((number, format!("main.ts:{line}:{column}")));
        text.push_str(part.get(1..).unwrap());
    }
    places.sort();
    (text, places.into_iter().map(|(_, place)| place).collect())
}

async fn places(text: &str) -> (Thrown, Vec<String>) {
    let entry = Entry::Text {
        name: "main.ts".to_owned(),
        text: text.to_owned(),
    };
    let options = language::compile::Options::default();
    let (running, modules) = Loaded::load(Place::Nowhere, entry, &[], options).unwrap();
    let (mut session, _) = support::session(support::options(Start::default())).await;
    let thrown = session.run(modules, "main.ts").await.unwrap_err();
    let trace = running.locate(&thrown).trace;
    (thrown, trace.into_iter().map(|(_, place)| place).collect())
}

#[tokio::test]
async fn calls_over_several_lines_are_pointed_at() {
    let mut wrong = Vec::new();
    for marked in FAILING {
        let (text, wanted) = unmarked(marked);
        let (thrown, mut found) = places(&text).await;
        found.truncate(wanted.len());
        if found != wanted {
            wrong.push(format!("{text}\n{found:?} for {wanted:?}\n{thrown:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What is called and is none, and what an error says of it.
const NO_FUNCTIONS: &[(&str, &str)] = &[
    (
        "const web = { name: 3 as any };\nweb\n  .nmae(\n    1,\n  );",
        "web.nmae is not a function",
    ),
    (
        "runtimes();\nvar runtimes: any;",
        "runtimes is not a function",
    ),
    (
        "const fs: any[] = [];\nfs[0](1);",
        "fs[0] is not a function",
    ),
    (
        "const o: any = {};\nnew o.Cel({ name: 'a' });",
        "o.Cel is not a constructor",
    ),
    // The engine's own function calls it.
    ("[1].map(3 as any);", "not a function"),
    // The program says so itself.
    ("throw new TypeError('not a function');", "not a function"),
    (
        "throw new TypeError('that is not a function');",
        "that is not a function",
    ),
];

#[tokio::test]
async fn what_is_called_and_is_no_function_is_named() {
    for (text, wanted) in NO_FUNCTIONS {
        for plan in [false, true] {
            let entry = Entry::Text {
                name: "main.ts".to_owned(),
                text: (*text).to_owned(),
            };
            let options = language::compile::Options { plan };
            let (running, modules) = Loaded::load(Place::Nowhere, entry, &[], options).unwrap();
            let start = Start {
                plan,
                ..Start::default()
            };
            let (mut session, _) = support::session(support::options(start)).await;
            let thrown = session.run(modules, "main.ts").await.unwrap_err();
            let said = running.named(&thrown.message, &thrown.stack);
            // A plan's guards may leave the name alone.
            let alone = wanted.rsplit_once('.').map_or(*wanted, |(_, name)| name);
            let right = said == *wanted || plan && said.ends_with(alone);
            assert!(right, "{text} (plan: {plan}): {said} for {wanted}");
        }
    }
}
