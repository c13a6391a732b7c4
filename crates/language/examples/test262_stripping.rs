// SPDX-License-Identifier: Apache-2.0
//! Measures how the compiler takes test262's language tests: those that any module may hold must
//! compile, those that must not parse must be refused. Runs nothing; what the engine makes of the
//! code is its own figure.
//!
//!   cargo run -p language --example test262_stripping -- TEST262/test/language
#![allow(
    clippy::print_stdout,
    reason = "a measuring tool's output is what it prints"
)]

use std::path::{Path, PathBuf};

use language::compile::{Options, compile};
use language::source::Source;

/// How many of a kind went as they must, and the names of those that didn't.
#[derive(Default)]
struct Count {
    right: usize,
    wrong: Vec<String>,
}

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let (mut good, mut bad, mut left_out) = (Count::default(), Count::default(), 0);
    for path in tests(Path::new(&folder))? {
        let text = std::fs::read_to_string(&path)?;
        let (head, _) = text.split_once("---*/").unwrap_or(("", ""));
        if !fits(head, &path) {
            left_out += 1;
            continue;
        }
        let compiled = compile(&Source::new("test.ts", text.as_str()), Options::default()).is_ok();
        let refused = head.contains("phase: parse");
        let count = if refused { &mut bad } else { &mut good };
        if compiled == refused {
            count.wrong.push(path.display().to_string());
        } else {
            count.right += 1;
        }
    }
    for (what, count) in [("compile", &good), ("are refused", &bad)] {
        let all = count.right + count.wrong.len();
        println!("{} of {all} that must {what} do", count.right);
        for name in &count.wrong {
            println!("  {name}");
        }
    }
    println!("{left_out} left out: no module's code, or what the language refuses by name");
    Ok(())
}

/// Whether a test is a module's code: strict, and without what the language refuses by name.
fn fits(head: &str, path: &Path) -> bool {
    let flags = ["noStrict", "raw"];
    let features = [
        "decorators",
        "import-attributes",
        "import-defer",
        "source-phase-imports",
        "import-text",
        "import-bytes",
        "json-modules",
    ];
    let name = path.to_string_lossy();
    let fixture = name.contains("_FIXTURE");
    !fixture
        && !flags
            .iter()
            .chain(&features)
            .any(|word| head.contains(word))
}

fn tests(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|it| it == "js") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
