// SPDX-License-Identifier: Apache-2.0
//! A session's types, line after line.

use super::*;

/// A session in a folder with one module, after some lines.
fn after(lines: &[&str]) -> (tempfile::TempDir, Prompt) {
    let folder = tempfile::tempdir().unwrap();
    let web = "/** The site. */\nexport const web = new Cell({ name: \"web\" });\n\
               export interface Site { port: number }\n";
    std::fs::write(folder.path().join("web.ts"), web).unwrap();
    let types = Environment::new(crate::declare::aurae_d_ts().unwrap());
    let mut prompt = Prompt::new(Root::open(folder.path()).unwrap(), types);
    for line in lines {
        prompt.take("<repl>", line).unwrap();
    }
    (folder, prompt)
}

fn type_after(lines: &[&str], expression: &str) -> String {
    let (_folder, mut prompt) = after(lines);
    let told = prompt.type_of(expression);
    told.unwrap_or_else(|findings| panic!("{:?}", findings.first().map(|it| &it.message)))
}

fn wrong_after(lines: &[&str], expression: &str) -> Finding {
    let (_folder, mut prompt) = after(lines);
    prompt.type_of(expression).unwrap_err().remove(0)
}

fn completed(lines: &[&str], line: &str) -> Vec<String> {
    let (_folder, mut prompt) = after(lines);
    let completed = prompt.complete(line, line.len()).unwrap();
    let kept = &line[..completed.start];
    let texts = completed.texts.iter();
    texts.map(|text| format!("{kept}{text}")).collect()
}

#[test]
fn a_name_has_the_type_of_its_latest_line() {
    assert_eq!(type_after(&["const a = 1"], "a"), "1");
    let lines = ["let a = 1", "const b = a", "let a = \"x\""];
    assert_eq!(type_after(&lines, "a"), "string");
    assert_eq!(type_after(&lines, "b"), "number");
    assert_eq!(type_after(&["21 * 2"], "_"), "number");
    assert_eq!(type_after(&["{ a: 1 }"], "_"), "{\n  a: number;\n}");
    assert_eq!(
        type_after(&["function f(a: string) { return 1 }"], "f"),
        "(a: string): number"
    );
    let lines = ["interface Site { port: number }", "declare let site: Site"];
    assert_eq!(type_after(&lines, "site.port"), "number");
    assert_eq!(
        type_after(
            &["class Site { port = 80 }", "const site = new Site()"],
            "site"
        ),
        "Site {\n  port: any;\n}"
    );
}

#[test]
fn the_api_is_told_readably() {
    let answer = type_after(&[], "await runtime.List({})");
    assert!(answer.contains("ListResponse {\n"), "{answer}");
    let method = type_after(&[], "runtime.RunCell");
    assert!(
        method.starts_with('(') && method.contains("Promise<"),
        "{method}"
    );
    let web = type_after(&["const web = new Cell({ name: \"web\" })"], "web");
    assert!(web.starts_with("Cell {\n"), "{web}");
    assert!(web.contains("  labels: Record<string, string>;"), "{web}");
    assert_eq!(
        type_after(&[], "runtime.List({})"),
        "Promise<runtime.ListResponse>"
    );
    assert!(type_after(&[], "CellData").starts_with("type CellData = "));
}

#[test]
fn imports_bring_their_types() {
    let lines = [
        "import { web, type Site } from \"./web.ts\"",
        "declare let site: Site",
    ];
    assert!(type_after(&lines, "web").starts_with("Cell {"));
    assert_eq!(type_after(&lines, "site.port"), "number");
}

#[test]
fn what_is_wrong_is_said_at_its_place() {
    let wrong = wrong_after(&[], "runtime.Lst");
    assert_eq!(wrong.code, "unknown-field");
    assert_eq!((wrong.span.start, wrong.span.end), (8, 11));
    assert_eq!(wrong.help.as_deref(), Some("did you mean `List`?"));
    assert_eq!(wrong_after(&[], "nothing").code, "unknown-name");
    assert_eq!(
        wrong_after(&[], "const a = 1").message,
        "this is no expression"
    );
    assert_eq!(wrong_after(&[], "1 +").code, "syntax");
}

#[test]
fn the_cursor_is_told_what_may_follow() {
    let web = "const web = new Cell({ name: \"web\" })";
    assert!(completed(&[web], "web.lab").contains(&"web.labels".to_owned()));
    assert!(completed(&[web], "print(we").contains(&"print(web".to_owned()));
    assert_eq!(completed(&[], "runtime.RunC"), ["runtime.RunCell"]);
    let answer = completed(&[], "(await runtime.List({})).");
    assert!(
        !answer.is_empty(),
        "members of an answer that doesn't exist"
    );
    let fields = completed(&[], "new Cell({ name: \"web\", reso");
    assert_eq!(fields, ["new Cell({ name: \"web\", resources: "]);
    let values = completed(&[], "new Cell({ name: \"web\", share: [\"n");
    assert_eq!(values, ["new Cell({ name: \"web\", share: [\"net"]);
    let files = completed(&[], "import { web } from \"./");
    assert_eq!(files, ["import { web } from \"./web.ts"]);
}

/// What the types say against the last line, after the others.
fn warned(lines: &[&str]) -> Vec<String> {
    let (last, before) = lines.split_last().unwrap();
    let (_folder, mut prompt) = after(before);
    let warnings = prompt.take("<repl:9>", last).unwrap();
    let told = warnings.iter().map(|it| {
        assert_eq!(
            (it.severity, it.source.name()),
            (Severity::Warning, "<repl:9>")
        );
        let text = &it.source.text()[it.span.start as usize..it.span.end as usize];
        format!("{} {text}", it.code)
    });
    told.collect()
}

#[test]
fn what_the_types_say_against_a_line_is_a_warning_at_its_place() {
    assert_eq!(warned(&["const a: number = \"x\""]), ["wrong-type \"x\""]);
    assert_eq!(
        warned(&["const site = { port: 1 }", "site.prot"]),
        ["unknown-field prot"]
    );
    assert_eq!(warned(&["{ a: runtime.Lst }"]), ["unknown-field Lst"]);
    assert_eq!(
        warned(&["runtime.List({})"]),
        ["missing-await runtime.List({})"]
    );
    assert_eq!(warned(&["await runtime.List({})"]), [""; 0]);
    // What doesn't parse is told by who compiles it; a name may be declared again.
    assert_eq!(warned(&["const = 1"]), [""; 0]);
    assert_eq!(warned(&["const a = 1", "const a = 'x'"]), [""; 0]);
    let lines = ["import { web } from \"./web.ts\"", "web.name.length"];
    assert_eq!(warned(&lines), [""; 0]);
}
