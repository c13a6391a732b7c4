// SPDX-License-Identifier: Apache-2.0
//! Values split into words, with quotes and escapes (systemd.syntax(7), "Quoting"). Which of both a
//! directive knows is said by its parser.

use super::escape::{Unescaped, text, unescape};

/// What a backslash is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Escapes {
    /// An ordinary character. Names of units contain them.
    Keep,
    /// The next character is taken as it is.
    Drop,
    /// It begins an escape of the table; an unknown one stays as it is written.
    Decode,
}

/// A word, and where it begins in the text, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// Without quotes and escapes.
    pub text: String,
    /// Where it begins.
    pub offset: usize,
    /// Whether a part of it was in quotes: then `;` is no separator.
    pub quoted: bool,
    /// Whether an escape was not known and is kept.
    pub strange: bool,
    /// Its source.
    pub raw: String,
}

/// A quote has no end. The offset is that of the word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unbalanced {
    /// Where the word begins.
    pub offset: usize,
}

/// Splits at blanks.
///
/// # Errors
/// A quote has no end, or a single backslash ends the text.
pub fn split(source: &str, escapes: Escapes) -> Result<Vec<Word>, Unbalanced> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(word) = next(source, &mut at, escapes)? {
        words.push(word);
    }
    Ok(words)
}

/// The words of a text without quotes and escapes, as the simplest lists have them.
pub fn plain(source: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for part in source.split_ascii_whitespace() {
        let offset = part.as_ptr() as usize - source.as_ptr() as usize;
        words.push(Word {
            text: part.to_owned(),
            offset,
            quoted: false,
            strange: false,
            raw: part.to_owned(),
        });
    }
    words
}

/// The next word from the byte `at` on, which is moved behind it.
///
/// # Errors
/// A quote has no end, or a single backslash ends the text.
pub fn next(source: &str, at: &mut usize, escapes: Escapes) -> Result<Option<Word>, Unbalanced> {
    let rest = source.get(*at..).unwrap_or("");
    let begin = *at + rest.len() - rest.trim_start_matches(is_blank).len();
    let mut scan = Scan {
        rest: source.get(begin..).unwrap_or(""),
        bytes: Vec::new(),
        quoted: false,
        strange: false,
        escapes,
    };
    if scan.rest.is_empty() {
        *at = source.len();
        return Ok(None);
    }
    scan.word().ok_or(Unbalanced { offset: begin })?;
    let end = source.len() - scan.rest.len();
    *at = end;
    Ok(Some(Word {
        text: text(scan.bytes),
        offset: begin,
        quoted: scan.quoted,
        strange: scan.strange,
        raw: source.get(begin..end).unwrap_or("").to_owned(),
    }))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

struct Scan<'a> {
    rest: &'a str,
    bytes: Vec<u8>,
    quoted: bool,
    strange: bool,
    escapes: Escapes,
}

impl Scan<'_> {
    /// Reads to the blank after the word. `None` where a quote or an escape has no end.
    fn word(&mut self) -> Option<()> {
        let mut quote = None;
        while let Some(c) = self.rest.chars().next() {
            match (c, quote) {
                (_, None) if is_blank(c) => return Some(()),
                ('\'' | '"', None) => {
                    quote = Some(c);
                    self.quoted = true;
                    self.skip(c);
                }
                (_, Some(open)) if c == open => {
                    quote = None;
                    self.skip(c);
                }
                ('\\', _) if self.escapes != Escapes::Keep => {
                    self.skip(c);
                    self.escaped()?;
                }
                _ => {
                    self.push(c);
                    self.skip(c);
                }
            }
        }
        quote.is_none().then_some(())
    }

    fn escaped(&mut self) -> Option<()> {
        let c = self.rest.chars().next()?;
        let known = (self.escapes == Escapes::Decode).then(|| unescape(self.rest));
        match known {
            Some(Some((value, taken))) => {
                match value {
                    Unescaped::Char(c) => self.push(c),
                    Unescaped::Byte(byte) => self.bytes.push(byte),
                }
                self.rest = self.rest.get(taken..).unwrap_or("");
            }
            Some(None) => {
                self.strange = true;
                self.push('\\');
                self.push(c);
                self.skip(c);
            }
            None => {
                self.push(c);
                self.skip(c);
            }
        }
        Some(())
    }

    fn push(&mut self, c: char) {
        let mut buffer = [0; 4];
        self.bytes
            .extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
    }

    fn skip(&mut self, c: char) {
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or("");
    }
}

/// Writes a text so that [`split`] reads it as one word.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(source: &str, escapes: Escapes) -> Vec<String> {
        let words = split(source, escapes).unwrap();
        words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn quotes_hold_a_word_together() {
        // systemd.syntax(7), "Quoting".
        for (source, expected) in [
            (
                "one 'two two'  \"three three\"",
                vec!["one", "two two", "three three"],
            ),
            ("a\\x20b", vec!["a b"]),
            ("\"a\\\"b\"", vec!["a\"b"]),
            ("''", vec![""]),
            ("TWO='two two' x", vec!["TWO=two two", "x"]),
            ("\\xc3\\xa9", vec!["é"]),
            ("back\\qslash", vec!["back\\qslash"]),
            ("  ", vec![]),
        ] {
            assert_eq!(texts(source, Escapes::Decode), expected, "{source}");
        }
        assert_eq!(
            texts("dev-a\\x2db.device", Escapes::Keep),
            ["dev-a\\x2db.device"]
        );
        assert_eq!(texts("a\\ b", Escapes::Drop), ["a b"]);
    }

    #[test]
    fn a_word_knows_where_it_is() {
        let words = split("ab  'c d' e", Escapes::Decode).unwrap();
        let offsets: Vec<usize> = words.iter().map(|word| word.offset).collect();
        assert_eq!(offsets, [0, 4, 10]);
        assert!(words[1].quoted && !words[2].quoted);
    }

    #[test]
    fn what_has_no_end_is_refused() {
        for source in ["'a", "x \"b c", "a\\"] {
            assert!(split(source, Escapes::Decode).is_err(), "{source}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_read_again(words in proptest::collection::vec("\\PC*", 0..5)) {
            let written: Vec<String> = words.iter().map(|word| quote(word)).collect();
            prop_assert_eq!(texts(&written.join(" "), Escapes::Decode), words);
        }

        #[test]
        fn no_text_does_harm(source: String) {
            for escapes in [Escapes::Keep, Escapes::Drop, Escapes::Decode] {
                let _ = split(&source, escapes);
            }
        }
    }
}
