// SPDX-License-Identifier: Apache-2.0
//! Half-typed text made whole around the cursor: a name is put where one is being written, and
//! what is still open is closed, until it parses. Only for questions about that one place.

use oxc::allocator::Allocator;

use crate::parse;
use crate::source::Source;

/// The name that stands at the cursor in a repaired text, after what is already written of it.
pub(super) const MARK: &str = "aurae_cursor";

/// A text that parses, with [`MARK`] at the cursor where a name can stand; the offset is the
/// cursor's in it. The last try stands even if it doesn't parse.
pub(super) fn at_cursor(source: &Source, offset: u32) -> Source {
    let text = source.text();
    let at = offset as usize;
    let (before, after) = (
        text.get(..at).unwrap_or_default(),
        text.get(at..).unwrap_or_default(),
    );
    let open = Open::of(before);
    let rest = after.split_once('\n').map_or("", |(_, rest)| rest);
    let mark = if open.quote.is_some() { "" } else { MARK };
    let quote = open.quote.map_or_else(String::new, |it| it.to_string());
    let closers: String = open.brackets.iter().rev().collect();
    let tries = [
        format!("{before}{mark}{after}"),
        format!("{before}{mark},{after}"),
        format!("{before}{mark};{after}"),
        format!("{before}{mark}: 0,{after}"),
        format!("{before}{mark}{quote}{after}"),
        format!("{before}{mark}{quote},\n{rest}"),
        format!("{before}{mark}{quote}\n{rest}"),
        format!("{before}{mark}{quote}){after}"),
        format!("{before}{mark}{quote}{closers}\n{rest}"),
        format!("{before}{mark}{quote}{closers};\n{rest}"),
        format!("{before}{mark}{quote}{closers}{after}"),
        format!("{before}{mark}{quote}{closers}"),
    ];
    let mut repaired = source.clone();
    for text in tries {
        repaired = Source::new(source.name(), text);
        if parses(&repaired) {
            break;
        }
    }
    repaired
}

fn parses(source: &Source) -> bool {
    let allocator = Allocator::default();
    parse::parse(&allocator, source).is_sound()
}

/// What is open at the end of a text.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Open {
    /// What closes the open brackets, the innermost last.
    pub(crate) brackets: Vec<char>,
    /// The quote of a string that isn't closed.
    pub(crate) quote: Option<char>,
}

impl Open {
    pub(crate) fn of(text: &str) -> Self {
        let mut open = Self::default();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match (open.quote, letter) {
                (Some(_), '\\') => {
                    letters.next();
                }
                (Some('`'), '\n') => {}
                (Some(_), '\n') => open.quote = None,
                (Some(quote), letter) if quote == letter => open.quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'' | '`') => open.quote = Some(letter),
                (None, '/') if letters.peek() == Some(&'/') => {
                    letters.by_ref().find(|it| *it == '\n');
                }
                (None, '/') if letters.peek() == Some(&'*') => {
                    let mut last = ' ';
                    letters
                        .by_ref()
                        .find(|it| std::mem::replace(&mut last, *it) == '*' && *it == '/');
                }
                (None, '(') => open.brackets.push(')'),
                (None, '[') => open.brackets.push(']'),
                (None, '{') => open.brackets.push('}'),
                (None, ')' | ']' | '}') => {
                    open.brackets.pop();
                }
                (None, _) => {}
            }
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_known() {
        let open = Open::of("f({ a: [1, \"x\"], b: '/* }");
        assert_eq!(open.brackets, [')', '}']);
        assert_eq!(open.quote, Some('\''));
        assert_eq!(Open::of("f() // (\n/* ( */"), Open::default());
    }
}
