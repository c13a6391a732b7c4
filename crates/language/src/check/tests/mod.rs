// SPDX-License-Identifier: Apache-2.0
//! What the checker says, and above all where it is silent.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};

use super::{Environment, File, check};
use crate::source::Source;

mod any_text;
mod mistakes;
mod verdicts;

const FIXTURE: &str = include_str!("fixture.d.ts");

fn environment() -> Arc<Environment> {
    Arc::new(Environment::new(FIXTURE))
}

/// `line:column code message` of all findings in one file.
fn said(text: &str) -> Vec<String> {
    let file = File {
        source: Source::new("main.ts", text),
        imports: HashMap::new(),
    };
    let findings = check(&environment(), &[file]);
    let lines = findings.iter().map(|finding| {
        let place = finding.source.position(finding.span.start);
        let (line, column) = (place.line, place.column);
        format!("{line}:{column} {} {}", finding.code, finding.message)
    });
    lines.collect()
}

fn silent(text: &str) {
    assert_eq!(said(text), Vec::<String>::new(), "{text}");
}

/// The only finding's code.
fn code(text: &str) -> String {
    let said = said(text);
    assert_eq!(said.len(), 1, "{text}: {said:?}");
    said[0].split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_right_program_is_right() {
    silent(
        r#"
        const web = new Cell({ name: "web", resources: { memory: { max: 268435456 } } });
        const nginx = new Executable({ name: "web/nginx", argv: ["nginx"], env: { A: "b" } });
        nginx.Env("user", "nova").Env("a", "b");
        const status = await runtime.Run(web);
        const all = await runtime.Run([web, nginx]);
        print(status.name, all.map((one) => one.pid), all[0].labels.app);
        for await (const line of observe.Stdout(nginx).withContext({ timeout: "5s" })) {
            print(line.trim());
        }
        await runtime.Stop("web", { grace: "5s" });
        await runtime.Stop({ object: { path: "web", kind: "cell" }, force: true });
        const answers = await Promise.all(["a", "b"].map((name) => node(name).runtime.List({})));
        for (const answer of answers) print(answer.objects.length, answer.nextPage);
        const options = { name: "x" };
        print(new Cell({ ...options, labels: { a: "b" } }).name.length);
        void runtime.Get({});
        const later = runtime.Get({});
        print((await later).startedAt?.length);
        print(runtime.RunCell.action, runtime.action, print.name);
        "#,
    );
}

#[test]
fn a_field_that_is_none_has_its_nearest_name() {
    let found = said(r#"const c = new Cell({ name: "web", resources: { memroy: { max: 1 } } });"#);
    assert_eq!(
        found,
        ["1:48 unknown-field `Resources` has no field `memroy`"]
    );
    assert_eq!(
        code("print((await runtime.Get({})).nmae);"),
        "unknown-field"
    );
    assert_eq!(code("await runtime.Gett({});"), "unknown-method");
    assert_eq!(code("await runtime.Get({ objects: {} });"), "unknown-field");
}

#[test]
fn values_of_the_wrong_type_are_named() {
    assert_eq!(
        code(r#"await runtime.List({ pageSize: "10" });"#),
        "wrong-type"
    );
    assert_eq!(
        code(r#"new Executable({ name: "a", argv: "nginx" });"#),
        "wrong-type"
    );
    assert_eq!(
        code(r#"new Executable({ name: "a", argv: [1] });"#),
        "wrong-type"
    );
    assert_eq!(
        code("const name = 5; await runtime.Stop(name);"),
        "wrong-type"
    );
    assert_eq!(code("const a: string = args;"), "wrong-type");
    assert_eq!(code("await runtime.List();"), "wrong-type");
    assert_eq!(code("await runtime.List({}, {}, 3);"), "wrong-type");
    assert_eq!(code("function f(): string { return 5; }"), "wrong-type");
    assert_eq!(
        code("const f = async (): Promise<string> => { return 5; };"),
        "wrong-type"
    );
    assert_eq!(
        code("let a = new Cell({ name: \"a\" }); a.name = 5;"),
        "wrong-type"
    );
    assert_eq!(code("await runtime.RunCell(null);"), "wrong-type");
}

#[test]
fn enums_required_fields_and_ranges() {
    assert_eq!(
        code(r#"await runtime.Get({ object: { kind: "pod" } });"#),
        "wrong-enum"
    );
    assert_eq!(code("print([1].lenght);"), "unknown-field");
    assert_eq!(code(r#"new Cell({ labels: {} });"#), "missing-field");
    assert_eq!(
        code("new Cell({ name: \"a\", resources: { cpuWeight: 0 } });"),
        "out-of-range"
    );
    let found = said(r#"new Cell({ name: "a", share: ["net", "utss"] });"#);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("wrong-enum"), "{found:?}");
}

#[test]
fn promises_and_streams_are_what_they_are() {
    assert_eq!(code("runtime.Get({});"), "missing-await");
    // Which overload is meant isn't sure; each of them has to be waited for.
    for text in [
        "runtime.Stop({ odd: 1 });",
        "print(`${runtime.Stop({ odd: 1 })}`);",
    ] {
        let said = said(text);
        assert!(
            said.iter().any(|it| it.contains("missing-await")),
            "{said:?}"
        );
    }
    assert_eq!(code("print(runtime.Get({}).name);"), "missing-await");
    assert_eq!(
        code("const n: CellStatus = runtime.Get({});"),
        "missing-await"
    );
    assert_eq!(code("print(`${runtime.Get({})}`);"), "missing-await");
    assert_eq!(code("await observe.Stdout(\"a\");"), "stream-misuse");
    assert_eq!(
        code("for (const line of observe.Stdout(\"a\")) print(line);"),
        "stream-misuse"
    );
    assert_eq!(
        code("for await (const x of runtime.List({})) print(x);"),
        "stream-misuse"
    );
    assert_eq!(
        code("for (const x of runtime.Run([])) print(x);"),
        "missing-await"
    );
}

#[test]
fn what_is_not_offered_is_said_by_name() {
    assert_eq!(code("secrets.Get({});"), "not-offered");
    assert_eq!(code("runtime.RunVirtualMachine({});"), "not-offered");
    assert_eq!(code("const i = new Instance({});"), "not-offered");
    assert_eq!(code("await runtme.Get({});"), "unknown-name");
}

#[test]
fn what_the_flow_may_have_narrowed_is_let_be() {
    silent(
        r#"
        interface Named { name: string }
        declare const thing: unknown;
        function isNamed(x: unknown): x is Named { return true; }
        if (isNamed(thing)) print(thing.name);
        declare const kind: string;
        if (kind === "cell" || kind === "executable") {
            await runtime.Get({ object: { kind } });
            const ref: ObjectRef = { kind: kind };
        }
        declare const maybe: string | undefined;
        if (maybe) await runtime.Stop(maybe);
        declare const either: string | Cell;
        if (either instanceof Cell) print(either.resources);
        const options: { kind: string } = { kind };
        switch (options.kind) {
            case "cell": await runtime.Get({ object: { kind: options.kind } });
        }
        const { kind: k } = options;
        "#,
    );
}

#[test]
fn a_literal_keeps_its_value_where_it_is_asked_for() {
    silent(
        r#"
        const ref = { path: "a", kind: "cell" } satisfies ObjectRef;
        await runtime.Get({ object: ref });
        const constant = { kind: "cell" } as const;
        await runtime.Get({ object: constant });
        const kind = "cell";
        await runtime.Get({ object: { kind } });
        const choose = (big: boolean) => big ? "cell" : "executable";
        await runtime.Get({ object: { kind: choose(true) } });
        "#,
    );
    let widened = r#"const ref = { kind: "cell" }; await runtime.Get({ object: ref });"#;
    assert_eq!(code(widened), "wrong-type");
}

#[test]
fn comparisons_patterns_and_names_of_types() {
    assert_eq!(
        code("const s = await runtime.Get({}); if (s.kind === \"cel\") print(s);"),
        "wrong-enum"
    );
    assert_eq!(
        code("const { pid } = runtime.Get({}); print(pid);"),
        "missing-await"
    );
    assert_eq!(
        code("const { pdi } = await runtime.Get({}); print(pdi);"),
        "unknown-field"
    );
    assert_eq!(code("const n: spaced.Nce = {}; print(n);"), "unknown-name");
    assert_eq!(code("const n: spacde.Nice = {}; print(n);"), "unknown-name");
}

#[test]
fn types_in_namespaces_are_found() {
    silent(
        "const nice: spaced.Nice = { level: 3, inner: { text: \"a\" } }; await spaced.Set(nice);",
    );
    assert_eq!(
        code("await spaced.Set({ inner: { tex: \"a\" } });"),
        "unknown-field"
    );
    assert_eq!(code("await spaced.Set({ level: 20 });"), "out-of-range");
    assert_eq!(code("print((await spaced.Set({})).txt);"), "unknown-field");
}

#[test]
fn the_generated_declarations_are_understood() {
    let environment = Environment::new(crate::declare::aurae_d_ts().unwrap());
    let said = |text: &str| {
        let source = Source::new("main.ts", text);
        let imports = HashMap::new();
        let findings = check(&Arc::new(environment), &[File { source, imports }]);
        findings
            .into_iter()
            .map(|it| (it.code, it.message))
            .collect::<Vec<_>>()
    };
    let text = "await runtime.RunCell({ cel: {} });\nconst c = new Cell({ name: 5 });\n\
                await runtime.Gte({});\nprint(c.resources?.memory?.maxx);\n\
                new Executable({ name: \"a\", argv: [\"x\"], nice: 40 });";
    let codes: Vec<_> = said(text).into_iter().map(|(code, _)| code).collect();
    let expected = [
        "unknown-field",
        "wrong-type",
        "unknown-method",
        "unknown-field",
        "out-of-range",
    ];
    assert_eq!(codes, expected);
}

#[test]
fn any_workload_is_run_alone_or_among_others() {
    let environment = Arc::new(Environment::new(crate::declare::aurae_d_ts().unwrap()));
    let said = |text: &str| {
        let source = Source::new("main.ts", text);
        let imports = HashMap::new();
        let findings = check(&environment, &[File { source, imports }]);
        let said = findings
            .iter()
            .map(|it| format!("{}: {}", it.code, it.message));
        said.collect::<Vec<_>>()
    };
    for right in [
        "async function f(w: Workload): Promise<Ran> { return await runtime.Run(w); }\n\
         print((await f(new Cell({ name: \"a\" }))).state);",
        "async function f(w: Workload) { return (await runtime.Run(w, undefined, { timeout: 1 })).meta; }\n\
         print(await f(new Executable({ name: \"a\", argv: [\"x\"] })));",
        "async function f(all: Workload[]): Promise<Ran[]> { return await runtime.Run(all); }\n\
         print((await f([new Cell({ name: \"a\" })])).length);",
        "const w: Cell | Executable = args.length > 0 ? new Cell({ name: \"a\" }) \
         : new Executable({ name: \"a\", argv: [\"x\"] });\nprint((await runtime.Run(w)).state);",
    ] {
        assert_eq!(said(right), [""; 0], "{right}");
    }
    for wrong in [
        "await runtime.Run(\"web\");",
        "const all: string[] = [\"web\"];\nawait runtime.Run(all);",
    ] {
        assert_eq!(said(wrong).len(), 1, "{wrong}: {:?}", said(wrong));
    }
}

#[test]
fn exports_carry_their_types_to_importers() {
    let files = [
        (
            "main.ts",
            "import { web, type App, make } from \"./web.ts\";\nimport * as all from \"./web.ts\";\n\
             print(web.nmae, all.wbe);\nconst app: App = { port: \"80\" };\nprint(make(1).argb);\n",
        ),
        (
            "web.ts",
            "export const web = new Cell({ name: \"web\" });\n\
             export interface App { port: number }\n\
             export function make(port: number) { return new Executable({ name: `a${port}`, argv: [] }); }\n",
        ),
    ];
    let imports = HashMap::from([("./web.ts".to_owned(), 1)]);
    let files = files.map(|(name, text)| File {
        source: Source::new(name, text),
        imports: match name {
            "main.ts" => imports.clone(),
            _ => HashMap::new(),
        },
    });
    let findings = check(&environment(), &files);
    let said: Vec<String> = findings
        .iter()
        .map(|it| {
            let line = it.source.position(it.span.start).line;
            format!("{line} {}", it.message)
        })
        .collect();
    assert_eq!(
        said,
        [
            "3 `Cell` has no field `nmae`",
            "3 this object has no field `wbe`",
            "4 expected number, found \"80\"",
            "5 `Executable` has no field `argb`",
        ]
    );
}

#[test]
fn circles_and_broken_modules_are_any() {
    let a = "import { b } from \"./b.ts\"; export const a = b; print(a.anything);";
    let b = "import { a } from \"./a.ts\"; export const b = a; print(b.anything);";
    let broken = "export const c = ";
    let files = [
        ("a.ts", a, "./b.ts", 1),
        ("b.ts", b, "./a.ts", 0),
        ("c.ts", broken, "", 9),
    ];
    let files = files.map(|(name, text, specifier, index)| File {
        source: Source::new(name, text),
        imports: HashMap::from([(specifier.to_owned(), index)]),
    });
    assert!(check(&environment(), &files).is_empty());
}

/// A comparison of all ways through these would outlive the machine.
#[test]
fn types_that_hold_each_other_in_many_ways_take_no_time() {
    let members = |other: &str| {
        let members = ("abcdefgh").chars().map(|name| format!("{name}: {other};"));
        members.collect::<String>()
    };
    let text = format!(
        "interface A extends A, A, A {{ {} }}\ninterface B {{ {} }}\n\
         declare const a: A;\nconst b: B = a;\nprint(b.a.b.c.z, a.zz);",
        members("B"),
        members("A")
    );
    soon(&text);
}

/// What is said, in little time of the processor: on a busy machine the clock on the wall says
/// nothing.
fn soon(text: &str) -> Vec<String> {
    let work = || {
        let said = said(text);
        (said, clock_gettime(ClockId::ThreadCPUTime))
    };
    let (said, took) = crate::stack::on_big_stack(work).unwrap();
    assert!(took.tv_sec < 20, "{took:?}: {text}");
    said
}

#[test]
fn nested_calls_of_overloads_take_no_time() {
    let nested = |open: &str, close: &str| format!("{}\"x\"{}", open.repeat(60), close.repeat(60));
    let declared = "interface A { a: number }\n\
        interface F { (x: string | string[]): A; (x: A | A[] | { a: A } | (() => A)): A }\n\
        interface New { new (x: string): A; new (x: A): A }\n\
        declare const f: F;\ndeclare const N: New;\n";
    for (open, close) in [
        ("f(", ")"),
        ("f([f(", ")])"),
        ("f({ a: f(", ") })"),
        ("f(() => f(", "))"),
        ("f(true ? f(", ") : f(\"y\"))"),
        ("new N(", ")"),
    ] {
        let text = format!("{declared}print({});", nested(open, close));
        assert_eq!(soon(&text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn nested_literals_of_unions_take_no_time() {
    let declared = "interface A { in?: A | B | C; a?: 1 }\ninterface B { in?: A | B | C; b?: 1 }\n\
        interface C { in?: A | B | C; c?: 1 }\n";
    // What none of them has is refused by all, at every level.
    let nested = format!("{}{{ z: 2 }}{}", "{ in: ".repeat(60), " }".repeat(60));
    soon(&format!("{declared}const a: A | B | C = {nested};"));
    let little = "const a: A | B | C = { in: { in: { z: 2 } } };";
    assert_eq!(code(&format!("{declared}{little}")), "unknown-field");
}

#[test]
fn names_of_types_and_texts_made_of_parts_may_be_literals() {
    silent(
        r#"
declare const x: unknown;
declare const tier: "front" | "back";
const kind: "bigint" | "boolean" | "function" | "number" | "object" | "string" | "symbol" | "undefined" =
  typeof x;
let again = typeof x;
again = typeof tier;
const side: "front-end" | "back-end" = `${tier}-end`;
const sides: ("front-end" | "back-end")[] = [`${tier}-end`];
const text: string = typeof x + `${tier}`;
print(kind, again, side, sides, text, `${tier}`.length, (typeof x).length);
"#,
    );
    assert_eq!(
        code("declare const x: unknown;\nconst n: number = typeof x;"),
        "wrong-type"
    );
    assert_eq!(
        code("declare const x: unknown;\nconst n: number = `${x}`;"),
        "wrong-type"
    );
}

#[test]
fn a_missing_field_comes_with_its_repair() {
    let text = r#"new Executable({ name: "a" });"#;
    let file = File {
        source: Source::new("main.ts", text),
        imports: HashMap::new(),
    };
    let findings = check(&environment(), &[file]);
    let edit = &findings[0].fixes[0].edits[0];
    let (start, end) = (edit.span.start as usize, edit.span.end as usize);
    let mended = format!("{}{}{}", &text[..start], edit.text, &text[end..]);
    assert_eq!(mended, r#"new Executable({ name: "a", argv: [] });"#);
    silent(&mended);
}
