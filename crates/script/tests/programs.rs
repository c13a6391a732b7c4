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
async fn a_timer_that_sets_the_next_for_at_once_keeps_no_answer_waiting() {
    let text = run("let turns = 0, answer;
         __aurae.call(undefined, 'test.Echo', 'came').then((value) => { answer = value; });
         while (answer === undefined && turns < 1e7) { turns++; await sleep(0); }
         print(answer);")
    .await
    .unwrap();
    assert_eq!(text, "came\n");
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
