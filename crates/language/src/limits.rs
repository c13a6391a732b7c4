// SPDX-License-Identifier: Apache-2.0
//! What a program's text may be, looked at before the parser, which recurses and would take the
//! process down with it: bytes a file and a program, and how deep it nests. One pass over the
//! bytes, no recursion, no allocation that grows with anything but the nesting allowed.

use crate::finding::{Finding, Severity};
use crate::source::{Source, Span};

/// The longest file, in bytes.
pub const FILE_BYTES: usize = 4 << 20;
/// The longest program: the sum over its files, in bytes.
pub const PROGRAM_BYTES: usize = 64 << 20;
/// How deep brackets of all kinds may nest.
pub const BRACKET_DEPTH: usize = 256;
/// How deep an expression, a type or a chain of statements may nest, brackets or none: operators,
/// members, calls, `else if`s in a row.
pub const EXPRESSION_DEPTH: usize = 10_000;

/// Where `source` passes a limit, if it does; what is found first is all that is said.
pub fn scan(source: &Source) -> Vec<Finding> {
    let length = source.text().len();
    if length > FILE_BYTES {
        let at = Span::new(0, 0);
        let message = format!("the file has {length} bytes; the most is {FILE_BYTES}");
        return vec![limit(source, at, message, "split it into modules")];
    }
    Vec::new()
}

fn limit(source: &Source, span: Span, message: String, help: &str) -> Finding {
    Finding {
        code: "limit",
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
