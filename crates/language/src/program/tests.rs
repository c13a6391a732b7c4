// SPDX-License-Identifier: Apache-2.0
//! Programs of several modules, and what is wrong with them.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use super::*;

/// Files in memory.
struct Texts(HashMap<String, String>);

impl Files for Texts {
    fn text(&self, path: &str) -> Result<String, ReadError> {
        let text = self.0.get(path).cloned();
        text.ok_or_else(|| ReadError::Missing(path.to_owned()))
    }
}

fn texts(files: &[(&str, &str)]) -> Texts {
    let owned = files
        .iter()
        .map(|(path, text)| ((*path).into(), (*text).into()));
    Texts(owned.collect())
}

fn load(files: &[(&str, &str)], entry: &str) -> Program {
    Program::load(
        &texts(files),
        Entry::File(entry.into()),
        &["runtime", "print"],
    )
    .unwrap()
}

fn found(program: &Program) -> Vec<(&str, String)> {
    let findings = program.findings().iter();
    findings.map(|it| (&*it.code, it.message.clone())).collect()
}

#[test]
fn programs_that_share_modules_are_read_as_one() {
    let files = [
        ("a.ts", "import { x } from './x.ts'; x;"),
        (
            "b.ts",
            "import { x } from './x.ts'; import { y } from './x.ts'; x; y;",
        ),
        ("x.ts", "export const x = 1;"),
    ];
    let entries = ["a.ts", "b.ts", "x.ts"].map(|path| Entry::File(path.into()));
    let program = Program::load_all(&texts(&files), entries.into(), &[]).unwrap();
    let paths: Vec<&str> = program
        .modules()
        .iter()
        .map(|it| it.path.as_str())
        .collect();
    assert_eq!(paths, ["x.ts", "a.ts", "b.ts"]);
    assert_eq!(
        found(&program),
        [("missing-export", "x.ts exports no `y`".to_owned())]
    );
    let gone = vec![Entry::File("c.ts".into())];
    assert!(Program::load_all(&texts(&files), gone, &[]).is_err());
}

#[test]
fn modules_come_after_what_they_import() {
    let files = [
        (
            "main.ts",
            "import { web } from './apps/web.ts'; import './apps/db.ts'; web;",
        ),
        (
            "apps/web.ts",
            "import { base } from '../lib/base.ts'; export const web = base;",
        ),
        (
            "apps/db.ts",
            "import type { Base } from '../lib/base.ts'; export {};",
        ),
        (
            "lib/base.ts",
            "export const base = 1; export interface Base {}",
        ),
    ];
    let program = load(&files, "main.ts");
    assert!(program.is_sound(), "{:?}", found(&program));
    let order: Vec<_> = program
        .modules()
        .iter()
        .map(|it| it.path.as_str())
        .collect();
    assert_eq!(
        order,
        ["lib/base.ts", "apps/web.ts", "apps/db.ts", "main.ts"]
    );
    let compiled = program.compile(Options::default()).unwrap();
    assert_eq!(compiled.len(), 4);
}

#[test]
fn a_cycle_is_named_and_runs() {
    let files = [
        (
            "a.ts",
            "import { b } from './b.ts'; export const a = () => b;",
        ),
        (
            "b.ts",
            "import { c } from './c.ts'; export const b = () => c;",
        ),
        (
            "c.ts",
            "import { a } from './a.ts'; export const c = () => a;",
        ),
    ];
    let program = load(&files, "a.ts");
    let message = "modules import each other: a.ts → b.ts → c.ts → a.ts".to_owned();
    assert_eq!(found(&program), [("import-cycle", message)]);
    assert!(program.is_sound());
    let types = [
        (
            "a.ts",
            "import type { B } from './b.ts'; export type A = B;",
        ),
        (
            "b.ts",
            "import type { A } from './a.ts'; export type B = A;",
        ),
    ];
    assert_eq!(found(&load(&types, "a.ts")), []);
}

