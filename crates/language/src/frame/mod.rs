// SPDX-License-Identifier: Apache-2.0
//! Findings and run-time errors as people and programs read them: text with the place in the source
//! as written, in colours or plain, and JSON. Where they are written to is the caller's.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde::Serialize;

use crate::finding::{Finding, Severity};
use crate::source::{Position, Source, Span};

/// Lines shown around a place.
const AROUND: u32 = 1;
/// The longest line that is shown, in columns; longer ones are cut around the place.
const COLUMNS: usize = 120;

/// One finding with its place, as a compiler shows it.
pub fn text(finding: &Finding, colours: bool) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = format!("{} [{}]", finding.message, finding.code);
    let mut shown = render(
        level,
        &title,
        Some((&finding.source, finding.span)),
        finding.help.as_deref(),
        colours,
    );
    shown.push('\n');
    shown
}

/// All findings, errors and warnings counted at the end.
pub fn texts(findings: &[Finding], colours: bool) -> String {
    let mut shown = String::new();
    for finding in findings {
        shown.push_str(&text(finding, colours));
        shown.push('\n');
    }
    let errors = findings.iter();
    let errors = errors.filter(|it| it.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    };
    let line = match (errors, warnings) {
        (0, 0) => return shown,
        (0, _) => count(warnings, "warning"),
        (_, 0) => count(errors, "error"),
        _ => format!("{}, {}", count(errors, "error"), count(warnings, "warning")),
    };
    let _ = writeln!(shown, "{line}");
    shown
}

/// A run-time error: its message, the place where it came up, and below it the places that led
/// there (the function's name and `file:line:column`), nearest first.
pub fn error(
    message: &str,
    place: Option<(&Source, Position)>,
    trace: &[(String, String)],
    help: Option<&str>,
    colours: bool,
) -> String {
    let place = place.and_then(|(source, position)| {
        let start = source.offset(position)?;
        Some((source, word_at(source, start)))
    });
    let mut shown = render(Level::ERROR, message, place, help, colours);
    shown.push('\n');
    for (function, place) in trace {
        let _ = match function.as_str() {
            "" => writeln!(shown, "   at {place}"),
            function => writeln!(shown, "   at {function} ({place})"),
        };
    }
    shown
}

/// The name that begins at an offset, or the one character there.
fn word_at(source: &Source, start: u32) -> Span {
    let rest = source.text().get(start as usize..).unwrap_or_default();
    let word = |character: &char| character.is_alphanumeric() || matches!(character, '_' | '$');
    let mut length: usize = rest.chars().take_while(word).map(char::len_utf8).sum();
    if length == 0 {
        let first = rest.chars().next().filter(|first| *first != '\n');
        length = first.map_or(0, char::len_utf8);
    }
    let end = start.saturating_add(u32::try_from(length).unwrap_or(0));
    Span::new(start, end)
}

fn render(
    level: Level<'_>,
    title: &str,
    place: Option<(&Source, Span)>,
    help: Option<&str>,
    colours: bool,
) -> String {
    let window = place.map(|(source, span)| (source, Window::around(source, span)));
    let mut group = Group::with_title(level.primary_title(clean(title)));
    if let Some((source, window)) = &window {
        group = group.element(
            Snippet::source(clean(&window.text))
                .line_start(window.line as usize)
                .fold(false)
                .path(source.name())
                .annotation(AnnotationKind::Primary.span(window.start..window.end)),
        );
    }
    if let Some(help) = help {
        group = group.element(Level::HELP.message(clean(help)));
    }
    let renderer = if colours {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    renderer.term_width(COLUMNS).render(&[group])
}

/// Control characters of a script's text never reach the terminal: each becomes a replacement of
/// the same length in bytes, so that places stay.
fn clean(text: &str) -> String {
    let keep = |character: char| character == '\n' || character == '\t';
    text.chars()
        .flat_map(|character| {
            let (with, times) = match character {
                '\r' => (' ', 1),
                _ if keep(character) || !character.is_control() => (character, 1),
                _ => ('?', character.len_utf8()),
            };
            std::iter::repeat_n(with, times)
        })
        .collect()
}

/// The lines around a place, and the place in them.
struct Window {
    text: String,
    /// The number of the first line.
    line: u32,
    start: usize,
    end: usize,
}

impl Window {
    fn around(source: &Source, span: Span) -> Self {
        let first = source.position(span.start).line;
        let last = source.position(span.end).line;
        let last = last.min(first.saturating_add(6));
        let line = first.saturating_sub(AROUND).max(1);
        let from = source.offset(Position { line, column: 1 }).unwrap_or(0);
        let mut to = from;
        for line in line..=last.saturating_add(AROUND) {
            let column = u32::MAX;
            to = source.offset(Position { line, column }).unwrap_or(to);
        }
        let text = source.text().get(from as usize..to as usize);
        let text = text.unwrap_or_default().to_owned();
        let within = |offset: u32| (offset.saturating_sub(from) as usize).min(text.len());
        let (start, end) = (within(span.start), within(span.end.max(span.start)));
        Self {
            text,
            line,
            start,
            end,
        }
    }
}

/// A finding in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Json {
    /// See [`Finding::code`].
    pub code: String,
    /// `error` or `warning`.
    pub severity: &'static str,
    /// See [`Finding::message`].
    pub message: String,
    /// The file's name.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// From 1.
    pub end_line: u32,
    /// From 1, in characters; one past the last.
    pub end_column: u32,
    /// See [`Finding::help`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl From<&Finding> for Json {
    fn from(finding: &Finding) -> Self {
        let start = finding.source.position(finding.span.start);
        let end = finding.source.position(finding.span.end);
        Self {
            code: finding.code.to_string(),
            severity: match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            message: finding.message.clone(),
            file: finding.source.name().to_owned(),
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            help: finding.help.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
