// SPDX-License-Identifier: Apache-2.0
//! What is wrong with a program: one finding, its place, and what to do. Made by the limits' scan,
//! the parser, the resolution of imports, the checker and the plan; shown as text with a code frame
//! (`frame`), as JSON (`-o json`) and by editors.

use std::borrow::Cow;

use crate::source::{Source, Span};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The program can't do what it says.
    Error,
    /// It can, but probably not what was meant.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Stable: programs may switch on it. Ours are kebab-case, e.g. `unknown-field`; those of
    /// TypeScript's compiler are its own, e.g. `TS2339`.
    pub code: Cow<'static, str>,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence without a full stop that names the thing.
    pub message: String,
    /// The file; its text is the one that was looked at.
    pub source: Source,
    /// The place in the source.
    pub span: Span,
    /// What to do, one sentence.
    pub help: Option<String>,
    /// Changes that would mend it, the likeliest first.
    pub fixes: Vec<Fix>,
}

/// A change of text that mends a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What it does, as an editor's menu shows it: `Change to "argv"`.
    pub title: String,
    /// Replacements in the finding's file, not overlapping.
    pub edits: Vec<Edit>,
}

/// One replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What goes.
    pub span: Span,
    /// What comes.
    pub text: String,
}
