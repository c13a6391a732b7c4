// SPDX-License-Identifier: Apache-2.0
//! What a script can't do to the machine: every row of the limits table, through the real process.
//! Each ends with an error, most with a place; none ends this process; the session goes on, or says
//! that it doesn't.

#![allow(clippy::unwrap_used, reason = "of tests")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use script::protocol::{Limit, Start, Thrown};
use script::session::Session;
use support::{Table, line, main, options, session, until_printed};

/// What a row must come to.
#[derive(Clone, Copy)]
enum Ends {
    /// By the time limit.
    Late,
    /// By the heap's limit, as an error that a program could catch.
    Memory,
    /// With this error of the language.
    Error(&'static str),
    /// By itself.
    Well,
    /// Within the time limit or with an error, but with an error.
    Refused,
}

struct Row {
    name: &'static str,
    code: &'static str,
    ends: Ends,
    /// It says where.
    placed: bool,
}

const fn row(name: &'static str, code: &'static str, ends: Ends, placed: bool) -> Row {
    Row {
        name,
        code,
        ends,
        placed,
    }
}

const LIMIT: Duration = Duration::from_millis(300);

/// For what ends by itself or by another limit.
const ENOUGH: Duration = Duration::from_secs(30);

const MEMORY: u64 = 64 << 20;

const STACK: &str = "RangeError";

const TABLE: &[Row] = &[
    row("a loop", "\nfor (;;) {}", Ends::Late, true),
    row(
        "a loop in a callback",
        "\n[1].forEach(() => { for (;;) {} })",
        Ends::Late,
        true,
    ),
    row(
        "a loop in a comparison",
        "\n[2, 1].sort(() => { for (;;) {} })",
        Ends::Late,
        true,
    ),
    row(
        "a loop after an await",
        "await sleep(1);\nfor (;;) {}",
        Ends::Late,
        true,
    ),
    row(
        "a loop in a timer",
        "setTimeout(() => {\n for (;;) {} }, 1)",
        Ends::Late,
        true,
    ),
    row("a loop of jobs", "\nfor (;;) await 0;", Ends::Late, false),
    row(
        "a loop that catches",
        "\nfor (;;) { try { for (;;) {} } catch {} finally {} }",
        Ends::Late,
        true,
    ),
    row(
        "a loop in a getter of an error",
        "throw Object.defineProperty(new Error(), 'message', { get() { for (;;) {} } })",
        Ends::Late,
        false,
    ),
    row(
        "a loop in toJSON",
        "\nJSON.stringify({ toJSON() { for (;;) {} } })",
        Ends::Late,
        true,
    ),
    row(
        "a loop in an iterator",
        "\nconst i = { [Symbol.iterator]: () => ({ next: () => ({ value: 1 }) }) };\nnew Set(i);",
        Ends::Refused,
        false,
    ),
    row("a sleep", "\nawait sleep('1h')", Ends::Late, true),
    row(
        "a call that hangs",
        "\nawait __aurae.call(undefined, 'test.Slow', {})",
        Ends::Late,
        true,
    ),
    row(
        "a stream that hangs",
        "\nfor await (const x of __aurae.stream(undefined, 'test.Hang')) {}",
        Ends::Late,
        true,
    ),
    row(
        "a catastrophic expression",
        "\n/^(a+)+$/.test('a'.repeat(40) + 'b')",
        Ends::Late,
        true,
    ),
    row(
        "a growing array",
        "const a = [];\nfor (;;) a.push({ a })",
        Ends::Memory,
        true,
    ),
    row(
        "a growing string",
        "let a = 'a';\nfor (;;) a += a",
        Ends::Refused,
        true,
    ),
    row(
        "a growing map",
        "const a = new Map();\nfor (let i = 0; ; i++) a.set(i, {})",
        Ends::Refused,
        false,
    ),
    row(
        "a billion elements",
        "\nnew Array(1e9).fill(0)",
        Ends::Refused,
        true,
    ),
    row(
        "a large buffer",
        "\nnew Uint8Array(2 ** 32)",
        Ends::Refused,
        true,
    ),
    row(
        "300 dropped buffers",
        "for (let i = 0; i < 300; i++) new Uint8Array(10 << 20).fill(1)",
        Ends::Well,
        false,
    ),
    row(
        "10^5 appends",
        "let a = ''; for (let i = 0; i < 1e5; i++) a += 'x'",
        Ends::Well,
        false,
    ),
    row("repeat(5e8)", "\n'x'.repeat(5e8)", Ends::Refused, true),
    row(
        "10^4 searches in 1 MB",
        "const a = 'a'.repeat(1 << 20) + 'b';\nfor (let i = 0; i < 1e4; i++) a.indexOf('aab' + i)",
        Ends::Late,
        false,
    ),
    row(
        "endless recursion",
        "\nfunction f() { f() }\nf()",
        Ends::Error(STACK),
        true,
    ),
    row(
        "recursion in toString",
        "const a = { toString() { return `${this}` } };\n`${a}`",
        Ends::Error(STACK),
        true,
    ),
    row(
        "recursion in a Proxy",
        "let p = {};\nfor (let i = 0; i < 1e5; i++) p = new Proxy(p, {});\np.x",
        Ends::Error(STACK),
        false,
    ),
    row(
        "recursion in sort",
        "const f = () => [2, 1].sort(f);\nf()",
        Ends::Error(STACK),
        true,
    ),
    row(
        "recursion in replace",
        "const f = () => 'a'.replace('a', f);\nf()",
        Ends::Error(STACK),
        true,
    ),
    row(
        "recursion in JSON.stringify",
        "let a = {};\nfor (let i = 0; i < 1e5; i++) a = { a };\nJSON.stringify(a)",
        Ends::Refused,
        false,
    ),
    row(
        "recursion in JSON.parse",
        "\nJSON.parse('['.repeat(1e6))",
        Ends::Refused,
        false,
    ),
    row(
        "a deep value printed",
        "let a = {};\nfor (let i = 0; i < 1e5; i++) a = { a };\nprint(a)",
        Ends::Well,
        false,
    ),
    row(
        "a wide value printed",
        "print(Array.from({ length: 1e5 }, (_, i) => ({ i, a: [i, i, i] })))",
        Ends::Well,
        false,
    ),
    row(
        "a tree that doubles printed",
        "let a = {};\nfor (let i = 0; i < 60; i++) a = { l: a, r: a, s: 'x'.repeat(100) };\nprint(a)",
        Ends::Well,
        false,
    ),
    row(
        "nested parentheses",
        "\neval('('.repeat(1e5) + '1' + ')'.repeat(1e5))",
        Ends::Refused,
        false,
    ),
    row(
        "a nested expression",
        "\nnew RegExp('('.repeat(1e5) + ')'.repeat(1e5))",
        Ends::Refused,
        true,
    ),
    row(
        "nested arrays flattened",
        "let a = [];\nfor (let i = 0; i < 1e5; i++) a = [a];\na.flat(Infinity)",
        Ends::Error(STACK),
        false,
    ),
    row(
        "deep YAML",
        "\nyaml.parse('['.repeat(1e3))",
        Ends::Error("SyntaxError"),
        true,
    ),
    row(
        "a bomb of YAML",
        "let y = 'a0: &a0 [x, x, x, x, x, x, x, x, x]\\n';
         for (let i = 1; i < 12; i++) y += `a${i}: &a${i} [${Array(9).fill(`*a${i - 1}`)}]\\n`;
         yaml.parse(y)",
        Ends::Error("SyntaxError"),
        true,
    ),
    row(
        "10^6 calls",
        "\nfor (;;) __aurae.call(undefined, 'test.Slow', {}).catch((e) => { throw e })",
        Ends::Refused,
        false,
    ),
    row(
        "10^6 timers",
        "\nfor (let i = 0; i < 1e6; i++) setTimeout(() => {}, 1e6)",
        Ends::Refused,
        false,
    ),
    row(
        "much print",
        "const x = 'x'.repeat(1 << 20);\nfor (;;) print(x)",
        Ends::Late,
        false,
    ),
];

/// What is wrong with how a row ended.
fn wrong(row: &Row, result: &Result<(), Thrown>) -> Option<String> {
    let Err(thrown) = result else {
        return (!matches!(row.ends, Ends::Well)).then(|| "it ended well".to_owned());
    };
    let as_said = match row.ends {
        Ends::Late => thrown.limit == Some(Limit::Timeout),
        Ends::Memory => thrown.limit == Some(Limit::Memory),
        Ends::Error(error) => thrown.name == error,
        Ends::Well => false,
        Ends::Refused => true,
    };
    let placed = !row.placed || thrown.stack.iter().any(|f| f.module == "main.ts");
    let lost = thrown.limit == Some(Limit::Evaluator);
    (!as_said || !placed || lost).then(|| format!("{thrown:?}"))
}

async fn limited(timeout: Option<Duration>) -> Session {
    heard(timeout).await.0
}

/// With what it prints.
async fn heard(timeout: Option<Duration>) -> (Session, Arc<Table>) {
    let mut options = options(Start {
        max_memory: MEMORY,
        ..Start::default()
    });
    options.timeout = timeout;
    session(options).await
}

#[tokio::test]
async fn every_row_of_the_table_is_an_error_and_no_abort() {
    let mut bad = Vec::new();
    for row in TABLE {
        // On a machine that others use too an engine may be late, and killed; not three times.
        let mut found = None;
        for _ in 0..3 {
            found = attempt(row).await;
            if found.is_none() {
                break;
            }
        }
        if let Some(found) = found {
            bad.push(format!("{}: {found}", row.name));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Runs a row in a session of its own; what is wrong with how it ended.
async fn attempt(row: &Row) -> Option<String> {
    let limit = match row.ends {
        Ends::Late | Ends::Refused => LIMIT,
        _ => ENOUGH,
    };
    let mut session = limited(Some(limit)).await;
    // The prelude and the first frames are not the row's time.
    line(&mut session, "<warm>", "0").await.unwrap();
    let began = Instant::now();
    let result = session.run(main(row.code), "main.ts").await;
    let took = began.elapsed();
    let found = wrong(row, &result);
    if took > limit + Duration::from_millis(100) + SLACK {
        return Some(format!("it took {took:?}"));
    }
    if session.is_alive() {
        match line(&mut session, "<after>", "1 + 1").await {
            Ok(Some(two)) if two == "2" => {}
            after => return Some(format!("then: {after:?}")),
        }
    }
    found
}

/// For a machine that others use too.
const SLACK: Duration = Duration::from_secs(10);

#[tokio::test]
async fn an_interrupt_ends_the_evaluation_and_not_the_session() {
    let (mut session, host) = heard(None).await;
    line(&mut session, "<1>", "globalThis.kept = 7")
        .await
        .unwrap();
    for code in [
        "for (;;) {}",
        "await sleep('1h')",
        "for (;;) await 0",
        "/^(a+)+$/.test('a'.repeat(40) + 'b')",
    ] {
        let interrupter = session.interrupter();
        let host = Arc::clone(&host);
        host.printed.lock().unwrap().clear();
        let stopper = tokio::spawn(async move {
            until_printed(&host, "begun").await;
            interrupter.interrupt();
        });
        let begun = format!("print('begun'); {code}");
        let thrown = line(&mut session, "<2>", &begun).await.unwrap_err();
        stopper.await.unwrap();
        assert_eq!(thrown.limit, Some(Limit::Interrupt), "{code}: {thrown:?}");
        assert!(session.is_alive(), "{code}");
        let kept = line(&mut session, "<3>", "kept").await.unwrap();
        assert_eq!(kept.as_deref(), Some("7"), "{code}");
    }
}

#[tokio::test]
async fn a_limit_that_was_caught_is_no_limit() {
    let mut session = limited(Some(Duration::from_secs(20))).await;
    let code = "let caught = 0;
        for (let i = 0; i < 5; i++) {
          try { const a = []; for (;;) a.push({ a }); } catch { caught++; }
          try { (function f() { f() })(); } catch { caught++; }
        }
        if (caught !== 10) throw new Error(caught);";
    session.run(main(code), "main.ts").await.unwrap();
}

#[tokio::test]
async fn an_evaluator_that_is_killed_is_an_error() {
    let (mut session, host) = heard(None).await;
    let pid = session.pid();
    let killer = tokio::spawn(async move {
        until_printed(&host, "begun").await;
        let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    });
    let thrown = session
        .run(main("print('begun'); for (;;) {}"), "main.ts")
        .await
        .unwrap_err();
    killer.await.unwrap();
    assert_eq!(thrown.limit, Some(Limit::Evaluator));
    assert!(thrown.message.contains("killed"), "{}", thrown.message);
    assert!(!session.is_alive());
}

#[tokio::test]
async fn a_session_that_is_dropped_leaves_no_process() {
    let session = limited(None).await;
    let path = format!("/proc/{}", session.pid());
    assert!(std::path::Path::new(&path).exists());
    drop(session);
    assert!(!std::path::Path::new(&path).exists());
}

#[tokio::test]
async fn a_session_full_of_what_is_kept_can_still_be_looked_into_and_emptied() {
    let mut session = limited(Some(ENOUGH)).await;
    // Little things, so that there is no room for one more.
    let fill = "globalThis.kept = []; for (let i = 0; ; i++) kept.push({ i })";
    let thrown = line(&mut session, "<1>", fill).await.unwrap_err();
    assert_eq!(thrown.limit, Some(Limit::Memory), "{thrown:?}");
    let code = "globalThis.more = []; for (let i = 0; ; i++) more.push(String(i) + 'more')";
    for name in ["<2>", "<3>"] {
        let thrown = line(&mut session, name, code).await.unwrap_err();
        assert_eq!(thrown.limit, Some(Limit::Memory), "{thrown:?}");
    }
    let many = line(&mut session, "<4>", "kept.length > 1000").await;
    assert_eq!(many.unwrap().as_deref(), Some("true"));
    line(&mut session, "<5>", "kept = undefined").await.unwrap();
    let empty = "new Array(10_000).fill('room again').length";
    let room = line(&mut session, "<6>", empty).await.unwrap();
    assert_eq!(room.as_deref(), Some("10000"));
}
