// SPDX-License-Identifier: Apache-2.0
//! What can go wrong with images. Each variant names the digest, file or field that it is about;
//! `Display` says what to do and never repeats the source.

use std::io;
use std::path::{Path, PathBuf};

use model::error::{Error, Reason};

use crate::digest::Digest;

/// Shorthand for what most functions here return.
pub type Result<T> = std::result::Result<T, ImageError>;

/// A failure of the image subsystem.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A text that was given isn't a digest, reference or platform.
    #[error("{kind} {text:?}: {problem}")]
    Malformed {
        /// `digest`, `reference` or `platform`.
        kind: &'static str,
        /// What was given, cut to 300 bytes.
        text: String,
        /// What is wrong with it, and what is expected.
        problem: String,
    },
    /// A manifest, index or configuration can't be used.
    #[error("{document}: {problem}")]
    Document {
        /// Which one: `manifest sha256:…`, `the archive's manifest.json`.
        document: String,
        /// The field, and what is wrong with it.
        problem: String,
    },
    /// Nothing in the index is for this platform.
    #[error("the image has nothing for {wanted}; it has {offered}")]
    NoPlatform {
        /// The platform that was asked for.
        wanted: String,
        /// What the index lists, with commas.
        offered: String,
    },
    /// A bound was passed.
    #[error("{what} is more than the {limit} that are allowed")]
    TooMuch {
        /// What, with its size where it is known: `manifest sha256:… of 5000000 bytes`.
        what: String,
        /// The bound, with its unit.
        limit: String,
    },
    /// The bytes aren't those that the digest names.
    #[error("the bytes of {expected} have the digest {found}: they were changed on their way")]
    WrongDigest {
        /// The digest that was asked for.
        expected: Digest,
        /// The digest of what came.
        found: Digest,
    },
    /// There are more or fewer bytes than the descriptor says.
    #[error("{digest} has {found} bytes, its descriptor says {expected}")]
    WrongSize {
        /// The digest that was asked for.
        digest: Digest,
        /// Bytes, by the descriptor.
        expected: u64,
        /// Bytes that came; of a stream that is too long, how many until it was cut.
        found: u64,
    },
    /// It isn't in the store.
    #[error("{what} is not in the store")]
    NotFound {
        /// The name or digest.
        what: String,
    },
    /// Something else works on it now.
    #[error("{what} is in use: {by}")]
    Busy {
        /// Which file or digest.
        what: String,
        /// By what, and what to do.
        by: String,
    },
    /// The disk is full, or a quota is reached.
    #[error("no space is left for {}: free some, or prune images", path.display())]
    DiskFull {
        /// What was being written.
        path: PathBuf,
    },
    /// A file of the store isn't what it must be.
    #[error("{}: {problem}", path.display())]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// An entry of a layer is refused, or the stream is broken.
    #[error("layer {layer}: {problem}")]
    Layer {
        /// The layer's diff id.
        layer: Digest,
        /// Which entry, and why.
        problem: String,
    },
    /// The kernel refused.
    #[error("can't {doing} {}", path.display())]
    Io {
        /// A verb: `open`, `rename`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ImageError {
    /// A text that isn't what it should be.
    pub(crate) fn malformed(kind: &'static str, text: &str, problem: impl Into<String>) -> Self {
        Self::Malformed {
            kind,
            text: text.chars().take(300).collect(),
            problem: problem.into(),
        }
    }

    /// What is wrong with a text that was given, for a message that names its field.
    pub fn problem(&self) -> String {
        match self {
            Self::Malformed { text, problem, .. } => format!("is {text:?}: {problem}"),
            other => other.to_string(),
        }
    }

    /// A document that can't be used.
    pub(crate) fn document(document: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Document {
            document: document.into(),
            problem: problem.into(),
        }
    }

    /// Sorts an error of a file: a full disk has a name of its own.
    pub(crate) fn io(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::DiskFull { path },
            _ => Self::Io {
                doing,
                path,
                source,
            },
        }
    }
}

impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        let mut text = error.to_string();
        let reason = match &error {
            ImageError::Malformed { .. } => Reason::InvalidField,
            ImageError::NotFound { .. } => Reason::NotFound,
            ImageError::TooMuch { .. } | ImageError::DiskFull { .. } => Reason::LimitExceeded,
            ImageError::Busy { .. } => Reason::Conflict,
            ImageError::Document { .. }
            | ImageError::NoPlatform { .. }
            | ImageError::WrongDigest { .. }
            | ImageError::WrongSize { .. }
            | ImageError::Layer { .. } => Reason::Unsupported,
            ImageError::Corrupt { .. } => Reason::Degraded,
            ImageError::Io { source, .. } => {
                text = format!("{text}: {source}");
                Reason::Internal
            }
        };
        Error::new(reason, text)
    }
}
