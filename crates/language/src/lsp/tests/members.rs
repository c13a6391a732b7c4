// SPDX-License-Identifier: Apache-2.0
//! Members of what a program declares: where they are used, how they are renamed, and where that is
//! refused; and definitions in the generated declarations.

use super::*;

const SITE: &str = "\
export interface Site {
  port: number;
  name: string;
}
export const web: Site = { port: 80, name: \"web\" };
export function serve(site: Site): number {
  const { port } = site;
  return port + site.port;
}
";

impl Editor {
    /// What becomes of the files when the name at `|` is `new`, or why it may not be.
    fn renamed(&mut self, name: &str, marked: &str, new: &str) -> Result<Vec<String>, String> {
        self.change(name, &marked.replacen('|', "", 1));
        let before = marked.split('|').next().unwrap();
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap().encode_utf16().count();
        let params = json!({
            "textDocument": { "uri": self.uri(name) },
            "position": { "line": line, "character": column },
            "newName": new,
        });
        let id = self.send("textDocument/rename", params);
        let edit = self.answer(&id)?;
        let mut changed = Vec::new();
        for (uri, edits) in edit["changes"].as_object().unwrap() {
            let file = uri.rsplit('/').next().unwrap();
            for edit in edits.as_array().unwrap() {
                let start = &edit["range"]["start"];
                let text = edit["newText"].as_str().unwrap();
                let (line, column) = (&start["line"], &start["character"]);
                changed.push(format!("{file}:{line}:{column} {text}"));
            }
        }
        changed.sort();
        Ok(changed)
    }
}

#[test]
fn a_member_is_renamed_wherever_it_is_used() {
    let main = "import { serve, web, type Site } from \"./site.ts\";\n\
                print(serve({ port: 1, name: \"a\" }), web.port, web[\"port\"]);\n\
                const other = { port: 1 };\n\
                class Own { port = 2; }\n\
                print(other.port, new Own().port);\n\
                function f({ port: p }: Site, port: number) { return p + port; }\n\
                print(f(web, 1));\n";
    let mut editor = Editor::new(&[("site.ts", SITE), ("main.ts", main)]);
    let marked = SITE.replacen("port: number", "po|rt: number", 1);
    let changed = editor.renamed("site.ts", &marked, "door").unwrap();
    let wanted = [
        "main.ts:1:14 door",
        "main.ts:1:41 door",
        "main.ts:1:52 door",
        "main.ts:5:13 door",
        "site.ts:1:2 door",
        "site.ts:4:27 door",
        "site.ts:6:10 door: port",
        "site.ts:7:21 door",
    ];
    assert_eq!(changed, wanted);
    // From a use it is the same.
    let marked = main.replacen("web.port", "web.p|ort", 1);
    assert_eq!(editor.renamed("main.ts", &marked, "door").unwrap(), wanted);
    let more = json!({ "context": { "includeDeclaration": true } });
    let uses = editor.ask_at("textDocument/references", "main.ts", &marked, more);
    assert_eq!(uses.as_array().unwrap().len(), wanted.len());
}

#[test]
fn methods_and_fields_of_classes_are_members_too() {
    let text = "class Door {\n  open = false;\n  turn(): Door { this.open = !this.open; return this; }\n}\n\
                print(new Door().turn().open);\n";
    let mut editor = Editor::new(&[("main.ts", text)]);
    let marked = text.replacen("open = false", "op|en = false", 1);
    let changed = editor.renamed("main.ts", &marked, "wide").unwrap();
    assert_eq!(
        changed,
        [
            "main.ts:1:2 wide",
            "main.ts:2:22 wide",
            "main.ts:2:35 wide",
            "main.ts:4:24 wide"
        ]
    );
    let marked = text.replacen("turn()", "tu|rn()", 1);
    let changed = editor.renamed("main.ts", &marked, "move").unwrap();
    assert_eq!(changed, ["main.ts:2:2 move", "main.ts:4:17 move"]);
}

#[test]
fn what_can_t_be_known_is_not_renamed() {
    let refused = [
        // The type is lost.
        (
            "const it = JSON.parse(\"{}\");\nprint(it.port);\n",
            "what it belongs to isn't known",
        ),
        // By a string.
        ("type Port = Site[\"port\"];\n", "named by a string"),
        ("print(\"port\" in web);\n", "named by a string"),
        // Two types at once.
        (
            "interface Ship { port: string }\ndeclare const both: Site | Ship;\nprint(both.port);\n",
            "a member of another type",
        ),
        (
            "class Mine implements Site { port = 1; name = \"\"; }\n",
            "extends or implements",
        ),
        // What follows wouldn't be right any more.
        (
            "const like = { port: 1, name: \"\" };\nprint(serve(like));\n",
            "would say",
        ),
    ];
    for (more, why) in refused {
        let main = format!("import {{ serve, web, type Site }} from \"./site.ts\";\n{more}");
        let mut editor = Editor::new(&[("site.ts", SITE), ("main.ts", &main)]);
        let marked = SITE.replacen("port: number", "po|rt: number", 1);
        let refusal = editor.renamed("site.ts", &marked, "door").unwrap_err();
        assert!(refusal.contains(why), "{more}: {refusal}");
    }
    let mut editor = Editor::new(&[("site.ts", SITE)]);
    let marked = SITE.replacen("port: number", "po|rt: number", 1);
    let taken = editor.renamed("site.ts", &marked, "name").unwrap_err();
    assert!(taken.contains("`name` beside it already"), "{taken}");
    let api = "new Cell({ na|me: \"web\" });\n";
    let refusal = editor.renamed("site.ts", api, "title").unwrap_err();
    assert!(refusal.contains("the API declares it"), "{refusal}");
}

#[test]
fn a_new_name_that_means_something_else_is_refused() {
    let text = "const a = 1;\nfunction f(b: number) { return a + b; }\nprint(f(a));\n";
    let mut editor = Editor::new(&[("main.ts", text)]);
    let marked = text.replacen("const a", "const |a", 1);
    let hidden = editor.renamed("main.ts", &marked, "b").unwrap_err();
    assert!(
        hidden.contains("means something else here (main.ts:2:"),
        "{hidden}"
    );
    let marked = text.replacen("(b: number", "(|b: number", 1);
    let captured = editor.renamed("main.ts", &marked, "a").unwrap_err();
    assert!(captured.contains("means something else"), "{captured}");
    assert_eq!(editor.renamed("main.ts", &marked, "c").unwrap().len(), 2);
    let text = "class Door {\n  constructor(readonly port: number) {}\n}\n";
    let marked = text.replacen("port", "po|rt", 1);
    let both = editor.renamed("main.ts", &marked, "door").unwrap_err();
    assert!(both.contains("a parameter and a field"), "{both}");
}

#[test]
fn a_whole_module_is_followed_by_its_name() {
    let main = "import * as sites from \"./site.ts\";\nprint(sites.web.name);\n\
                const all: sites.Site[] = [];\nprint(all.length);\n";
    let mut editor = Editor::new(&[("site.ts", SITE), ("main.ts", main)]);
    let marked = SITE.replacen("const web", "const w|eb", 1);
    let changed = editor.renamed("site.ts", &marked, "home").unwrap();
    assert_eq!(changed, ["main.ts:1:12 home", "site.ts:4:13 home"]);
    let marked = SITE.replacen("interface Site", "interface Si|te", 1);
    let changed = editor.renamed("site.ts", &marked, "Place").unwrap();
    assert!(
        changed.contains(&"main.ts:2:17 Place".to_owned()),
        "{changed:?}"
    );
}

#[test]
fn what_the_api_declares_is_found_in_its_declarations() {
    let mut editor = Editor::new(&[("main.ts", "")]);
    let mut declared = |marked: &str| {
        let at = editor.ask_at("textDocument/definition", "main.ts", marked, json!({}));
        let uri = at["uri"].as_str().unwrap().to_owned();
        let text = fs::read_to_string(uri.strip_prefix("file://").unwrap()).unwrap();
        let line = at["range"]["start"]["line"].as_u64().unwrap();
        let line = text.lines().nth(usize::try_from(line).unwrap()).unwrap();
        (uri, line.trim().to_owned())
    };
    let (uri, line) = declared("await runtime.Li|st({});");
    assert!(uri.ends_with("/aurae.d.ts"), "{uri}");
    assert!(line.contains("List"), "{line}");
    assert_eq!(
        declared("await run|time.List({});").1,
        "declare const runtime: runtime.Runtime;"
    );
    let (_, line) = declared("new Cell({ name: \"a\", reso|urces: {} });");
    assert!(line.starts_with("resources?: "), "{line}");
    let (uri, line) = declared("print([1].ma|p((it) => it));");
    assert!(
        uri.ends_with("/ecmascript.d.ts") && line.starts_with("map"),
        "{uri} {line}"
    );
    let written = fs::metadata(uri.strip_prefix("file://").unwrap()).unwrap();
    assert!(written.permissions().readonly());
    // An editor that opens it is answered, and told of nothing.
    let document = json!({ "uri": uri, "languageId": "typescript", "version": 1, "text": line });
    editor.tell("textDocument/didOpen", json!({ "textDocument": document }));
    let of = json!({ "textDocument": { "uri": uri } });
    assert_eq!(editor.ask("textDocument/documentSymbol", of), Value::Null);
}

#[test]
fn an_imports_own_name_is_renamed_alone() {
    let site = "export const web = 1;\n";
    let main = "import { web as mine } from \"./site.ts\";\nprint(mine);\n";
    let mut editor = Editor::new(&[("site.ts", site), ("main.ts", main)]);
    let alone = ["main.ts:0:16 own", "main.ts:1:6 own"];
    for marked in [
        main.replacen("mine", "mi|ne", 1),
        main.replacen("(mine", "(m|ine", 1),
    ] {
        assert_eq!(editor.renamed("main.ts", &marked, "own").unwrap(), alone);
    }
    let marked = main.replacen("web", "w|eb", 1);
    let theirs = editor.renamed("main.ts", &marked, "shop").unwrap();
    assert_eq!(theirs, ["main.ts:0:9 shop", "site.ts:0:13 shop"]);
}

#[test]
fn what_a_module_can_not_declare_is_no_new_name() {
    let site = "export const web = 1;\n";
    let mut editor = Editor::new(&[("site.ts", site)]);
    for name in ["package", "interface", "eval", "arguments", "public", "in"] {
        let refused = editor.renamed("site.ts", "export const we|b = 1;\n", name);
        assert!(refused.unwrap_err().contains(name));
    }
}

#[test]
fn a_declaration_is_among_its_uses_where_it_is_asked_for() {
    let mut editor = Editor::new(&[("main.ts", "")]);
    for (wanted, lines) in [(true, vec![0, 1]), (false, vec![1])] {
        let context = json!({ "context": { "includeDeclaration": wanted } });
        let text = "const web = 1;\nprint(we|b);\n";
        let uses = editor.ask_at("textDocument/references", "main.ts", text, context);
        let uses = uses.as_array().unwrap().iter();
        let found: Vec<_> = uses.map(|it| &it["range"]["start"]["line"]).collect();
        assert_eq!(found, lines);
    }
}
