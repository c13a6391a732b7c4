// SPDX-License-Identifier: Apache-2.0
//! The format: what is written is what is read, and a damaged tail costs the tail alone.

use model::observe::{GapReason, Stream};
use proptest::prelude::*;

use super::*;
use crate::format;

#[path = "../../../../fuzz/checks/log_frames.rs"]
mod checks;
#[path = "../../../../fuzz/checks/replay.rs"]
mod replay;

fn header() -> Header {
    Header {
        boot: [7; 16],
        base: 1000,
        created_us: 1,
        stdout_before: 600,
        stderr_before: 300,
        keep_bytes: 1 << 20,
        keep_s: 3600,
    }
}

fn streams() -> impl Strategy<Value = Stream> {
    prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]
}

fn entries() -> impl Strategy<Value = Entry> {
    let reasons = prop_oneof![
        Just(GapReason::Retention),
        Just(GapReason::DiskFull),
        Just(GapReason::PowerLoss),
        Just(GapReason::IoError)
    ];
    prop_oneof![
        (streams(), any::<bool>(), any::<u32>(), 1..=MAX_BATCH).prop_map(
            |(stream, terminal, position, length)| Entry::Data {
                stream,
                terminal,
                position,
                length
            }
        ),
        (reasons, 0..=MAX_GAP).prop_map(|(reason, bytes)| Entry::Gap { reason, bytes }),
        any::<u32>().prop_map(|size| Entry::End { size }),
    ]
}

/// A segment as a mover writes it: batches of these sizes, `None` a gap of 5 bytes.
fn segment(batches: &[(Stream, Option<u32>)]) -> (Vec<u8>, u64) {
    let mut index = header().encode().to_vec();
    let mut position = 0;
    for (time_us, (stream, length)) in (10..).zip(batches) {
        let entry = match length {
            None => Entry::Gap {
                reason: GapReason::DiskFull,
                bytes: 5,
            },
            Some(length) => Entry::Data {
                stream: *stream,
                terminal: false,
                position,
                length: *length,
            },
        };
        position += length.unwrap_or(0);
        index.extend(Record { entry, time_us }.encode());
    }
    (index, position.into())
}

fn batches() -> impl Strategy<Value = Vec<(Stream, Option<u32>)>> {
    let length = prop_oneof![4 => (1u32..5000).prop_map(Some), 1 => Just(None)];
    prop::collection::vec((streams(), length), 0..40)
}

proptest! {
    #[test]
    fn a_record_is_read_as_it_was_written(entry in entries(), time_us in 0..(1u64 << 56)) {
        let record = Record { entry, time_us };
        prop_assert_eq!(Record::decode(&record.encode()), Some(record));
    }

    #[test]
    fn a_header_is_read_as_it_was_written(base: u64, created_us: u64, boot: [u8; 16]) {
        let header = Header { boot, base, created_us, ..header() };
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn one_flipped_bit_is_no_header(bit in 0..HEADER * 8) {
        let mut bytes = header().encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Header::decode(&bytes).is_err());
    }

    #[test]
    fn one_flipped_bit_is_no_record(entry in entries(), bit in 0..RECORD * 8) {
        let mut bytes = Record { entry, time_us: 99 }.encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Record::decode(&bytes), None);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, size: u64) {
        let mut index = header().encode().to_vec();
        index.extend(&bytes);
        let _ = recover(&bytes, size);
        let found = recover(&index, size).unwrap();
        prop_assert!(found.walk.position() <= size);
    }

    #[test]
    fn a_whole_segment_is_whole(batches in batches()) {
        let (index, size) = segment(&batches);
        let found = recover(&index, size).unwrap();
        prop_assert_eq!(found.records, batches.len() as u64);
        prop_assert_eq!((found.lost(), found.correction, found.void), (0, None, None));
        prop_assert_eq!(found.walk.position(), size);
        let gaps = batches.iter().filter(|(_, l)| l.is_none()).count() as u64;
        prop_assert_eq!(found.walk.offset(), 1000 + size + 5 * gaps);
        let (out, err) = found.walk.totals();
        prop_assert_eq!(out + err, 900 + size);
    }

    /// Whatever of index and data a power loss leaves, the prefix that is kept was really written
    /// there, and what is missing of the whole is counted to the byte as far as either file tells.
    #[test]
    fn a_power_loss_keeps_a_true_prefix(
        batches in batches(), cut_index in 0usize..700, cut_data in 0u64..100_000, zeroed: bool,
    ) {
        let (index, size) = segment(&batches);
        let whole = recover(&index, size).unwrap();
        let mut short = index[..cut_index.max(HEADER).min(index.len())].to_vec();
        if zeroed {
            short.resize(index.len(), 0);
        }
        let data = cut_data.min(size);
        let found = recover(&short, data).unwrap();
        prop_assert!(found.walk.position() <= data);
        let mut walk = Walk::new(&header());
        let full: Vec<_> = index[HEADER..].as_chunks().0.iter().filter_map(Record::decode).collect();
        for record in &full[..found.records as usize] {
            walk.step(record, data);
        }
        prop_assert_eq!(walk, found.walk);
        if short.len() >= index.len() && !zeroed {
            prop_assert_eq!(found.walk.offset() + found.lost(), whole.walk.offset());
        }
        prop_assert!(found.walk.offset() + found.lost() <= whole.walk.offset());
    }
}

#[test]
fn a_kill_between_record_and_bytes_leaves_a_void_record() {
    let (index, size) = segment(&[(Stream::Stdout, Some(10)), (Stream::Stderr, Some(20))]);
    let found = recover(&index, size - 20).unwrap();
    assert_eq!(found.records, 1);
    assert_eq!(found.walk.position(), 10);
    assert_eq!(found.unexplained, 0);
    assert!(found.void.is_some());
}

#[test]
fn a_kill_within_a_batch_leaves_a_record_that_is_put_right() {
    let (index, size) = segment(&[(Stream::Stdout, Some(10)), (Stream::Stderr, Some(20))]);
    let found = recover(&index, size - 5).unwrap();
    assert_eq!(found.records, 2);
    let (number, record) = found.correction.unwrap();
    assert_eq!(number, 1);
    assert!(matches!(
        record.entry,
        Entry::Data {
            length: 15,
            position: 10,
            ..
        }
    ));
    assert_eq!(found.walk.totals(), (610, 315));
}

#[test]
fn a_log_of_another_version_says_so() {
    let mut bytes = header().encode();
    bytes[8] = 9;
    assert_eq!(Header::decode(&bytes), Err(FormatError::Damaged));
    assert_eq!(Header::decode(&bytes[..50]), Err(FormatError::Short));
}

/// What fuzzing keeps (`fuzz/seeds/log_frames`), without a fuzzer.
#[test]
fn fuzzed_index_files_do_no_harm() {
    replay::replay("log_frames", checks::check);
}
