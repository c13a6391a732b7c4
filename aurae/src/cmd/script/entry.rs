// SPDX-License-Identifier: Apache-2.0
//! Where a program begins: a file below a root, standard input, or text of the command line.

use std::io::Read;
use std::path::{Path, PathBuf};

use language::limits;
use language::program::Entry;
use language::root::{ReadError, Root};
use script::program::Place;

use super::data;
use crate::failure::Failure;

/// A program as it is named on the command line.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A file, by its path.
    File(PathBuf),
    /// The text of standard input.
    Stdin,
    /// The text of `-e`.
    Code(String),
}

/// Opens its root and finds its entry.
pub(crate) fn open(source: Source, root: Option<&Path>) -> Result<(Place, Entry), Failure> {
    match source {
        Source::File(file) => {
            let (root, entry) = below(&file, root)?;
            let entry = match data::form(&entry) {
                Some(form) => data::entry(&root, &entry, form)?,
                None => Entry::File(entry),
            };
            Ok((Place::Folder(root), entry))
        }
        Source::Stdin => {
            let text = read_stdin()?;
            Ok((folder(root)?, named("<stdin>", text)))
        }
        Source::Code(text) => Ok((folder(root)?, named("<eval>", text))),
    }
}

/// A file's root and its path below that.
pub(crate) fn below(file: &Path, root: Option<&Path>) -> Result<(Root, String), Failure> {
    if !file.exists() {
        return Err(Failure::new(format!("there is no file {}", file.display())));
    }
    if file.is_dir() {
        let folder = file.display();
        return Err(Failure::new(format!("{folder} is a folder, not a program"))
            .with_hint("name the file that acts; what it imports comes with it"));
    }
    let found = match root {
        None => Root::of_entry(file),
        Some(root) => Root::open(root).and_then(|root| {
            let entry = root.below(file)?;
            Ok((root, entry))
        }),
    };
    found.map_err(unreadable)
}

/// Why a file can't be read, for people.
pub(crate) fn unreadable(problem: ReadError) -> Failure {
    let outside = matches!(problem, ReadError::Outside(_));
    let failure = Failure::new(problem.to_string());
    if outside {
        return failure.with_hint("the root is the nearest folder with an aurae.json, or --root");
    }
    failure
}

/// A program that is no file has the working directory as its root: nothing else is near it.
fn folder(root: Option<&Path>) -> Result<Place, Failure> {
    let root = root.unwrap_or(Path::new("."));
    Root::open(root).map(Place::Folder).map_err(unreadable)
}

fn named(name: &str, text: String) -> Entry {
    Entry::Text {
        name: name.to_owned(),
        text,
    }
}

/// All of standard input.
pub(crate) fn read_stdin() -> Result<String, Failure> {
    read_bounded(std::io::stdin().lock(), "standard input")
}

/// All of a program's text; no more is read than a file may be long.
pub(crate) fn read_bounded(from: impl Read, name: &str) -> Result<String, Failure> {
    let mut text = Vec::new();
    let most = u64::try_from(limits::FILE_BYTES).unwrap_or(u64::MAX);
    let read = from.take(most.saturating_add(1)).read_to_end(&mut text);
    read.map_err(|problem| Failure::new(format!("can't read {name}: {problem}")))?;
    if text.len() > limits::FILE_BYTES {
        let message = format!("{name} is longer than {most} bytes, the most of a file");
        return Err(Failure::new(message));
    }
    String::from_utf8(text).map_err(|_| Failure::new(format!("{name} is not UTF-8")))
}
