// SPDX-License-Identifier: Apache-2.0
//! What is to be said of a unit file: where, how bad, and what to do. Every reader of this crate
//! collects findings and goes on; nothing is printed here.

use std::fmt;

/// A place in a text. Lines and columns count from 1, columns in characters. `0:0` is a whole file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What a finding means for the unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Severity {
    /// Of interest; nothing is lost.
    Note,
    /// What is there is ignored, as systemd ignores it. The unit is loaded.
    Warning,
    /// The unit can't be used.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One thing that is said of a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file, or the unit's name where no file is meant.
    pub path: String,
    /// Where in the file.
    pub at: Position,
    /// `Section.Directive`, or empty.
    pub subject: String,
    /// What is wrong, what was expected, what becomes of it.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.at.line > 0 {
            write!(f, ":{}", self.at)?;
        }
        write!(f, ": {}: ", self.severity)?;
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.message)
    }
}

/// At most so many bytes of a foreign text are repeated in a message.
const SHOWN: usize = 80;

/// A foreign text as a message shows it: quoted, escaped, cut.
pub(crate) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{cut:?}{more}")
}

/// How many findings of one unit are kept; a file of a million wrong lines fills no memory.
pub const MOST_FINDINGS: usize = 1000;

/// Findings in the order in which they were made, at most [`MOST_FINDINGS`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    dropped: usize,
}

impl Findings {
    /// Adds one, or counts it where there are too many.
    pub fn push(&mut self, finding: Finding) {
        if self.list.len() < MOST_FINDINGS {
            self.list.push(finding);
        } else {
            self.dropped += 1;
        }
    }

    /// Adds all of another's.
    pub fn append(&mut self, other: Findings) {
        self.dropped += other.dropped;
        for finding in other.list {
            self.push(finding);
        }
    }

    /// What was found.
    pub fn iter(&self) -> std::slice::Iter<'_, Finding> {
        self.list.iter()
    }

    /// How many more there were.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether one of them keeps the unit from being used.
    pub fn has_error(&self) -> bool {
        self.list.iter().any(|it| it.severity == Severity::Error)
    }
}
