// SPDX-License-Identifier: Apache-2.0
//! Why a registry did not give or take an image. Each error names the host and the object, and
//! says what to do where that is known. What an error means for a retry and for the next mirror
//! is decided here, too, in one place.

use std::path::PathBuf;
use std::time::Duration;

use model::error::{Error, Reason};

use crate::digest::Digest;
use crate::error::ImageError;

/// Why a pull, a push or a look at a registry failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The file of registries and hosts is wrong.
    #[error("{path}: {problem}")]
    Config {
        /// The file that names registries and hosts, or a certificate that it names.
        path: PathBuf,
        /// The defect, with its key where known.
        problem: String,
    },
    /// A docker `config.json` that can't be read.
    #[error("{path}: {problem}")]
    Credentials {
        /// The file's path.
        path: PathBuf,
        /// The defect, with its key. Never a secret.
        problem: String,
    },
    /// A credential helper gave no usable answer.
    #[error("the credential helper {program} for {host}: {problem}")]
    Helper {
        /// The program, `docker-credential-NAME`.
        program: String,
        /// The registry that it was asked about.
        host: String,
        /// The defect. Never a secret.
        problem: String,
    },
    /// No connection, or one that broke.
    #[error("{host} can't be reached: {problem}")]
    Unreachable {
        /// `host:port`.
        host: String,
        /// The system's error.
        problem: String,
    },
    /// The host's certificate is not accepted, or it does not accept ours.
    #[error(
        "TLS with {host} failed: {problem} (a private CA is named by `ca` of [host.\"{host}\"])"
    )]
    Untrusted {
        /// `host:port`.
        host: String,
        /// The defect of the certificate, or the alert.
        problem: String,
    },
    /// The host sends nothing, or too little.
    #[error("{host} sent {what} slower than is waited for ({after:?})")]
    Slow {
        /// `host:port`.
        host: String,
        /// What was asked for.
        what: String,
        /// How long was waited.
        after: Duration,
    },
    /// The whole did not end in time.
    #[error("{what} took longer than its deadline of {after:?}")]
    Deadline {
        /// The image's reference.
        what: String,
        /// The deadline.
        after: Duration,
    },
    /// The registry wants other credentials (401), or these may not do that (403).
    #[error("{host} refuses {what}: {problem}")]
    Refused {
        /// `host:port`.
        host: String,
        /// What was asked for.
        what: String,
        /// What the registry says, and which credentials were used.
        problem: String,
    },
    /// The registry has no such thing (404).
    #[error("{host} has no {what}")]
    NotFound {
        /// `host:port`.
        host: String,
        /// What was asked for.
        what: String,
    },
    /// Any other answer that isn't a success.
    #[error("{host} answered {status} to {what}{problem}")]
    Answer {
        /// `host:port`.
        host: String,
        /// What was asked for.
        what: String,
        /// The HTTP status.
        status: u16,
        /// What the registry says: empty, or `: ` and its words.
        problem: String,
        /// How long the registry wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// An answer that is not of the protocol.
    #[error("{host} answered {what} with what the protocol has not: {problem}")]
    Malformed {
        /// `host:port`.
        host: String,
        /// What was asked for.
        what: String,
        /// The defect.
        problem: String,
    },
    /// An answer beyond its bound.
    #[error("{host} sends more than {limit} bytes for {what}")]
    TooLarge {
        /// `host:port`.
        host: String,
        /// What was asked for.
        what: String,
        /// The bound in bytes.
        limit: u64,
    },
    /// Content that is not what its digest or its size says.
    #[error("{host} lies about {digest}: {problem}")]
    Lie {
        /// `host:port`.
        host: String,
        /// The digest that was asked for.
        digest: Digest,
        /// What came instead.
        problem: String,
    },
    /// A redirect, or a place named by the registry, that is not followed.
    #[error("{host} points to {target}, which is not followed: {problem}")]
    Redirect {
        /// `host:port` of who points there.
        host: String,
        /// The URL's origin; its path and query can hold secrets.
        target: String,
        /// Why not, and what to configure.
        problem: String,
    },
    /// Credentials would be readable on the way.
    #[error(
        "credentials for {host} are not sent over plain HTTP; \
         `credentials_over_plain_http = true` in [host.\"{host}\"] allows it"
    )]
    PlainCredentials {
        /// `host:port`.
        host: String,
    },
    /// Docker's image manifest version 1, which has no content addresses.
    #[error(
        "{what} is of Docker's schema 1, which is not supported; push it anew with a current tool"
    )]
    SchemaOne {
        /// The image's reference.
        what: String,
    },
    /// A layer that is to be fetched from another place than the registry.
    #[error(
        "the layer {digest} is a foreign layer (it names urls), which is not supported; \
         push the image with its layers"
    )]
    ForeignLayer {
        /// The layer's digest.
        digest: Digest,
    },
    /// No mirror and not the registry itself gave it.
    #[error("{what} could not be had from any of {} hosts: {}", .each.len(), join(.each))]
    Everywhere {
        /// The image's reference, or the blob's digest.
        what: String,
        /// Each host's error in the order in which they were asked.
        each: Vec<RegistryError>,
    },
    /// The content or the store is at fault.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The owner may not have it: of a quota.
    #[error(transparent)]
    NotAdmitted(Error),
    /// The thread that writes to the store is gone: the program is ending.
    #[error("the store's writer has stopped")]
    Stopped,
}

