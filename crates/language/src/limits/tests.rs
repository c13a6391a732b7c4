// SPDX-License-Identifier: Apache-2.0
//! No text takes the parser down, and no honest text is refused.

use super::*;
use crate::compile::{Options, compile};
use crate::format::format;

/// A way to nest: what repeats, between what begins and what ends, and what closes each.
const WAYS: &[(&str, &str, &str, &str)] = &[
    ("x = ", "(", "1", ")"),
    ("x = ", "[", "1", "]"),
    ("x = ", "{a:", "1", "}"),
    ("", "{", "", "}"),
    ("x = ", "`${", "1", "}`"),
    ("x = ", "1+", "1", ""),
    ("x = ", "1**", "1", ""),
    ("x = ", "a?.b||", "1", ""),
    ("x = ", "a,", "1", ""),
    ("x = a", ".b", "", ""),
    ("x = a", "?.b", "", ""),
    ("x = a", "()", "", ""),
    ("x = a", "[0]", "", ""),
    ("x = a", "``", "", ""),
    ("x = a", "!", "", ""),
    ("x = a", " as any", "", ""),
    ("x = ", "!", "1", ""),
    ("x = ", "- ", "1", ""),
    ("x = ", "typeof ", "1", ""),
    ("x = ", "await ", "1", ""),
    ("x = ", "new ", "A", ""),
    ("", "x = ", "1", ""),
    ("x = ", "a ? b : ", "c", ""),
    ("x = ", "a ? ", "c", " : d"),
    ("x = ", "a => ", "1", ""),
    ("x = ", "async a => ", "1", ""),
    ("x = ", "(a) => ", "1", ""),
    ("x = ", "(a = ", "1", ") => 1"),
    ("x = ", "function () { return ", "1", "}"),
    ("x = ", "class extends ", "A", " {}"),
    ("x = ", "<A>\nawait ", "1", ""),
    ("x = ", "<A>", "1", ""),
    ("", "if (a) ", ";", ""),
    ("", "if (a) b, c; else ", ";", ""),
    ("", "if (a) {} else ", ";", ""),
    ("", "if (a) do b; while (c) else ", ";", ""),
    ("", "while (a) ", ";", ""),
    ("", "for (;;) ", ";", ""),
    ("", "for await (a of b) ", ";", ""),
    ("", "do ", ";", " while (a)"),
    ("", "a: ", ";", ""),
    ("", "try {", "", "} finally {}"),
    ("", "function f() {", "", "}"),
    ("", "class A { static {", "", "}}"),
    ("", "namespace A { ", "", "}"),
    ("type X = ", "A<", "B", ">"),
    ("type X = ", "A<B, ", "B", ">"),
    ("type X = ", "keyof ", "B", ""),
    ("type X = A", "[]", "", ""),
    ("type X = ", "() => ", "B", ""),
    ("type X = ", "A | ", "B", ""),
    ("type X = ", "A extends B ? C : ", "D", ""),
    ("type X = ", "A<B, C> extends D ? E : ", "F", ""),
    ("let x: ", "{ a: ", "B", " }"),
    ("x = f", "<A>()", "", ""),
    ("x = f", "<A, B>()", "", ""),
    ("let ", "[", "a", "] = 1"),
];

fn nested((head, more, middle, close): (&str, &str, &str, &str), times: usize) -> String {
    let (more, close) = (more.repeat(times), close.repeat(times));
    format!("{head}{more}{middle}{close}")
}

fn refused(text: &str) -> Option<Finding> {
    scan(&Source::new("a.ts", text)).into_iter().next()
}

#[test]
fn a_hundred_thousand_of_anything_is_refused() {
    for way in WAYS {
        let found = refused(&nested(*way, 100_000));
        if way.1 == "a," {
            assert!(found.is_none());
        } else {
            assert_eq!(found.unwrap().code, "limit", "{way:?}");
        }
    }
}

/// The most of a way that the scan lets through, or 20,000 times it.
fn most(way: (&str, &str, &str, &str), depths: Depths) -> Source {
    let mut times = 20_000;
    loop {
        let source = Source::new("a.ts", nested(way, times));
        let Some(found) = scan_for(&source, depths) else {
            return source;
        };
        // Where it passes says how many would fit; what closes them may count as well.
        let before = (found.span.start as usize).saturating_sub(way.0.len());
        times = (before / way.1.len()).min(times - 1 - times / 64);
    }
}

