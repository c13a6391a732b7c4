// SPDX-License-Identifier: Apache-2.0
//! The images of a node, with real files and a real unpacker: what cells get of them, and what is
//! kept, mended and collected. This binary plays the unpacker, too: it must be a process with one
//! thread, so it has a `main` of its own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "of a test"
)]

mod bed;
mod roots;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use testkit::stories::Told;

const STORIES: &[(&str, fn())] = &[
    (
        "an_image_is_resolved_to_its_layers_uppermost_first",
        roots::an_image_is_resolved_to_its_layers_uppermost_first,
    ),
    (
        "what_a_cell_runs_is_neither_removed_nor_pruned",
        roots::what_a_cell_runs_is_neither_removed_nor_pruned,
    ),
    (
        "a_cell_is_adopted_whose_image_lost_its_name",
        roots::a_cell_is_adopted_whose_image_lost_its_name,
    ),
    (
        "an_image_of_another_platform_is_refused_by_name",
        roots::an_image_of_another_platform_is_refused_by_name,
    ),
    (
        "a_present_image_is_resolved_without_the_disk",
        roots::a_present_image_is_resolved_without_the_disk,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("unpack") => image::unpack::command(&arguments[2]),
        _ => testkit::stories::run(STORIES, || Ok(()), |_, story| Told::by(story)),
    }
}
