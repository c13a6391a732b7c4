// SPDX-License-Identifier: Apache-2.0
//! What fuzzing keeps of units and short texts (`fuzz/seeds/units`), without a fuzzer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by them"
)]

#[path = "../../../fuzz/checks/units.rs"]
mod checks;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn fuzzed_units_do_no_harm() {
    replay::replay("units", checks::check);
}
