// SPDX-License-Identifier: Apache-2.0
//! Pods as what is watched: where [`tenants::Watcher`] looks them up, and which of them a watcher
//! with a selector is told of.

use std::ops::Bound;
use std::sync::Arc;

use identity::Permit;
use model::error::Error;
use model::name::ObjectPath;
use model::pod::request::WatchPods;
use model::pod::status::{Phase, PodStatus};
use model::status::Meta;
use tenants::WatchKind;

use crate::handle::Pods;
use crate::shared::Shared;
use crate::shown::Shown;

/// Whose a pod is, and its name.
pub(crate) type Key = tenants::Key<ObjectPath>;
/// The order of changes of pods.
pub(crate) type Feed = tenants::Feed<ObjectPath, Gone>;
/// A pod that a watcher is told of.
pub type Told = tenants::Told<Watched>;
/// One thing that a watcher is told.
pub type WatchEvent = tenants::WatchEvent<Watched>;
/// Tells one watcher everything, in order.
pub type Watcher = tenants::Watcher<Watched>;

/// What is kept of a pod that is gone. Its spec may be large, and no caller asks for it any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gone {
    /// As it last was.
    pub meta: Meta,
    /// The phase that it was in.
    pub phase: Phase,
}

/// The node's pods, for one watcher.
pub struct Watched {
    shared: Arc<Shared>,
    shown: Shown,
}

impl Pods {
    /// A snapshot and then every change.
    ///
    /// # Errors
    /// Where the permit does not cover what is asked for.
    pub fn watch(&self, permit: Permit, request: WatchPods) -> Result<Watcher, Error> {
        let watched = Watched {
            shared: self.shared(),
            shown: Shown::new(request.selector),
        };
        let token = request.resume_token.as_deref();
        Watcher::new(watched, permit, request.scope, token)
    }
}

impl tenants::Source for Watched {
    type Name = ObjectPath;
    type Status = Box<PodStatus>;
    type Gone = Gone;

    fn feed(&self) -> &Feed {
        &self.shared.feed
    }

    fn after(&self, from: Bound<Key>, most: usize) -> Vec<(Key, Box<PodStatus>)> {
        let some = self.shared.after(from, most).into_iter();
        some.map(|(key, status)| (key, Box::new(status))).collect()
    }

    fn status(&self, key: &Key) -> Option<Box<PodStatus>> {
        self.shared.status(key).map(Box::new)
    }

    fn key(gone: &Gone) -> Key {
        (gone.meta.tenant.clone(), gone.meta.path.clone())
    }

    fn path(name: &ObjectPath) -> ObjectPath {
        name.clone()
    }

    fn meant(&mut self, key: &Key, kind: WatchKind, told: Told) -> Option<(WatchKind, Told)> {
        let meta = match &told {
            Told::Is(status) => &status.meta,
            Told::Gone(gone) => &gone.meta,
        };
        let kind = self.shown.told(key, &meta.labels, kind)?;
        let told = match told {
            Told::Is(status) if kind == WatchKind::Removed => Told::Gone(Arc::new(Gone {
                meta: status.meta,
                phase: status.phase,
            })),
            told => told,
        };
        Some((kind, told))
    }

    fn forget(&mut self) {
        self.shown.reset();
    }
}
