// SPDX-License-Identifier: Apache-2.0
//! Fuzzes documents and names of images: `checks/documents.rs` says what must hold.
#![no_main]

#[path = "../checks/documents.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check(bytes));
