// SPDX-License-Identifier: Apache-2.0
//! The crate's error: a sentence, with what was being done before it.
//!
//! A text and not an enum: the process of a container sends its error to the process that made it,
//! and the engine reads it as text. What podman looks for in it ("executable file not found in
//! $PATH", "container does not exist") is written as runc has it.

use std::fmt;
use std::path::Path;

/// A shorthand for results of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    text: String,
    /// The errno of a call that failed.
    errno: Option<i32>,
}

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Error {
        Error {
            text: text.into(),
            errno: None,
        }
    }

    /// Whether the errno is this one.
    pub(crate) fn is(&self, errno: i32) -> bool {
        self.errno == Some(errno)
    }

    /// Puts what was being done before the text.
    pub(crate) fn while_doing(mut self, doing: impl fmt::Display) -> Error {
        self.text = format!("{doing}: {}", self.text);
        self
    }
}

/// An error of this sentence.
pub(crate) fn refuse<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::new(text))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<kernel::Error> for Error {
    fn from(error: kernel::Error) -> Error {
        Error {
            errno: Some(error.errno()),
            text: error.to_string(),
        }
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Error {
        Error {
            errno: Some(errno.raw_os_error()),
            text: errno.to_string(),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error {
            errno: error.raw_os_error(),
            text: error.to_string(),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Error {
        Error::new(error.to_string())
    }
}

/// Says what was being done.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl fmt::Display) -> Result<T>;
    fn doing_on(self, what: &str, path: &Path) -> Result<T>;
}

impl<T, E: Into<Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| error.into().while_doing(what))
    }

    fn doing_on(self, what: &str, path: &Path) -> Result<T> {
        self.doing(format_args!("{what} {}", path.display()))
    }
}
