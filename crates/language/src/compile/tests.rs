// SPDX-License-Identifier: Apache-2.0
//! What becomes of TypeScript, and the way back.

use super::*;

fn js(text: &str) -> String {
    compile(&Source::new("a.ts", text), Options::default())
        .unwrap()
        .code
}

fn refused(text: &str) -> Vec<(String, String)> {
    let findings = compile(&Source::new("a.ts", text), Options::default()).unwrap_err();
    findings
        .into_iter()
        .map(|finding| (finding.code.into_owned(), finding.message))
        .collect()
}

#[test]
fn types_leave_no_trace() {
    let text = "#!/usr/bin/env aurae
import type { T } from './t.ts';
import { type U, v } from './u.ts';
interface I<A> { a: A }
type X = I<string> | T | U;
declare const d: number;
export const x = { a: 'b' } satisfies X as X;
const y = <number>v!;
abstract class C<A> implements I<A> { declare z: number; a!: A; private b?: string; f(this: C<A>): void {} }
function g(a: number): number;
function g(a: any) { return a }
export type { X };
";
    let wanted = "#!/usr/bin/env aurae
import { v } from \"./u.ts\";
export const x = { a: \"b\" };
const y = v;
class C {
 a;
 b;
 f() {}
}
function g(a) {
 return a;
}
";
    assert_eq!(js(text), wanted);
}

#[test]
fn what_typescript_adds_becomes_code() {
    let code = js("enum E { A, B = 5, C }\nclass P { constructor(readonly a: number) {} }\n");
    assert!(code.contains("E[\"B\"] = 5"), "{code}");
    assert!(code.contains("this.a = a"), "{code}");
    let code = js("namespace N { export const a = 1; }");
    assert!(code.contains("const a = _N.a = 1"), "{code}");
}

#[test]
fn what_the_engine_knows_stays() {
    for text in [
        "using a = f();\n",
        "await using a = f();\n",
        "const a = b?.c ?? d ** 2n;\n",
        "for await (const a of b) {}\n",
        "class A {\n #b = 1;\n static {}\n}\n",
        "a ||= b;\n",
    ] {
        assert_eq!(js(text), text);
    }
}

#[test]
fn what_the_language_refuses_is_refused_by_name() {
    let (code, message) = refused("@sealed('x') class A {}").remove(0);
    assert_eq!(code, "decorator");
    assert_eq!(message, "the decorator @sealed is not in the language");
    for (text, name) in [
        ("import a = require('x');", "require"),
        ("export = 1;", "export ="),
        ("class A { accessor b = 1 }", "accessor"),
        ("import a from './a.ts' with { type: 'json' };", "attribute"),
        ("if (a) import b from './b.ts';", "within a statement"),
        ("{ export const a = 1; }", "within a statement"),
        ("const a = <div/>;", ""),
        ("const a = 1; const a = 2;", "a"),
        ("await = 1; }", ""),
        ("with (a) {}", "with"),
        ("/(a/.test(b);", "no regular expression"),
        ("/a{2,1}/u.test(b);", "no regular expression"),
        ("/\\p{Nope}/u.test(b);", "no regular expression"),
    ] {
        let found = refused(text);
        assert!(found.iter().all(|(code, _)| *code == "syntax"), "{found:?}");
        assert!(
            found.iter().any(|(_, message)| message.contains(name)),
            "{found:?}"
        );
    }
}

#[test]
fn every_position_comes_back_to_what_was_written() {
    let text = "interface A { a: string }
enum E { A }
const ä: string = '😀'; const thrown: A = boom(ä as any).field.other(E.A, <string>deep());
async function f<T>(a: T): Promise<void> { await stream(a); throw new Error('no') }
";
    let compiled = compile(&Source::new("a.ts", text), Options::default()).unwrap();
    for name in [
        "boom", "field", "other", "deep", "f<T>", "stream", "throw ", "Error", "ä as", "E.A",
    ] {
        let made = match name {
            "ä as" => "ä)",
            "f<T>" => "f(a",
            name => name,
        };
        let at = compiled.code.find(made).unwrap();
        let before = compiled.code.get(..at).unwrap();
        let line = before.matches('\n').count() + 1;
        let column = at - before.rfind('\n').map_or(0, |at| at + 1) + 1;
        let (line, column) = (u32::try_from(line).unwrap(), u32::try_from(column).unwrap());
        let place = compiled.original(line, column).unwrap();
        let offset = compiled.source.offset(place).unwrap();
        let rest = text.get(offset as usize..).unwrap();
        assert!(rest.starts_with(name), "{name}: {place:?} is {rest:?}");
    }
}

#[test]
fn a_plan_asks_before_it_branches() {
    let plan = |text: &str| {
        let options = Options { plan: true };
        let code = compile(&Source::new("a.ts", text), options).unwrap().code;
        code.replace("globalThis.__known", "K")
            .replace(", \"a.ts\"", "")
    };
    let guarded = [
        ("if (a) b();", "if (K(a, 1, 5)) b();\n"),
        ("\n  a ? b : c;", "K(a, 2, 3) ? b : c;\n"),
        ("while (a) b;", "while (K(a, 1, 8)) b;\n"),
        ("a && b;", "K(a, 1, 1) && b;\n"),
        ("a ?? b;", "K(a, 1, 1) ?? b;\n"),
        ("a &&= b;", "K(a, 1, 1) && (a = b);\n"),
        ("!a;", "!K(a, 1, 2);\n"),
        ("a === 1;", "K(a, 1, 1) === 1;\n"),
        ("a as any < (b!);", "K(a, 1, 1) < K(b, 1, 12);\n"),
        ("typeof a;", "typeof a;\n"),
        ("typeof a.b;", "typeof K(a.b, 1, 8);\n"),
        ("a + b;", "globalThis.__plus(a, b);\n"),
        ("1 + 2 + 3;", "1 + 2 + 3;\n"),
        ("`a ${b}`;", "globalThis.__text`a ${b}`;\n"),
        ("`a`;", "`a`;\n"),
        ("f`a ${b}`;", "f`a ${b}`;\n"),
        ("if (true) b();", "if (true) b();\n"),
        (
            "if (a === 1) throw b;",
            "{\n try {\n  globalThis.__ask(K(a, 1, 5, true) === 1, 1, 5);\n } catch (thrown) {\n  \
             globalThis.__pass(thrown, false, 1, 5);\n }\n if (globalThis.__told()) throw b;\n}\n",
        ),
        (
            "for await (const x of a) { if (b(x)) break; }",
            "try {\n for await (const x of K(a, 1, 23)) {\n  if (K(b(x), 1, 32)) break;\n }\n} catch \
             (thrown) {\n globalThis.__skip(thrown, 1, 23);\n}\n",
        ),
        // What is awaited or assigned behind an operator would not happen.
        (
            "if (a && (await b())) throw c;",
            "if (K(K(a, 1, 5) && await b(), 1, 5)) throw c;\n",
        ),
        (
            "if (a) runtime.Stop(b);",
            "if (K(a, 1, 5)) runtime.Stop(b);\n",
        ),
        (
            "if (a) throw runtime.Stop(b);",
            "if (K(a, 1, 5)) throw runtime.Stop(b);\n",
        ),
    ];
    for (text, wanted) in guarded {
        assert_eq!(plan(text), wanted);
    }
    assert_eq!(
        plan("switch (a) { case b: }"),
        "switch (K(a, 1, 9)) {\n case K(b, 1, 19):\n}\n"
    );
}

#[test]
fn a_comment_protects_what_is_made_below_it() {
    let code = |text: &str| {
        compile(&Source::new("a.ts", text), Options::default())
            .map(|done| done.code)
            .map_err(|all| all.into_iter().map(|one| one.message).collect::<Vec<_>>())
    };
    let one = code("// aurae: protect\nconst a = new Cell({ name: 'a' });\nnew Cell(b);");
    let protected = "new Cell({\n ...{ name: \"a\" },\n protect: true\n})";
    assert_eq!(
        one.unwrap(),
        format!("const a = {protected};\nnew Cell(b);\n")
    );
    let listed = code("run([\n  new Cell(a),\n  // aurae: protect\n  new Cell(b),\n]);").unwrap();
    assert_eq!(listed.matches("protect: true").count(), 1, "{listed}");
    assert!(listed.contains("...b"), "{listed}");
    let all =
        code("// aurae: protect\nexport const x = [new Cell(a), new Executable(b)];").unwrap();
    assert_eq!(all.matches("protect: true").count(), 2, "{all}");
    for (text, wrong) in [
        (
            "// aurae: protect\nservice(a);",
            "above nothing that makes a workload",
        ),
        (
            "// aurae: protct\nnew Cell(a);",
            "`// aurae: protct` is none",
        ),
    ] {
        let told = code(text).unwrap_err();
        assert!(told.len() == 1 && told[0].contains(wrong), "{told:?}");
    }
    assert_eq!(code("// aurae is fine\n1;").unwrap(), "1;\n");
}

/// What grammars trip over, in any order.
const TOKENS: &[&str] = &[
    "a",
    "b.c",
    "1",
    "'s'",
    "`t${",
    "}`",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "=>",
    "=",
    ",",
    ";",
    ":",
    "?",
    "?.",
    "...",
    "!",
    "+",
    "/",
    "/r/g",
    "\n",
    "//c\n",
    "/*",
    "*/",
    "if",
    "else",
    "for",
    "of",
    "await",
    "async",
    "function",
    "class",
    "enum",
    "namespace",
    "export",
    "import",
    "from",
    "type",
    "interface",
    "as",
    "const",
    "let",
    "new",
    "return",
    "yield",
    "static",
    "#p",
    "@d",
    "using",
    "satisfies",
    "keyof",
    "😀",
    "\u{2028}",
];

proptest::proptest! {
    #[test]
    fn no_text_takes_the_compiler_down(
        tokens in proptest::collection::vec(0..TOKENS.len(), 0..40),
        plan in proptest::prelude::any::<bool>(),
    ) {
        let words: Vec<_> = tokens.into_iter().map(|at| TOKENS[at]).collect();
        let source = Source::new("a.ts", words.join(" "));
        match compile(&source, Options { plan }) {
            Err(findings) => assert!(!findings.is_empty()),
            Ok(compiled) => {
                for (line, text) in (1u32..).zip(compiled.code.lines()) {
                    let end = u32::try_from(text.len()).unwrap();
                    let place = compiled.original(line, end);
                    assert!(place.is_none_or(|place| source.offset(place).is_some()));
                }
            }
        }
        let _ = compile_repl(&source, Options { plan });
        let _ = is_unfinished(source.text());
    }
}
