// SPDX-License-Identifier: Apache-2.0
//! Decodes the packets that fuzzing has kept (`fuzz/seeds/init_protocol`), without a fuzzer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by them"
)]

#[path = "../../../fuzz/checks/init_protocol.rs"]
mod checks;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn fuzzed_packets_do_no_harm() {
    replay::replay("init_protocol", checks::check);
}
