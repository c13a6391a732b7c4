// SPDX-License-Identifier: Apache-2.0
//! How entries stand in the journal's log, which is a log as every other: bytes, in segments, of
//! which the oldest go, and gaps. So a reader must find the beginning of an entry wherever it
//! begins, and nothing that a sender writes may look like one.
//!
//! ```text
//! frame:  stuffed(body) 0        consistent overhead byte stuffing: no 0 in a stuffed body
//! body:   version, time (µs, u64), count (u16), fields, sum (FNV-1a of what is before it, u64)
//! field:  length of the name (u8), name, length of the value (u32), value
//! ```
//!
//! Numbers are little-endian. What is before the first 0 after a gap, or after a place that isn't
//! known as an entry's beginning, is passed over.

use model::time::Timestamp;

use super::entry::{Entry, LARGEST, MOST_FIELDS};

const VERSION: u8 = 1;
/// What ends a frame, and is in none.
pub(super) const END: u8 = 0;
/// A frame is no longer: what is around the fields, and a byte for each 254.
const LONGEST_FRAME: usize = LARGEST + LARGEST / 128 + (1 << 16);

/// Puts an entry's frame behind what is in `out`: its time, its fields, and those that the node
/// adds.
pub(super) fn encode<'a>(
    time: Timestamp,
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    added: &[(&str, &[u8])],
    out: &mut Vec<u8>,
) {
    let fields = fields.take(MOST_FIELDS + 64);
    let (mut count, mut size) = (added.len(), 128);
    for (name, value) in fields.clone() {
        count += 1;
        size += name.len() + value.len() + 5;
    }
    let mut body = Vec::with_capacity(size);
    body.push(VERSION);
    body.extend((time.0 / 1000).to_le_bytes());
    body.extend(u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
    for (name, value) in fields {
        put(name, value, &mut body);
    }
    for (name, value) in added {
        put(name, value, &mut body);
    }
    body.extend(sum(&body).to_le_bytes());
    stuff(&body, out);
}

fn put(name: &str, value: &[u8], body: &mut Vec<u8>) {
    body.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    body.extend_from_slice(name.as_bytes().get(..255).unwrap_or(name.as_bytes()));
    body.extend(u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
    body.extend_from_slice(value);
}

/// FNV-1a, 64 bits: it finds what was torn, and isn't meant against who forges.
fn sum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Runs of up to 254 bytes without a 0, each behind its length and one; a 0 at the end.
fn stuff(body: &[u8], out: &mut Vec<u8>) {
    out.reserve(body.len() + body.len() / 254 + 2);
    let mut rest = body;
    loop {
        let zero = rest.iter().take(254).position(|byte| *byte == 0);
        let length = zero.unwrap_or(rest.len().min(254));
        out.push(u8::try_from(length + 1).unwrap_or(u8::MAX));
        out.extend_from_slice(rest.get(..length).unwrap_or_default());
        let eaten = length + usize::from(zero.is_some());
        rest = rest.get(eaten..).unwrap_or_default();
        // A 0 that ends the body is told by an empty run behind it.
        if rest.is_empty() && (zero.is_none() || eaten == 0) {
            break;
        }
    }
    out.push(0);
}

fn unstuff(stuffed: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::with_capacity(stuffed.len());
    let mut rest = stuffed;
    while let Some((code, more)) = rest.split_first() {
        let length = usize::from(*code).checked_sub(1)?;
        body.extend_from_slice(more.get(..length)?);
        rest = more.get(length..)?;
        if *code != 255 && !rest.is_empty() {
            body.push(0);
        }
    }
    Some(body)
}

fn decode(stuffed: &[u8]) -> Option<Entry> {
    let body = unstuff(stuffed)?;
    let (body, stored) = body.split_last_chunk::<8>()?;
    if u64::from_le_bytes(*stored) != sum(body) {
        return None;
    }
    let (version, rest) = body.split_first()?;
    let (time, rest) = rest.split_first_chunk::<8>()?;
    let (count, mut rest) = rest.split_first_chunk::<2>()?;
    if *version != VERSION {
        return None;
    }
    let mut fields = Vec::new();
    for _ in 0..u16::from_le_bytes(*count) {
        let (length, more) = rest.split_first()?;
        let (name, more) = more.split_at_checked(usize::from(*length))?;
        let (length, more) = more.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (value, more) = more.split_at_checked(length)?;
        fields.push((String::from_utf8(name.to_vec()).ok()?, value.to_vec()));
        rest = more;
    }
    let time = u64::from_le_bytes(*time).checked_mul(1000)?;
    rest.is_empty().then_some(Entry {
        time: Timestamp(time),
        fields,
    })
}

/// Makes entries of pieces of the log.
#[derive(Debug)]
pub(super) struct Decoder {
    /// What has come of a frame.
    part: Vec<u8>,
    /// Whether it is known where the frame begins.
    aligned: bool,
    /// Frames that were none.
    pub(super) broken: u64,
    /// Behind the last frame that was seen, whatever it was.
    pub(super) boundary: Option<u64>,
}

impl Decoder {
    /// `aligned`: the first byte begins an entry.
    pub(super) fn new(aligned: bool) -> Decoder {
        Decoder {
            part: Vec::new(),
            aligned,
            broken: 0,
            boundary: None,
        }
    }

    /// Bytes are missing here.
    pub(super) fn gap(&mut self) {
        self.part.clear();
        self.aligned = false;
    }

    /// Takes a piece that begins at an offset of the log; gives the entries that end in it, each
    /// with the offset behind it.
    pub(super) fn take(&mut self, mut offset: u64, piece: &[u8]) -> Vec<(Entry, u64)> {
        let mut entries = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == 0) {
            offset = offset.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
            let ends = part.last() == Some(&0);
            if self.aligned {
                let bytes = part.strip_suffix(&[0]).unwrap_or(part);
                self.part.extend_from_slice(bytes);
            }
            if self.part.len() > LONGEST_FRAME {
                self.gap();
            }
            if ends {
                let frame = std::mem::take(&mut self.part);
                match decode(&frame) {
                    Some(entry) if self.aligned => entries.push((entry, offset)),
                    _ => self.broken += u64::from(self.aligned),
                }
                self.aligned = true;
                self.boundary = Some(offset);
            }
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(entry: &Entry) -> Vec<u8> {
        let mut out = Vec::new();
        super::encode(entry.time, entry.fields(), &[], &mut out);
        out
    }

    fn entry(value: &[u8]) -> Entry {
        Entry {
            time: Timestamp(5_000),
            fields: vec![("MESSAGE".to_owned(), value.to_vec())],
        }
    }

    proptest! {
        #[test]
        fn entries_come_back_as_they_went(
            values in prop::collection::vec(prop::collection::vec(0_u8..4, 0..600), 0..5),
            size in 1_usize..300,
        ) {
            let entries: Vec<Entry> = values.iter().map(|it| entry(it)).collect();
            let bytes: Vec<u8> = entries.iter().flat_map(encode).collect();
            let mut decoder = Decoder::new(true);
            let (mut offset, mut back) = (0, Vec::new());
            for piece in bytes.chunks(size) {
                back.extend(decoder.take(offset, piece));
                offset += piece.len() as u64;
            }
            prop_assert_eq!(decoder.broken, 0);
            prop_assert_eq!(back.last().map(|it| it.1), (!entries.is_empty()).then_some(offset));
            let back: Vec<Entry> = back.into_iter().map(|it| it.0).collect();
            prop_assert_eq!(back, entries);
        }

        #[test]
        fn what_is_no_frame_is_passed_over(bytes in prop::collection::vec(0_u8..8, 0..300)) {
            let mut decoder = Decoder::new(true);
            let _ = decoder.take(0, &bytes);
            decoder.gap();
            let last = [&[1, 0][..], &encode(&entry(b"whole"))].concat();
            let back = decoder.take(0, &last);
            prop_assert_eq!(back.len(), 1);
        }
    }

    /// A message that holds a whole frame is no other entry, wherever a reader begins.
    #[test]
    fn a_sender_can_not_forge_an_entry() {
        let mut forged = entry(b"forged");
        forged.put("_PID", "1");
        let inner = encode(&forged);
        let outer = encode(&entry(&[&[0][..], &inner, &[0]].concat()));
        for start in 0..outer.len() {
            let mut decoder = Decoder::new(false);
            let piece = [&outer[start..], &encode(&entry(b"next"))].concat();
            let back: Vec<Entry> = decoder.take(0, &piece).into_iter().map(|it| it.0).collect();
            assert_eq!(back, [entry(b"next")], "from {start}");
        }
    }
}
