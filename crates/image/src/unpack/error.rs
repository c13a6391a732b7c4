// SPDX-License-Identifier: Apache-2.0
//! Why a layer isn't unpacked. It crosses from the unpacker's process to its parent, to whom it is
//! an allegation: every text is cut there.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::ImageError;

/// The longest text of an error, in characters.
const MAX_TEXT: usize = 500;

/// A failure of the unpacker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum UnpackError {
    /// The stream is cut, is no tar stream, or is packed in a way that isn't known.
    #[error("{problem}")]
    Stream {
        /// In words.
        problem: String,
    },
    /// An entry that is refused.
    #[error("entry {entry:?}: {problem}")]
    Entry {
        /// Its path, as the layer has it.
        entry: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A bound was passed.
    #[error("{what} is more than the {limit} that are allowed")]
    TooMuch {
        /// What there is too much of.
        what: String,
        /// The bound, with its unit.
        limit: String,
    },
    /// The tar stream isn't the one that the image's configuration names.
    #[error("its tar stream has the digest {found}: the image lies, or was changed")]
    WrongDigest {
        /// The digest of what came.
        found: Digest,
    },
    /// The disk is full, or a quota is reached.
    #[error("no space is left: free some, or prune images")]
    DiskFull,
    /// The kernel refused something that isn't the layer's fault.
    #[error("can't {doing} {entry:?}: {problem}")]
    Kernel {
        /// A verb.
        doing: String,
        /// The path of the entry.
        entry: String,
        /// What the kernel said.
        problem: String,
    },
}

impl UnpackError {
    /// Of the stream as a whole.
    pub(crate) fn stream(problem: impl Into<String>) -> Self {
        Self::Stream {
            problem: problem.into(),
        }
    }

    /// Of one entry.
    pub(crate) fn entry(entry: &[u8], problem: impl Into<String>) -> Self {
        Self::Entry {
            entry: shown(entry),
            problem: problem.into(),
        }
    }

    /// Of a bound.
    pub(crate) fn too_much(what: impl Into<String>, limit: impl Into<String>) -> Self {
        Self::TooMuch {
            what: what.into(),
            limit: limit.into(),
        }
    }

    /// Sorts what the kernel said: a full disk has a name of its own.
    pub(crate) fn kernel(doing: &str, entry: &[u8], errno: Errno) -> Self {
        match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Self::DiskFull,
            _ => Self::Kernel {
                doing: doing.to_owned(),
                entry: shown(entry),
                problem: errno.to_string(),
            },
        }
    }

    /// The same with short texts and no control characters: what another process has said.
    pub(crate) fn tamed(self) -> Self {
        let tame = |text: String| -> String {
            let short = text.chars().take(MAX_TEXT);
            short
                .map(|c| if c.is_control() { '\u{fffd}' } else { c })
                .collect()
        };
        match self {
            Self::Stream { problem } => Self::Stream {
                problem: tame(problem),
            },
            Self::Entry { entry, problem } => Self::Entry {
                entry: tame(entry),
                problem: tame(problem),
            },
            Self::TooMuch { what, limit } => Self::TooMuch {
                what: tame(what),
                limit: tame(limit),
            },
            Self::Kernel {
                doing,
                entry,
                problem,
            } => Self::Kernel {
                doing: tame(doing),
                entry: tame(entry),
                problem: tame(problem),
            },
            whole @ (Self::WrongDigest { .. } | Self::DiskFull) => whole,
        }
    }

    /// As an error of the image, about this layer.
    pub(crate) fn of_layer(self, layer: &Digest) -> ImageError {
        match self {
            Self::TooMuch { what, limit } => ImageError::TooMuch {
                what: format!("layer {layer}: {what}"),
                limit,
            },
            Self::WrongDigest { found } => ImageError::WrongDigest {
                expected: layer.clone(),
                found,
            },
            Self::DiskFull => ImageError::DiskFull {
                path: layer.file_name().into(),
            },
            other => ImageError::Layer {
                layer: layer.clone(),
                problem: other.to_string(),
            },
        }
    }
}

/// A path as text, cut.
fn shown(entry: &[u8]) -> String {
    String::from_utf8_lossy(entry)
        .chars()
        .take(MAX_TEXT)
        .collect()
}
