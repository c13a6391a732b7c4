// SPDX-License-Identifier: Apache-2.0
//! What ended a program that was evaluated without a node, as a finding: in the file of values or
//! of data where the error is about that, else in the program. The words are those of a plan.

use std::path::Path;

use language::finding::{Finding, Severity};
use language::source::{Position, Source, Span};
use script::program::Loaded;
use script::protocol::{Thrown, Values};

use super::data::{self, Form};
use super::entry::below;
use super::{items, report};
use crate::failure::Failure;

/// What a program was evaluated for.
pub(super) enum Subject<'a> {
    /// A file of values that is laid over the program's own.
    Values(&'a Values),
    /// A file of data: its program isn't what was written.
    Data { source: Source, form: Form },
}

impl Subject<'_> {
    /// A file of data; none where it is a program.
    pub(super) fn of_data(file: &Path, root: Option<&Path>) -> Result<Option<Self>, Failure> {
        let (root, path) = below(file, root)?;
        let Some(form) = data::form(&path) else {
            return Ok(None);
        };
        let text = data::text(&root, &path)?;
        let source = Source::new(path, text);
        Ok(Some(Self::Data { source, form }))
    }

    /// The error as a finding.
    pub(super) fn finding(&self, thrown: &Thrown, program: &Loaded) -> Finding {
        match self {
            Self::Data { source, form } => in_data(thrown, source, *form),
            Self::Values(values) => in_values(thrown, values)
                .unwrap_or_else(|| in_program(thrown, program, &values.name)),
        }
    }
}

fn in_data(thrown: &Thrown, source: &Source, form: Form) -> Finding {
    let text = source.text();
    let (message, at) = match &thrown.failure {
        Some(failure) => {
            let object = failure.object.as_deref();
            let item = object.and_then(|name| items::named(text, name));
            let at = item.and_then(|item| items::place(text, item));
            (report::of_call(failure), at)
        }
        None if thrown.name == "SyntaxError" => {
            // The lines of YAML's own words are those of one document.
            let words = thrown.message.split(" at line ").next().unwrap_or_default();
            (words.to_owned(), items::broken(text, form))
        }
        None => {
            let item = item(&thrown.message);
            let at = item.and_then(|item| items::place(text, item));
            (thrown.message.clone(), at)
        }
    };
    let place = (source.clone(), at);
    finding("wrong-data", message, place, report::help(thrown))
}

/// The number of the declaration that a message is about, from 0: `item 2 (web): …` is 1.
fn item(message: &str) -> Option<usize> {
    let rest = message.strip_prefix("item ")?;
    let number = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    number.parse::<usize>().ok()?.checked_sub(1)
}

/// What is wrong in a file of values, where the error says where in it.
fn in_values(thrown: &Thrown, values: &Values) -> Option<Finding> {
    let (at, message) = match placed(&thrown.message, &values.name) {
        Some(found) => found,
        None => (unreadable(thrown, &values.text)?, thrown.message.as_str()),
    };
    let source = Source::new(values.name.as_str(), values.text.as_str());
    let place = (source, Some(at));
    Some(finding("wrong-value", message.to_owned(), place, None))
}

/// `prod.json:2:3: size is …` as its place and the rest.
fn placed<'a>(message: &'a str, name: &str) -> Option<(Position, &'a str)> {
    let rest = message.strip_prefix(name)?.strip_prefix(':')?;
    let (line, rest) = rest.split_once(':')?;
    let (column, rest) = rest.split_once(": ")?;
    let at = Position {
        line: line.parse().ok()?,
        column: column.parse().ok()?,
    };
    Some((at, rest))
}

/// Where a file of values is neither JSON nor YAML. The evaluator says so without a place, in the
/// same words; a text that the program itself reads is broken by other ones.
fn unreadable(thrown: &Thrown, text: &str) -> Option<Position> {
    let problem = serde_yaml_ng::from_str::<serde_yaml_ng::Value>(text).err()?;
    let is_it = problem.to_string() == thrown.message;
    items::located(&problem).filter(|_| is_it)
}

/// What the program throws, and what is wrong with the whole of the values: there the place is the
/// call of `values()`, which says what is expected.
fn in_program(thrown: &Thrown, program: &Loaded, values: &str) -> Finding {
    let of_values = thrown.message.starts_with(&format!("{values}: "));
    let code = if of_values { "wrong-value" } else { "thrown" };
    let message = program.named(&thrown.message, &thrown.stack);
    let (source, at) = program.locate(thrown).at.unzip();
    let source = source.unwrap_or_else(|| Source::new(program.entry(), ""));
    let message = report::sentence(thrown, &message);
    finding(code, message, (source, at), report::help(thrown))
}

/// An error at a place; without one, at the file's beginning.
fn finding(
    code: &'static str,
    message: String,
    (source, at): (Source, Option<Position>),
    help: Option<String>,
) -> Finding {
    let start = at.and_then(|at| source.offset(at)).unwrap_or_default();
    let span = Span::new(start, word_end(source.text(), start));
    Finding {
        code: code.into(),
        severity: Severity::Error,
        message,
        source,
        span,
        help,
        fixes: Vec::new(),
    }
}

/// The end of the word that begins there: a key with its quotes, a name, else one character.
fn word_end(text: &str, start: u32) -> u32 {
    let rest = text.get(start as usize..).unwrap_or_default();
    let ends = |c: char| c.is_whitespace() || ":,;(){}[]".contains(c);
    let word = rest.find(ends).unwrap_or(rest.len());
    let first = rest.chars().next().filter(|first| *first != '\n');
    let length = word.max(first.map_or(0, char::len_utf8));
    start.saturating_add(length.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_from_what_is_said_of_it() {
        let at = Position { line: 2, column: 3 };
        let told = placed("a:b.json:2:3: x is text: no", "a:b.json");
        assert_eq!(told, Some((at, "x is text: no")));
        assert_eq!(placed("b.json: the whole is an object", "b.json"), None);
        assert_eq!(placed("c.json:2:3: x", "b.json"), None);
        assert_eq!(item("item 2 (e): no"), Some(1));
        assert_eq!(item("items: no"), None);
    }

    #[test]
    fn a_span_is_the_word_that_begins_at_the_place() {
        for (text, start, end) in [
            (r#"{ "nams": 1 }"#, 2, 8),
            ("tier: lage", 0, 4),
            ("[{}]", 1, 2),
            ("", 0, 0),
            ("a\n", 1, 1),
        ] {
            assert_eq!(word_end(text, start), end, "{text}");
        }
    }
}
