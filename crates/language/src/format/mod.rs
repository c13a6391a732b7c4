// SPDX-License-Identifier: Apache-2.0
//! The one style of Aurae programs: 100 columns, two spaces, double quotes, semicolons. The work is
//! dprint's; here are the limits before it, the settings, and its errors as findings.

use std::path::Path;
use std::sync::LazyLock;

use dprint_plugin_typescript::configuration::{
    Configuration, ConfigurationBuilder, NextControlFlowPosition, QuoteStyle, SemiColons,
    TrailingCommas, UseBraces,
};
use dprint_plugin_typescript::{FormatTextOptions, format_text};
use oxc::allocator::Allocator;

use crate::finding::{Finding, Severity};
use crate::limits::{self, Depths};
use crate::parse;
use crate::source::{Source, Span};
use crate::stack;

/// The style's line width, in columns.
pub const LINE_COLUMNS: u32 = 100;

static STYLE: LazyLock<Configuration> = LazyLock::new(|| {
    ConfigurationBuilder::new()
        .line_width(LINE_COLUMNS)
        .indent_width(2)
        .use_tabs(false)
        .quote_style(QuoteStyle::PreferDouble)
        .semi_colons(SemiColons::Prefer)
        .trailing_commas(TrailingCommas::OnlyMultiLine)
        .use_braces(UseBraces::Maintain)
        .next_control_flow_position(NextControlFlowPosition::SameLine)
        .arrow_function_use_parentheses(
            dprint_plugin_typescript::configuration::UseParentheses::Force,
        )
        .build()
});

/// How often the formatter is asked again until nothing changes. Comments in odd places settle in
/// the second round; what doesn't settle is refused rather than written differently each time.
const ROUNDS: usize = 4;

/// `source` in the one style. The same where it has it already: formatting twice is formatting
/// once.
///
/// # Errors
/// It doesn't parse: what is wrong, at least one finding.
pub fn format(source: &Source) -> Result<String, Vec<Finding>> {
    let work = || {
        let allocator = Allocator::default();
        let parsed = parse::parse(&allocator, source);
        let decorator = |finding: &Finding| finding.code == "decorator";
        if !parsed.is_sound() && !parsed.findings.iter().all(decorator) {
            return Err(parsed.findings);
        }
        match limits::scan_for(source, DEPTHS) {
            Some(finding) => Err(vec![finding]),
            None => settle(source),
        }
    };
    // The formatter keeps state in its thread and panics on what it didn't think of: each text has
    // a thread of its own, and what ends it is a finding.
    let done = stack::on_fresh_stack(work).map_err(|error| {
        let message = format!("there is no room for the formatter's stack: {error}");
        vec![failed(source, "limit", message)]
    })?;
    done.unwrap_or_else(|_| {
        let message = "the formatter failed on this file".to_owned();
        Err(vec![failed(source, "format", message)])
    })
}

/// The formatter's time doubles with every bracket that is opened within others on one line; over
/// several lines it grows with the square.
pub(crate) const DEPTHS: Depths = Depths {
    brackets: 64,
    expression: 300,
    line: 16,
};

fn settle(source: &Source) -> Result<String, Vec<Finding>> {
    let mut text = source.text().to_owned();
    for _ in 0..ROUNDS {
        let done = format_text(FormatTextOptions {
            path: Path::new("module.ts"),
            extension: Some("ts"),
            text: text.clone(),
            config: &STYLE,
            external_formatter: None,
        });
        match done {
            Ok(None) => return Ok(text),
            Ok(Some(formatted)) if formatted == text => return Ok(text),
            Ok(Some(formatted)) => text = formatted,
            Err(error) => {
                let message = format!("can't be formatted: {}", first_line(&error.to_string()));
                return Err(vec![failed(source, "syntax", message)]);
            }
        }
    }
    let message = "the formatter doesn't come to rest on this file".to_owned();
    Err(vec![failed(source, "format", message)])
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn failed(source: &Source, code: &'static str, message: String) -> Finding {
    Finding {
        code: code.into(),
        severity: Severity::Error,
        message,
        source: source.clone(),
        span: Span::new(0, 0),
        help: None,
        fixes: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
