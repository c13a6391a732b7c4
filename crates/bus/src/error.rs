// SPDX-License-Identifier: Apache-2.0
//! Errors of the bus: names that clients know.

use model::error::{Error, Reason};

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) name: String,
    pub(crate) words: String,
}

fn failure(name: &str, words: impl Into<String>) -> Failure {
    Failure {
        name: name.to_owned(),
        words: words.into(),
    }
}

impl Failure {
    /// One of D-Bus's own: `UnknownMethod`.
    pub(crate) fn of_bus(name: &str, words: impl Into<String>) -> Failure {
        failure(&format!("org.freedesktop.DBus.Error.{name}"), words)
    }

    /// One of systemd's: `NoSuchUnit`.
    pub(crate) fn of_systemd(name: &str, words: impl Into<String>) -> Failure {
        failure(&format!("org.freedesktop.systemd1.{name}"), words)
    }

    pub(crate) fn arguments(method: &str) -> Failure {
        Failure::of_bus(
            "InvalidArgs",
            format!("the arguments of {method} are of other types"),
        )
    }

    pub(crate) fn unsupported(words: impl Into<String>) -> Failure {
        Failure::of_bus("NotSupported", words)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let words = match &error.hint {
            Some(hint) => format!("{error}: {hint}"),
            None => error.to_string(),
        };
        let kind = error.object.as_ref().map(|it| it.kind.as_str());
        match error.reason {
            Reason::NotFound if kind == Some("job") => Failure::of_systemd("NoSuchJob", words),
            Reason::NotFound => Failure::of_systemd("NoSuchUnit", words),
            Reason::AlreadyExists => Failure::of_systemd("UnitExists", words),
            Reason::WrongState if words.contains("masked") => {
                Failure::of_systemd("UnitMasked", words)
            }
            Reason::WrongState if words.contains("RefuseManual") => {
                Failure::of_systemd("OnlyByDependency", words)
            }
            Reason::InvalidField => Failure::of_bus("InvalidArgs", words),
            Reason::Unsupported => Failure::unsupported(words),
            Reason::LimitExceeded => Failure::of_bus("LimitsExceeded", words),
            Reason::PermissionDenied => Failure::of_bus("AccessDenied", words),
            Reason::Deadline => Failure::of_bus("Timeout", words),
            _ => Failure::of_bus("Failed", words),
        }
    }
}

impl From<identity::Denied> for Failure {
    fn from(denied: identity::Denied) -> Failure {
        Error::from(denied).into()
    }
}

impl From<zbus::Error> for Failure {
    fn from(error: zbus::Error) -> Failure {
        Failure::of_bus("Failed", format!("the answer can't be written: {error}"))
    }
}
