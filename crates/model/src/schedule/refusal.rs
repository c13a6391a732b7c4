// SPDX-License-Identifier: Apache-2.0
//! Of which kind the refusal of a start is. What follows from it is in `state`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Reason};

/// Kinds of refusals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The owner may not (any more).
    Permission,
    /// The tenant or the node has no room.
    Quota,
    /// An image is missing or can't be had.
    Image,
    /// The node can't for another reason that may go away.
    Node,
    /// The spec can't be carried out.
    Spec,
}

impl RefusalKind {
    /// The kind of an error of a start.
    pub fn of(error: &Error) -> Self {
        let image = error.object.as_ref().is_some_and(|it| it.kind == "image");
        match error.reason {
            Reason::RegistryFailed => Self::Image,
            _ if image => Self::Image,
            Reason::PermissionDenied
            | Reason::UserDisabled
            | Reason::CertInvalid
            | Reason::CertRevoked
            | Reason::CertExpired => Self::Permission,
            Reason::LimitExceeded => Self::Quota,
            Reason::InvalidField
            | Reason::ProgramNotFound
            | Reason::ProgramNotExecutable
            | Reason::Unsupported
            | Reason::ControllerUnavailable => Self::Spec,
            _ => Self::Node,
        }
    }
}
