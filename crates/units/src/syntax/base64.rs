// SPDX-License-Identifier: Apache-2.0
//! Base64 as it stands in unit files (RFC 4648, section 4): blanks between are passed over, the
//! padding at the end may be left out. It writes none.

/// Decodes a text. `None`: it is none.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let letters = text.bytes().filter(|b| !b.is_ascii_whitespace());
    let letters: Vec<u8> = letters.collect();
    let padding = letters.iter().rev().take_while(|b| **b == b'=').count();
    let (data, _) = letters.split_at_checked(letters.len().checked_sub(padding)?)?;
    if padding > 2 || data.len() % 4 == 1 || (padding > 0 && !letters.len().is_multiple_of(4)) {
        return None;
    }
    let mut bytes = Vec::new();
    for group in data.chunks(4) {
        let mut bits = 0_u32;
        for letter in group {
            bits = bits << 6 | u32::from(value(*letter)?);
        }
        bits <<= 6 * (4 - group.len());
        let whole = bits.to_be_bytes();
        // Of four letters three bytes, of three two, of two one.
        bytes.extend(whole.get(1..group.len())?);
    }
    Some(bytes)
}

fn value(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_rfc() {
        // RFC 4648, section 10.
        for (text, expected) in [
            ("", Some("")),
            ("Zg==", Some("f")),
            ("Zm8=", Some("fo")),
            ("Zm9v", Some("foo")),
            ("Zm9vYg==", Some("foob")),
            ("Zm9v\n YmFy", Some("foobar")),
            ("Zm9vYg", Some("foob")),
            ("Z", None),
            ("Zg=", None),
            ("Z===", None),
            ("Zm9*", None),
        ] {
            let expected = expected.map(|it| it.as_bytes().to_vec());
            assert_eq!(decode(text), expected, "{text:?}");
        }
    }
}
