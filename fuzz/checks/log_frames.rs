// SPDX-License-Identifier: Apache-2.0
//! Index files of logs: whatever is in one, reading it neither panics nor believes bytes that
//! aren't there. Run by the fuzz target of this name and by `node`'s tests.

use super::format::{HEADER, Header, RECORD, Record, recover};

/// Holds for any bytes: eight of the first segment's offset, eight of its data file's size, and the
/// index.
pub(crate) fn check(bytes: &[u8]) {
    let Some((base, rest)) = bytes.split_first_chunk() else {
        return;
    };
    let Some((size, index)) = rest.split_first_chunk() else {
        return;
    };
    let (base, size) = (u64::from_le_bytes(*base), u64::from_le_bytes(*size));
    let _ = recover(index, size);
    // The same bytes as records behind a good header: else nearly no input would come that far.
    let records = behind_a_header(base, index);
    let found = recover(&records, size).expect("the header is good");
    assert!(found.walk.position() <= size);
    assert!(found.records <= ((records.len() - HEADER) / RECORD) as u64);
}

fn behind_a_header(base: u64, bytes: &[u8]) -> Vec<u8> {
    let header = Header {
        boot: [1; 16],
        base,
        created_us: 0,
        stdout_before: 0,
        stderr_before: 0,
        keep_bytes: 0,
        keep_s: 0,
    };
    let mut index = header.encode().to_vec();
    // Their checksums put right, for the same reason.
    for slot in bytes.as_chunks::<RECORD>().0 {
        let sound = (0..=u8::MAX).find_map(|check| {
            let mut candidate = *slot;
            candidate[RECORD - 1] = check;
            Record::decode(&candidate).map(|record| (record, candidate))
        });
        if let Some((record, candidate)) = sound {
            assert_eq!(record.encode(), candidate, "one meaning, one form");
            index.extend(candidate);
        }
    }
    index
}
