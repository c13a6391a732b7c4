// SPDX-License-Identifier: Apache-2.0
//! An engine whose memory is full, through the real process: what ends by it is named, wherever
//! the memory was and whatever has let go of it on the way out. The engine itself throws `null`.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use script::protocol::{Limit, Start, Thrown};
use script::session::Session;
use support::{Table, line, main, options, session, until_printed};

const MEMORY: u64 = 24 << 20;

/// What fills the memory; the most of them let go of it while they end.
const FILLING: &[&str] = &[
    "const a = []; for (;;) a.push({ a })",
    "function f() { const a = []; for (;;) a.push({ a }) } f()",
    "function f() { const a = []; for (;;) a.push(`${a.length} and more`) } f()",
    "function f() { const a = []; for (;;) a.push(new Array(100).fill(1)) } f()",
    "function f() { const a = []; for (;;) a.push(() => a) } f()",
    "function f() { const a = new Map(); for (let i = 0; ; i++) a.set(i, {}) } f()",
    "function f() { const a = {}; for (let i = 0; ; i++) a[`key${i}`] = i } f()",
    "function f(a) { return f([a, new Array(3000).fill(1)]) } f([])",
    "function f() { return JSON.parse(`[${'{},'.repeat(3e5)}0]`) } f()",
    "async function f() { const a = []; for (;;) a.push({ a }) } await f()",
    "async function f() { await 0; const a = []; for (;;) a.push({ a }) } await f()",
    "async function f() { await 0; const a = []; for (;;) a.push({ a }) } f()",
    "function* f() { const a = []; for (;;) yield a.push({ a }) } for (const n of f()) n",
    "await new Promise(() => { const a = []; for (;;) a.push({ a }) })",
    "setTimeout(() => { const a = []; for (;;) a.push({ a }) }, 1)",
    "for (const a = []; ;) a.push(sleep('1h'))",
    "await Promise.all(Array.from({ length: 1e6 }, async (_, n) => { await sleep(n); return n }))",
    "[1].forEach(() => { const a = []; for (;;) a.push({ a }) })",
    "const a = []; for (;;) a.push(new Uint8Array(1e4))",
    "await __aurae.call(undefined, 'test.Echo', Array.from({ length: 3e5 }, (_, n) => ({ n })))",
];

/// What programs throw themselves.
const OWN: &[(&str, &str)] = &[
    ("throw null", "null, by the program itself"),
    ("await sleep(1); throw null", "null, by the program itself"),
    ("await Promise.reject(null)", "null, by the program itself"),
    (
        "Promise.reject(null); await sleep(1)",
        "null, by the program itself",
    ),
    (
        "setTimeout(() => { throw null }, 1)",
        "null, by the program itself",
    ),
    (
        "await new Promise(() => {})",
        "it awaits what can never happen: no call is open, no timer is set",
    ),
    ("throw undefined", "undefined"),
    ("throw ''", "\"\""),
    ("throw 'null'", "\"null\""),
];

async fn with_memory(max_memory: u64) -> (Session, Arc<Table>) {
    let mut options = options(Start {
        max_memory,
        ..Start::default()
    });
    options.timeout = Some(Duration::from_secs(60));
    session(options).await
}

fn is_named(thrown: &Thrown) -> bool {
    let said = thrown.message.as_str();
    let nothing = said.is_empty() && thrown.name.is_empty();
    !(thrown.unsure || nothing || said.contains("null"))
}

#[tokio::test]
async fn a_failure_of_the_engine_is_never_null() {
    let mut wrong = Vec::new();
    for code in FILLING {
        let (mut session, _) = with_memory(MEMORY).await;
        let ended = session.run(main(code), "main.ts").await;
        match ended {
            Err(thrown) if thrown.limit == Some(Limit::Memory) && is_named(&thrown) => {
                assert_eq!(thrown.message, "out of memory", "{code}");
            }
            other => wrong.push(format!("{code}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_programs_own_null_is_its_own() {
    for (code, said) in OWN {
        let (mut session, _) = with_memory(MEMORY).await;
        let thrown = session.run(main(code), "main.ts").await.unwrap_err();
        assert_eq!(
            (thrown.message.as_str(), thrown.limit),
            (*said, None),
            "{code}"
        );
    }
}

#[tokio::test]
async fn too_little_memory_for_an_engine_is_said() {
    let mut began = 0;
    for kib in (0..24).map(|step| 1 + step * step * 8) {
        let (mut session, _) = with_memory(kib << 10).await;
        match session.run(main("print(1)"), "main.ts").await {
            Ok(()) => began += 1,
            Err(thrown) => assert!(is_named(&thrown), "{kib} KiB: {thrown:?}"),
        }
    }
    assert!(began > 0);
}

#[tokio::test]
async fn an_answer_that_the_memory_has_no_room_for_ends_who_awaits_it() {
    let (mut session, _) = with_memory(MEMORY).await;
    let code = "
        const text = 'x'.repeat(13 << 20);
        const answer = await __aurae.call(undefined, 'test.Echo', { text });
        print(text.length + answer.text.length);";
    let thrown = session.run(main(code), "main.ts").await.unwrap_err();
    assert_eq!(thrown.limit, Some(Limit::Memory), "{thrown:?}");
    assert!(is_named(&thrown), "{thrown:?}");
}

#[tokio::test]
async fn what_an_earlier_line_left_behind_is_told_and_costs_no_later_line() {
    let (mut session, host) = with_memory(MEMORY).await;
    for (code, told) in [
        (
            "setTimeout(() => { throw new Error('late') }, 1)",
            "uncaught Error: late",
        ),
        (
            "void sleep(1).then(() => { throw new TypeError('later') })",
            "uncaught TypeError: later",
        ),
        (
            "setTimeout(() => { const a = []; for (;;) a.push({ a }) }, 1)",
            "uncaught out of memory",
        ),
        (
            "setTimeout(() => { throw null }, 1)",
            "uncaught out of memory, or null, by the program itself",
        ),
    ] {
        host.printed.lock().unwrap().clear();
        line(&mut session, "<1>", code).await.unwrap();
        until_printed(&host, told).await;
        let sum = line(&mut session, "<2>", "1 + 1").await.unwrap();
        assert_eq!(sum.as_deref(), Some("2"), "{code}");
        let sum = line(&mut session, "<3>", "2 + 2").await.unwrap();
        assert_eq!(sum.as_deref(), Some("4"), "{code}");
    }
}
