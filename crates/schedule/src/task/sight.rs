// SPDX-License-Identifier: Apache-2.0
//! What a schedule's task sees around it: the other schedules of its tenant, and how busy the node
//! is.

use std::cell::Cell;
use std::time::Instant;

use model::name::{Label, Tenant};
use model::schedule::spec::Lax;
use model::schedule::steps::{Other, Sight};

use crate::room::Room;

/// Knows the schedules of all tenants.
pub(crate) trait Others: Send + Sync {
    /// One of that tenant.
    fn other(&self, tenant: &Tenant, name: &Label) -> Option<Other>;
}

/// See the module.
pub(super) struct Around<'a> {
    pub(super) others: &'a dyn Others,
    pub(super) tenant: &'a Tenant,
    pub(super) room: &'a Room,
    /// Since when there was room.
    pub(super) since: Cell<Option<Instant>>,
}

impl Sight for Around<'_> {
    fn other(&self, name: &Label) -> Option<Other> {
        self.others.other(self.tenant, name)
    }

    fn busy(&self, lax: &Lax) -> Option<String> {
        let mut since = self.since.get();
        let busy = self.room.busy(lax, &mut since);
        self.since.set(since);
        busy
    }
}
