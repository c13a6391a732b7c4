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
#[path = "../registry/hostile.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod hostile;
#[path = "../registry/images.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod images;
mod mends;
mod roots;
mod streams;
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
        "a_folder_that_a_layer_implies_is_what_lower_layers_say",
        roots::a_folder_that_a_layer_implies_is_what_lower_layers_say,
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
    (
        "a_changed_blob_is_put_aside_and_brought_again",
        mends::a_changed_blob_is_put_aside_and_brought_again,
    ),
    (
        "a_changed_document_is_brought_again",
        mends::a_changed_document_is_brought_again,
    ),
    (
        "a_changed_layer_is_unpacked_anew_unless_a_cell_runs_it",
        mends::a_changed_layer_is_unpacked_anew_unless_a_cell_runs_it,
    ),
    (
        "a_full_disk_takes_what_was_used_longest_ago",
        mends::a_full_disk_takes_what_was_used_longest_ago,
    ),
    (
        "a_layer_is_unpacked_while_it_comes",
        streams::a_layer_is_unpacked_while_it_comes,
    ),
    (
        "a_layer_that_is_no_blob_at_its_end_gets_no_place",
        streams::a_layer_that_is_no_blob_at_its_end_gets_no_place,
    ),
    (
        "a_pull_that_is_given_up_ends_its_unpacker_and_goes_on_later",
        streams::a_pull_that_is_given_up_ends_its_unpacker_and_goes_on_later,
    ),
    (
        "images_that_can_not_be_opened_say_why",
        mends::images_that_can_not_be_opened_say_why,
    ),
];

/// An empty store.
fn empty() -> (tempfile::TempDir, image::store::Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = image::store::Store::open(&folder.path().join("images")).unwrap();
    (folder, store)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("unpack") => {
            // As `auraed unpack`: it ends with the thread that has started it.
            let kill = Some(rustix::process::Signal::KILL);
            rustix::process::set_parent_process_death_signal(kill).unwrap();
            image::unpack::command(&arguments[2])
        }
        Some("relieve") => {
            mends::relieve(std::path::Path::new(&arguments[2]));
            ExitCode::SUCCESS
        }
        _ => testkit::stories::run(STORIES, || Ok(()), |_, story| Told::by(story)),
    }
}
