// SPDX-License-Identifier: Apache-2.0
//! Fuzzes names and other short texts that people write: `checks/names.rs` says what must hold.
#![no_main]

#[path = "../checks/names.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check(bytes));
