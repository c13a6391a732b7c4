// SPDX-License-Identifier: Apache-2.0
//! How much of ECMAScript the engine knows: runs tc39/test262 (a checkout of it, never a part of
//! this repository) in the real evaluator, each test in a process of its own, and writes the figure
//! into a page of the docs:
//!
//! `cargo run -p script --example test262 -- CHECKOUT EVERY PAGE`
//!
//! EVERY is 1 for all tests, 10 for each tenth. Programs are modules, so a test runs in strict mode
//! or not at all. What needs a host's other realms, agents or legacy is passed over, and counted.
//! The page says which commit of test262 it is of; a clone of today's brings it up to date.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::result_large_err,
    reason = "a tool for developers: what is wrong with a checkout ends it"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};
use script::protocol::{Assumed, Call, Failure, Module, Moved, Start, Thrown};
use script::session::{Host, Items, Options, Session};
use script::value::Value;

/// What a test may need that a program never has.
const FOREIGN: &[&str] = &[
    "createRealm",
    "$262.agent",
    "evalScript",
    "IsHTMLDDA",
    "AbstractModuleSource",
    "noStrict",
    "CanBlockIsTrue",
    "import-defer",
    "source-phase-imports",
];

/// What the harness asks of its host.
const SURFACE: &str = "globalThis.$262 = { detachArrayBuffer: (b) => b.transfer(), gc() {}, \
                       global: globalThis, createRealm() { throw new Error('none') } };";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let [checkout, every, page] =
        <[String; 3]>::try_from(std::env::args().skip(1).collect::<Vec<_>>())
            .expect("usage: test262 CHECKOUT EVERY PAGE");
    let every: usize = every.parse().expect("EVERY is a number");
    let root = PathBuf::from(checkout);
    let mut files = Vec::new();
    for part in ["language", "built-ins"] {
        list(&root.join("test").join(part), &mut files);
    }
    files.sort();
    let total = files.len();
    let chosen = files.into_iter().step_by(every);
    let results: Vec<(PathBuf, Outcome)> = stream::iter(chosen)
        .map(|file| {
            let root = root.clone();
            async move {
                let outcome = outcome(&root, &file).await;
                (file, outcome)
            }
        })
        .buffer_unordered(4)
        .collect()
        .await;
    let text = report(&root, &results, total, every);
    std::fs::write(&page, &text).unwrap();
    println!("{text}");
    for (file, outcome) in &results {
        if let Outcome::Failed(why) = outcome {
            println!(
                "{}: {}",
                file.strip_prefix(&root).unwrap().display(),
                why.replace('\n', " ")
            );
        }
    }
}

enum Outcome {
    Passed,
    Failed(String),
    Skipped,
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|e| e == "js")
            && !path.to_string_lossy().contains("_FIXTURE")
        {
            files.push(path);
        }
    }
}

/// What a test says of itself.
struct Test {
    code: String,
    includes: Vec<String>,
    flags: Vec<String>,
    /// The error that it must end with.
    negative: Option<String>,
}

impl Test {
    fn read(file: &Path) -> Option<Self> {
        let code = std::fs::read_to_string(file).ok()?;
        let start = code.find("/*---")?;
        let front: serde_yaml_ng::Value =
            serde_yaml_ng::from_str(code.get(start + 5..code.find("---*/")?)?).ok()?;
        let words = |name: &str| -> Vec<String> {
            let list = front.get(name).and_then(|list| list.as_sequence());
            list.into_iter()
                .flatten()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect()
        };
        Some(Self {
            includes: words("includes"),
            flags: words("flags"),
            negative: front
                .get("negative")
                .and_then(|negative| negative.get("type")?.as_str())
                .map(str::to_owned),
            code,
        })
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }
}

async fn outcome(root: &Path, file: &Path) -> Outcome {
    let Some(test) = Test::read(file) else {
        return Outcome::Skipped;
    };
    if test.is("raw") || FOREIGN.iter().any(|word| test.code.contains(word)) {
        return Outcome::Skipped;
    }
    let host = Arc::new(Checkout {
        root: root.to_owned(),
        printed: Mutex::default(),
    });
    let ended = evaluate(root, file, &test, host.clone()).await;
    let printed = host.printed.lock().unwrap().clone();
    match (ended, &test.negative) {
        (Ok(()), Some(name)) => Outcome::Failed(format!("no {name}")),
        (Ok(()), None) if test.is("async") && !printed.contains("AsyncTestComplete") => {
            Outcome::Failed(format!("not complete: {printed}"))
        }
        (Ok(()), None) => Outcome::Passed,
        (Err(thrown), Some(name)) if thrown.name == *name => Outcome::Passed,
        (Err(thrown), _) => Outcome::Failed(format!("{}: {}", thrown.name, thrown.message)),
    }
}

