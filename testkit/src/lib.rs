// SPDX-License-Identifier: Apache-2.0
//! The VM test bed: real kernels for stories, the demo, the benchmark and a developer's own
//! experiments.
//!
//! It gets Debian's cloud kernel, builds a small initramfs with the daemon as `/init`, makes a
//! Debian root disk, puts freshly built binaries into a copy of it, and runs the result in QEMU.
//! Inside, a small agent (started by the node like any other workload) runs scripts for the host,
//! so a story drives a node from outside.
//!
//! It knows nothing of Aurae's API and links none of its crates: it sees the node as a user does.
//! Called by `xtask` and by the stories in `tests/`; [`skip`], [`needs_root`], [`until`],
//! [`soon`], [`how_much`], [`files_with`], [`program`], [`exec`] and [`stories`] are for the tests
//! of any crate.

pub mod accel;
pub mod agent;
pub mod bed;
pub mod cpio;
pub mod deb;
pub mod disk;
pub mod exec;
pub mod faults;
mod held;
pub mod initramfs;
pub mod kernel;
pub mod machine;
pub mod node;
mod program;
mod recipes;
mod servers;
mod skip;
mod soak;
pub mod stories;
pub mod tracer;
mod until;
pub mod watchdog;

pub use held::files_with;
pub use program::program;
pub use skip::{needs_root, skip};
pub use soak::how_much;
pub use until::{soon, until};
