// SPDX-License-Identifier: Apache-2.0
//! What the unit manager leaves with node-init for the next daemon (ADR 53): listening sockets,
//! connections that no service has yet, what services have stored, locks of dynamic
//! users, the sockets on which services say something of themselves. Each has an owner that says
//! which of these it is, and of which unit.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use model::error::Error;
use runtime::{KeptDescriptor, NodeInit};
use units::name::UnitName;

/// What a descriptor is kept for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Use {
    /// A socket unit listens on it. Its name is its place in the unit, from 0.
    Socket,
    /// A connection for an instance. Its name is the socket unit's.
    Connection,
    /// A service has stored it. Its name is `FDNAME=`, with a `+` before it where its end is
    /// watched for, and a `-` otherwise.
    Store,
    /// The lock of a dynamic user. Its name is the user's number, a blank, the user's name.
    User,
    /// The socket on which a service says something of itself.
    Notify,
    /// On which the kernel tells of an automount.
    Automount,
}

impl Use {
    const ALL: [Use; 6] = [
        Self::Socket,
        Self::Connection,
        Self::Store,
        Self::User,
        Self::Notify,
        Self::Automount,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Connection => "connection",
            Self::Store => "store",
            Self::User => "user",
            Self::Notify => "notify",
            Self::Automount => "automount",
        }
    }
}

/// What an earlier daemon has left, by use and unit.
pub(crate) type Left = BTreeMap<(Use, UnitName), Vec<KeptDescriptor>>;

/// Keeps descriptors with node-init. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DescriptorStore {
    init: NodeInit,
}

impl DescriptorStore {
    pub(crate) fn new(init: NodeInit) -> DescriptorStore {
        DescriptorStore { init }
    }

    /// Keeps one for a unit; its number.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`: node-init has as many as it takes, of this unit or of all.
    pub(crate) async fn keep(
        &self,
        what: Use,
        unit: &UnitName,
        name: &str,
        fd: OwnedFd,
    ) -> Result<u64, Error> {
        let owner = format!("{}/{unit}", what.word());
        self.init.keep_descriptor(&owner, name, fd).await
    }

    pub(crate) async fn forget(&self, number: u64) {
        self.init.drop_descriptor(number).await;
    }

    /// What is there from an earlier daemon. What is no unit's is dropped, where it is this
    /// manager's at all.
    ///
    /// # Errors
    /// `INTERNAL`: node-init is gone.
    pub(crate) async fn left(&self) -> Result<Left, Error> {
        let mut left = Left::new();
        for kept in self.init.kept_descriptors().await? {
            let Some((word, unit)) = kept.owner.split_once('/') else {
                continue;
            };
            let Some(what) = Use::ALL.into_iter().find(|it| it.word() == word) else {
                continue;
            };
            match UnitName::parse(unit) {
                Ok(unit) => left.entry((what, unit)).or_default().push(kept),
                Err(_) => self.forget(kept.number).await,
            }
        }
        Ok(left)
    }
}
