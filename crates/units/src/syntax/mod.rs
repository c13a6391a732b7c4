// SPDX-License-Identifier: Apache-2.0
//! The text of a unit file as sections and assignments, each with its place (systemd.syntax(7)). It
//! knows no directive: what a name means is the table's ([`crate::table`]).

pub(crate) mod base64;
pub mod escape;
pub mod words;

use crate::finding::{Finding, Findings, Position, Severity, shown};

/// The longest line, continuations put together, in bytes. systemd has the same bound.
pub const LONGEST_LINE: usize = 1 << 20;
/// The largest file that is read, in bytes.
pub const LARGEST_FILE: usize = 16 << 20;

/// `Key=Value`, once its lines are put together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The section's name, without brackets.
    pub section: String,
    /// What is left of the first `=`.
    pub key: String,
    /// What is right of it, without the blanks around.
    pub value: String,
    /// Where the key is.
    pub at: Position,
    /// For each line of the value: the offset in `value`, in bytes, at which it begins, and where.
    pieces: Vec<(usize, Position)>,
}

impl Assignment {
    /// Where the byte `offset` of the value is in the file.
    pub fn position(&self, offset: usize) -> Position {
        let Some((start, place)) = self.pieces.iter().rev().find(|(start, _)| *start <= offset)
        else {
            return self.at;
        };
        let before = self.value.get(*start..offset).unwrap_or("");
        let columns = u32::try_from(before.chars().count()).unwrap_or(u32::MAX);
        Position {
            line: place.line,
            column: place.column.saturating_add(columns),
        }
    }

    /// `Section.Key`.
    pub fn subject(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }
}

/// A file, read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Document {
    /// Where it was read from.
    pub path: String,
    /// The headers of sections, in order, also of empty ones.
    pub sections: Vec<(String, Position)>,
    /// All assignments, in order.
    pub assignments: Vec<Assignment>,
}

/// Reads a file's text. What can't be understood is a finding; the rest is read. A broken section
/// header is an error, since what follows would belong to the wrong section.
pub fn parse(path: &str, bytes: &[u8], findings: &mut Findings) -> Document {
    let mut reader = Reader {
        document: Document {
            path: path.to_owned(),
            ..Document::default()
        },
        section: None,
        findings,
    };
    if bytes.len() > LARGEST_FILE {
        let message = format!("has more than {LARGEST_FILE} bytes; it is not read");
        reader.say(Severity::Error, Position::default(), "", message);
        return reader.document;
    }
    let text = String::from_utf8_lossy(bytes);
    if matches!(text, std::borrow::Cow::Owned(_)) {
        let message = "has bytes that are not UTF-8; they are read as U+FFFD".to_owned();
        reader.say(Severity::Warning, Position::default(), "", message);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut pending = Logical::default();
    for (number, line) in (1_u32..).zip(text.split('\n')) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.trim_start_matches(BLANKS).starts_with(['#', ';']) {
            continue;
        }
        if pending.text.len() + line.len() > LONGEST_LINE {
            let at = Position {
                line: number,
                column: 1,
            };
            let message =
                format!("the line is longer than {LONGEST_LINE} bytes; nothing of it is read");
            reader.say(Severity::Error, at, "", message);
            return reader.document;
        }
        if !pending.add(number, line) {
            reader.line(&std::mem::take(&mut pending));
        }
    }
    // A continuation at the end of the file continues with nothing.
    reader.line(&pending);
    reader.document
}

/// What is skipped around names and values.
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Lines put together where each but the last ends with a backslash.
#[derive(Default)]
struct Logical {
    text: String,
    /// Offset in `text`, line.
    starts: Vec<(usize, u32)>,
}

impl Logical {
    /// Adds a line; whether another one is to follow. The backslash becomes a blank.
    fn add(&mut self, number: u32, line: &str) -> bool {
        self.starts.push((self.text.len(), number));
        self.text.push_str(line);
        let backslashes = self.text.bytes().rev().take_while(|b| *b == b'\\').count();
        if backslashes % 2 == 0 {
            return false;
        }
        self.text.pop();
        self.text.push(' ');
        true
    }

    fn position(&self, offset: usize) -> Position {
        let before = self.starts.iter().rev().find(|(start, _)| *start <= offset);
        let (start, line) = before.copied().unwrap_or((0, 1));
        let columns = self.text.get(start..offset).unwrap_or("").chars().count();
        Position {
            line,
            column: u32::try_from(columns).unwrap_or(u32::MAX).saturating_add(1),
        }
    }
}

struct Reader<'a> {
    document: Document,
    section: Option<String>,
    findings: &'a mut Findings,
}

impl Reader<'_> {
    fn say(&mut self, severity: Severity, at: Position, subject: &str, message: String) {
        self.findings.push(Finding {
            severity,
            path: self.document.path.clone(),
            at,
            subject: subject.to_owned(),
            message,
        });
    }

    fn line(&mut self, line: &Logical) {
        let start = line.text.len() - line.text.trim_start_matches(BLANKS).len();
        let text = line.text.trim_matches(BLANKS);
        let at = line.position(start);
        if text.is_empty() {
            return;
        }
        if let Some(rest) = text.strip_prefix('[') {
            return self.header(rest, text, at);
        }
        let Some(section) = self.section.clone() else {
            let message = format!(
                "{} stands before the first section; it is ignored",
                shown(text)
            );
            return self.say(Severity::Warning, at, "", message);
        };
        let Some((key, value)) = text.split_once('=') else {
            let message = format!("{} has no `=`; the line is ignored", shown(text));
            return self.say(Severity::Warning, at, &section, message);
        };
        let key = key.trim_end_matches(BLANKS);
        if key.is_empty() {
            let message = "there is no name before `=`; the line is ignored".to_owned();
            return self.say(Severity::Warning, at, &section, message);
        }
        let blanks = value.len() - value.trim_start_matches(BLANKS).len();
        let from = start + text.len() - value.len() + blanks;
        self.document.assignments.push(Assignment {
            section,
            key: key.to_owned(),
            value: value.trim_matches(BLANKS).to_owned(),
            at,
            pieces: pieces(line, from),
        });
    }

    fn header(&mut self, rest: &str, text: &str, at: Position) {
        match rest.strip_suffix(']') {
            Some(name) => {
                self.section = Some(name.to_owned());
                self.document.sections.push((name.to_owned(), at));
            }
            None => {
                let message = format!("{} is no section header: it lacks `]`", shown(text));
                self.say(Severity::Error, at, "", message);
                self.section = None;
            }
        }
    }
}

/// Where the lines of a value are that begins at the byte `from` of its logical line.
fn pieces(line: &Logical, from: usize) -> Vec<(usize, Position)> {
    let mut pieces = vec![(0, line.position(from))];
    for (start, number) in line.starts.iter().filter(|(start, _)| *start > from) {
        let place = Position {
            line: *number,
            column: 1,
        };
        pieces.push((start - from, place));
    }
    pieces
}

#[cfg(test)]
mod tests;
