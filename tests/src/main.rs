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
mod elsewhere;
mod executables;
mod guide;
mod hostile;
mod image;
mod labels;
mod language;
mod logins;
mod logs;
mod package;
mod pods;
mod power;
mod servers;
mod story;
mod systemd;
mod tenants;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;

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

/// Those that take longest come first, so that none is left over at the end.
const CHAPTERS: &[&Chapter] = &[
    &boot::CHAPTER,
    &debian::CHAPTER,
    &servers::CHAPTER,
    &hostile::CHAPTER,
    &tenants::CHAPTER,
    &executables::CHAPTER,
    &cells::CHAPTER,
    &language::CHAPTER,
    &systemd::CHAPTER,
    &daemon::CHAPTER,
    &guide::CHAPTER,
    &pods::CHAPTER,
    &elsewhere::CHAPTER,
    &logs::CHAPTER,
    &callers::CHAPTER,
    &labels::CHAPTER,
];

/// So many nodes are up at the same time. A story waits for a third of its time.
const NODES: usize = 2;

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
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let named = LONG.iter().filter(|it| filter.starts_with(it.name));
    let chapters = Mutex::new(CHAPTERS.iter().chain(named));
    let next = || {
        let mut chapters = chapters.lock().unwrap_or_else(PoisonError::into_inner);
        chapters.next()
    };
    let tell = || {
        let mut tally = Tally::default();
        while let Some(chapter) = next() {
            tally.tell(&bed, chapter, filter);
        }
        tally
    };
    let tally = thread::scope(|scope| {
        let tellers: Vec<_> = (0..NODES).map(|_| scope.spawn(tell)).collect();
        let told = tellers.into_iter().map(|teller| teller.join());
        told.map(|told| told.unwrap_or_else(|_| Tally::broken_off()))
            .fold(Tally::default(), Tally::with)
    });
    tally.close()
}