fn join(each: &[RegistryError]) -> String {
    let each: Vec<String> = each.iter().map(ToString::to_string).collect();
    each.join("; ")
}

impl RegistryError {
    /// Whether the same request to the same host may go better in a moment.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Slow { .. } => true,
            Self::Answer { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// Whether the next host of the same registry is asked. Not where the fault is on our side (the
    /// store, the deadline) or in the content itself, which is the same everywhere.
    pub(crate) fn is_of_the_host(&self) -> bool {
        !matches!(
            self,
            Self::Config { .. }
                | Self::Deadline { .. }
                | Self::SchemaOne { .. }
                | Self::ForeignLayer { .. }
                | Self::Image(_)
                | Self::NotAdmitted(_)
                | Self::Stopped
        )
    }

    /// How long the registry wants to be left alone, where it says so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answer { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The status of an answer that was no success and that no other variant stands for.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Answer { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// One error for several hosts; the error itself where there was one host alone.
    pub(crate) fn everywhere(what: String, mut each: Vec<Self>) -> Self {
        match each.pop() {
            Some(one) if each.is_empty() => one,
            Some(last) => {
                each.push(last);
                Self::Everywhere { what, each }
            }
            None => Self::Everywhere { what, each },
        }
    }
}

/// A registry's words as they may be shown and logged: one line, bounded, no control characters.
pub(crate) fn presentable(words: &str) -> String {
    const LONGEST: usize = 300;
    let words = words
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it });
    words.take(LONGEST).collect::<String>().trim().to_owned()
}

impl From<RegistryError> for Error {
    fn from(error: RegistryError) -> Self {
        let (reason, hint) = match &error {
            RegistryError::Image(_) | RegistryError::NotAdmitted(_) => return inner(error),
            RegistryError::Deadline { .. } => (Reason::Deadline, ""),
            RegistryError::NotFound { .. } => (
                Reason::NotFound,
                "look at the name, and whether the registry wants credentials",
            ),
            RegistryError::Refused { .. } => (
                Reason::RegistryFailed,
                "the registry wants other credentials: aurae image pull -u NAME … < PASSWORD-FILE",
            ),
            RegistryError::TooLarge { .. } => (Reason::LimitExceeded, ""),
            RegistryError::SchemaOne { .. }
            | RegistryError::ForeignLayer { .. }
            | RegistryError::PlainCredentials { .. } => (Reason::Unsupported, ""),
            RegistryError::Stopped => (Reason::Internal, ""),
            _ if error.is_absence() => (Reason::NotFound, ""),
            _ => (Reason::RegistryFailed, ""),
        };
        let made = Error::new(reason, error.to_string());
        match hint {
            "" => made,
            hint => made.hint(hint),
        }
    }
}

/// What comes from below, as it is.
fn inner(error: RegistryError) -> Error {
    match error {
        RegistryError::Image(error) => error.into(),
        RegistryError::NotAdmitted(error) => error,
        other => Error::internal(other.to_string()),
    }
}

impl RegistryError {
    /// Whether every host has said that there is no such thing.
    fn is_absence(&self) -> bool {
        match self {
            Self::NotFound { .. } => true,
            Self::Everywhere { each, .. } => !each.is_empty() && each.iter().all(Self::is_absence),
            _ => false,
        }
    }
}
