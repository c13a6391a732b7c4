// SPDX-License-Identifier: Apache-2.0
//! The escapes that may stand in a quoted value (systemd.syntax(7), table 1): `\n`, `\x41`,
//! `\u00e9` and the like.

/// A decoded escape: a character, or a single byte of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unescaped {
    /// A character.
    Char(char),
    /// A byte, from `\xHH` or `\OOO`.
    Byte(u8),
}

/// Decodes the escape whose backslash is already read. The result, and how many bytes of `rest` it
/// took. `None` where it is none, or stands for NUL.
pub fn unescape(rest: &str) -> Option<(Unescaped, usize)> {
    let mut chars = rest.chars();
    let plain = match chars.next()? {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        's' => ' ',
        same @ ('\\' | '"' | '\'') => same,
        'x' => return byte(rest.get(1..3)?, 16).map(|it| (it, 3)),
        'u' => return unicode(rest.get(1..5)?).map(|it| (it, 5)),
        'U' => return unicode(rest.get(1..9)?).map(|it| (it, 9)),
        '0'..='7' => return byte(rest.get(..3)?, 8).map(|it| (it, 3)),
        _ => return None,
    };
    Some((Unescaped::Char(plain), 1))
}

fn byte(digits: &str, radix: u32) -> Option<Unescaped> {
    let value = number(digits, radix)?;
    u8::try_from(value)
        .ok()
        .filter(|it| *it != 0)
        .map(Unescaped::Byte)
}

fn unicode(digits: &str) -> Option<Unescaped> {
    char::from_u32(number(digits, 16)?)
        .filter(|it| *it != '\0')
        .map(Unescaped::Char)
}

/// `from_str_radix` alone would take a sign.
fn number(digits: &str, radix: u32) -> Option<u32> {
    let all = digits.chars().all(|c| c.is_digit(radix));
    all.then(|| u32::from_str_radix(digits, radix).ok())?
}

/// A whole text with its escapes decoded; here `\x00` stands for NUL. `None`: one of them is none.
pub fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend(rest.get(..at)?.as_bytes());
        rest = rest.get(at + 1..)?;
        if let Some(after) = ["x00", "000"].iter().find_map(|it| rest.strip_prefix(it)) {
            bytes.push(0);
            rest = after;
            continue;
        }
        let (one, length) = unescape(rest)?;
        match one {
            Unescaped::Char(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Unescaped::Byte(byte) => bytes.push(byte),
        }
        rest = rest.get(length..)?;
    }
    bytes.extend(rest.as_bytes());
    Some(bytes)
}

/// A text whose escapes may have left bytes: those that are no UTF-8 are replaced.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_text_is_decoded_or_not_at_all() {
        assert_eq!(
            unescaped("a\\tb\\x00\\303\\251"),
            Some(b"a\tb\0\xc3\xa9".to_vec())
        );
        assert_eq!(unescaped("plain"), Some(b"plain".to_vec()));
        assert_eq!(unescaped("wrong \\q"), None);
        assert_eq!(unescaped("cut \\"), None);
    }

    #[test]
    fn escapes_are_those_of_the_table() {
        // systemd.syntax(7), table 1.
        for (text, expected) in [
            ("a", Some((Unescaped::Char('\u{7}'), 1))),
            ("s", Some((Unescaped::Char(' '), 1))),
            ("\"x", Some((Unescaped::Char('"'), 1))),
            ("x41z", Some((Unescaped::Byte(b'A'), 3))),
            ("101", Some((Unescaped::Byte(b'A'), 3))),
            ("377", Some((Unescaped::Byte(255), 3))),
            ("u00e9", Some((Unescaped::Char('é'), 5))),
            ("U0001F600", Some((Unescaped::Char('😀'), 9))),
            ("x00", None),
            ("000", None),
            ("400", None),
            ("x+1", None),
            ("u12", None),
            ("ud800", None),
            ("q", None),
            ("", None),
        ] {
            assert_eq!(unescape(text), expected, "{text}");
        }
    }
}