#[test]
fn a_missing_export_has_its_nearest_name() {
    let files = [
        (
            "a.ts",
            "import { databsae, d as x } from './b.ts'; export { nope } from './b.ts'; import e from './b.ts';",
        ),
        ("b.ts", "export const database = 1; export * from './c.ts';"),
        ("c.ts", "export const d = 1; export default 2;"),
    ];
    let program = load(&files, "a.ts");
    let messages: Vec<_> = found(&program)
        .into_iter()
        .map(|(_, message)| message)
        .collect();
    let wanted = [
        "b.ts exports no `databsae`",
        "b.ts exports no `nope`",
        "b.ts exports no `default`",
    ];
    assert_eq!(messages, wanted);
    let first = program.findings().first().unwrap();
    assert_eq!(first.help.as_deref(), Some("there is `database`"));
    assert_eq!(first.source.position(first.span.start).column, 10);
}

#[test]
fn imports_that_lead_nowhere_and_names_of_the_language() {
    let files = [(
        "a.ts",
        "import 'fs'; import './gone.ts'; import '../out.ts'; import './b.js'; await import('./far.ts');
const runtime = 1; function print() {} interface runtime2 {} { const runtime = 2; }",
    )];
    let program = load(&files, "a.ts");
    let codes: Vec<_> = found(&program).into_iter().map(|(code, _)| code).collect();
    let unresolved = "unresolved-import";
    let shadowed = "shadowed-global";
    let wanted = [
        unresolved, unresolved, unresolved, unresolved, unresolved, shadowed, shadowed,
    ];
    assert_eq!(codes, wanted, "{:?}", found(&program));
    assert!(!program.is_sound());
}

#[test]
fn what_does_not_parse_is_said_once() {
    let files = [
        ("a.ts", "import { b } from './b.ts'; b;"),
        ("b.ts", "export const b = ;"),
    ];
    let program = load(&files, "a.ts");
    let codes: Vec<_> = found(&program).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["syntax"]);
}

#[test]
fn a_module_may_come_later() {
    let files = texts(&[
        ("a.ts", "const name = './b.ts'; await import(name);"),
        ("b.ts", "import { c } from './c.ts'; c;"),
        ("c.ts", "export const c = 1;"),
        ("bad.ts", "import './c.ts'; const = 1;"),
    ]);
    let mut program = Program::load(&files, Entry::File("a.ts".into()), &[]).unwrap();
    assert_eq!(program.modules().len(), 1);
    let refused = program.import(&files, "a.ts", "./bad.ts").unwrap_err();
    assert!(refused.to_string().contains("bad.ts:1:24"), "{refused}");
    assert_eq!(program.modules().len(), 1);
    assert_eq!(
        program.import(&files, "a.ts", "./b.ts").unwrap(),
        ("b.ts".into(), 2)
    );
    assert_eq!(
        program.import(&files, "a.ts", "./b.ts").unwrap(),
        ("b.ts".into(), 0)
    );
    assert!(program.is_sound());
}

#[test]
fn text_without_a_file_imports_from_the_root() {
    let files = texts(&[("lib/b.ts", "export const b = 1;")]);
    let entry = Entry::Text {
        name: "<eval>".into(),
        text: "import { b } from './lib/b.ts'; b;".into(),
    };
    let program = Program::load(&files, entry, &[]).unwrap();
    assert!(program.is_sound(), "{:?}", found(&program));
    assert_eq!(program.modules().last().unwrap().path, "<eval>");
}

#[test]
fn unsaved_text_lies_over_the_file() {
    let files = texts(&[("a.ts", "import { b } from './b.ts'; b;"), ("b.ts", "")]);
    let unsaved = HashMap::from([("b.ts".to_owned(), "export const b = 1;".to_owned())]);
    let overlay = Overlay {
        files: &files,
        texts: &unsaved,
    };
    let program = Program::load(&overlay, Entry::File("a.ts".into()), &[]).unwrap();
    assert_eq!(found(&program), []);
}

