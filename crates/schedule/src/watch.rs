// SPDX-License-Identifier: Apache-2.0
//! Schedules as what is watched: where [`tenants::Watcher`] looks them up.

use std::ops::Bound;
use std::sync::Arc;

use identity::Permit;
use model::error::Error;
use model::name::{Label, ObjectPath, Uid};
use model::schedule::request::{Named, Watch};
use tenants::{Key, WatchKind};

use crate::handle::Schedules;
use crate::kept::Status;

/// The order of changes of schedules.
pub(crate) type Feed = tenants::Feed<Label, Gone>;
/// A schedule that a watcher is told of.
pub type Told = tenants::Told<Watched>;
/// One thing that a watcher is told.
pub type WatchEvent = tenants::WatchEvent<Watched>;
/// Tells one watcher everything, in order.
pub type Watcher = tenants::Watcher<Watched>;

/// A schedule's name, as the feed has it.
pub(crate) fn key(named: &Named) -> Key<Label> {
    (named.tenant.clone(), named.name.clone())
}

fn named((tenant, name): Key<Label>) -> Named {
    Named { tenant, name }
}

/// What is kept of a schedule that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gone {
    /// The schedule's tenant and name.
    pub named: Named,
    /// Of that time that it was made.
    pub uid: Uid,
}

/// The node's schedules, for one watcher.
pub struct Watched(Schedules);

impl Schedules {
    /// A snapshot and then every change.
    ///
    /// # Errors
    /// Where the permit does not cover what is asked for.
    pub fn watch(&self, permit: Permit, request: Watch) -> Result<Watcher, Error> {
        let token = request.resume_token.as_deref();
        let watched = Watched(self.clone());
        Watcher::new(watched, permit, request.scope, token)
    }
}

impl tenants::Source for Watched {
    type Name = Label;
    type Status = Arc<Status>;
    type Gone = Gone;

    fn feed(&self) -> &Feed {
        self.0.feed()
    }

    fn after(&self, from: Bound<Key<Label>>, most: usize) -> Vec<(Key<Label>, Arc<Status>)> {
        let some = self.0.after(from.map(named), most).into_iter();
        some.map(|(named, status)| (key(&named), status)).collect()
    }

    fn status(&self, key: &Key<Label>) -> Option<Arc<Status>> {
        self.0.status(&named(key.clone()))
    }

    fn key(gone: &Gone) -> Key<Label> {
        key(&gone.named)
    }

    fn path(name: &Label) -> ObjectPath {
        ObjectPath::from(name.clone())
    }

    fn meant(
        &mut self,
        _key: &Key<Label>,
        kind: WatchKind,
        told: Told,
    ) -> Option<(WatchKind, Told)> {
        Some((kind, told))
    }

    fn forget(&mut self) {}
}
