// SPDX-License-Identifier: Apache-2.0
//! Fuzzes programs: `checks/program.rs` says what must hold.
#![no_main]

#[path = "../checks/program.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check(bytes));
