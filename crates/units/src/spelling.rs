// SPDX-License-Identifier: Apache-2.0
//! A unit's name as values of labels, which have fewer characters and less room: what runs for a
//! unit bears it, so that it is known also where nothing else is known of the unit any more. Pure;
//! the unit manager writes it, and `journalctl` reads it.

use crate::name::UnitName;

/// Bytes of one value that are the name's: 63, less one at each end, which may be no sign.
const PIECE: usize = 61;
/// What stands at both ends of a value.
const END: char = 'u';

/// The name in one value or more, in order. Letters, digits, `-` and `.` stand for themselves, all
/// else as `_hh`.
pub fn spell(name: &UnitName) -> Vec<String> {
    let mut text = String::new();
    for byte in name.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => text.push(char::from(byte)),
            other => text.push_str(&format!("_{other:02x}")),
        }
    }
    let bytes: Vec<char> = text.chars().collect();
    let pieces = bytes.chunks(PIECE);
    pieces
        .map(|piece| {
            let ends = [END];
            ends.iter().chain(piece).chain(&ends).collect()
        })
        .collect()
}

/// The name that is spelled so; `None` where none is.
pub fn read<'a>(values: impl Iterator<Item = &'a str>) -> Option<UnitName> {
    let mut text = String::new();
    for value in values {
        text.push_str(value.strip_prefix(END)?.strip_suffix(END)?);
    }
    let mut bytes = Vec::new();
    let mut rest = text.as_str();
    while let Some((plain, more)) = rest.split_once('_') {
        bytes.extend(plain.bytes());
        let (digits, behind) = more.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    bytes.extend(rest.bytes());
    UnitName::parse(&String::from_utf8(bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_comes_back_and_fits_labels(stem in "[a-zA-Z0-9:_.\\\\-][a-zA-Z0-9:_.\\\\@-]{0,240}") {
            let name = UnitName::parse(&format!("{stem}.service")).unwrap();
            let values = spell(&name);
            for value in &values {
                prop_assert!(value.len() <= 63, "{value}");
                prop_assert!(value.starts_with('u') && value.ends_with('u'));
                let is = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                prop_assert!(value.chars().all(is), "{value}");
            }
            prop_assert_eq!(read(values.iter().map(String::as_str)), Some(name));
        }
    }

    #[test]
    fn what_spells_no_name_is_none() {
        for values in [
            &[][..],
            &["nginx.service"],
            &["u_4"],
            &["u_zzu"],
            &["uau"],
            &["ua.service"],
        ] {
            assert_eq!(read(values.iter().copied()), None, "{values:?}");
        }
    }
}
