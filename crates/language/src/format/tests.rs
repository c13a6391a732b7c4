// SPDX-License-Identifier: Apache-2.0
//! The style, and that it holds still.

use super::*;

fn formatted(text: &str) -> String {
    format(&Source::new("a.ts", text)).unwrap()
}

#[test]
fn one_style_whatever_it_was() {
    let text = "#!/usr/bin/env aurae\nimport {b} from './b.ts'\nexport const a={ x:1,y:'z' }\nif(a)f( a=>a )\n";
    let wanted = "#!/usr/bin/env aurae\nimport { b } from \"./b.ts\";\nexport const a = { x: 1, y: \"z\" };\nif (a) f((a) => a);\n";
    assert_eq!(formatted(text), wanted);
    assert_eq!(formatted(wanted), wanted);
}

#[test]
fn what_does_not_parse_is_a_finding_and_stays() {
    let found = format(&Source::new("a.ts", "const a = ;")).unwrap_err();
    assert_eq!(found.first().unwrap().code, "syntax");
}
