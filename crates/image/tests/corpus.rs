// SPDX-License-Identifier: Apache-2.0
//! Unpacks the layers and reads the documents that fuzzing has kept (`fuzz/seeds/layer`,
//! `fuzz/seeds/documents`), without a fuzzer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "of a test"
)]

#[path = "../../../fuzz/checks/documents.rs"]
mod documents;
#[path = "../../../fuzz/checks/layer.rs"]
mod layer;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

use proptest::prelude::*;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
    let entries = std::fs::read_dir(format!("{folder}/{target}")).unwrap();
    let mut seeds: Vec<Vec<u8>> = entries
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    seeds.sort();
    seeds
}

/// A document or name, and pieces of it that are changed.
fn mutated_document() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "", "\0", "null", "{}", "[]", "-1", "1e99", "/", ":", "@", "sha256:", ".", "..", "\u{fffd}",
    ]);
    let index = any::<prop::sample::Index>;
    let changes = prop::collection::vec((index(), index(), pieces), 0..6);
    (prop::sample::select(seeds("documents")), changes).prop_map(|(mut seed, changes)| {
        for (from, length, piece) in changes {
            let from = from.index(seed.len() + 1);
            let length = length.index(8).min(seed.len() - from);
            seed.splice(from..from + length, piece.bytes());
        }
        seed
    })
}

/// A seed, and bytes of it that are changed.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let seeds = seeds("layer");
    let bytes = prop::sample::select(vec![
        0, b'.', b'/', b'0', b'1', b'2', b'5', b'7', b'9', b'x', b'g', b'L', b'S', 0x80, 0xff,
    ]);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), bytes), 0..12);
    (
        prop::sample::select(seeds.clone()),
        prop::sample::select(seeds),
        changes,
    )
        .prop_map(|(mut seed, other, changes)| {
            // Without its end, so that the other one goes on with the same tree.
            let end = seed.len().saturating_sub(1024);
            seed.truncate(end.next_multiple_of(512).min(seed.len()));
            seed.extend(other);
            for (at, byte) in changes {
                let at = at.index(seed.len());
                seed[at] = byte;
            }
            seed
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(64)
    ))]

    /// Where there is no fuzzer, this one: seeds one behind the other, with changed bytes.
    #[test]
    fn mutated_layers_stay_in_their_folder(bytes in mutated()) {
        layer::check(&bytes);
    }

    #[test]
    fn mutated_documents_mean_one_thing(bytes in mutated_document()) {
        documents::check(&bytes);
    }
}

#[test]
fn fuzzed_documents_mean_one_thing() {
    replay::replay("documents", documents::check);
}

#[test]
fn fuzzed_layers_stay_in_their_folder() {
    replay::replay("layer", layer::check);
}
