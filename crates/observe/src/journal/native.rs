// SPDX-License-Identifier: Apache-2.0
//! The journal's native protocol: lines `FIELD=value`, or a name, a length (u64, little-endian) and
//! bytes; an empty line ends an entry. Source: systemd.io/JOURNAL_NATIVE_PROTOCOL. Pure.

use super::entry::{Entry, LARGEST, Refusal};

/// Entries of one datagram.
const MOST_ENTRIES: usize = 64;

/// The entries of a message.
///
/// # Errors
/// It isn't of the protocol, or too large. Nothing of it is taken then.
pub(super) fn parse(message: &[u8]) -> Result<Vec<Entry>, Refusal> {
    if message.len() > LARGEST {
        return Err(Refusal::TooLarge);
    }
    let mut entries = Vec::new();
    let mut entry = Entry::default();
    let mut rest = message;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n');
        // The last line may have no end.
        let (line, after) = match end {
            Some(end) => (
                rest.get(..end).unwrap_or_default(),
                rest.get(end + 1..).unwrap_or_default(),
            ),
            None => (rest, &[][..]),
        };
        rest = after;
        if line.is_empty() {
            push(&mut entries, std::mem::take(&mut entry))?;
            continue;
        }
        match line.iter().position(|byte| *byte == b'=') {
            Some(equals) => {
                let (name, value) = line.split_at(equals);
                add(&mut entry, name, value.get(1..).unwrap_or_default())?;
            }
            None => {
                if end.is_none() {
                    return Err(Refusal::Malformed);
                }
                let (length, more) = rest.split_first_chunk::<8>().ok_or(Refusal::Malformed)?;
                let length = usize::try_from(u64::from_le_bytes(*length));
                let length = length.map_err(|_| Refusal::TooLarge)?;
                let (value, more) = more.split_at_checked(length).ok_or(Refusal::Malformed)?;
                let (newline, more) = more.split_first().ok_or(Refusal::Malformed)?;
                if *newline != b'\n' {
                    return Err(Refusal::Malformed);
                }
                add(&mut entry, line, value)?;
                rest = more;
            }
        }
    }
    push(&mut entries, entry)?;
    Ok(entries)
}

fn add(entry: &mut Entry, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
    // A name that can't be one is left out, as systemd does.
    match std::str::from_utf8(name) {
        Ok(name) => entry.add(name, value),
        Err(_) => Ok(()),
    }
}

fn push(entries: &mut Vec<Entry>, entry: Entry) -> Result<(), Refusal> {
    if entry.fields.is_empty() {
        return Ok(());
    }
    if entries.len() >= MOST_ENTRIES {
        return Err(Refusal::TooLarge);
    }
    entries.push(entry);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field<'a>(entry: &'a Entry, name: &str) -> &'a [u8] {
        entry.get(name).unwrap_or(b"(none)")
    }

    #[test]
    fn lines_and_framed_values_are_fields() {
        let framed = [&b"MESSAGE\n"[..], &3_u64.to_le_bytes(), b"a\nb\n"].concat();
        let message = [&b"PRIORITY=3\n"[..], &framed, b"_PID=1\nlower=x\nCODE=a=b"].concat();
        let entries = parse(&message).unwrap();
        let [entry] = entries.as_slice() else {
            panic!("{entries:?}");
        };
        assert_eq!(field(entry, "PRIORITY"), b"3");
        assert_eq!(field(entry, "MESSAGE"), b"a\nb");
        assert_eq!(field(entry, "CODE"), b"a=b");
        assert_eq!(entry.fields.len(), 3, "{entry:?}");
    }

    #[test]
    fn an_empty_line_ends_an_entry() {
        let entries = parse(b"MESSAGE=one\n\n\nMESSAGE=two\n").unwrap();
        let messages: Vec<&[u8]> = entries.iter().map(|it| field(it, "MESSAGE")).collect();
        assert_eq!(messages, [b"one", b"two"]);
        assert!(parse(b"").unwrap().is_empty());
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let of = |length: u64, rest: &[u8]| [b"A\n", &length.to_le_bytes()[..], rest].concat();
        for lie in [
            of(4, b"abc\n"),
            of(u64::MAX, b"abc\n"),
            of(2, b"abc\n"),
            of(3, b"abc"),
        ] {
            assert_eq!(parse(&lie), Err(Refusal::Malformed), "{lie:?}");
        }
        assert_eq!(parse(b"A"), Err(Refusal::Malformed));
        assert_eq!(parse(b"A\n123"), Err(Refusal::Malformed));
        let many = "A=1\n".repeat(300);
        assert_eq!(parse(many.as_bytes()), Err(Refusal::TooLarge));
        let entries = "A=1\n\n".repeat(65);
        assert_eq!(parse(entries.as_bytes()), Err(Refusal::TooLarge));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            for entry in parse(&bytes).unwrap_or_default() {
                prop_assert!(entry.fields.iter().all(|(name, _)| !name.starts_with('_')));
            }
        }
    }
}
