// SPDX-License-Identifier: Apache-2.0
//! Packets between daemon and inits: decoding never panics, and what decodes is written again as
//! the same message. Run by the fuzz target of this name and by `init`'s tests.

use std::fmt::Debug;

use init::protocol::codec::Packet;
use init::protocol::{CellEvent, CellRequest, NodeEvent, NodeRequest, Orphan};

fn both_ways<P: Packet + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(message) = P::decode(bytes) {
        let mut again = Vec::new();
        message
            .encode(&mut again)
            .expect("what was read can be written");
        assert_eq!(P::decode(&again).expect("and be read again"), message);
    }
}

/// Holds for any bytes.
pub(crate) fn check(bytes: &[u8]) {
    both_ways::<NodeRequest>(bytes);
    both_ways::<NodeEvent>(bytes);
    both_ways::<CellRequest>(bytes);
    both_ways::<CellEvent>(bytes);
    both_ways::<Orphan>(bytes);
}
