// SPDX-License-Identifier: Apache-2.0
//! Environments: `Environment=`, the files of `EnvironmentFile=`, and how they are put together
//! (systemd.exec(5), "Environment").

use std::collections::BTreeMap;

/// Variables by name.
pub type Environment = BTreeMap<String, String>;

/// Whether it may be a variable's name: letters, digits and `_`, no digit first.
pub fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether it may be a value: of control characters only tabs and line ends.
pub fn is_value(value: &str) -> bool {
    !value.contains(|c: char| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r'))
}

/// `NAME=value`; `None` where it is no such thing.
pub fn assignment(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    (is_name(name) && is_value(value)).then(|| (name.to_owned(), value.to_owned()))
}

/// Where the reader of a file is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    BeforeName,
    Name,
    BeforeValue,
    Value,
    Single,
    Double,
    Comment,
}

/// What a file of variables says: its assignments in order, and the lines of those that have no
/// valid name or value, which are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EnvironmentFile {
    /// In order; the last of a name counts.
    pub variables: Vec<(String, String)>,
    /// Lines, from 1.
    pub ignored: Vec<u32>,
}

/// Reads a file: `NAME=value` on lines of their own, with quotes as in a shell but no variables.
pub fn parse_file(bytes: &[u8]) -> EnvironmentFile {
    let text = String::from_utf8_lossy(bytes);
    let mut reader = Reader {
        state: State::BeforeName,
        ..Reader::default()
    };
    let mut chars = text.chars().filter(|c| *c != '\0').peekable();
    while let Some(c) = chars.next() {
        let escaped = match (c, reader.state) {
            ('\\', State::Single | State::BeforeName | State::Name) => None,
            ('\\', _) => Some(chars.next()),
            _ => None,
        };
        match escaped {
            Some(following) => reader.escaped(following),
            None => reader.plain(c),
        }
        let read = [Some(c), escaped.flatten()];
        reader.line += read.iter().filter(|c| **c == Some('\n')).count();
    }
    if !matches!(
        reader.state,
        State::BeforeName | State::Name | State::Comment
    ) {
        reader.end();
    }
    reader.file
}

struct Reader {
    state: State,
    name: String,
    value: String,
    /// How much of the value stays when the blanks at its end are cut.
    kept: usize,
    line: usize,
    file: EnvironmentFile,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            state: State::BeforeName,
            name: String::new(),
            value: String::new(),
            kept: 0,
            line: 1,
            file: EnvironmentFile::default(),
        }
    }
}

impl Reader {
    fn plain(&mut self, c: char) {
        match (self.state, c) {
            (State::BeforeName, '#' | ';') => self.state = State::Comment,
            (State::BeforeName, c) if c.is_ascii_whitespace() => {}
            (State::Comment | State::Name, '\n') => self.next_line(),
            (State::Comment, _) => {}
            (State::Name, '=') => self.state = State::BeforeValue,
            (State::BeforeName | State::Name, c) => {
                self.state = State::Name;
                self.name.push(c);
            }
            (State::BeforeValue | State::Value, '\n' | '\r') => self.end(),
            (State::BeforeValue, '\'') => self.state = State::Single,
            (State::BeforeValue, '"') => self.state = State::Double,
            (State::BeforeValue, c) if c.is_ascii_whitespace() => {}
            (State::Single, '\'') | (State::Double, '"') => self.state = State::BeforeValue,
            (State::Value, c) if c.is_ascii_whitespace() => self.value.push(c),
            (state, c) => {
                if state == State::BeforeValue {
                    self.state = State::Value;
                }
                self.keep(c);
            }
        }
    }

    /// What follows a backslash. At the end of a line it takes the line's end away.
    fn escaped(&mut self, following: Option<char>) {
        match (self.state, following) {
            (State::Comment, _) | (_, None) => {}
            (State::Double, Some('\n')) => {}
            (State::Double, Some(c)) if !matches!(c, '"' | '\\' | '`' | '$') => {
                self.keep('\\');
                self.keep(c);
            }
            (State::Double, Some(c)) => self.keep(c),
            (_, Some(c)) => {
                self.state = State::Value;
                if c != '\n' {
                    self.keep(c);
                }
            }
        }
    }

    fn keep(&mut self, c: char) {
        self.value.push(c);
        self.kept = self.value.len();
    }

    fn next_line(&mut self) {
        self.state = State::BeforeName;
        self.name.clear();
        self.value.clear();
        self.kept = 0;
    }

    fn end(&mut self) {
        self.value.truncate(self.kept);
        let name = self.name.trim_end();
        if is_name(name) && is_value(&self.value) {
            self.file
                .variables
                .push((name.to_owned(), self.value.clone()));
        } else {
            self.file
                .ignored
                .push(u32::try_from(self.line).unwrap_or(u32::MAX));
        }
        self.next_line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_are_read_as_a_shell_would_in_part() {
        // systemd.exec(5), EnvironmentFile=.
        let text = "# comment \\\nstill a comment\n; another\n\nPLAIN=one two  \nSINGLE='a \"b\" \\n'\n\
            DOUBLE=\"a 'b' \\\"c\\\" \\$d \\n\"\nLINES=a \\\n  b\nnothing\n  SPACED = x\n\
            JOINED='a'\"b\"c\nEMPTY=\nBACK=a\\b\nexport NO=1\nMULTI=\"a\nb\"\nCOMMENT=a #b\nLAST=end";
        let file = parse_file(text.as_bytes());
        let pairs: Vec<(&str, &str)> = file
            .variables
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(
            pairs,
            [
                ("PLAIN", "one two"),
                ("SINGLE", "a \"b\" \\n"),
                ("DOUBLE", "a 'b' \"c\" $d \\n"),
                ("LINES", "a   b"),
                ("SPACED", "x"),
                ("JOINED", "abc"),
                ("EMPTY", ""),
                ("BACK", "ab"),
                ("MULTI", "a\nb"),
                ("COMMENT", "a #b"),
                ("LAST", "end"),
            ]
        );
        assert_eq!(file.ignored, [15]);
    }

    #[test]
    fn assignments_have_a_name() {
        assert_eq!(assignment("A_1=b=c"), Some(("A_1".into(), "b=c".into())));
        for bad in ["1A=x", "A", "=x", "A B=x", "A=\u{1}"] {
            assert_eq!(assignment(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn single_quotes_keep_everything(value in "[^'\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]{0,40}") {
            let file = parse_file(format!("A='{value}'\n").as_bytes());
            prop_assert_eq!(file.variables, vec![("A".to_owned(), value)]);
        }

        #[test]
        fn no_file_does_harm(bytes: Vec<u8>) {
            let _ = parse_file(&bytes);
        }
    }
}
