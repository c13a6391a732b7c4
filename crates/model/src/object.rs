// SPDX-License-Identifier: Apache-2.0
//! The name of one object: its tenant, its path, and one run of it. Mirrors `object.proto`'s
//! `ObjectRef`, with the tenant filled in.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Reason};
use crate::name::{ObjectPath, Tenant, Uid};

/// The kind of an object. Siblings share one name space across kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A cgroup v2 group with namespaces of its own.
    Cell,
    /// An ordinary process in a cell.
    Executable,
}

impl Kind {
    /// The noun in messages: `cell`, `executable`.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Cell => "cell",
            Kind::Executable => "executable",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names one object. `uid` and `kind`, where given, are preconditions: an object of that path with
/// another uid or kind isn't found.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The tenant that the object belongs to.
    pub tenant: Tenant,
    /// The path in the tenant.
    pub path: ObjectPath,
    /// One run of it. `None`: the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
    /// The kind that the object must have. `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
}

impl ObjectRef {
    /// Whatever is at that path now.
    pub fn new(tenant: Tenant, path: ObjectPath) -> Self {
        Self {
            tenant,
            path,
            uid: None,
            kind: None,
        }
    }

    /// The noun for messages: its kind, or `object`.
    pub fn noun(&self) -> &'static str {
        self.kind.map_or("object", Kind::as_str)
    }

    /// The answer where there is no such object, or the caller may not know of it.
    pub fn not_found(&self) -> Error {
        match self.uid {
            None => Error::not_found(self.noun(), self.path.to_string()),
            Some(uid) => Error::new(
                Reason::NotFound,
                format!("there is no {} {} with uid {uid}", self.noun(), self.path),
            )
            .about(self.noun(), self.path.to_string()),
        }
    }

    /// Whether an object of that uid and kind is the one meant.
    pub fn admits(&self, uid: Uid, kind: Kind) -> bool {
        self.uid.is_none_or(|u| u == uid) && self.kind.is_none_or(|k| k == kind)
    }
}
