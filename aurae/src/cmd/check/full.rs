// SPDX-License-Identifier: Apache-2.0
//! `aurae check --full`: TypeScript's own compiler, on the same modules with the same types. Our
//! checker reports nothing where it isn't sure; this one knows all of TypeScript, takes longer and
//! has to be installed. A finding of both on one line is printed once, in our words.

use std::path::{Path, PathBuf};
use std::process::Command;

use language::declare::{TSCONFIG, aurae_d_ts};
use language::finding::{Finding, Severity};
use language::program::Program;
use language::source::{Position, Source, Span};
use serde_json::{Value, json};

use crate::failure::Failure;

/// The oldest compiler that is asked: the first native one, whose defaults our types are made for.
const OLDEST: u32 = 7;

/// What the compiler says of the program's modules, beyond what has been found.
///
/// # Errors
/// There is no such compiler on PATH, it can't be run, or it doesn't speak as expected.
pub(super) fn findings(
    program: &Program,
    root: &Path,
    known: &[Finding],
) -> Result<Vec<Finding>, Failure> {
    require_compiler()?;
    let project = Project::write(program, root)?;
    let said = project.ask(root)?;
    let mut found = Vec::new();
    for line in said.lines() {
        let Some(error) = parse(line) else { continue };
        let Some(module) = program.module(error.file.trim_start_matches("./")) else {
            return Err(Failure::new(format!(
                "tsc speaks of something else: {line}"
            )));
        };
        found.extend(finding(&module.source, &error, known));
    }
    Ok(found)
}

fn require_compiler() -> Result<(), Failure> {
    let missing = |what: String| {
        Failure::new(what).with_hint(format!(
            "`npm install --global typescript@{OLDEST}` gives one; without --full none is needed"
        ))
    };
    let output = Command::new("tsc").arg("--version").output();
    let output = output.map_err(|problem| missing(format!("--full: can't run tsc: {problem}")))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let number = version.strip_prefix("Version ").unwrap_or_default();
    let major = number.split('.').next();
    let major = major.and_then(|text| text.parse::<u32>().ok());
    match major {
        Some(major) if major >= OLDEST => Ok(()),
        _ => Err(missing(format!(
            "--full: tsc {OLDEST} or newer is needed, PATH has {version:?}"
        ))),
    }
}

/// A folder of ours with the types and a configuration that lists the program's modules where they
/// are: nothing is written beside them.
struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn write(program: &Program, root: &Path) -> Result<Self, Failure> {
        let problem = |e: &dyn std::fmt::Display| Failure::new(format!("--full: {e}"));
        let folder = tempfile::tempdir().map_err(|e| problem(&e))?;
        let types = folder.path().join("aurae.d.ts");
        std::fs::write(&types, aurae_d_ts().map_err(|e| problem(&e))?).map_err(|e| problem(&e))?;
        let mut config: Value = serde_json::from_str(TSCONFIG).map_err(|e| problem(&e))?;
        let modules = program.modules().iter();
        let mut files: Vec<PathBuf> = modules
            .map(|module| root.join(module.source.name()))
            .collect();
        files.push(types);
        if let Some(fields) = config.as_object_mut() {
            fields.remove("include");
            fields.insert("files".to_owned(), json!(files));
        }
        let path = folder.path().join("tsconfig.json");
        std::fs::write(path, config.to_string()).map_err(|e| problem(&e))?;
        Ok(Self { folder })
    }

    fn ask(&self, root: &Path) -> Result<String, Failure> {
        let mut tsc = Command::new("tsc");
        tsc.args(["--pretty", "false", "-p"])
            .arg(self.folder.path())
            .current_dir(root);
        let output = tsc
            .output()
            .map_err(|problem| Failure::new(format!("--full: can't run tsc: {problem}")))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() && !said.lines().any(|line| parse(line).is_some()) {
            return Err(Failure::new(format!("--full: tsc failed: {}", said.trim())));
        }
        Ok(said)
    }
}

/// One line of tsc: `apps/web.ts(1,10): error TS2741: Property …`.
struct Said<'a> {
    file: &'a str,
    line: u32,
    /// From 1, in UTF-16 units.
    column: usize,
    /// The message, with TypeScript's number of it.
    message: &'a str,
}

fn parse(line: &str) -> Option<Said<'_>> {
    let (place, message) = line.split_once(": error ")?;
    let (file, place) = place.strip_suffix(')')?.rsplit_once('(')?;
    let (line, column) = place.split_once(',')?;
    Some(Said {
        file,
        line: line.parse().ok()?,
        column: column.parse().ok()?,
        message,
    })
}

/// As a finding, unless its line has one already.
fn finding(source: &Source, said: &Said<'_>, known: &[Finding]) -> Option<Finding> {
    let same_line = |one: &Finding| {
        one.source.name() == source.name() && source.position(one.span.start).line == said.line
    };
    if known.iter().any(same_line) {
        return None;
    }
    let text = source.line(said.line)?;
    let column = characters(text, said.column.saturating_sub(1));
    let start = source.offset(Position {
        line: said.line,
        column: u32::try_from(column).ok()?.saturating_add(1),
    })?;
    let word = text.chars().skip(column);
    let word: String = word
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let length = u32::try_from(word.len().max(1)).ok()?;
    Some(Finding {
        code: "typescript",
        severity: Severity::Error,
        message: said.message.trim_end_matches('.').to_owned(),
        source: source.clone(),
        span: Span::new(start, start.saturating_add(length)),
        help: None,
        fixes: Vec::new(),
    })
}

/// How many characters the first so many UTF-16 units are.
fn characters(text: &str, units: usize) -> usize {
    let mut left = units;
    text.chars()
        .take_while(|c| {
            let fits = left >= c.len_utf16();
            left = left.saturating_sub(c.len_utf16());
            fits
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_tsc_becomes_a_finding_at_its_word() {
        let source = Source::new(
            "apps/web.ts",
            "// ä\nconst s: string = \"𝒳\" + 1, n: number = s;\n",
        );
        let said = parse("apps/web.ts(2,29): error TS2322: Type 'string' is not 'number'.");
        let said = said.unwrap();
        let found = finding(&source, &said, &[]).unwrap();
        let start = found.span.start as usize;
        assert!(source.text()[start..].starts_with("n: number"), "{start}");
        assert_eq!(found.message, "TS2322: Type 'string' is not 'number'");
        assert!(finding(&source, &said, &[found]).is_none(), "one a line");
        assert!(parse("Found 1 error.").is_none());
    }
}
