// SPDX-License-Identifier: Apache-2.0
//! Which pods a watcher with a selector has been told of. A pod whose labels match no longer is
//! gone for it, and one whose labels match at last is new. Without a selector nothing is held.

use std::collections::BTreeMap;

use model::label::Labels;
use model::selector::Selector;
use tenants::WatchKind;

use crate::watch::Key;

/// See the module.
pub(crate) struct Shown {
    selector: Selector,
    /// Whether the client knows it. At most one entry for each pod that there is; none for one that
    /// an earlier watcher may have told of, from whose place this one goes on.
    known: BTreeMap<Key, bool>,
}

impl Shown {
    pub(crate) fn new(selector: Selector) -> Self {
        Self {
            selector,
            known: BTreeMap::new(),
        }
    }

    /// The client forgets everything.
    pub(crate) fn reset(&mut self) {
        self.known.clear();
    }

    /// What the client is told where this has become of a pod with those labels; `None`: nothing.
    pub(crate) fn told(
        &mut self,
        key: &Key,
        labels: &Labels,
        kind: WatchKind,
    ) -> Option<WatchKind> {
        if self.selector.is_empty() {
            return Some(kind);
        }
        if kind == WatchKind::Removed {
            let before = self.known.remove(key);
            return (before != Some(false)).then_some(kind);
        }
        let matches = self.selector.matches(labels);
        let before = self.known.insert(key.clone(), matches);
        match (matches, before) {
            (true, Some(false)) => Some(WatchKind::Added),
            (true, _) => Some(kind),
            (false, Some(true)) => Some(WatchKind::Removed),
            (false, None) if kind == WatchKind::Changed => Some(WatchKind::Removed),
            (false, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use WatchKind::{Added, Changed, Removed};

    #[test]
    fn a_pod_whose_labels_match_no_longer_is_gone_for_who_asked_for_them() {
        let key: Key = ("acme".parse().unwrap(), "web".parse().unwrap());
        let labels = |app: &str| {
            let pair = ("app".to_owned(), app.to_owned());
            Labels::new([pair].into()).unwrap()
        };
        let (web, db) = (labels("web"), labels("db"));
        let mut shown = Shown::new("app=web".parse().unwrap());
        let mut told = |labels: &Labels, kind| shown.told(&key, labels, kind);
        assert_eq!(told(&db, Added), None);
        assert_eq!(told(&db, Changed), None);
        assert_eq!(told(&web, Changed), Some(Added));
        assert_eq!(told(&web, Changed), Some(Changed));
        assert_eq!(told(&db, Changed), Some(Removed));
        assert_eq!(told(&db, Changed), None);
        assert_eq!(told(&db, Removed), None);
        // One that goes on from an earlier watcher's place: its client may know the pod.
        assert_eq!(told(&db, Changed), Some(Removed));
        assert_eq!(told(&db, Removed), None);
        assert_eq!(told(&db, Removed), Some(Removed));
        let mut all = Shown::new(Selector::default());
        assert_eq!(all.told(&key, &db, Changed), Some(Changed));
    }
}
