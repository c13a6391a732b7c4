// SPDX-License-Identifier: Apache-2.0
//! What keeps a program from being applied, what is only said, and right programs that were refused
//! once.

use super::*;
use crate::finding::Severity;

/// The severities of all findings, in their order.
fn severities(text: &str) -> Vec<Severity> {
    let file = File {
        source: Source::new("main.ts", text),
        imports: HashMap::new(),
    };
    let findings = check(&environment(), &[file]).into_iter();
    findings.map(|finding| finding.severity).collect()
}

#[test]
fn what_the_schema_makes_certain_is_an_error() {
    for certain in [
        "await runtime.Gett({});",
        "await runtime.Get({ objects: {} });",
        "print((await runtime.Get({})).nmae);",
        "await runtime.List({ pageSize: \"10\" });",
        "await runtime.Get({ object: { kind: \"pod\" } });",
        "new Cell({ labels: {} });",
        "new Cell({ name: \"a\", resources: { cpuWeight: 0 } });",
        "new Executable({ name: \"a\", argv: [1] });",
        "runtime.Get({});",
        "await runtime.List();",
        "print(fetch);",
    ] {
        assert_eq!(severities(certain), [Severity::Error], "{certain}");
    }
}

#[test]
fn what_only_the_types_say_is_a_warning() {
    for general in [
        "const a: string = 5;",
        "function f(): string { return 5; }",
        "print([1].lenght);",
        "interface A { b: string } const a: A = { b: 5 };",
        "interface A { b: string } const a: A = { c: \"\", b: \"\" };",
        "function f(a: string): void {} f(5);",
        "function f(): string { print(1); }",
    ] {
        assert_eq!(severities(general), [Severity::Warning], "{general}");
    }
}

#[test]
fn an_exhaustive_switch_may_end_in_never() {
    silent(
        r#"
        type Shape = "round" | "square";
        function assertNever(shape: never): never { throw new Error(String(shape)); }
        function area(shape: Shape): number {
            switch (shape) {
                case "round": return 1;
                case "square": return 2;
                default: { const n: never = shape; return n; }
            }
        }
        function sides(shape: Shape): number {
            if (shape === "round") return 0;
            if (shape === "square") return 4;
            return assertNever(shape);
        }
        print(area("round"), sides("square"));
        "#,
    );
}

#[test]
fn places_without_a_name_are_narrowed_too() {
    silent(
        r#"
        class Dog { bark(): void {} }
        class Cat { purr(): void {} }
        class House {
            pet: Dog | Cat = new Dog();
            greet(): void {
                if (this.pet instanceof Dog) this.pet.bark();
                if (this.pet instanceof Cat) { const cat: Cat = this.pet; cat.purr(); }
            }
        }
        const pets: (Dog | Cat)[] = [new Dog()];
        if (pets[0] instanceof Cat) { const cat: Cat = pets[0]; cat.purr(); }
        new House().greet();
        "#,
    );
}

#[test]
fn a_member_may_assert() {
    silent(
        r#"
        class Check {
            text(value: unknown): asserts value is string {
                if (typeof value !== "string") throw new Error("no text");
            }
        }
        const check: Check = new Check();
        function shout(value: string | number): string {
            check.text(value);
            return value.toUpperCase();
        }
        print(shout("a"));
        "#,
    );
}

#[test]
fn functions_have_properties_of_their_own() {
    silent("function f(): void { f.calls += 1; } f.calls = 0; f(); print(f.calls);");
    silent("const g = (): void => {}; g.calls = 0; print(g.calls);");
    assert_eq!(
        code("function f(): void {} print(f.calls);"),
        "unknown-field"
    );
}

#[test]
fn what_a_program_adds_to_the_library_is_there() {
    silent(
        r#"
        export {};
        declare global {
            interface Array<T> { last(): T | undefined }
        }
        Array.prototype.last = function () { return this[this.length - 1]; };
        print([1, 2].last());
        "#,
    );
}

#[test]
fn a_promise_may_be_told_nothing() {
    silent("const p: Promise<number> = Promise.resolve(1); print(await p.then(undefined));");
    silent("const p: Promise<number> = Promise.resolve(1); print(await p.then(null));");
}

#[test]
fn a_line_that_is_told_off_is_let_be() {
    silent("// @ts-expect-error: it is meant\nconst a: string = 5;");
    silent("// @ts-ignore\n// and a comment more\nawait runtime.Gett({});");
    silent("/* @ts-ignore */\nconst a: string = 5;");
    assert_eq!(
        code("// @ts-ignore\nprint(1);\nconst a: string = 5;"),
        "wrong-type"
    );
}

