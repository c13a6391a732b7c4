// SPDX-License-Identifier: Apache-2.0
//! The error that crosses from the node's subsystems to the wire: one stable reason, one sentence,
//! and as data what it is about. `api` turns it into a status with details; the subsystems make it
//! from their own.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Shorthand for what most functions here return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why, for programs. The same names as `aurae.runtime.v0.ErrorReason`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// A field is malformed; `field` names it.
    InvalidField,
    /// There is no such object, or the caller may not know of it.
    NotFound,
    /// The name is taken by something that runs.
    AlreadyExists,
    /// The object is in a state that doesn't allow it.
    WrongState,
    /// The cell has children.
    NotEmpty,
    /// `expected_generation` or `uid` doesn't match.
    Conflict,
    /// The request id was used with another body.
    RequestIdReused,
    /// The program isn't there.
    ProgramNotFound,
    /// The program is there but can't be executed.
    ProgramNotExecutable,
    /// The kernel or the node's configuration lacks what was asked for.
    Unsupported,
    /// A cgroup controller isn't available.
    ControllerUnavailable,
    /// A bound was passed.
    LimitExceeded,
    /// No policy permits it, or one forbids it.
    PermissionDenied,
    /// The certificate is past its end.
    CertExpired,
    /// The certificate was revoked.
    CertRevoked,
    /// The certificate names a user that the node doesn't know.
    CertInvalid,
    /// The user was disabled.
    UserDisabled,
    /// The store or the audit is broken; the node serves what it can.
    Degraded,
    /// The node goes down.
    ShuttingDown,
    /// The call's deadline passed.
    Deadline,
    /// A defect of the node.
    Internal,
    /// Another attachment holds standard input.
    StdinTaken,
    /// A registry of images can't be reached, refuses, or answers with an error.
    RegistryFailed,
}

impl Reason {
    /// Every reason, in the order of their numbers on the wire (1 and up).
    pub const ALL: [Reason; 23] = [
        Reason::InvalidField,
        Reason::NotFound,
        Reason::AlreadyExists,
        Reason::WrongState,
        Reason::NotEmpty,
        Reason::Conflict,
        Reason::RequestIdReused,
        Reason::ProgramNotFound,
        Reason::ProgramNotExecutable,
        Reason::Unsupported,
        Reason::ControllerUnavailable,
        Reason::LimitExceeded,
        Reason::PermissionDenied,
        Reason::CertExpired,
        Reason::CertRevoked,
        Reason::CertInvalid,
        Reason::UserDisabled,
        Reason::Degraded,
        Reason::ShuttingDown,
        Reason::Deadline,
        Reason::Internal,
        Reason::StdinTaken,
        Reason::RegistryFailed,
    ];

    /// The name on the wire, e.g. `NOT_FOUND`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::InvalidField => "INVALID_FIELD",
            Reason::NotFound => "NOT_FOUND",
            Reason::AlreadyExists => "ALREADY_EXISTS",
            Reason::WrongState => "WRONG_STATE",
            Reason::NotEmpty => "NOT_EMPTY",
            Reason::Conflict => "CONFLICT",
            Reason::RequestIdReused => "REQUEST_ID_REUSED",
            Reason::ProgramNotFound => "PROGRAM_NOT_FOUND",
            Reason::ProgramNotExecutable => "PROGRAM_NOT_EXECUTABLE",
            Reason::Unsupported => "UNSUPPORTED",
            Reason::ControllerUnavailable => "CONTROLLER_UNAVAILABLE",
            Reason::LimitExceeded => "LIMIT_EXCEEDED",
            Reason::PermissionDenied => "PERMISSION_DENIED",
            Reason::CertExpired => "CERT_EXPIRED",
            Reason::CertRevoked => "CERT_REVOKED",
            Reason::CertInvalid => "CERT_INVALID",
            Reason::UserDisabled => "USER_DISABLED",
            Reason::Degraded => "DEGRADED",
            Reason::ShuttingDown => "SHUTTING_DOWN",
            Reason::Deadline => "DEADLINE",
            Reason::Internal => "INTERNAL",
            Reason::StdinTaken => "STDIN_TAKEN",
            Reason::RegistryFailed => "REGISTRY_FAILED",
        }
    }

    /// The reason of that name on the wire.
    pub fn from_name(name: &str) -> Option<Reason> {
        Self::ALL.into_iter().find(|r| r.as_str() == name)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The object of the API that an error is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// `cell`, `executable`, `user`, `grant`, `certificate`, `file`, …
    pub kind: String,
    /// Its name as the caller knows it.
    pub name: String,
}

