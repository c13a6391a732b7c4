// SPDX-License-Identifier: Apache-2.0
//! The pass over a text that measures how deep a parser would recurse on it. Knows comments,
//! strings, templates and regular expressions, and no grammar: it may count too much, never too
//! little.
//!
//! The measure is the sum, over the brackets that are open, of the operators since the last place
//! where an expression or a statement surely ended: a `;`, a comma, or an operand next to an
//! operand. A comma ends nothing between `<` and `>`, and a `;` nothing before `else`.
//!
//! One thing can't be known without a grammar: whether a `/` after `}` (and after a few words)
//! divides or begins a regular expression. The scan guesses, and what stands on the rest of that
//! line (of the file, where a template or a comment may begin there) is counted against a budget
//! whatever it is, so that a wrong guess can't hide a deep program.

mod depth;
mod text;

use super::words::{Word, word};
use super::{Depths, Passed};
use depth::{Bracket, Level};

/// What the last token was to the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// An operand ended with it.
    Operand,
    /// It may have been: a contextual word.
    Unsure,
    /// `}`: the end of a statement or of an operand.
    Brace,
    /// A `>` that closes: the end of a type, or of what stands before an operand.
    Angle,
    /// An operand must follow.
    Operator,
    /// `)` after `if`, `while`, `for`, `with`: a statement must follow.
    Head,
}

pub(super) struct Scan<'t> {
    text: &'t str,
    most: Depths,
    at: usize,
    levels: Vec<Level>,
    /// The sum of all levels' counts.
    depth: usize,
    last: Last,
    /// The last word, where the last token was one that begins a head.
    control: bool,
    after_dot: bool,
    newline: bool,
    line: usize,
    /// A `;` ended the statement unless an `else` follows.
    ended: bool,
    /// Up to where tokens are counted against the budget.
    doubt_until: usize,
    doubtful: usize,
}

/// `Ok(false)`: the parser stops here, the rest is never nested.
type Step = Result<bool, (Passed, usize)>;

impl<'t> Scan<'t> {
    pub(super) fn new(text: &'t str, most: Depths) -> Self {
        let at = match text.starts_with("#!") {
            true => text.find('\n').unwrap_or(text.len()),
            false => 0,
        };
        Self {
            text,
            most,
            at,
            levels: vec![Level::new(Bracket::File, 0)],
            depth: 0,
            last: Last::Operator,
            control: false,
            after_dot: false,
            newline: true,
            line: 1,
            ended: false,
            doubt_until: 0,
            doubtful: 0,
        }
    }

    /// The limit that the text passes, and the byte where it does.
    pub(super) fn run(mut self) -> Result<(), (Passed, usize)> {
        while let Some(character) = self.peek(0) {
            if !self.token(character)? {
                break;
            }
        }
        Ok(())
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest().chars().nth(ahead)
    }

    fn token(&mut self, character: char) -> Step {
        match character {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => {
                self.newline = true;
                self.line += 1;
                self.at += character.len_utf8();
                return Ok(true);
            }
            _ if character.is_whitespace() || character == '\u{feff}' => {
                self.at += character.len_utf8();
                return Ok(true);
            }
            '/' if self.rest().starts_with("//") => return self.line_comment(),
            '/' if self.rest().starts_with("/*") => return self.block_comment(),
            _ => {}
        }
        self.doubt(1)?;
        let going = match character {
            '"' | '\'' => self.string(character),
            '`' => self.tagged(),
            '0'..='9' => self.number(),
            '.' if self
                .rest()
                .as_bytes()
                .get(1)
                .is_some_and(u8::is_ascii_digit) =>
            {
                self.number()
            }
            _ if is_word(character) => self.word(),
            '(' | '[' | '{' => self.open(character),
            ')' | ']' | '}' => self.close(character),
            '/' => self.slash(),
            _ => self.punctuator(character),
        };
        self.newline = false;
        going
    }

    fn number(&mut self) -> Step {
        self.operand_begins("");
        let rest = self.rest();
        let digits = |from: usize| {
            let rest = rest.get(from..).unwrap_or_default();
            let part = |it: &char| it.is_ascii_alphanumeric() || *it == '_';
            from + rest.chars().take_while(part).count()
        };
        let mut length = digits(0);
        let after = rest.get(length + 1..).and_then(|rest| rest.chars().next());
        if rest.get(length..).is_some_and(|rest| rest.starts_with('.')) {
            match after {
                Some('0'..='9') => length = digits(length + 1),
                Some(after) if is_word(after) => {}
                _ => length += 1,
            }
        }
        self.at += length;
        self.ended_by(Last::Operand)
    }

