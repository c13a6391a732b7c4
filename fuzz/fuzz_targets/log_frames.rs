// SPDX-License-Identifier: Apache-2.0
//! Fuzzes index files of logs: `checks/log_frames.rs` says what must hold. It has the module
//! itself: `node`, with all that it stands on, would take minutes to build.
#![no_main]

#[path = "../checks/log_frames.rs"]
mod checks;
#[allow(dead_code, unused_imports, reason = "the check doesn't write logs")]
#[path = "../../crates/observe/src/format/mod.rs"]
mod format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check(bytes));
