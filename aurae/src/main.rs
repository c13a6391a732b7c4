// SPDX-License-Identifier: Apache-2.0
//! The `aurae` binary.
fn main() {}
