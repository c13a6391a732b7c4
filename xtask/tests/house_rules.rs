// SPDX-License-Identifier: Apache-2.0
//! The house rules that no lint knows: licence lines, headers, sizes, and what must not be in the
//! code.

#![expect(clippy::unwrap_used, reason = "a test fails by them")]

use std::fs;
use std::path::{Path, PathBuf};

const LICENCE: &str = "SPDX-License-Identifier: Apache-2.0";
const COLUMNS: usize = 100;
/// Of a source file without its tests.
const LINES: usize = 800;

/// What no source file holds, and why not.
const BANNED: [(&str, &str); 4] = [
    (
        concat!("to", "do!("),
        "nothing is pretended: leave it out, and say so",
    ),
    (
        concat!("unimple", "mented!("),
        "nothing is pretended: leave it out, and say so",
    ),
    (concat!("#[ig", "nore"), "a test that isn't run is none"),
    (concat!("FIX", "ME"), "fix it, or open an issue"),
];

/// Waiting for a time instead of an event. A test may look again until its deadline; elsewhere the
/// line above says why there is no event.
const SLEEPS: [&str; 2] = [
    concat!("thread::", "sleep("),
    concat!("time::sleep(", "Duration::"),
];

struct Source {
    path: PathBuf,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The project's files with one of these extensions.
fn sources(extensions: &[&str]) -> Vec<Source> {
    let mut folders = vec![root()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), "target" | ".git") {
                    folders.push(path);
                }
            } else if path
                .extension()
                .is_some_and(|one| extensions.iter().any(|it| one == *it))
            {
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { path, text });
            }
        }
    }
    assert!(!found.is_empty());
    found
}

fn refuse(rule: &str, mut wrong: Vec<String>) {
    wrong.sort();
    assert!(wrong.is_empty(), "{rule}:\n  {}", wrong.join("\n  "));
}

fn shown(source: &Source, line: usize) -> String {
    format!(
        "{}:{}",
        source.path.strip_prefix(root()).unwrap().display(),
        line + 1
    )
}

#[test]
fn every_source_starts_with_its_licence() {
    let all = sources(&["rs", "proto", "toml"]);
    let bare = all
        .iter()
        .filter(|it| !it.text.lines().next().unwrap_or("").contains(LICENCE));
    refuse(
        "the first line names the licence",
        bare.map(|it| shown(it, 0)).collect(),
    );
}

#[test]
fn every_rust_file_says_what_it_is() {
    let all = sources(&["rs"]);
    let mute = all.iter().filter(|it| {
        let mut lines = it
            .text
            .lines()
            .skip(1)
            .filter(|line| !line.starts_with("#!["));
        !lines.next().is_some_and(|line| line.starts_with("//! "))
    });
    refuse(
        "a `//!` header follows the licence",
        mute.map(|it| shown(it, 1)).collect(),
    );
}

#[test]
fn lines_fit_a_screen() {
    let all = sources(&["rs", "proto"]);
    let mut wide = Vec::new();
    for source in &all {
        let lines = source.text.lines().enumerate();
        wide.extend(
            lines
                .filter(|(_, line)| line.chars().count() > COLUMNS && is_prose(line, source))
                .map(|(n, _)| shown(source, n)),
        );
    }
    refuse("at most 100 columns", wide);
}

/// Comments and contracts. The width of code is rustfmt's, which leaves a text in quotes whole.
fn is_prose(line: &str, source: &Source) -> bool {
    line.trim_start().starts_with("//") || source.path.extension().is_some_and(|it| it == "proto")
}

#[test]
fn files_stay_readable() {
    let all = sources(&["rs"]);
    let long = all.iter().filter_map(|source| {
        let code = source
            .text
            .lines()
            .take_while(|line| *line != "#[cfg(test)]")
            .count();
        (code > LINES && !is_test(&source.path)).then(|| shown(source, code))
    });
    refuse("at most 800 lines without the tests", long.collect());
}

#[test]
fn nothing_is_put_off() {
    let all = sources(&["rs"]);
    let mut wrong = Vec::new();
    for source in &all {
        for (number, line) in source.text.lines().enumerate() {
            for (banned, why) in BANNED {
                if line.contains(banned) {
                    wrong.push(format!("{}: {banned} ({why})", shown(source, number)));
                }
            }
        }
    }
    refuse("not in our code", wrong);
}

#[test]
fn no_merge_is_left_half_done() {
    // Not as one word here, or this file would be its own finding.
    let marks = ['<', '>'].map(|mark| mark.to_string().repeat(7) + " ");
    let mut wrong = Vec::new();
    for source in sources(&["rs", "md", "toml", "proto", "ts", "lua", "json"]) {
        let lines = source.text.lines().enumerate();
        let marked = lines.filter(|(_, text)| marks.iter().any(|mark| text.starts_with(mark)));
        wrong.extend(marked.map(|(line, _)| shown(&source, line)));
    }
    refuse("finish the merge", wrong);
}

#[test]
fn every_sleep_says_why_there_is_no_event() {
    let all = sources(&["rs"]);
    let mut wrong = Vec::new();
    for source in all.iter().filter(|it| !is_test(&it.path)) {
        let lines: Vec<&str> = source.text.lines().collect();
        let code = lines
            .split(|line| line.contains("#[cfg(test)]"))
            .next()
            .unwrap_or_default();
        for (number, pair) in code.windows(2).enumerate() {
            let sleeps = SLEEPS.iter().any(|sleep| pair[1].contains(sleep));
            if sleeps && !pair[0].trim_start().starts_with("//") {
                wrong.push(shown(source, number + 1));
            }
        }
    }
    refuse(
        "wait for the event, not for a time, or say why on the line above",
        wrong,
    );
}

fn is_test(path: &Path) -> bool {
    let of_tests = |name: &str| name == "tests" || name == "testkit" || name.ends_with("tests.rs");
    path.iter().any(|part| of_tests(&part.to_string_lossy()))
}

#[test]
fn only_the_kernel_crate_is_unsafe() {
    let all = sources(&["rs"]);
    let kernel = root().join("crates/kernel");
    let allowing = all.iter().filter(|it| {
        !it.path.starts_with(&kernel) && it.text.contains(concat!("allow(unsafe", "_code"))
    });
    refuse(
        "unsafe code lives in crates/kernel",
        allowing.map(|it| shown(it, 0)).collect(),
    );
}
