// SPDX-License-Identifier: Apache-2.0
//! Programs in the real evaluator's process: what they can do, and how they fail.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod support;

use std::time::Duration;

use script::protocol::{Limit, Module, Start, Thrown};
use script::value::Value;
use support::{line, main, options, run, session};

#[tokio::test]
async fn a_program_prints_and_ends() {
    assert_eq!(
        run("print('hello', 1, 2n, { a: [1, 'x'] })").await.unwrap(),
        "hello 1 2n { a: [ 1, \"x\" ] }\n"
    );
    let text = run("console.warn('careful'); console.log({})")
        .await
        .unwrap();
    assert_eq!(text, "! careful\n{}\n");
}

#[tokio::test]
async fn it_lives_as_long_as_its_timers() {
    let text = run("setTimeout(() => print('late'), 20);
         clearTimeout(setTimeout(() => print('never'), 1));
         setTimeout(print, 1, 'tick');
         await sleep('5ms');
         print('slept');")
    .await
    .unwrap();
    assert_eq!(text, "tick\nslept\nlate\n");
}

#[tokio::test]
async fn modules_are_joined_asked_for_and_missed() {
    let (mut session, _host) = session(options(Start::default())).await;
    let modules = vec![
        Module {
            name: "lib/names.ts".into(),
            code: "export const web = 'web';".into(),
        },
        Module {
            name: "main.ts".into(),
            code: "import { web } from './lib/names.ts';
                   if (web !== 'web') throw new Error(web);
                   try { await import('./none.ts'); } catch (e) {
                     if (e.code !== 'UNRESOLVED_IMPORT' || e.hint !== 'write it') throw e;
                   }"
            .into(),
        },
    ];
    session.run(modules, "main.ts").await.unwrap();
    let missing = session
        .run(main("import { x } from './gone.ts';"), "main.ts")
        .await;
    assert!(missing.is_err());
}

#[tokio::test]
async fn an_uncaught_error_says_where() {
    let thrown = run("function deep() {\n  null.x;\n}\nawait sleep(1);\ndeep();")
        .await
        .unwrap_err();
    assert_eq!(thrown.name, "TypeError");
    let places: Vec<_> = thrown
        .stack
        .iter()
        .map(|f| (f.function.as_str(), f.line))
        .collect();
    assert_eq!(places[0], ("deep", 2), "{:?}", thrown.stack);
    assert_eq!(places[1].1, 5, "{:?}", thrown.stack);
    assert_eq!(thrown.stack[0].module, "main.ts");
}

#[tokio::test]
async fn a_rejection_that_is_not_handled_fails_the_program() {
    let thrown = run("Promise.reject(new RangeError('lost')); await sleep(1000);")
        .await
        .unwrap_err();
    assert_eq!(
        (thrown.name.as_str(), thrown.message.as_str()),
        ("RangeError", "lost")
    );
    assert!(
        run("const p = Promise.reject(1); p.catch(() => {}); await sleep(1);")
            .await
            .is_ok()
    );
    let thrown = run("throw { code: 7 }").await.unwrap_err();
    assert_eq!(thrown.message, "{ code: 7 }");
}

#[tokio::test]
async fn syntax_and_waits_for_nothing_are_errors() {
    let thrown = run("let = ;").await.unwrap_err();
    assert_eq!(thrown.name, "SyntaxError");
    let thrown = run("await new Promise(() => {})").await.unwrap_err();
    assert!(
        thrown.message.contains("can never happen"),
        "{}",
        thrown.message
    );
}

#[tokio::test]
async fn calls_go_out_and_come_back() {
    let text = run(
        "const request = { big: 2n ** 63n, bytes: new Uint8Array([1, 2]) };
         const back = await __aurae.call(undefined, 'test.Echo', request);
         print(back);
         print([undefined, null], await Promise.all([1, 2].map((n) => __aurae.call('alice', 'test.Echo', n))));",
    )
    .await
    .unwrap();
    assert_eq!(
        text,
        "{ big: 9223372036854775808n, bytes: Uint8Array(2) [ 1, 2 ] }\n[ undefined, null ] [ 1, 2 ]\n"
    );
}

#[tokio::test]
async fn a_failed_call_shows_where_it_was_made() {
    let code =
        "async function go() {\n  await __aurae.call(undefined, 'test.None', {});\n}\nawait go();";
    let thrown = run(code).await.unwrap_err();
    let failure = thrown.failure.unwrap();
    assert_eq!(thrown.name, "AuraeError");
    assert_eq!(failure.code, "NOT_FOUND");
    assert_eq!(failure.method.as_deref(), Some("test.None"));
    assert_eq!(failure.field.as_deref(), Some("spec.argv"));
    assert_eq!(failure.hint.as_deref(), Some("look it up"));
    assert_eq!(
        (thrown.stack[0].function.as_str(), thrown.stack[0].line),
        ("go", 2)
    );
}

#[tokio::test]
async fn what_can_t_be_sent_is_refused_with_its_place() {
    for (value, why) in [
        (
            "{ a: { b: () => 1 } }",
            "the request.a.b: a function can't be sent",
        ),
        ("[1, Symbol('x')]", "the request[1]: a symbol can't be sent"),
        (
            "(() => { const a = {}; a.a = a; return a; })()",
            "the request.a: it contains itself",
        ),
        (
            "{ m: new Map() }",
            "the request.m: a Map can't be sent; use a plain object",
        ),
        (
            "new Proxy({}, {})",
            "the request: a Proxy can't be sent; copy it into a plain object",
        ),
        (
            "2n ** 200n",
            "the request: an integer of more than 128 bits",
        ),
        ("{ get x() { throw new Error('mine') } }", "mine"),
    ] {
        let code = format!("await __aurae.call(undefined, 'test.Echo', {value})");
        assert_eq!(run(&code).await.unwrap_err().message, why, "{value}");
    }
    let deep = "let a = {}; for (let i = 0; i < 300; i++) a = { a };";
    let code = format!("{deep} await __aurae.call(undefined, 'test.Echo', a)");
    let message = run(&code).await.unwrap_err().message;
    assert!(message.ends_with("nested too deep"), "{message}");
    let large = "await __aurae.call(undefined, 'test.Echo', 'x'.repeat(20 << 20))";
    assert!(run(large).await.unwrap_err().message.contains("16 MiB"));
}

#[tokio::test]
async fn streams_move_an_item_at_a_time() {
    let text = run("let sum = 0;
         for await (const n of __aurae.stream(undefined, 'test.Count')) {
           if (n === 100) break;
           sum += n;
         }
         const three = [];
         for await (const n of __aurae.stream(undefined, 'test.Three')) three.push(n);
         const both = __aurae.stream(undefined, 'test.Double');
         for (const n of [1, 2, 3]) both.send(n);
         both.closeSend();
         const doubled = [];
         for await (const n of both) doubled.push(n);
         print(sum, three, doubled);
         try {
           for await (const n of __aurae.stream(undefined, 'test.Breaks')) print(n);
         } catch (e) { print(e.code, e.method); }")
    .await
    .unwrap();
    assert_eq!(
        text,
        "4950 [ 0n, 1n, 2n ] [ 2, 4, 6 ]\n1\nUNAVAILABLE test.Breaks\n"
    );
}

#[tokio::test]
async fn signals_and_timeouts_go_with_calls() {
    let (mut session, host) = session(options(Start::default())).await;
    session
        .run(
            main(
                "const c = new AbortController();
                 const options = { signal: c.signal, timeout: '1m30s' };
                 const slow = __aurae.call(undefined, 'test.Slow', {}, options);
                 // Once this one is answered the parent has seen the one before it.
                 await __aurae.call(undefined, 'test.Echo', {});
                 c.abort();
                 try {
                   await slow;
                 } catch (e) { print(e.name); }
                 try {
                   await __aurae.call(undefined, 'test.Slow', {}, { signal: AbortSignal.timeout(5) });
                 } catch (e) { print(e.name); }",
            ),
            "main.ts",
        )
        .await
        .unwrap();
    assert_eq!(host.text(), "AbortError\nTimeoutError\n");
    assert_eq!(host.calls.lock().unwrap()[0].timeout, Some(90_000.0));
}

#[tokio::test]
async fn the_prelude_s_globals_stay_and_what_it_stands_on_goes() {
    let start = Start {
        prelude: vec![Module {
            name: "aurae:prelude".into(),
            code: "class Web { #a = 1; }
                   __aurae.AuraeError = class AuraeError extends Error {
                     constructor(f) { super(f.message); this.name = 'AuraeError'; this.code = f.code; }
                   };
                   __aurae.inspect = (v) => v instanceof Web ? { name: 'Web', value: { a: 1 } } : undefined;
                   const { call } = __aurae;
                   globalThis.Web = Web;
                   globalThis.ask = () => call(undefined, 'test.None', {});"
                .into(),
        }],
        ..Start::default()
    };
    let (mut session, host) = session(options(start)).await;
    let code = "print(typeof __aurae, new Web());\nawait ask();";
    let thrown = session.run(main(code), "main.ts").await.unwrap_err();
    assert_eq!(host.text(), "undefined Web { a: 1 }\n");
    assert_eq!(thrown.failure.unwrap().code, "NOT_FOUND");
    assert_eq!(
        (thrown.stack[0].module.as_str(), thrown.stack[0].line),
        ("main.ts", 2)
    );
}

#[tokio::test]
async fn files_yaml_text_and_arguments() {
    let start = Start {
        args: vec!["a".into(), "b".into()],
        ..Start::default()
    };
    let (mut session, host) = session(options(start)).await;
    let code = "print(args, await file.readText('./here'));
        try { await file.read('./none'); } catch (e) { print(e.code); }
        print(yaml.parse('a: [1, 9007199254740993]'), JSON.stringify(yaml.stringify({ b: 1n })));
        const bytes = new TextEncoder().encode('ä');
        print(bytes, new TextDecoder().decode(bytes));";
    session.run(main(code), "main.ts").await.unwrap();
    assert_eq!(
        host.text(),
        "[ \"a\", \"b\" ] for main.ts\nNOT_FOUND\n{ a: [ 1, 9007199254740993n ] } \"b: 1\\n\"\n\
         Uint8Array(2) [ 195, 164 ] ä\n"
    );
}

#[tokio::test]
async fn values_are_printed_readably() {
    for (value, printed) in [
        ("new Map([[1, { a: 1 }]])", "Map(1) {1 => { a: 1 }}"),
        ("new Set('ab')", "Set(2) { \"a\", \"b\" }"),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("/a+/gi", "/a+/gi"),
        ("class A {}", "[class: A]"),
        ("function f() {}", "[Function: f]"),
        (
            "new (class Cell { name = 'web' })()",
            "Cell { name: \"web\" }",
        ),
        ("{ get x() { throw 1 } }", "{ x: [Getter] }"),
        ("new Proxy({}, { get() { throw 1 } })", "[Proxy]"),
        ("[1, , 3]", "[ 1, <empty>, 3 ]"),
        ("-0", "-0"),
        ("Object.create(null)", "[Object: null prototype] {}"),
        ("new RangeError('far')", "RangeError: far"),
        ("Promise.resolve(1)", "Promise { <fulfilled> }"),
        ("new Number(3)", "[Number: 3]"),
        (
            "(() => { const a = { n: 1 }; a.a = a; return a; })()",
            "{ n: 1, a: [Circular] }",
        ),
        ("Array.from({ length: 200 })", "100 more"),
    ] {
        let text = run(&format!("print({value})")).await.unwrap();
        if printed.contains("more") {
            assert!(text.contains(printed), "{text}");
        } else {
            let map = text
                .trim_end()
                .replace("Map(1) { 1 => { a: 1 } }", "Map(1) {1 => { a: 1 }}");
            assert_eq!(map, printed, "{value}");
        }
    }
}

#[tokio::test]
async fn lines_share_their_globals_and_give_their_values() {
    let (mut session, _) = session(options(Start::default())).await;
    let mut number = 0;
    for (code, value) in [
        ("let x = 1", None),
        ("x + 1", Some("2")),
        ("await sleep(1), 'awaited'", Some("\"awaited\"")),
        ("({ x })", Some("{ x: 1 }")),
    ] {
        number += 1;
        let got = line(&mut session, &format!("<repl:{number}>"), code)
            .await
            .unwrap();
        assert_eq!(got.as_deref(), value, "{code}");
    }
    let thrown = line(&mut session, "<repl:9>", "\n  nothing.x")
        .await
        .unwrap_err();
    assert_eq!(thrown.name, "ReferenceError");
    assert_eq!(thrown.stack[0].module, "<repl:9>");
    assert_eq!(
        line(&mut session, "<repl:10>", "x")
            .await
            .unwrap()
            .as_deref(),
        Some("1")
    );
}

#[tokio::test]
async fn names_are_found_without_running_code() {
    let (mut session, _) = session(options(Start::default())).await;
    let code = "globalThis.box = { a: 1, f() {}, get g() { throw 1 } }; 0";
    line(&mut session, "<repl:1>", code).await.unwrap();
    let names = session.names(vec!["box".into()]).await;
    let found: Vec<_> = names
        .iter()
        .map(|n| (n.name.as_str(), n.function))
        .collect();
    assert_eq!(found, [("a", false), ("f", true), ("g", false)]);
    assert!(
        session
            .names(vec!["box".into(), "g".into()])
            .await
            .is_empty()
    );
    assert!(
        session
            .names(vec![])
            .await
            .iter()
            .any(|n| n.name == "print" && n.function)
    );
}

#[tokio::test]
async fn names_that_a_busy_evaluator_cannot_say_cost_no_session() {
    let (mut session, host) = session(options(Start::default())).await;
    let code = "globalThis.box = { kept: 7 };
        setTimeout(() => {
          print('busy');
          for (const end = Date.now() + 1000; Date.now() < end;);
        }, 1);";
    line(&mut session, "<repl:1>", code).await.unwrap();
    support::until_printed(&host, "busy").await;
    for _ in 0..3 {
        session.names(vec!["box".into()]).await;
        assert!(session.is_alive());
    }
    let kept = line(&mut session, "<repl:2>", "box.kept").await.unwrap();
    assert_eq!(kept.as_deref(), Some("7"));
    let names = session.names(vec!["box".into()]).await;
    let names: Vec<_> = names.iter().map(|name| name.name.as_str()).collect();
    assert_eq!(names, ["kept"], "names are said again once it rests");
}

#[tokio::test]
async fn an_evaluator_that_ends_while_names_are_asked_for_says_how_it_ended() {
    let (mut session, _) = session(options(Start::default())).await;
    line(&mut session, "<repl:1>", "0").await.unwrap();
    let pid = rustix::process::Pid::from_raw(session.pid().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert!(session.names(vec!["box".into()]).await.is_empty());
    let thrown = line(&mut session, "<repl:2>", "1").await.unwrap_err();
    assert_eq!(thrown.limit, Some(Limit::Evaluator));
    assert!(thrown.message.contains("killed"), "{}", thrown.message);
    assert!(!session.is_alive());
}

/// What a program prints that would wait for ever if it were wrong.
async fn soon(code: &str) -> Result<String, Thrown> {
    let mut options = options(Start::default());
    options.timeout = Some(Duration::from_secs(30));
    let (mut session, host) = session(options).await;
    session.run(main(code), "main.ts").await?;
    Ok(host.text())
}

#[tokio::test]
async fn reading_a_request_may_call_by_itself() {
    let said = soon(
        "const inner = [];
        const call = (request) => __aurae.call(undefined, 'test.Echo', request);
        const outer = await call({
          get path() { inner.push(call({ n: 1 })); return 'a'; },
          made: { toJSON() { inner.push(call({ n: 2 })); return 'b'; } },
        });
        print(outer, await Promise.all(inner));",
    )
    .await
    .unwrap();
    assert_eq!(
        said,
        "{ path: \"a\", made: \"b\" } [ { n: 1 }, { n: 2 } ]\n"
    );
}

#[tokio::test]
async fn reading_a_request_may_begin_no_more_calls_than_there_may_be() {
    let (mut session, _) = session(options(Start::default())).await;
    // What is open when a program fails ends with it.
    let code = "const slow = (request) => __aurae.call(undefined, 'test.Slow', request);
        const refused = [];
        for (let i = 0; i < 1023; i++) slow({});
        slow({ get x() {
          for (let i = 0; i < 3; i++) slow({}).catch((e) => refused.push(e.code));
          return 1;
        } });
        await sleep(1);
        throw new Error(refused);";
    let thrown = session.run(main(code), "main.ts").await.unwrap_err();
    let all = ["RESOURCE_EXHAUSTED"; 3].join(",");
    assert_eq!(thrown.message, all, "{thrown:?}");
    assert!(session.is_alive());
}

#[tokio::test]
async fn reading_an_item_may_close_its_stream() {
    let said = soon(
        "const stream = __aurae.stream(undefined, 'test.Double');
        const sent = stream.send({ toJSON() { stream.close(); return 1; } });
        print(await sent.catch((error) => error.code));",
    )
    .await
    .unwrap();
    assert_eq!(said, "CANCELLED\n");
}

#[tokio::test]
async fn reading_a_request_may_take_its_call_back() {
    let said = soon(
        "const taker = new AbortController();
        const request = { get x() { taker.abort('enough'); return 1; } };
        const called = __aurae.call(undefined, 'test.Slow', request, { signal: taker.signal });
        print(await called.catch((reason) => reason));",
    )
    .await
    .unwrap();
    assert_eq!(said, "enough\n");
}

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
