// SPDX-License-Identifier: Apache-2.0
//! Real packets through real namespaces, all of the test's own: a node, a world behind it, and
//! cells. Needs root and `ip`; the machine's own links and rules are never touched.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod attacks;
mod bed;
mod cni;
mod frames;
mod life;
mod reach;
