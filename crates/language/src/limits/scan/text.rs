// SPDX-License-Identifier: Apache-2.0
//! What the scan goes past: comments, strings, templates and regular expressions; and the budget of
//! what may be code after all, where it isn't sure which of them it has read.

use super::depth::Bracket;
use super::{Last, Scan, Step};
use crate::limits::{DOUBTFUL_TOKENS, Passed};

impl Scan<'_> {
    pub(super) fn line_comment(&mut self) -> Step {
        let end = self.rest().find(['\n', '\r', '\u{2028}', '\u{2029}']);
        self.hide(end.unwrap_or(self.rest().len()))
    }

    pub(super) fn block_comment(&mut self) -> Step {
        let rest = self.rest();
        let end = rest.get(2..).and_then(|rest| rest.find("*/"));
        let length = end.map_or(rest.len(), |end| end + 4);
        let comment = rest.get(..length).unwrap_or_default();
        self.newline |= comment.contains(['\n', '\r', '\u{2028}', '\u{2029}']);
        self.hide(length)
    }

    /// Goes past text that isn't code, unless it is: see the header's last paragraph.
    pub(super) fn hide(&mut self, length: usize) -> Step {
        if self.at < self.doubt_until {
            let end = length.min(self.doubt_until - self.at);
            let hidden = self.rest().get(..end).unwrap_or(self.rest());
            self.doubt(tokens(hidden))?;
        }
        self.at += length;
        Ok(true)
    }

    pub(super) fn doubt(&mut self, tokens: usize) -> Result<(), (Passed, usize)> {
        if self.at < self.doubt_until {
            self.doubtful += tokens;
            if self.doubtful > DOUBTFUL_TOKENS {
                return Err((Passed::Doubt, self.at));
            }
        }
        Ok(())
    }

    pub(super) fn string(&mut self, quote: char) -> Step {
        self.operand_begins("");
        let mut length = 1;
        let mut characters = self.rest().chars().skip(1);
        while let Some(character) = characters.next() {
            length += character.len_utf8();
            match character {
                '\\' => length += characters.next().map_or(0, char::len_utf8),
                '\n' | '\r' => return self.broken(length),
                _ if character == quote => break,
                _ => {}
            }
        }
        self.hide(length)?;
        self.ended_by(Last::Operand)
    }

    /// Text that no parser goes on after, if the scan has read it right.
    pub(super) fn broken(&mut self, length: usize) -> Step {
        self.hide(length)?;
        Ok(self.doubt_until > 0)
    }

    /// A template: an operand of its own, or one more operator of the one before it.
    pub(super) fn tagged(&mut self) -> Step {
        self.settle("");
        self.operator()?;
        self.at += 1;
        self.template()
    }

    /// A template's text, up to its end or to code within it.
    pub(super) fn template(&mut self) -> Step {
        let mut length = 0;
        let mut characters = self.rest().chars().peekable();
        while let Some(character) = characters.next() {
            length += character.len_utf8();
            match character {
                '\\' => length += characters.next().map_or(0, char::len_utf8),
                '`' => {
                    self.hide(length)?;
                    return self.ended_by(Last::Operand);
                }
                '$' if characters.peek() == Some(&'{') => {
                    self.hide(length + 1)?;
                    return self.push(Bracket::Template);
                }
                _ => {}
            }
        }
        self.hide(length)?;
        Ok(self.doubt_until > 0)
    }

    pub(super) fn slash(&mut self) -> Step {
        let divides = match self.last {
            Last::Operand => true,
            Last::Operator | Last::Head => false,
            Last::Unsure | Last::Brace | Last::Angle => {
                self.begin_doubt();
                !self.newline
            }
        };
        if divides {
            return self.punctuator('/');
        }
        self.operand_begins("");
        let mut length = 1;
        let mut class = false;
        let mut characters = self.rest().chars().skip(1);
        while let Some(character) = characters.next() {
            length += character.len_utf8();
            match character {
                '\\' => length += characters.next().map_or(0, char::len_utf8),
                '\n' | '\r' | '\u{2028}' | '\u{2029}' => return self.broken(length),
                '[' => class = true,
                ']' => class = false,
                '/' if !class => break,
                _ => {}
            }
        }
        self.hide(length)?;
        self.ended_by(Last::Operand)
    }

    /// From here to the line's end nothing is sure; to the file's, where what follows may open a
    /// template or a comment.
    pub(super) fn begin_doubt(&mut self) {
        if self.at < self.doubt_until {
            return;
        }
        let rest = self.rest();
        let line = rest.find(['\n', '\r', '\u{2028}', '\u{2029}']);
        let line = line.unwrap_or(rest.len());
        let text = rest.get(1..line).unwrap_or_default();
        let end = match text.contains('`') || text.contains("/*") {
            true => self.text.len(),
            false => self.at + line,
        };
        self.doubt_until = self.doubt_until.max(end);
    }
}

/// An upper bound of the tokens in a text.
fn tokens(text: &str) -> usize {
    let mut within = false;
    let counts = text.chars().filter(|character| {
        let word = character.is_alphanumeric();
        let begins = word && !within;
        within = word;
        begins || (!word && !character.is_whitespace())
    });
    counts.count()
}