#[test]
fn what_is_let_through_takes_nothing_down() {
    let depths = Depths {
        brackets: BRACKET_DEPTH,
        expression: EXPRESSION_DEPTH,
        line: usize::MAX,
    };
    for way in WAYS {
        let source = most(*way, depths);
        let _ = compile(&source, Options { plan: true });
    }
}

/// Much less than the parser's, for the formatter's time doubles with every bracket on a line.
#[test]
fn what_is_let_through_is_formatted_or_refused() {
    for way in WAYS {
        let source = most(*way, crate::format::DEPTHS);
        let _ = format(&source);
    }
}

#[test]
fn a_hundred_megabytes_are_refused_at_once() {
    let found = refused(&"a".repeat(100 << 20)).unwrap();
    assert!(
        found.message.contains("the most is 4194304"),
        "{}",
        found.message
    );
}

#[test]
fn brackets_in_text_are_no_brackets() {
    let deep = "(".repeat(1000);
    for text in [
        format!("x = '{deep}';"),
        format!("x = \"\\\"{deep}\";"),
        format!("x = `\\`{deep}${{a}}{deep}`;"),
        format!("// {deep}\n/* {deep} */ x;"),
        format!("x = /[/(]{}/.test(y);", "[(]".repeat(1000)),
        format!("if (x) /{}/.test(y)", "\\(".repeat(1000)),
        format!("x = a / b; y = '{deep}' / c;"),
        format!("const f = () => {{}}\n/{}/.test(y)", "\\(".repeat(1000)),
        format!("#!/usr/bin/env {deep}\nx;"),
    ] {
        assert!(refused(&text).is_none(), "{}", &text[..40]);
    }
}

#[test]
fn a_guess_at_a_slash_hides_nothing() {
    let deep = "(".repeat(100_000);
    for text in [
        format!("x = {{}} / ' {deep}"),
        format!("{{}} /'/ + {deep}"),
        format!("x = {{}}\n/ ' {deep}"),
        format!("x = {{}} / `{deep}"),
        format!("{{}} /`/;\n{deep}"),
        format!("{{}} /\\/*/;\n{deep}"),
        format!("x = a as const /'/ + {deep}"),
        format!("for (x of /'/ + {deep}"),
        format!("x\u{a0}= 1; if\u{a0}(a) /'/ + {deep}"),
        format!("x = a\u{2028}/'/ + {deep}"),
        format!("// a\u{2028}{deep}"),
        format!("\\u0069f(a) /'+{deep}"),
        format!("\\u{{69}}f(a) /'+{deep}"),
        format!("x = 1. / '{deep}"),
    ] {
        let source = Source::new("a.ts", text.as_str());
        assert!(
            compile(&source, Options::default()).is_err(),
            "{}",
            &text[..20]
        );
    }
}

#[test]
fn long_honest_programs_pass() {
    let statements = "const a = f(b)\nlet c = a.b.c(1, x => x + 1)\nif (a) {\n b()\n} else {\n c()\n}
a.b()\nc = { a: 1, 'b': [1, 2] }\nfor (const x of y) f(x)\nasync function g<T>(a: T): Promise<T> { return a }\n";
    assert!(refused(&statements.repeat(10_000)).is_none());
    let minified: String = statements.replace('\n', ";").replace("};", "}");
    assert!(refused(&minified.repeat(10_000)).is_none());
    let data = format!("x = [{}]", "{a: 1, b: [1, 2, 'c']}, ".repeat(100_000));
    assert!(refused(&data).is_none());
    let sum = format!("x = {}1;", "1 + ".repeat(EXPRESSION_DEPTH - 1));
    assert!(refused(&sum).is_none());
    let interface = "interface A {\n a: string\n f(b: number): void\n c?: Map<string, A>\n}\n";
    assert!(refused(&interface.repeat(20_000)).is_none());
}

#[test]
fn the_place_is_where_it_passes() {
    let text = format!("x = 1;\ny = {}", "(".repeat(300));
    let found = refused(&text).unwrap();
    let place = found.source.position(found.span.start);
    assert_eq!((place.line, place.column), (2, 5 + 256));
}
