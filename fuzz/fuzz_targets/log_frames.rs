// SPDX-License-Identifier: Apache-2.0
//! Index files of logs: whatever is in one, reading it neither panics nor believes bytes that
//! aren't there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use node::observe::format::{HEADER, Header, RECORD, Record, recover};

fuzz_target!(|input: (u64, u64, &[u8])| {
    let (base, size, bytes) = input;
    let _ = recover(bytes, size);
    // The same bytes as records behind a good header: else nearly no input would come that far.
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
    let found = recover(&index, size).expect("the header is good");
    assert!(found.walk.position() <= size);
    assert!(found.records <= ((index.len() - HEADER) / RECORD) as u64);
});
