// SPDX-License-Identifier: Apache-2.0
//! What can go wrong with plugins, named by plugin and code.

use std::path::PathBuf;

/// A shorthand for results of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why plugins could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A plugin said no.
    #[error("plugin {plugin}, {command}: {message} (code {code}){details}")]
    Plugin {
        /// Its type, which is its file's name.
        plugin: String,
        /// `ADD`, `DEL` and others.
        command: &'static str,
        /// 1 to 99 are of the specification, 100 and above the plugin's own.
        code: u64,
        /// In its words.
        message: String,
        /// More of them, behind a colon, or nothing.
        details: String,
    },
    /// A plugin ended without a result or an error that can be read.
    #[error("plugin {plugin}, {command}: {reason}; it said {said:?}")]
    Unreadable {
        /// Its type.
        plugin: String,
        /// The command.
        command: &'static str,
        /// What is wrong.
        reason: String,
        /// The end of what it wrote for humans, at most 512 bytes.
        said: String,
    },
    /// A plugin took too long and was killed.
    #[error("plugin {plugin}, {command}: no answer within {seconds} s; it was killed")]
    Timeout {
        /// Its type.
        plugin: String,
        /// The command.
        command: &'static str,
        /// How long it had.
        seconds: u64,
    },
    /// A plugin isn't in any of the folders.
    #[error("plugin {plugin}: not found in {folders}")]
    NotFound {
        /// Its type.
        plugin: String,
        /// Where it was looked for.
        folders: String,
    },
    /// A configuration can't be used.
    #[error("CNI configuration {name}: {reason}")]
    Configuration {
        /// The file, or the network's name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A request that can't be meant.
    #[error("{field}: {reason}")]
    Request {
        /// The field.
        field: &'static str,
        /// What is expected.
        reason: &'static str,
    },
    /// A file or a program can't be reached.
    #[error("{}: {what}", path.display())]
    Io {
        /// The file or program.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

/// The most of a plugin's own words that is said on, in characters of each text.
const MOST: usize = 512;

impl Error {
    /// A plugin's words on one line, cut: they are for a log and for a client.
    pub(super) fn words(text: &str) -> String {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let mut said: String = text.chars().take(MOST).map(plain).collect();
        if text.chars().nth(MOST).is_some() {
            said.push('…');
        }
        said
    }

    pub(super) fn namespace(path: &std::path::Path, error: kernel::Error) -> Self {
        Error::io(path, "looking at a network namespace")(std::io::Error::other(error))
    }

    pub(super) fn configuration(name: &str, reason: impl Into<String>) -> Self {
        Error::Configuration {
            name: name.to_owned(),
            reason: reason.into(),
        }
    }

    pub(super) fn request(field: &'static str, reason: &'static str) -> Self {
        Error::Request { field, reason }
    }

    pub(super) fn io(
        path: &std::path::Path,
        what: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Error::Io { path, what, source }
    }
}
