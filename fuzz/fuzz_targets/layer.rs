// SPDX-License-Identifier: Apache-2.0
//! Fuzzes layers of images: `checks/layer.rs` says what must hold.
#![no_main]

#[path = "../checks/layer.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check(bytes));
