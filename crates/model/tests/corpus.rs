// SPDX-License-Identifier: Apache-2.0
//! What fuzzing keeps of names and short texts (`fuzz/seeds/names`), without a fuzzer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by them"
)]

#[path = "../../../fuzz/checks/names.rs"]
mod checks;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn fuzzed_names_do_no_harm() {
    replay::replay("names", checks::check);
}
