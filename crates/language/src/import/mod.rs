// SPDX-License-Identifier: Apache-2.0
//! Other tools' declarations as programs: a Compose file, or a manifest of Kubernetes with pods,
//! becomes TypeScript that a person goes on with. What a pod can't have is a comment with the
//! reason, at its place. Pure: the documents come in, a text goes out; `aurae import` reads and
//! prints them. That the program is right is for `check`.

mod compose;
mod manifest;
mod write;

use std::path::PathBuf;

use serde_json::Value;

use crate::format::format;
use crate::source::Source;

/// Where documents are from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// What the file is called, for the program's first line: `compose.yaml`.
    pub name: String,
    /// Its folder, absolute: what relative folders of the node are relative to.
    pub folder: PathBuf,
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
    let source = Source::new("imported.ts", text);
    format(&source).map_err(|findings| {
        let first = findings.first().map(|finding| finding.message.clone());
        NotImported::Broken(first.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests;
