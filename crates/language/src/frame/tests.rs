// SPDX-License-Identifier: Apache-2.0
//! What people and programs read of a finding.

use super::*;

fn finding(text: &str, start: u32, end: u32) -> Finding {
    Finding {
        code: "unknown-field".into(),
        severity: Severity::Error,
        message: "Cell has no field `nmae`".into(),
        source: Source::new("apps/web.ts", text),
        span: Span::new(start, end),
        help: Some("there is `name`".into()),
        fixes: Vec::new(),
    }
}

#[test]
fn the_place_is_shown_in_the_source_as_written() {
    let text = "const ä = 1;\nnew Cell({ nmae: \"a\" });\nf();\n";
    let start = u32::try_from(text.find("nmae").unwrap()).unwrap();
    let shown = super::text(&finding(text, start, start + 4), false);
    let wanted = "\
error: Cell has no field `nmae` [unknown-field]
 --> apps/web.ts:2:12
  |
1 | const ä = 1;
2 | new Cell({ nmae: \"a\" });
  |            ^^^^
3 | f();
  |
  = help: there is `name`
";
    assert_eq!(shown, wanted);
}

#[test]
fn a_long_line_is_cut_and_escapes_do_not_reach_the_terminal() {
    let text = format!("f(\"{}\", \x1b[2Jbad)", "x".repeat(1 << 20));
    let start = u32::try_from(text.find("bad").unwrap()).unwrap();
    let shown = super::text(&finding(&text, start, start + 3), false);
    assert!(shown.len() < 2000, "{}", shown.len());
    assert!(shown.contains("bad"), "{shown}");
    assert!(!shown.contains('\x1b'));
}

#[test]
fn json_has_both_ends_in_characters() {
    let json = serde_json::to_value(Json::from(&finding("ä = nmae\n", 5, 9))).unwrap();
    let wanted = serde_json::json!({
        "code": "unknown-field", "severity": "error", "message": "Cell has no field `nmae`",
        "file": "apps/web.ts", "line": 1, "column": 5, "endLine": 1, "endColumn": 9,
        "help": "there is `name`",
    });
    assert_eq!(json, wanted);
}