#[test]
fn a_default_that_is_passed_on_by_its_name_is_there() {
    let program = load(
        &[
            ("main.ts", "import { D } from \"./all.ts\"; print(D);"),
            ("all.ts", "import D from \"./a.ts\"; export { D };"),
            ("a.ts", "export default class A {}"),
        ],
        "main.ts",
    );
    assert_eq!(found(&program), []);
}

#[test]
fn a_type_that_is_imported_as_a_value_is_refused() {
    let program = load(
        &[
            (
                "main.ts",
                "import { T, C } from \"./all.ts\"; const a: T = 1; print(a, C);",
            ),
            ("all.ts", "export { type T, C } from \"./a.ts\";"),
            ("a.ts", "export type T = number; export class C {}"),
        ],
        "main.ts",
    );
    let codes: Vec<_> = found(&program).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["type-import"]);
    assert_eq!(program.findings()[0].fixes[0].edits[0].text, "type ");
    let right = load(
        &[
            (
                "main.ts",
                "import { type T } from \"./a.ts\"; const a: T = 1; print(a);",
            ),
            ("a.ts", "export type T = number;"),
        ],
        "main.ts",
    );
    assert_eq!(found(&right), []);
}

/// A wide program whose modules are all wrong in some way; texts are given once two threads have
/// asked for one, if there are two.
struct Wide {
    texts: HashMap<String, String>,
    asked: Mutex<HashSet<ThreadId>>,
    changed: Condvar,
    wanted: usize,
}

impl Wide {
    fn new(modules: usize) -> Self {
        let mut texts = HashMap::new();
        let mut main = String::new();
        for index in 0..modules {
            main += &format!("import {{ a{index} }} from \"./a{index}.ts\";\n");
            let next = (index + 1) % modules;
            let text = format!(
                "import {{ b }} from \"./a{next}.ts\";\nimport \"./gone{index}.ts\";\n\
                 export const a{index} = b; const {} = 1;\n",
                ["fine", "Cell"][index % 2]
            );
            texts.insert(format!("a{index}.ts"), text);
        }
        texts.insert("main.ts".to_owned(), main);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            texts,
            asked: Mutex::default(),
            changed: Condvar::new(),
            wanted: threads.min(2),
        }
    }
}

impl Files for Wide {
    fn text(&self, path: &str) -> Result<String, ReadError> {
        if path != "main.ts" {
            let mut asked = self.asked.lock().unwrap();
            asked.insert(std::thread::current().id());
            self.changed.notify_all();
            let few = |asked: &mut HashSet<ThreadId>| asked.len() < self.wanted;
            let waited = self
                .changed
                .wait_timeout_while(asked, Duration::from_secs(60), few);
            assert!(!waited.unwrap().1.timed_out(), "another thread reads, too");
        }
        let text = self.texts.get(path).cloned();
        text.ok_or_else(|| ReadError::Missing(path.to_owned()))
    }
}

#[test]
fn a_wide_program_is_read_on_several_threads_and_told_in_one_order() {
    let told = |modules: usize| {
        let files = Wide::new(modules);
        let entry = Entry::File("main.ts".to_owned());
        let program = Program::load(&files, entry, &["Cell"]).unwrap();
        let order: Vec<String> = program.modules().iter().map(|it| it.path.clone()).collect();
        let findings = program.findings().iter().map(|finding| {
            let place = (finding.source.name().to_owned(), finding.span);
            (finding.code.to_string(), place, finding.message.clone())
        });
        (order, findings.collect::<Vec<_>>())
    };
    let (order, findings) = told(60);
    assert_eq!(order.len(), 61);
    assert_eq!(order[60], "main.ts");
    // The first that is come to leads to all others, which lead back to it.
    assert_eq!(order[0], "a59.ts");
    assert_eq!(order[59], "a0.ts");
    let count = |code: &str| findings.iter().filter(|it| it.0 == code).count();
    assert_eq!(count("unresolved-import"), 60);
    assert_eq!(count("missing-export"), 60);
    assert_eq!(count("shadowed-global"), 30);
    assert_eq!(count("import-cycle"), 1);
    for _ in 0..5 {
        assert_eq!(told(60), (order.clone(), findings.clone()));
    }
}