async fn evaluate(
    root: &Path,
    file: &Path,
    test: &Test,
    host: Arc<Checkout>,
) -> Result<(), Thrown> {
    let mut options = Options::new(Start::default());
    let itself = std::env::current_exe().unwrap();
    options.program = itself.parent().unwrap().join("../script-evaluator");
    options.arguments.clear();
    options.timeout = Some(Duration::from_secs(20));
    let mut session = Session::start(options, host).expect("an evaluator");
    let mut harness = String::from(SURFACE);
    for name in ["assert.js", "sta.js", "doneprintHandle.js"]
        .into_iter()
        .chain(test.includes.iter().map(String::as_str))
    {
        harness += &std::fs::read_to_string(root.join("harness").join(name)).unwrap();
        harness.push('\n');
    }
    session.evaluate("harness.js", &harness).await?;
    let name = file
        .strip_prefix(root)
        .unwrap()
        .to_string_lossy()
        .into_owned();
    if test.is("module") {
        let module = Module {
            name: name.clone(),
            code: test.code.clone(),
        };
        return session.run(vec![module], &name).await;
    }
    // Its value may be a promise, which is not what the test is about.
    let code = format!("\"use strict\";{}\n;undefined", test.code);
    session.evaluate(&name, &code).await.map(|_| ())
}

/// Gives modules of the checkout, and keeps what is printed.
struct Checkout {
    root: PathBuf,
    printed: Mutex<String>,
}

impl Host for Checkout {
    fn import(&self, specifier: String, from: String) -> BoxFuture<'_, Result<Module, Failure>> {
        async move {
            let name = language::root::join(&from, &specifier).unwrap_or(specifier);
            let code = std::fs::read_to_string(self.root.join(&name))
                .map_err(|e| Failure::new("NOT_FOUND", e.to_string()))?;
            Ok(Module { name, code })
        }
        .boxed()
    }

    fn read_file(&self, path: String, _: String) -> BoxFuture<'_, Result<Vec<u8>, Failure>> {
        async move { Err(Failure::new("NOT_FOUND", path)) }.boxed()
    }

    fn nodes(&self, selector: String) -> BoxFuture<'_, Result<Vec<String>, Failure>> {
        async move { Ok(selector.split(',').map(str::to_owned).collect()) }.boxed()
    }

    fn print(&self, _: bool, text: String) -> BoxFuture<'_, ()> {
        self.printed.lock().unwrap().push_str(&text);
        async {}.boxed()
    }

    fn assume(&self, _: Assumed) {}

    fn moved(&self, _: Moved) -> Result<(), String> {
        Ok(())
    }

    fn call(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Value, Failure>> {
        async move { Err(Failure::new("NOT_FOUND", call.method)) }.boxed()
    }

    fn stream(self: Arc<Self>, _: Call, _: Items) -> BoxStream<'static, Result<Value, Failure>> {
        stream::empty().boxed()
    }
}

/// Of the checkout, a clone as git has made it: `be13516f`.
fn commit(root: &Path) -> String {
    let git = root.join(".git");
    let read = |name: &str| std::fs::read_to_string(git.join(name)).expect("a clone of test262");
    let head = read("HEAD");
    let head = head.trim();
    let id = head
        .strip_prefix("ref: ")
        .map_or_else(|| head.to_owned(), read);
    id.chars().take(8).collect()
}

fn report(root: &Path, results: &[(PathBuf, Outcome)], total: usize, every: usize) -> String {
    let mut groups: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for (file, outcome) in results {
        let path = file.strip_prefix(root).unwrap();
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let group = parts.get(1..3).unwrap_or_default().join("/");
        let column = match outcome {
            Outcome::Passed => 0,
            Outcome::Failed(_) => 1,
            Outcome::Skipped => 2,
        };
        for name in [group.as_str(), "all"] {
            if let Some(count) = groups.entry(name.to_owned()).or_default().get_mut(column) {
                *count += 1;
            }
        }
    }
    let [passed, failed, skipped] = groups.remove("all").unwrap_or_default();
    let mut text = format!(
        "# The engine and ECMAScript\n\n\
         <!-- Written by `cargo run -p script --example test262`; don't edit. -->\n\n\
         Of the {total} tests of the language and its library in tc39/test262 at {}\n\
         one in {every} was run, each in an evaluator of its own, in strict mode, as programs are: \
         **{passed} of {} passed**,\n{failed} failed, and {skipped} were passed over: they are of \
         sloppy mode, or need other realms or threads.\n\nWhere something failed:\n\n\
         | part | passed | failed |\n|---|---|---|\n",
        commit(root),
        passed + failed
    );
    for (name, [passed, failed, _]) in groups {
        if failed > 0 {
            let _ = writeln!(text, "| {name} | {passed} | {failed} |");
        }
    }
    text
}
