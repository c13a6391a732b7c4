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

fn code(text: &str) -> String {
    let options = crate::compile::Options::default();
    let compiled = crate::compile::compile(&Source::new("a.ts", text), options);
    compiled
        .unwrap_or_else(|found| panic!("{text}: {found:?}"))
        .code
}

/// What programs are made of, spelled in many ways.
const PIECES: &[&str] = &[
    "const a0={x:1,'y':[1,2,...b],z(){return 1}}",
    "let f0 = x=>x+1 , g0 = async (y:number)=>{ await y }",
    "if(a)b();else if(c)d()\nelse{e()}",
    "for(const [k,v] of Object.entries(o)){print(`${k}=${ v }`)}",
    "for await(const line of observe.Stdout('web')) { if(line.text==='x')break }",
    "export interface I<T extends string='a'>{a?:T;readonly b:()=>void}",
    "type U='a'|\"b\"|{c:1}&I",
    "enum E{A=1,B,C='c'}",
    "class K<T> extends L implements M{#p=1;static s?:T;constructor(private readonly q:T){super()}get v(){return this.#p}}",
    "function* g<T>(a?:T,...b:unknown[]):Generator<T>{yield* b as any}",
    "try{a()}catch{b()}finally{c()}",
    "switch(a){case 1:case 2:b();break;default:c()}",
    "const r=/[/\\]]+/giu.test(s)?a??b:c?.d!.e?.[0]?.(1)",
    "label:while(true){do{continue label}while(x)}",
    "throw new Error('it\\'s \"so\"')",
    "// a comment, and 'quotes'",
    "/** of two\n * lines */",
    "const s = {a:1} satisfies Record<string,number>,t=<any>s",
    "await Promise.all([runtime.Run(web),runtime.Run(db)])",
    "const long = first.second(third).fourth({ fifth: 'sixth', seventh: 'eighth' }).ninth(`tenth`, 11, twelfth)",
    "const n=1_000n**2n,m=0xff,o=.5",
];

fn style(text: &str) {
    let once = formatted(text);
    assert_eq!(formatted(&once), once, "formatting twice differs");
    assert_eq!(code(&once), code(text), "formatting changes the program");
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]

    #[test]
    fn formatting_holds_still_and_changes_no_program(
        pieces in proptest::collection::vec((0..PIECES.len(), 0usize..4), 1..12),
    ) {
        let mut text = String::new();
        for (at, (piece, between)) in pieces.into_iter().enumerate() {
            // Each piece in a block of its own: the same names may come twice.
            let piece = PIECES[piece];
            let open = !piece.contains("export") && !piece.starts_with('/');
            let piece = piece.replace("I<T", &format!("I{at}<T"));
            text.push_str(if open { "{" } else { "" });
            text.push_str(&piece);
            text.push_str(if open { "\n}" } else { "\n" });
            text.push_str(["\n", "\n\n\n", "  \n\t", "\n// between\n"][between]);
        }
        style(&text);
    }
}

#[test]
fn the_prelude_holds_still() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("prelude");
    let mut files = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|it| it == "ts") {
            style(&std::fs::read_to_string(&path).unwrap());
            files += 1;
        }
    }
    assert!(files > 3);
}
