// SPDX-License-Identifier: Apache-2.0
//! Programs that are planned, in the real evaluator's process: which ways they may take by what
//! only a real call would tell, and which they may not.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod support;

use script::protocol::{Limit, Start};
use script::value::Value;
use support::{main, options, session};

#[tokio::test]
async fn a_plan_s_unknown_may_be_passed_on_but_not_looked_at() {
    let start = Start {
        plan: true,
        ..Start::default()
    };
    let (mut session, host) = session(options(start.clone())).await;
    let code = "const u = await __aurae.call(undefined, 'test.Unknown', {});
        print(u.pid);
        await __aurae.call(undefined, 'test.Echo', { pid: u.pid });";
    session.run(main(code), "main.ts").await.unwrap();
    assert_eq!(host.text(), "<unknown: test.Unknown(x).pid>\n");
    let sent = host.calls.lock().unwrap()[1].request.clone();
    assert_eq!(
        sent,
        Value::Object(vec![(
            "pid".into(),
            Value::Unknown("test.Unknown(x).pid".into())
        )])
    );
    for (code, has_place) in [
        ("if (__known(u.pid, 3, 7)) {}", true),
        ("`${u}`", false),
        ("u + 1", false),
        ("JSON.stringify({ u })", false),
        ("for (const x of u) {}", false),
    ] {
        let code = format!("const u = await __aurae.call(undefined, 'test.Unknown', {{}}); {code}");
        let (mut session, _) = support::session(options(start.clone())).await;
        let thrown = session.run(main(&code), "main.ts").await.unwrap_err();
        assert_eq!(thrown.limit, Some(Limit::Unknown), "{code}: {thrown:?}");
        assert_eq!(
            thrown.place.map(|p| (p.line, p.column)),
            has_place.then_some((3, 7))
        );
    }
}

/// What comes of a program in a plan: the line of what it can't know, or what it prints.
async fn planned(code: &str) -> Result<String, (u32, String)> {
    let start = Start {
        plan: true,
        ..Start::default()
    };
    let text = format!("const u = await __aurae.call(undefined, 'test.Unknown', {{}});\n{code}");
    let source = language::source::Source::new("main.ts", text.as_str());
    let guarded = language::compile::Options { plan: true };
    let compiled = language::compile::compile(&source, guarded).unwrap();
    let (mut session, host) = session(support::options(start)).await;
    match session.run(main(&compiled.code), "main.ts").await {
        Ok(()) => Ok(host.text()),
        Err(thrown) => {
            assert_eq!(thrown.limit, Some(Limit::Unknown), "{code}: {thrown:?}");
            let of_stack = thrown.stack.first().and_then(|frame| {
                let place = compiled.original(frame.line, frame.column)?;
                Some(place.line)
            });
            let line = thrown.place.map(|place| place.line).or(of_stack);
            Err((line.unwrap_or_default(), thrown.message))
        }
    }
}

/// Ways that a program takes by what it can't know, `u`: each is refused, on its line.
const WAYS: &[&str] = &[
    "let n = 0; if (u) n = 1;",
    "if (u) { if (u.pid) throw 1; await test.Go(); }",
    "if (u) return_(1); function return_(n: number) {}",
    "let n = 0; if (u) for (n of [1]) print(n);",
    "if (u) { const { a = await test.Go() } = {} as any; throw a; }",
    "if (u) { var n = 1; throw n; }",
    "if (u) throw 1; else throw 2;",
    "if ([1].find(() => u)) throw 1;",
    "if (1 && u.code !== (await u)) throw 1;",
    "print(u ? 1 : 2);",
    "while (u) print(1);",
    "do print(1); while (u.more);",
    "for (; u.more;) print(1);",
    "for (const one of u) print(one);",
    "for await (const one of u) print(one);",
    "for (const key in u) print(key);",
    "switch (u) { case 1: print(1); }",
    "switch (1) { case u: print(1); }",
    "print(!u);",
    "print(u && 1);",
    "print(u || 1);",
    "print(u.exit?.code ?? 0);",
    "let a = u; a ??= 1;",
    "print(u === 1);",
    "print(u == null);",
    "print(u < 1);",
    "print('pid' in u);",
    "print(u instanceof Error);",
    "print(typeof u);",
    "print(u * 2);",
    "print(-u);",
    "let n = 1; n += u;",
    "print([1, 2][u]);",
    "print({ [u]: 1 });",
    "print(u());",
    "print(new u());",
    "print(u.toString());",
    "u.pid = 1;",
    "delete u.pid;",
    "print([...u]);",
    "print({ ...u });",
    "const [first] = u;",
    "const { pid, ...rest } = u;",
    "print(Boolean(u));",
    "print(new Boolean(u));",
    "print([u].filter(Boolean));",
    "print(String(u));",
    "print(Number(u));",
    "print(BigInt(u));",
    "print(isNaN(u));",
    "print(Number.isInteger(u));",
    "print(Array.isArray(u));",
    "print(Object.is(u, 1));",
    "print(Object.keys(u));",
    "print(Object.entries(u));",
    "print(Object.hasOwn(u, 'pid'));",
    "print(Object.hasOwn({}, u));",
    "print([1].filter(() => u));",
    "print([1].some(() => u));",
    "print([1].every(() => u));",
    "print([1].find(() => u));",
    "print([1].findIndex(() => u));",
    "print([1].findLast(() => u));",
    "print([1].findLastIndex(() => u));",
    "print([1].flatMap(() => u));",
    "print([1, 2].sort(() => u));",
    "print([1, 2].toSorted(() => u));",
    "print([u, 1].sort());",
    "print([u].flat());",
    "print([].concat(u));",
    "print([u].includes(1));",
    "print([1].includes(u));",
    "print([1].indexOf(u));",
    "print([u].join());",
    "print(new Uint8Array([1]).some(() => u));",
    "print([1].values().filter(() => u).toArray());",
    "print([1].values().some(() => u));",
    "print(Object.groupBy([1], () => u));",
    "print(Map.groupBy([1], () => u));",
    "print(new Set([u]));",
    "print(new Set([1]).has(u));",
    "print(new Map([[u, 1]]));",
    "print(new Map([[1, 1]]).get(u));",
    "print(Array.from(u));",
    "print('a'.replace('a', () => u));",
    "print('a'.startsWith(u));",
    "print(/a/.test(u));",
    "print(JSON.stringify(u));",
    "print(JSON.stringify({ u }));",
    "print(yaml.stringify({ u }));",
    "print(Math.max(u, 1));",
    "print(new Date(u));",
    "await sleep(u);",
    "setTimeout(() => {}, u);",
    "await file.read(u);",
    "print(AbortSignal.timeout(u));",
];