#[test]
fn a_state_that_there_is_none_of_is_seen_wherever_it_is_compared() {
    let status = "const status = await runtime.Get({});\nconst kind = status.kind;\n";
    for compared in [
        "if (kind === \"runing\") print(1);",
        "if (kind !== \"runing\") print(1);",
        "if (kind == \"runing\") print(1);",
        "if (kind != \"runing\") print(1);",
        "if (status.kind == \"runing\") print(1);",
        "if (\"runing\" != status.kind) print(1);",
        "switch (kind) { case \"runing\": print(1); }",
    ] {
        let text = format!("{status}{compared}");
        assert_eq!(code(&text), "wrong-enum", "{compared}");
        assert_eq!(severities(&text), [Severity::Error], "{compared}");
    }
    silent(&format!("{status}if (kind == \"cell\") print(1);"));
    silent(&format!(
        "{status}if (kind != \"cell\" && kind != null) print(1);"
    ));
}

#[test]
fn a_function_that_shall_return_something_does() {
    assert_eq!(code("function f(): string { print(1); }"), "missing-return");
    assert_eq!(
        code("function f(a: boolean): number { if (a) { return 1; } }"),
        "missing-return"
    );
    assert_eq!(
        code("async function f(a: boolean): Promise<number> { if (a) return 1; }"),
        "missing-return"
    );
    silent("function f(a: boolean): number { if (a) return 1; else return 2; }");
    silent("function f(): number { throw new Error(); }");
    silent("function f(): number { for (;;) {} }");
    silent("function f(): number { while (true) { print(1); } }");
    silent("function f(): void { print(1); }");
    silent("function f(): number | undefined { print(1); }");
    silent("function die(): never { throw 1; } function f(): number { die(); }");
    silent(
        "function f(a: \"x\" | \"y\"): number { switch (a) { case \"x\": return 1; case \"y\": return 2; } }",
    );
    silent("function f(): number { try { return 1; } finally { print(1); } }");
}

#[test]
fn what_may_be_absent_is_said_where_nothing_tests_it() {
    let status = "const status = await runtime.Get({});\n";
    let absent = format!("{status}print(status.spec.hostname);");
    assert_eq!(code(&absent), "maybe-absent");
    assert_eq!(severities(&absent), [Severity::Warning]);
    silent(&format!("{status}print(status.spec?.hostname);"));
    silent(&format!(
        "{status}if (status.spec) print(status.spec.hostname);"
    ));
    silent(&format!(
        "{status}if (status.spec === undefined) throw 1;\nprint(status.spec.hostname);"
    ));
    silent(&format!("{status}print(status.spec!.hostname);"));
}

#[test]
fn one_of_several_may_be_absent_too() {
    let one = "const one = await spaced.Either({});\n";
    for absent in [
        &format!("{one}print(one.inner.text);"),
        "for (const it of await spaced.Pairs({})) print(it.inner.text);",
        "const { inner } = await spaced.Either({});\nprint(inner.text);",
    ] {
        assert_eq!(code(absent), "maybe-absent", "{absent}");
        assert_eq!(severities(absent), [Severity::Warning]);
    }
    let two = "const { inner, nice } = await spaced.Either({});\n";
    for right in [
        &format!("{one}print(one.inner?.text);"),
        &format!("{one}if (one.nice === undefined) print(one.inner.text);"),
        &format!("{one}if (\"inner\" in one) print(one.inner.text);"),
        &format!("{two}if (nice === undefined) print(inner.text);"),
        &format!("{two}if (inner) print(inner.text);"),
        "let one = await spaced.Either({});\none = { inner: {} };\nprint(one.inner.text);",
        "const one: spaced.Either = { inner: {} };\nprint(one.inner.text);",
        "const all = (await spaced.Pairs({})).filter((it) => it.inner !== undefined);\n\
         for (const it of all) print(it.inner.text);",
    ] {
        silent(right);
    }
}

#[test]
fn an_empty_list_for_one_that_may_be_absent_keeps_its_type() {
    let all = "for (const it of (await spaced.Page({})).all ?? []) ";
    assert_eq!(code(&format!("{all}print(it.txt);")), "unknown-field");
    silent(&format!("{all}print(it.text);"));
}

