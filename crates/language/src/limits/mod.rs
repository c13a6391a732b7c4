// SPDX-License-Identifier: Apache-2.0
//! What a program's text may be, looked at before the parser, which recurses and would take the
//! process down with it: bytes a file and a program, and how deep it nests. One pass over the
//! bytes, no recursion, no allocation that grows with anything but the nesting allowed.

use crate::finding::{Finding, Severity};
use crate::source::{Source, Span};

mod scan;
mod words;

#[cfg(test)]
mod tests;

/// The longest file, in bytes.
pub const FILE_BYTES: usize = 4 << 20;
/// The longest program: the sum over its files, in bytes.
pub const PROGRAM_BYTES: usize = 64 << 20;
/// How deep brackets of all kinds may nest.
pub const BRACKET_DEPTH: usize = 256;
/// How deep an expression, a type or a chain of statements may nest, brackets or none: operators,
/// members, calls, `else if`s in a row.
pub const EXPRESSION_DEPTH: usize = 10_000;

/// How many tokens may stand where the scan can't tell a division from a regular expression, see
/// `scan`.
const DOUBTFUL_TOKENS: usize = 20_000;

/// How deep a text may nest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depths {
    /// Brackets in brackets.
    pub(crate) brackets: usize,
    /// Operators, members and branches in one another.
    pub(crate) expression: usize,
    /// Brackets in brackets, all opened on one line.
    pub(crate) line: usize,
}

/// Where `source` passes a limit, if it does; what is found first is all that is said.
pub fn scan(source: &Source) -> Vec<Finding> {
    let most = Depths {
        brackets: BRACKET_DEPTH,
        expression: EXPRESSION_DEPTH,
        line: usize::MAX,
    };
    scan_for(source, most).into_iter().collect()
}

/// As [`scan`], with a smaller limit.
pub(crate) fn scan_for(source: &Source, most: Depths) -> Option<Finding> {
    let length = source.text().len();
    if length > FILE_BYTES {
        let at = Span::new(0, 0);
        let message = format!("the file has {length} bytes; the most is {FILE_BYTES}");
        return Some(limit(source, at, message, "split it into modules"));
    }
    let (passed, at) = scan::Scan::new(source.text(), most).run().err()?;
    let Depths {
        brackets,
        expression,
        line,
    } = most;
    let (message, help) = match passed {
        Passed::Brackets => (
            format!("brackets nest deeper than {brackets}"),
            "give the inner parts names of their own",
        ),
        Passed::Expression => (
            format!("more than {expression} operators, members or branches in one another"),
            "split the expression, or build it in a loop",
        ),
        Passed::Line => (
            format!("brackets on one line nest deeper than {line}"),
            "break the line",
        ),
        Passed::Doubt => (
            format!(
                "more than {DOUBTFUL_TOKENS} tokens on a line after a `/` that may divide or begin \
                 a regular expression"
            ),
            "break the line, or put the regular expression in parentheses",
        ),
    };
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    let span = Span::new(at, at.saturating_add(1));
    Some(limit(source, span, message, help))
}

/// Which limit a text passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    Brackets,
    Expression,
    Line,
    Doubt,
}

fn limit(source: &Source, span: Span, message: String, help: &str) -> Finding {
    Finding {
        code: "limit".into(),
        severity: Severity::Error,
        message,
        source: source.clone(),
        span,
        help: Some(help.to_owned()),
        fixes: Vec::new(),
    }
}

/// The file whose bytes are the first too many of a program.
pub(crate) fn program_too_long(source: &Source) -> Finding {
    let message = format!("with this file the program has more than {PROGRAM_BYTES} bytes");
    let help = "leave out modules that aren't needed";
    limit(source, Span::new(0, 0), message, help)
}
