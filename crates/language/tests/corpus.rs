// SPDX-License-Identifier: Apache-2.0
//! What fuzzing keeps of programs (`fuzz/seeds/program`), without a fuzzer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by them"
)]

#[path = "../../../fuzz/checks/program.rs"]
mod checks;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn fuzzed_programs_do_no_harm() {
    replay::replay("program", checks::check);
}
