// SPDX-License-Identifier: Apache-2.0
//! What becomes of a line of the REPL.

use super::*;

fn repl(text: &str) -> String {
    let source = Source::new("<repl>", text);
    let compiled = compile_repl(&source, Options::default()).unwrap();
    compiled
        .code
        .replace("(async () => { \"use strict\";", "> ")
}

#[test]
fn what_a_line_declares_outlives_it() {
    for (text, wanted) in [
        (
            "const x: number = await f()",
            "var x;> (x = await f());\n})()\n",
        ),
        ("let a, b = 1", "var a;var b;> (a = void 0, b = 1);\n})()\n"),
        (
            "const { a, b: [c], ...d } = f()",
            "var a;var c;var d;> ({ a, b: [c], ...d } = f());\n})()\n",
        ),
        (
            "class A { b = 1 }",
            "var A;> A = class  {\n b = 1;\n};\n})()\n",
        ),
        (
            "g(); function g() {}",
            "var g;> g = function () {};\ng();\n\n})()\n",
        ),
        ("export const x = 1", "var x;> (x = 1);\n})()\n"),
        ("interface A { b: string }", "> })()\n"),
        ("import type { T } from './t.ts'", "> \n})()\n"),
    ] {
        assert_eq!(repl(text), wanted, "{text}");
    }
}

#[test]
fn imports_become_dynamic() {
    for (text, wanted) in [
        ("import './a.ts'", "> await import(\"./a.ts\");\n})()\n"),
        (
            "import * as a from './a.ts'",
            "var a;> a = await import(\"./a.ts\");\n})()\n",
        ),
        (
            "import a, { b as c } from './a.ts'",
            "var a;var c;> ({ default: a, b: c } = await import(\"./a.ts\"));\n})()\n",
        ),
    ] {
        assert_eq!(repl(text), wanted, "{text}");
    }
}

#[test]
fn the_last_expression_is_the_value() {
    assert_eq!(repl("1 as number"), "> return { value: (1) };\n})()\n");
    assert_eq!(
        repl("f(); await g()"),
        "> f();\nreturn { value: (await g()) };\n})()\n"
    );
    assert_eq!(
        repl("{ a: 1 }"),
        "> return { value: (({ a: 1 })) };\n})()\n"
    );
    assert_eq!(repl("if (a) b"), "> if (a) b;\n})()\n");
}

#[test]
fn an_error_points_into_the_line_as_typed() {
    for text in [
        "const x: number = 1; boom(x)",
        "{ a: boom(1) }",
        "class A { b() { boom() } }",
    ] {
        let source = Source::new("<repl>", text);
        let compiled = compile_repl(&source, Options::default()).unwrap();
        let at = compiled.code.find("boom").unwrap();
        let before = compiled.code.get(..at).unwrap();
        let line = u32::try_from(before.matches('\n').count() + 1).unwrap();
        let column = at - before.rfind('\n').map_or(0, |at| at + 1) + 1;
        let place = compiled
            .original(line, u32::try_from(column).unwrap())
            .unwrap();
        let wanted = u32::try_from(text.find("boom").unwrap() + 1).unwrap();
        assert_eq!(
            (place.line, place.column),
            (1, wanted),
            "{text}: {}",
            compiled.code
        );
    }
    let refused = compile_repl(&Source::new("<repl>", "const = 1"), Options::default());
    assert_eq!(refused.unwrap_err().first().unwrap().code, "syntax");
}

#[test]
fn a_line_that_stops_in_the_middle_wants_another() {
    for text in [
        "f(",
        "const a = {",
        "`abc",
        "/* abc",
        "a +",
        "if (a) {",
        "x = [1,",
        "f(a,\n b",
    ] {
        assert!(is_unfinished(text), "{text}");
    }
    for text in [
        "f()",
        "const = 1; x",
        "a }",
        "1 + 1",
        "",
        "if (a) b",
        "'abc",
        "x = )",
    ] {
        assert!(!is_unfinished(text), "{text}");
    }
}
