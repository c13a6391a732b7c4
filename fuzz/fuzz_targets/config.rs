// SPDX-License-Identifier: Apache-2.0
//! Fuzzes the daemon's configuration: `checks/config.rs` says what must hold.
#![no_main]

#[allow(dead_code, reason = "the check has no links")]
#[path = "../../auraed/src/net/config.rs"]
mod links;
/// Where the daemon has it.
mod net {
    pub(crate) use super::links as config;
}
#[path = "../checks/config.rs"]
mod checks;
#[allow(
    dead_code,
    unused_imports,
    reason = "the daemon uses what the check doesn't"
)]
#[path = "../../auraed/src/config/mod.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check(bytes));