    fn word(&mut self) -> Step {
        let rest = self.rest();
        let mut length = 0;
        let mut characters = rest.chars().peekable();
        while let Some(character) = characters.next_if(|it| is_word(*it) || it.is_ascii_digit()) {
            length += character.len_utf8();
            // `\u{61}`: a letter spelled with braces.
            if character == '\\' && rest.get(length..).is_some_and(|it| it.starts_with("u{")) {
                for character in characters.by_ref() {
                    length += character.len_utf8();
                    if character == '}' {
                        break;
                    }
                }
            }
        }
        let text = rest.get(..length).unwrap_or_default();
        let kind = match self.after_dot {
            true => Word::Operand,
            false => word(text),
        };
        let heads = self.control && text == "await";
        if !self.after_dot {
            self.operand_begins(text);
        }
        let last = match kind {
            Word::Operand => Last::Operand,
            Word::Contextual | Word::MaybeType => Last::Unsure,
            Word::Control | Word::Nests | Word::Prefix => Last::Operator,
        };
        match kind {
            Word::Operand => {}
            Word::Control | Word::Nests => self.hold()?,
            Word::Contextual | Word::MaybeType | Word::Prefix => self.operator()?,
        }
        self.at += length;
        self.ended_by(last)?;
        self.control = kind == Word::Control || heads;
        Ok(true)
    }

    fn open(&mut self, bracket: char) -> Step {
        let head = self.control;
        self.settle("");
        self.operator()?;
        self.at += 1;
        self.push(match bracket {
            '(' => Bracket::Paren { head },
            '[' => Bracket::Square,
            _ => Bracket::Brace,
        })
    }

    fn close(&mut self, bracket: char) -> Step {
        let top = self.levels.last().map(|level| level.bracket);
        let (fits, last) = match (top, bracket) {
            (Some(Bracket::Paren { head: true }), ')') => (true, Last::Head),
            (Some(Bracket::Paren { .. }), ')') | (Some(Bracket::Square), ']') => {
                (true, Last::Operand)
            }
            (Some(Bracket::Brace), '}') => (true, Last::Brace),
            (Some(Bracket::Template), '}') => {
                self.pop();
                self.at += 1;
                return self.template();
            }
            _ => (false, Last::Operand),
        };
        if !fits {
            return self.broken(1);
        }
        self.pop();
        self.at += 1;
        self.ended_by(last)
    }

    fn punctuator(&mut self, character: char) -> Step {
        self.settle("");
        let rest = self.rest();
        let length = match rest {
            _ if rest.starts_with("...") => 3,
            _ if rest.starts_with("=>") || rest.starts_with("<=") => 2,
            _ if rest.starts_with("++") || rest.starts_with("--") => 2,
            _ if rest.starts_with("?.") => 2,
            _ => character.len_utf8(),
        };
        let postfix = matches!(character, '!') || rest.starts_with("++") || rest.starts_with("--");
        let mut last = match self.last {
            Last::Operand | Last::Unsure | Last::Brace | Last::Angle
                if postfix && !self.newline =>
            {
                self.last
            }
            _ => Last::Operator,
        };
        match character {
            ';' => self.ended = true,
            ',' => self.comma(),
            '<' if length == 1 => {
                self.operator()?;
                self.angles(|angles| angles + 1);
                self.tight(rest)?;
            }
            '>' => {
                self.operator()?;
                let closes = !rest.starts_with(">=");
                if closes && self.levels.last().is_some_and(|level| level.angles > 0) {
                    self.angles(|angles| angles - 1);
                    if let Some(level) = self.levels.last_mut() {
                        level.tight = level.tight.saturating_sub(1);
                    }
                    last = Last::Angle;
                }
            }
            _ => self.operator()?,
        }
        self.at += length;
        let ended = self.ended;
        self.ended_by(last)?;
        self.ended = ended;
        self.after_dot = (character == '.' && length == 1) || rest.starts_with("?.");
        Ok(true)
    }

    fn ended_by(&mut self, last: Last) -> Step {
        self.last = last;
        self.control = false;
        self.after_dot = false;
        self.ended = false;
        Ok(true)
    }
}

fn is_word(character: char) -> bool {
    match character {
        'a'..='z' | 'A'..='Z' | '_' | '$' | '#' | '\\' => true,
        '\u{2028}' | '\u{2029}' | '\u{feff}' => false,
        _ => !character.is_ascii() && !character.is_whitespace(),
    }
}
