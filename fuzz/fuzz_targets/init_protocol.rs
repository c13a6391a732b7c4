// SPDX-License-Identifier: Apache-2.0
//! Fuzzes packets between daemon and inits: `checks/init_protocol.rs` says what must hold.
#![no_main]

#[path = "../checks/init_protocol.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check(bytes));
