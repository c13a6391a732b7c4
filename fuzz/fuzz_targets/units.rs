// SPDX-License-Identifier: Apache-2.0
//! Fuzzes unit files: `checks/units.rs` says what must hold.
#![no_main]

#[path = "../checks/units.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check(bytes));
