// SPDX-License-Identifier: Apache-2.0
//! The `auraed` binary.
fn main() {}
