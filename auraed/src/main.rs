// SPDX-License-Identifier: Apache-2.0
//! The `auraed` binary.
mod config;
fn main() {}
