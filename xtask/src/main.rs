// SPDX-License-Identifier: Apache-2.0
//! The `xtask` binary.
fn main() {}
