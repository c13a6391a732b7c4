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

/// Riddles: a sentence names the thing (the daemon, the client, the user, another cell).
const RIDDLES: [&str; 4] = ["nobody", "somebody", "anybody", "whoever"];

/// Coined words that were given up for the field's, as parts of names.
const COINED: [(&str, &str); 14] = [
    ("births", "creations"),
    ("errand", "node permit"),
    ("ledger", "revocation log"),
    ("bury", "kill orphan"),
    ("farewell", "shutdown"),
    ("misspoke", "protocol error"),
    ("patience", "a timeout, or a wait"),
    ("goodbye", "goaway"),
    ("greet", "handshake"),
    ("greeting", "handshake"),
    ("keeper", "a store, or what keeps the record"),
    ("swept", "removed, pruned or collected"),
    ("strangers", "clients, users or processes"),
    ("born", "created, or started"),
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

#[test]
fn what_users_read_names_the_thing() {
    let mut wrong = Vec::new();
    for source in sources(&["rs", "proto", "md"]) {
        let kind = source.path.extension().unwrap_or_default();
        let relative = source.path.strip_prefix(root()).unwrap();
        let of_users = ["docs/guide", "docs/language", "README.md", "SECURITY.md"];
        if kind == "md" && !of_users.iter().any(|start| relative.starts_with(start))
            || is_test(&source.path)
        {
            continue;
        }
        for (number, line) in source.text.lines().enumerate() {
            // Tests stand at the end of a file.
            if line == "#[cfg(test)]" {
                break;
            }
            // The docs of the command line's grammar are its help.
            let help = line.trim_start().strip_prefix("///");
            let read = match help {
                Some(help) if relative.starts_with("aurae/src") => help.to_owned(),
                _ if kind == "rs" => texts(line),
                _ => line.to_owned(),
            };
            let mut words = read.split(|c: char| !c.is_alphanumeric());
            if words.any(|word| RIDDLES.contains(&word.to_lowercase().as_str())) {
                wrong.push(shown(&source, number));
            }
        }
    }
    refuse(&format!("name the thing instead of {RIDDLES:?}"), wrong);
}

/// The part of a line of code that people read without reading the code: a module's header, and
/// sentences in quotes. A single word in quotes is a name, such as the user `nobody`.
fn texts(line: &str) -> String {
    if line.starts_with("//!") {
        return line.to_owned();
    }
    if line.trim_start().starts_with("//") {
        return String::new();
    }
    let quoted = line.split('"').skip(1).step_by(2);
    let sentences: Vec<&str> = quoted.filter(|text| text.contains(' ')).collect();
    sentences.join(" ")
}

#[test]
fn coined_words_do_not_come_back() {
    let mut wrong = Vec::new();
    for source in sources(&["rs", "proto"]) {
        let of_tests = is_test(&source.path) || source.path.starts_with(root().join("xtask"));
        for (number, line) in source.text.lines().enumerate().filter(|_| !of_tests) {
            let line = line.to_lowercase();
            let is_there = |coined: &str| {
                let mut words = line.split(|c: char| !c.is_alphabetic());
                words.any(|word| word == coined)
            };
            if let Some((coined, instead)) = COINED.iter().find(|(coined, _)| is_there(coined)) {
                wrong.push(format!("{}: {coined} ({instead})", shown(&source, number)));
            }
        }
    }
    refuse("the field's word", wrong);
}

#[test]
fn public_functions_say_their_errors() {
    let mut wrong = Vec::new();
    for source in sources(&["rs"]).iter().filter(|it| !is_test(&it.path)) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            if *line == "#[cfg(test)]" {
                break;
            }
            if is_public_function(line) && answers_result(&lines[number..]) {
                let above = lines[..number].iter().rev();
                let mut doc = above.take_while(|line| !ends_an_item(line));
                if !doc.any(|line| line.contains("# Errors")) {
                    wrong.push(shown(source, number));
                }
            }
        }
    }
    refuse(
        "a public function that may fail has a section `# Errors`",
        wrong,
    );
}

fn is_public_function(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = words.iter().position(|word| *word == "fn");
    let between = name.and_then(|at| words.get(1..at)).unwrap_or_default();
    let is_plain = between.iter().all(|w| matches!(*w, "async" | "const"));
    name.is_some() && words.first() == Some(&"pub") && is_plain
}

/// Whether the function that begins there answers a `Result`, whatever its crate calls it.
fn answers_result(lines: &[&str]) -> bool {
    let mut signature = String::new();
    for line in lines {
        signature.push_str(line.trim());
        signature.push(' ');
        if line.ends_with('{') || line.ends_with(';') || line.ends_with('}') {
            break;
        }
    }
    // Of the whole function, not of a closure that it takes.
    let signature = signature.split(" where ").next().unwrap_or("");
    let answer = signature.rsplit_once(')').map_or("", |(_, rest)| rest);
    let named = answer.trim_start().strip_prefix("->").unwrap_or("");
    let path = named.split(['<', '{']).next().unwrap_or("").trim();
    path.rsplit("::").next() == Some("Result")
}

/// Between an item and the one before it stand its docs and attributes alone.
fn ends_an_item(line: &str) -> bool {
    let is_doc = line.trim_start().starts_with("//");
    line.is_empty() || !is_doc && line.ends_with(['{', '}', ';'])
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
