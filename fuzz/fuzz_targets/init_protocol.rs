// SPDX-License-Identifier: Apache-2.0
//! Packets between daemon and inits: decoding never panics, and what decodes is written again as it
//! was.
#![no_main]

use init::protocol::codec::Packet;
use init::protocol::{CellEvent, CellRequest, NodeEvent, NodeRequest};
use libfuzzer_sys::fuzz_target;

fn both_ways<P: Packet>(bytes: &[u8]) {
    if let Ok(message) = P::decode(bytes) {
        let mut again = Vec::new();
        if message.encode(&mut again).is_ok() {
            assert!(P::decode(&again).is_ok());
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    both_ways::<NodeRequest>(bytes);
    both_ways::<NodeEvent>(bytes);
    both_ways::<CellRequest>(bytes);
    both_ways::<CellEvent>(bytes);
});
