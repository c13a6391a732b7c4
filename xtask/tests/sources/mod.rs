// SPDX-License-Identifier: Apache-2.0
//! The project's Rust sources as text, and the string literals in them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "called by tests alone: what fails here is a failed test"
)]

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Every source by its path from the root.
pub(crate) fn rust_files() -> Vec<(String, String)> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | "node_modules") {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path).unwrap();
                let short = path.strip_prefix(&root).unwrap().display().to_string();
                found.push((short, text));
            }
        }
    }
    found.sort();
    found
}

/// A string literal.
pub(crate) struct Literal {
    pub(crate) value: String,
    /// What stands before it, without white space, as far as is of interest.
    pub(crate) before: String,
}

/// How much is kept of what stands before a literal.
const BEFORE: usize = 40;

/// All of a source, outside of comments.
pub(crate) fn literals(text: &str) -> Vec<Literal> {
    let (mut found, mut before) = (Vec::new(), String::new());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some((value, after)) = plain(rest).or_else(|| raw(rest, &before)) {
            let kept = before.len().saturating_sub(BEFORE);
            let kept = (kept..=before.len()).find(|at| before.is_char_boundary(*at));
            let before_it = before.split_off(kept.unwrap_or_default());
            found.push(Literal {
                value: value.clone(),
                before: before_it.clone(),
            });
            before = format!("{before_it}\"{value}\"");
            rest = after;
        } else if let Some(after) = character(rest) {
            rest = after;
        } else {
            if !letter.is_whitespace() {
                before.push(letter);
            }
            rest = rest.get(letter.len_utf8()..).unwrap_or_default();
        }
    }
    found
}

/// `"…"`, with the escapes that matter to a shell.
fn plain(text: &str) -> Option<(String, &str)> {
    let (mut value, mut letters) = (String::new(), text.strip_prefix('"')?.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 2..)?)),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                // The line goes on, without the white space that begins the next.
                '\n' => value.push(' '),
                other => value.push(other),
            },
            _ => value.push(letter),
        }
    }
    None
}

/// `r"…"` and `r#"…"#`.
fn raw<'a>(text: &'a str, before: &str) -> Option<(String, &'a str)> {
    let named = |one: char| one.is_alphanumeric() || one == '_';
    if before.ends_with(named) {
        return None;
    }
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let (value, after) = body.split_once(&end)?;
    Some((value.to_owned(), after))
}

/// `'x'` and `'\x'`, so that a quote in one begins no text. Lifetimes are none of them.
fn character(text: &str) -> Option<&str> {
    let mut letters = text.strip_prefix('\'')?.char_indices();
    let (_, first) = letters.next()?;
    if first == '\\' {
        letters.next()?;
        let (at, _) = letters.find(|(_, letter)| *letter == '\'')?;
        return text.get(at + 2..);
    }
    let (at, closing) = letters.next()?;
    (closing == '\'').then(|| text.get(at + 2..))?
}
