// SPDX-License-Identifier: Apache-2.0
//! Other tools' declarations as programs: a Compose file, a manifest of Kubernetes with pods,
//! systemd's services and timers, or a crontab becomes TypeScript that a person goes on with. What
//! a pod or a schedule can't have is a comment with the reason, at its place. Pure: the documents
//! come in, a text goes out; `aurae import` reads and prints them. That the program is right is
//! for `check`.

mod compose;
mod crontab;
mod manifest;
mod units;
mod write;

use std::path::PathBuf;

use serde_json::Value;

pub use self::crontab::{Owner, crontab};
pub use self::units::units;
use crate::format::format;
use crate::source::Source;

/// Where documents are from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// What the file is called, for the program's first line: `compose.yaml`.
    pub name: String,
    /// Its folder, absolute: what relative folders of the node are relative to.
    pub folder: PathBuf,
    /// The time zone of the machine whose declarations they are, such as `Europe/Berlin`; `None`
    /// where it is UTC or unknown. Units and crontabs mean it where they name none.
    pub zone: Option<String>,
}

/// Why documents can't become a program at all.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NotImported {
    /// It has neither services nor pods.
    #[error(
        "it is neither a Compose file, which has `services`, nor a manifest, which has a `kind`"
    )]
    Neither,
    /// A Compose file is one document.
    #[error("it has {0} documents: a Compose file is one")]
    SeveralProjects(usize),
    /// A part has another form than it must have.
    #[error("{path} {words}")]
    Malformed {
        /// `services.web.environment`.
        path: String,
        /// What it must be.
        words: String,
    },
    /// A unit can't be imported.
    #[error("{0} {1}")]
    Unit(String, String),
    /// A crontab has no entry.
    #[error("it has no entry of a crontab")]
    NoEntry,
    /// A program was written that doesn't parse, which a test excludes.
    #[error("the program that was made of it is broken: {0}")]
    Broken(String),
}

/// The program that declares what the documents of one file do.
///
/// # Errors
/// They are no such file.
pub fn program(documents: Vec<Value>, origin: &Origin) -> Result<String, NotImported> {
    let documents: Vec<_> = documents.into_iter().filter(|one| !one.is_null()).collect();
    let has = |name: &str| documents.iter().any(|one| one.get(name).is_some());
    let text = match (has("services"), has("kind")) {
        (true, false) => {
            let count = documents.len();
            let mut projects = documents.into_iter();
            match (projects.next(), count) {
                (Some(project), 1) => compose::program(project, origin)?,
                _ => return Err(NotImported::SeveralProjects(count)),
            }
        }
        (false, true) => manifest::program(documents, origin),
        _ => return Err(NotImported::Neither),
    };
    finished(text)
}

/// The program in the one style.
fn finished(text: String) -> Result<String, NotImported> {
    let source = Source::new("imported.ts", text);
    format(&source).map_err(|findings| {
        let first = findings.first().map(|finding| finding.message.clone());
        NotImported::Broken(first.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests;