/// What passes an unknown on, and what is seen of it then.
const PASSED_ON: &[(&str, &str)] = &[
    ("print(u);", "<unknown: U>"),
    ("print({ a: [u.pid] });", "{ a: [ <unknown: U.pid> ] }"),
    ("print(u.exit?.code);", "<unknown: U.exit.code>"),
    ("print(await Promise.all([u, 1]));", "[ <unknown: U>, 1 ]"),
    ("const { pid = 3 } = u; print(pid);", "<unknown: U.pid>"),
    ("const { a: { b } } = u; print(b);", "<unknown: U.a.b>"),
    (
        "print(`pid ${u.pid} of ${1 + 1}`);",
        "<unknown: `pid ${U.pid} of 2`>",
    ),
    ("print('pid ' + u.pid);", "<unknown: \"pid \" + U.pid>"),
    ("print(1 + 2 + 'a');", "3a"),
    ("print(`a ${1} b ${'c'}`);", "a 1 b c"),
    ("print([1, 2].map(() => u).length);", "2"),
    ("const f = (x = 1) => x; print(f(u));", "<unknown: U>"),
    (
        "print([3, 1, 2].sort((a, b) => a - b).filter((n) => n > 1));",
        "[ 2, 3 ]",
    ),
    (
        "print([0, 1].filter(Boolean), Boolean(''), true.constructor === Boolean);",
        "[ 1 ] false true",
    ),
    ("print(new Map([['a', u]]).get('a'));", "<unknown: U>"),
    (
        "print([1].includes(1), new Set([1]).has(1), [[1]].flat());",
        "true true [ 1 ]",
    ),
];

/// What is planned as passed: nothing but a throw or a print depends on it.
const PASSED: &[(&str, &str)] = &[
    (
        "if (u.exit?.code !== 0) throw new Error(`no: ${u}`); print(1);",
        "U.exit.code\n1",
    ),
    (
        "if (!u.ok) { print(2); throw 1; } else print(1);",
        "U.ok\n1",
    ),
    ("if (u.ok) print(1); else throw 2;", "U.ok\n1"),
    ("if (u && u.pid > 3) print('late');", "U"),
    ("if (1 > 0 && u.pid > 3) console.warn(u.pid);", "U.pid"),
    (
        "if ((await u).pid === 3) { if (args[0]) throw 1; }",
        "U.pid",
    ),
    (
        "const f = () => { if (u.a) throw 1; return 3; }; print(f());",
        "U.a\n3",
    ),
    (
        "try { if (u.a) throw 1; } catch { print(9); } print(1);",
        "U.a\n1",
    ),
    (
        "if (typeof u === 'string') throw 1; else if (u.b) print(2); print(1);",
        "U\nassumed 2: U.b\n1",
    ),
    (
        "if (u.a) { const why = `no: ${u.b}`; throw new Error(why); } print(1);",
        "U.a\n1",
    ),
    (
        "if (u.a) { for (const one of [1]) print(one); u.b && print(2); u.c ? print(3) : print(4); }",
        "U.a",
    ),
    (
        "if (u.a) switch (u.b) { case 1: print(1); break; default: throw 2; } print(1);",
        "U.a\n1",
    ),
    (
        "for (const one of [1, 2]) { if (u.a) continue_(); function continue_() {} }",
        "",
    ),
];

#[tokio::test]
async fn what_only_throws_or_prints_is_planned_as_passed() {
    let mut wrong = Vec::new();
    for (code, shown) in PASSED {
        let came = planned(code).await;
        if shown.is_empty() {
            assert!(came.is_err(), "{code}: {came:?}");
            continue;
        }
        let wanted = format!("assumed 2: {}\n", shown.replace('U', "test.Unknown(x)"));
        if came.as_ref() != Ok(&wanted) {
            wrong.push(format!("{code}: {came:?}, not {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_plan_takes_no_way_that_it_can_t_know() {
    let mut wrong = Vec::new();
    for code in WAYS {
        match planned(&format!("\n{code}")).await {
            Err((3, message)) if message.contains("test.Unknown(x)") => {}
            other => wrong.push(format!("{code}: {other:?}")),
        }
        // That it is caught doesn't make it known.
        let caught = planned(&format!("try {{\n{code}\n}} catch {{}}\nprint('went on');")).await;
        if !matches!(caught, Err((3, _))) {
            wrong.push(format!("caught: {code}: {caught:?}"));
        }
    }
    for (code, shown) in PASSED_ON {
        let wanted = format!("{}\n", shown.replace('U', "test.Unknown(x)"));
        let came = planned(code).await;
        if came.as_ref() != Ok(&wanted) {
            wrong.push(format!("{code}: {came:?}, not {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
