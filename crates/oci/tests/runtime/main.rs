// SPDX-License-Identifier: Apache-2.0
//! The runtime on a real kernel: bundles of busybox, driven by the command line as engines do.
//! Needs root.
//!
//! The binary is also the runtime: executed again under the name `aurae-oci`, it is what `auraed
//! oci` is. So it has a `main` of its own: `cargo test -p oci --test runtime [NAME]`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails says so by panicking"
)]

mod bed;
mod beside;
mod given;
mod hostile;
mod lifecycle;
mod ordinary;
mod systemd;

use std::process::ExitCode;

use testkit::stories::Told;

type Story = (&'static str, fn());

fn main() -> ExitCode {
    let all: Vec<_> = std::env::args_os().collect();
    if let Some(words) = oci::words(&all) {
        return oci::main(&all, &words);
    }
    if all.get(1).is_some_and(|word| word == systemd::INSIDE) {
        systemd::inside();
        return ExitCode::SUCCESS;
    }
    let stories: Vec<Story> = [
        lifecycle::STORIES,
        hostile::STORIES,
        given::STORIES,
        beside::STORIES,
        ordinary::STORIES,
        systemd::STORIES,
    ]
    .concat();
    let root = || testkit::stories::by_root("these containers can be made by root alone");
    testkit::stories::run(&stories, root, |_, story| Told::by(story))
}
