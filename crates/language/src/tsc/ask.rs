// SPDX-License-Identifier: Apache-2.0
//! A whole program, asked about at once: what the compiler says as findings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::decide::{Lines, said, stands};
use super::project::{Files, write_project};
use super::{AskError, Compiler, watch};
use crate::check::Claim;
use crate::finding::{Finding, Severity};
use crate::program::Program;
use crate::source::{Position, Source, Span};

/// How long it may take for a program.
const WITHIN: Duration = Duration::from_secs(120);

impl Compiler {
    /// All findings of types in a program whose files lie below `root`: the claims of ours that
    /// stand, then what the compiler alone says, as warnings with its codes.
    ///
    /// # Errors
    /// It gave no answer.
    pub fn findings(
        &self,
        program: &Program,
        root: &Path,
        claims: &[Claim],
    ) -> Result<Vec<Finding>, AskError> {
        let written = self.ask(program, root)?;
        let mut complaints: BTreeMap<&str, Lines> = BTreeMap::new();
        let mut errors = Vec::new();
        for error in written.lines().filter_map(parse) {
            // It may complain about our declarations, where a program adds to them.
            let module = program.module(error.file.trim_start_matches("./"));
            let Some(module) = module else { continue };
            let lines = complaints.entry(module.path.as_str()).or_default();
            lines.insert(error.line);
            errors.push((&module.source, error));
        }
        let none = Lines::new();
        let of = |name: &str| complaints.get(name).unwrap_or(&none);
        let stand = |claim: &&Claim| stands(claim, of(claim.finding.source.name()));
        let claims: Vec<&Claim> = claims.iter().filter(stand).collect();
        let told: BTreeMap<&str, Lines> = errors
            .iter()
            .map(|(source, _)| source.name())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter_map(|name| {
                Some((
                    name,
                    said(&program.module(name)?.source, claims.iter().copied()),
                ))
            })
            .collect();
        let alone = errors.iter().filter(|(source, error)| {
            let told = told.get(source.name());
            !told.is_some_and(|lines| lines.contains(&error.line))
        });
        let added: Vec<Finding> = alone
            .filter_map(|(source, error)| finding(source, error))
            .collect();
        let ours = claims.into_iter().map(|claim| claim.finding.clone());
        let mut findings: Vec<Finding> = ours.collect();
        findings.extend(added);
        Ok(findings)
    }

    /// What it writes of the program's modules, which are listed where they are.
    fn ask(&self, program: &Program, root: &Path) -> Result<String, AskError> {
        let system = |what| move |source| AskError::System { what, source };
        let folder = tempfile::tempdir().map_err(system("can't make a folder for the types"))?;
        let modules = program.modules().iter();
        let files = modules.map(|module| root.join(module.source.name()));
        write_project(folder.path(), Files::These(files.collect()))?;
        let mut tsc = Command::new(&self.program);
        tsc.args(["--pretty", "false", "-p"])
            .arg(folder.path())
            .current_dir(root)
            .stdin(Stdio::null());
        let output = watch::output(tsc, WITHIN).map_err(|source| match source.kind() {
            std::io::ErrorKind::TimedOut => AskError::TooLong(WITHIN.as_secs()),
            _ => AskError::System {
                what: "can't run it",
                source,
            },
        })?;
        let written = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() && !written.lines().any(|line| parse(line).is_some()) {
            let err = String::from_utf8_lossy(&output.stderr);
            let why = match (written.trim(), err.trim()) {
                ("", "") => output.status.to_string(),
                ("", err) => err.to_owned(),
                (out, _) => out.to_owned(),
            };
            return Err(AskError::Failed(why));
        }
        Ok(written)
    }
}

/// One line of it: `apps/web.ts(1,10): error TS2741: Property …`.
struct Said<'a> {
    file: &'a str,
    line: u32,
    /// From 1, in UTF-16 units.
    column: usize,
    /// `TS2741`.
    code: &'a str,
    message: &'a str,
}

fn parse(line: &str) -> Option<Said<'_>> {
    let (place, said) = line.split_once(": error ")?;
    let (file, place) = place.strip_suffix(')')?.rsplit_once('(')?;
    let (line, column) = place.split_once(',')?;
    let (code, message) = said.split_once(": ")?;
    Some(Said {
        file,
        line: line.parse().ok()?,
        column: column.parse().ok()?,
        code,
        message,
    })
}

fn finding(source: &Source, said: &Said<'_>) -> Option<Finding> {
    let text = source.line(said.line)?;
    let column = characters(text, said.column.saturating_sub(1));
    let start = source.offset(Position {
        line: said.line,
        column: u32::try_from(column).ok()?.saturating_add(1),
    })?;
    let word = text.chars().skip(column);
    let word: String = word
        .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
        .collect();
    let length = u32::try_from(word.len().max(1)).ok()?;
    Some(Finding {
        code: said.code.to_owned().into(),
        severity: Severity::Warning,
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
        let found = finding(&source, &said.unwrap()).unwrap();
        let start = found.span.start as usize;
        assert!(source.text()[start..].starts_with("n: number"), "{start}");
        assert_eq!(
            (&*found.code, &*found.message, found.severity),
            ("TS2322", "Type 'string' is not 'number'", Severity::Warning)
        );
        assert!(parse("Found 1 error.").is_none());
    }
}
