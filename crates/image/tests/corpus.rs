// SPDX-License-Identifier: Apache-2.0
//! Unpacks the layers that fuzzing has kept (`fuzz/seeds/layer`), without a fuzzer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "of a test"
)]

#[path = "../../../fuzz/checks/layer.rs"]
mod layer;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn fuzzed_layers_stay_in_their_folder() {
    replay::replay("layer", layer::check);
}
