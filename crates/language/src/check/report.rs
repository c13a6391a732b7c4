// SPDX-License-Identifier: Apache-2.0
//! A finding while it is being made: what it says, where `tsc` says the same, and whether it does.

use super::Claim;
use crate::finding::{Edit, Finding, Fix, Severity};
use crate::schema::nearest;
use crate::source::{Source, Span};

/// Whether TypeScript's compiler sees it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// `tsc --strict` reports an error on the line of the anchor.
    Tsc,
    /// It would, were another error of the same expression mended.
    Hidden,
    /// It doesn't: the language or the API forbids what the types allow.
    Own,
}

/// A finding with what the property test needs to know of it.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) code: &'static str,
    pub(crate) at: Span,
    /// Where `tsc` puts its error.
    pub(crate) anchor: Span,
    pub(crate) seen: Seen,
    /// Whether the API's schema makes it certain; none: not decided yet. Only what is certain keeps
    /// a program from being planned and applied.
    pub(crate) certain: Option<bool>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    pub(crate) fixes: Vec<Fix>,
}

/// Findings that only the API can give rise to.
const CERTAIN: [&str; 5] = [
    "missing-await",
    "not-offered",
    "out-of-range",
    "stream-misuse",
    "unknown-name",
];

/// Decides about those of the reports that nothing has been decided about.
pub(crate) fn decide(reports: &mut [Report], certain: bool) {
    for report in reports {
        report.certain.get_or_insert(certain);
    }
}

impl Report {
    pub(crate) fn new(code: &'static str, at: Span, message: String) -> Self {
        Self {
            code,
            at,
            anchor: at,
            seen: Seen::Tsc,
            certain: CERTAIN.contains(&code).then_some(true),
            message,
            help: None,
            fixes: Vec::new(),
        }
    }

    pub(crate) fn anchored(mut self, anchor: Span) -> Self {
        self.anchor = anchor;
        self
    }

    /// Whether the schema makes it certain.
    pub(crate) fn certain(mut self, certain: bool) -> Self {
        self.certain = Some(certain);
        self
    }

    /// Not `tsc`'s.
    pub(crate) fn own(mut self) -> Self {
        self.seen = Seen::Own;
        self
    }

    pub(crate) fn hide(&mut self) {
        if self.seen == Seen::Tsc {
            self.seen = Seen::Hidden;
        }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Offers to put `text` at `span`.
    pub(crate) fn fix(mut self, title: impl Into<String>, span: Span, text: String) -> Self {
        self.fixes.push(Fix {
            title: title.into(),
            edits: vec![Edit { span, text }],
        });
        self
    }

    /// Says which name was meant, if one is near.
    pub(crate) fn suggesting<'n>(
        self,
        written: &str,
        names: impl IntoIterator<Item = &'n str>,
        at: Span,
        quote: bool,
    ) -> Self {
        let Some(name) = nearest(written, names) else {
            return self;
        };
        let text = match quote {
            true => format!("{name:?}"),
            false => name.to_owned(),
        };
        self.help(format!("did you mean `{name}`?"))
            .fix(format!("Change to `{name}`"), at, text)
    }

    pub(crate) fn claim(self, source: &Source) -> Claim {
        Claim {
            seen: self.seen,
            anchor: self.anchor,
            finding: self.finding(source),
        }
    }

    pub(crate) fn finding(self, source: &Source) -> Finding {
        Finding {
            code: self.code.into(),
            severity: match self.certain {
                Some(true) => Severity::Error,
                _ => Severity::Warning,
            },
            message: self.message,
            source: source.clone(),
            span: self.at,
            help: self.help,
            fixes: self.fixes,
        }
    }
}