/// A refused or failed request. One pointer wide: it travels in every result. Read its fields
/// through [`Details`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct Error(Box<Details>);

/// The fields of an [`Error`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Details {
    /// Why, for programs: one of a closed list.
    pub reason: Reason,
    /// One sentence for people, without a full stop.
    pub message: String,
    /// The hint: what the user can do.
    pub hint: Option<String>,
    /// The path of the offending field in the request, e.g. `executable.spec.argv[2]`.
    pub field: Option<String>,
    /// The object that the error is about.
    pub object: Option<Subject>,
    /// The kernel's error number.
    pub errno: Option<i32>,
    /// When trying again may help.
    pub retry_after: Option<Duration>,
}

impl Deref for Error {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl Error {
    /// An error of that reason, saying `message`.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self(Box::new(Details {
            reason,
            message: message.into(),
            hint: None,
            field: None,
            object: None,
            errno: None,
            retry_after: None,
        }))
    }

    /// The fields by value.
    pub fn into_details(self) -> Details {
        *self.0
    }

    /// A malformed field. `field` is its path; `problem` reads on after its name: `must not be
    /// empty`.
    pub fn invalid(field: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self::new(Reason::InvalidField, problem.to_string()).field(field)
    }

    /// No object of that kind and name.
    pub fn not_found(kind: impl Into<String>, name: impl Into<String>) -> Self {
        let (kind, name) = (kind.into(), name.into());
        Self::new(Reason::NotFound, format!("there is no {kind} {name}")).about(kind, name)
    }

    /// A defect of the node itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Reason::Internal, message)
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Says what it is about.
    #[must_use]
    pub fn about(mut self, kind: impl Into<String>, name: impl Into<String>) -> Self {
        self.0.object = Some(Subject {
            kind: kind.into(),
            name: name.into(),
        });
        self
    }

    /// Adds the kernel's error number.
    #[must_use]
    pub fn errno(mut self, errno: i32) -> Self {
        self.0.errno = Some(errno);
        self
    }

    /// Names the field, where the error is about one that only the node could check.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.0.retry_after = Some(after);
        self
    }

    /// Puts `outer` before the field's path, as the message that holds it is itself a field.
    /// Without a field it changes nothing.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        if let Some(field) = &mut self.0.field {
            let joint = if field.is_empty() || field.starts_with('[') {
                ""
            } else {
                "."
            };
            *field = format!("{outer}{joint}{field}");
        }
        self
    }

    /// A field at or below `from` is told as one of `to`: where the caller has the spec under
    /// another name.
    #[must_use]
    pub fn renamed(self, from: &str, to: &str) -> Self {
        let rest = self.field.as_deref().and_then(|it| it.strip_prefix(from));
        match rest.map(|rest| format!("{to}{rest}")) {
            Some(field) => self.field(field),
            None => self,
        }
    }
}

/// [`Error::within`] for the error of a result.
pub trait Within {
    /// Puts `outer` before the path of the error's field.
    #[must_use]
    fn within(self, outer: &str) -> Self;
}

impl<T> Within for Result<T> {
    fn within(self, outer: &str) -> Self {
        self.map_err(|e| e.within(outer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_keep_their_names() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_name(reason.as_str()), Some(reason));
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.as_str()));
        }
    }

    #[test]
    fn field_paths_are_joined() {
        let error = Error::invalid("argv[2]", "contains a NUL byte");
        let error = error.within("spec").within("executable");
        assert_eq!(error.field.as_deref(), Some("executable.spec.argv[2]"));
        let own = error.renamed("executable.spec", "spec");
        assert_eq!(own.field.as_deref(), Some("spec.argv[2]"));
        let other = own.renamed("cell.spec", "own_cell");
        assert_eq!(other.field.as_deref(), Some("spec.argv[2]"));
        let error = Error::invalid("[3]", "x").within("mounts");
        assert_eq!(error.field.as_deref(), Some("mounts[3]"));
        assert_eq!(Error::internal("x").within("a").field, None);
    }
}
