// SPDX-License-Identifier: Apache-2.0
//! Stories: what a node promises, tried on a real kernel from outside, as its users would.
//!
//! Stories that can share a node do, since a boot takes seconds; each uses names of its own and
//! leaves nothing behind that another could stumble on. They are run by `./x test`; an argument
//! picks those whose name holds it.

mod boot;
mod callers;
mod cells;
mod container;
mod daemon;
mod debian;
mod executables;
mod guide;
mod language;
mod logs;
mod package;
mod power;
mod story;
mod systemd;
mod tenants;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use testkit::node::Bed;

use crate::story::{Chapter, Tally};

/// Boots nodes and tells stories on them.
#[derive(Parser)]
struct Arguments {
    /// Where cargo builds; images are kept there too
    #[arg(long, value_name = "DIR")]
    target: PathBuf,
    /// The folder with auraed, aurae and node-agent
    #[arg(long, value_name = "DIR")]
    binaries: PathBuf,
    /// Only the stories whose `chapter: story` holds this
    filter: Option<String>,
}

const CHAPTERS: &[&Chapter] = &[
    &boot::CHAPTER,
    &callers::CHAPTER,
    &tenants::CHAPTER,
    &cells::CHAPTER,
    &executables::CHAPTER,
    &guide::CHAPTER,
    &logs::CHAPTER,
    &language::CHAPTER,
    &daemon::CHAPTER,
    &systemd::CHAPTER,
    &debian::CHAPTER,
];

/// Told where they are named alone: each boot is a minute's work of a translated processor
/// (`./x soak deb`).
const LONG: &[&Chapter] = &[&package::CHAPTER];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let bed = match Bed::new(&arguments.target, &arguments.binaries) {
        Ok(bed) => bed,
        Err(error) => {
            eprintln!("stories: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let mut tally = Tally::default();
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let named = LONG.iter().filter(|it| filter.starts_with(it.name));
    for chapter in CHAPTERS.iter().chain(named) {
        tally.tell(&bed, chapter, filter);
    }
    tally.close()
}