#[test]
fn the_whitepapers_names_lead_to_those_that_are_there() {
    let environment = Arc::new(Environment::new(crate::declare::aurae_d_ts().unwrap()));
    let nova = "const nova = identity.User(\"nova\");\n";
    let pod = "const pod = new Pod({ name: \"a\", containers: [] });\n";
    for (text, told) in [
        ("observe.Metrics(\"web\");", "`observe.WatchUsage`"),
        ("observe.Stdevent(\"web\");", "`runtime.Watch`"),
        (&format!("{nova}await nova.Allow(runtime.run);"), "`Run`"),
        (&format!("{pod}pod.Name = \"nova\";"), "`name`"),
        ("secrets.Get(\"nova\");", "`schedule.PutConfig`"),
        ("route.Open(\"web\", \"@foo@nivenly\");", "routes traffic"),
        ("mount.Device(\"web\", \"s3\", \"/data\");", "`.Mounts("),
        ("runtime.RunPod({});", "`pod.Run`"),
        ("schedule.At(\"web\", \"04:00\");", "`schedule.Declare("),
        ("schedule.After(\"web\", \"backup\");", "`schedule.Declare("),
    ] {
        let file = File {
            source: Source::new("main.ts", text),
            imports: HashMap::new(),
        };
        let found = check(&environment, &[file]);
        let [one] = found.as_slice() else {
            panic!("{text}: {found:?}");
        };
        let said = format!(
            "{} {}",
            one.message,
            one.help.as_deref().unwrap_or_default()
        );
        assert!(said.contains(told), "{text}: {said}");
        assert_eq!(one.severity, Severity::Error, "{text}");
    }
}

/// Each was said of the sources of a well-known package.
#[test]
fn what_well_known_packages_write_is_right() {
    for right in [
        "function f(format: Intl.DateTimeFormat): void { print(format); } f(null!);",
        "type Reviver = Parameters<typeof JSON.parse>[1]; const r: Reviver = undefined; print(r);",
        "const at: globalThis.Date = new Date(); print(at);",
        "let list: string[] = []; list = null!; print(list);",
        "function run(f: { code: string }): void { print(f.code); }\n\
         function one(s: string): number { return s.length; }\n\
         one.code = \"1\"; run(one);",
        "const all: { [key: string]: () => void } = {}; print(all.hasOwnProperty(\"a\"));",
        "abstract class A { constructor(readonly all: string[] = []) {} }\n\
         abstract class B extends A {}\n\
         class C extends B { static readonly kind = \"c\"; }\n\
         print(new C([\"a\"]));",
        "const from: string[] = [\"a\"];\n\
         function pairs(): [string, number][] { return from.map((it) => [it, 1]); }\n\
         print(pairs());",
        "type Ast = { tag: \"a\"; a: string } | { tag: \"b\"; b: string };\n\
         function take(ast: Ast): void { print(ast); }\n\
         function give(ast: Ast & { readonly more: number }): void { take(ast); } print(give);",
        "const make: (options?: { size?: number }) => void = (options = {}) => print(options.size);\n\
         make();",
    ] {
        silent(right);
    }
}

