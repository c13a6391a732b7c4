// SPDX-License-Identifier: Apache-2.0
//! Netlink attributes as nf_tables wants them: numbers in network order, nests marked. Bytes alone;
//! what they mean is [`super::expression`]'s and [`super::message`]'s.

/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

/// A list of attributes in the making.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    pub(crate) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        // No attribute of ours is near 64 KiB: lists of elements are cut before.
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    pub(crate) fn nest(self, kind: u16, inner: Attributes) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }

    pub(crate) fn nest_all(
        self,
        kind: u16,
        each: u16,
        inner: impl IntoIterator<Item = Attributes>,
    ) -> Self {
        let list = inner
            .into_iter()
            .fold(Attributes::default(), |list, one| list.nest(each, one));
        self.nest(kind, list)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The attributes of a message that was received: kind without its flags, and value. What is cut
/// short ends the list.
pub(crate) fn read(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let [a, b, c, d, ..] = *bytes {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(value) = bytes.get(4..length) else {
            break;
        };
        found.push((u16::from_ne_bytes([c, d]) & 0x3fff, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The value of the first attribute of a kind.
pub(crate) fn first(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    read(bytes)
        .into_iter()
        .find(|(found, _)| *found == kind)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let bytes = Attributes::default()
            .text(1, "ab")
            .number(2, 7)
            .nest(3, Attributes::default().bytes(9, &[1, 2, 3, 4, 5]))
            .into_bytes();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(first(&bytes, 1), Some(&b"ab\0"[..]));
        assert_eq!(first(&bytes, 2), Some(&[0, 0, 0, 7][..]));
        let nest = first(&bytes, 3).unwrap();
        assert_eq!(first(nest, 9), Some(&[1, 2, 3, 4, 5][..]));
    }

    proptest! {
        #[test]
        fn nothing_is_too_odd_to_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&bytes);
        }
    }
}
