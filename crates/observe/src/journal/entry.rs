// SPDX-License-Identifier: Apache-2.0
//! An entry of the journal: a time and fields (systemd.journal-fields(7)), with the bounds that
//! every protocol keeps to. Fields of a sender can't begin with `_`: those are the node's.

use model::time::Timestamp;

/// Fields of one entry, the node's own included.
pub(super) const MOST_FIELDS: usize = 256;
/// Bytes of all fields of one entry.
pub const LARGEST: usize = 8 << 20;
/// Bytes of a field's name: systemd's bound.
const LONGEST_NAME: usize = 64;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// When it was received.
    pub time: Timestamp,
    /// Names and values, in order. A name may be there more than once.
    pub fields: Vec<(String, Vec<u8>)>,
}

/// Why a message is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// It isn't of the protocol.
    Malformed,
    /// It passes a bound.
    TooLarge,
}

/// Whether a sender may use the name.
pub(super) fn is_senders(name: &str) -> bool {
    let is = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
    let begins = name
        .as_bytes()
        .first()
        .is_some_and(|c| c.is_ascii_uppercase());
    begins && name.len() <= LONGEST_NAME && name.bytes().all(is)
}

impl Entry {
    /// Adds a field of a sender's; one that may not be is left out.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`].
    pub(super) fn add(&mut self, name: &str, value: &[u8]) -> Result<(), Refusal> {
        if !is_senders(name) {
            return Ok(());
        }
        if self.fields.len() >= MOST_FIELDS {
            return Err(Refusal::TooLarge);
        }
        self.fields.push((name.to_owned(), value.to_vec()));
        Ok(())
    }

    /// Adds a field of the node's.
    pub(super) fn put(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.fields.push((name.to_owned(), value.into()));
    }

    /// The first value of a field.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let mut all = self.fields.iter();
        all.find(|(known, _)| known == name)
            .map(|(_, value)| value.as_slice())
    }

    /// All names and values.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        let fields = self.fields.iter();
        fields.map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Bytes of names and values.
    pub(super) fn size(&self) -> usize {
        let sizes = self
            .fields
            .iter()
            .map(|(name, value)| name.len() + value.len());
        sizes.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_has_no_field_that_is_the_nodes() {
        for name in ["MESSAGE", "SYSLOG_IDENTIFIER", "A1"] {
            assert!(is_senders(name), "{name}");
        }
        for name in ["_PID", "__CURSOR", "_", "", "1A", "message", "A-B", "A B"] {
            assert!(!is_senders(name), "{name}");
        }
        assert!(!is_senders(&"A".repeat(65)));
        let mut entry = Entry::default();
        entry.add("_PID", b"1").unwrap();
        entry.add("MESSAGE", b"x").unwrap();
        assert_eq!(entry.fields.len(), 1);
        for _ in 1..MOST_FIELDS {
            entry.add("MESSAGE", b"x").unwrap();
        }
        assert_eq!(entry.add("MESSAGE", b"x"), Err(Refusal::TooLarge));
    }
}