#[test]
fn what_typescripts_own_tests_hold_right_is_silent() {
    for right in [
        // A function that is called where it is written.
        "((x, y, z) => 42)(); (function (x, y) { return x; })(42);",
        // An alias of a promise is awaited like it.
        "type Later<T> = Promise<T>; declare const later: Later<number>;
         const f = async (): Promise<number> => later;
         const g = async (): Later<number> => later;
         const n: number = await later;",
        // A literal that is awaited stays one.
        "interface Key { key: \"value\" } const key: Key = await { key: \"value\" };",
        // What a pattern takes apart may have more than the default.
        "function f({ x, y = 0 } = { x: 0 }): void {} f(); f({ x: 1 }); f({ x: 1, y: 1 });",
        // Both types of an intersection say what a member has.
        "interface A { in: { a: string; deep: { a: string } } }
         interface B { in: { b: string; deep: { b: string } } }
         const both: A & B = { in: { a: \"\", b: \"\", deep: { a: \"\", b: \"\" } } };
         print(both.in.a, both.in.deep.b);",
        // A primitive has its object's members.
        "const text: String = \"a\"; const count: Number = 1; const one: Object = 1;",
        // A class is a function.
        "declare global { interface Function { now(): string } } class A {} print(A.now());",
        // The other parts of an enum and of a namespace are known by their bare names.
        "enum Pet { Cat = 1 } enum Pet { Dog = 2 } enum Pet { Both = Cat | Dog } print(Pet.Both);",
        "namespace m { export function f(): void {} }
         namespace m { export namespace f { export const a = 1; } print(f.a); }",
        "namespace part { export const x = 1; } namespace part { export const y = x; } print(part.y);",
    ] {
        silent(right);
    }
}

#[test]
fn what_is_wrong_beside_it_is_still_told() {
    for (wrong, said) in [
        ("((x: number) => x)();", "wrong-type"),
        ("((x) => 42)(1, 2);", "wrong-type"),
        (
            "type Later<T> = Promise<T>; declare const later: Later<number>;
             const text: string = await later;",
            "wrong-type",
        ),
        (
            "interface Key { key: \"value\" } const key: Key = await { key: \"other\" };",
            "wrong-type",
        ),
        (
            "interface A { in: { a: string } } interface B { in: { b: string } }
             const both: A & B = { in: { a: \"\", b: \"\", c: 1 } };",
            "unknown-field",
        ),
        (
            "enum Pet { Cat = 1, Both = Cat | Dog } print(Pet.Both);",
            "unknown-name",
        ),
    ] {
        assert_eq!(code(wrong), said, "{wrong}");
    }
}

#[test]
fn what_typescripts_compiler_tests_hold_right_is_silent() {
    for right in [
        // `void` needs no argument.
        "class X<T> { f(t: T): void {} } declare const x: X<void>; x.f(); function g(a: number, b: void | string): void {} g(1);",
        // A class has a prototype, with or without a constructor.
        "class A { a(): void {} } print(A.prototype); const p: { prototype: A } = A; print(p);",
        // What indexes by numbers and symbols asks nothing of names.
        "const list: { [at: number]: string; name: number } = { 0: \"a\", name: 1 }; print(list);",
        "class A { static [name: string]: number; } A.other = 2;",
        "declare const all: { [name: string]: number }; const copy = { ...all, b: 1 };
         copy.a = 0;",
        // A setter takes what its getter doesn't give.
        "class A { #a = \"\"; get a(): string { return this.#a; }
         set a(a: string | number) { this.#a = String(a); } } new A().a = 5;",
        "class A { set a(a: string | number) { print(a); } get a(): string { return \"\"; } }
         new A().a = 5;",
        "interface A { get a(): string; set a(a: string | number) } declare const a: A; a.a = 5;",
        // An interface adds to the class of its name.
        "interface A { more: string } class A { a = 1; } print(new A().more);",
        // A list that is extended, and one where a tuple's fields are asked for.
        "class List<T> extends Array<T> {} declare const l: List<string>; const a: string[] = l;",
        "interface Pair extends Array<number> { 0: number; 1: number } const p: Pair = [1, 2];",
        // An object is one of several for each value of its fields.
        "declare const o: { x: \"a\" | \"b\"; y: number };
         const one: { x: \"a\"; y: number } | { x: \"b\"; y: number } = o;",
        // What is asked for has a say in what a generic call gives.
        "interface Item { kind: \"a\" | \"b\" } const items: Item[] = [1].map(() => ({ kind: \"a\" }));",
        "declare function call<T>(f: () => T): T; const n: 0 | 1 = call(() => 1);",
        // A literal that was declared to be one stays one.
        "const a: \"foo\" = \"foo\"; let b = a; const c: \"foo\" = b; print(c);",
        "let b = \"foo\" as const; const c: \"foo\" = b; print(c);",
        "let one: 1 = +1; print(one);",
        // `this` as it is declared.
        "interface A { x: number } class B { read(this: A): number { return this.x; } } print(B);",
        "interface A { x: number } declare function more(a: A): a is A & { y: number };
         function read(this: A): number { return more(this) ? this.y : this.x; } print(read);",
        // The last line of a comment counts.
        "/*\n * @ts-expect-error */\nconst n: number = \"\";",
        // The flow narrows the last of a sequence.
        "declare function sure(a: unknown): asserts a;
         function f(a?: number): number { return (sure(a !== undefined), a); } print(f(1));",
        // Every object has them.
        "const shown: { a: string; toString(): string } = { a: \"\" }; print(shown);",
        // One `any` makes the list one of them.
        "declare const any: any; const list: number[] = [\"\", any]; print(list);",
    ] {
        silent(right);
    }
}
