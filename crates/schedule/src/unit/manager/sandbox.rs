// SPDX-License-Identifier: Apache-2.0
//! Which activations share namespaces (`JoinsNamespaceOf=`), and when what they share ends.

use std::collections::BTreeSet;
use std::path::PathBuf;

use units::depend::Dependency;
use units::job::Activity;
use units::name::UnitName;

use super::Manager;
use crate::unit::name;
use crate::unit::sandbox::shared;

impl Manager {
    /// Where what the commands of a unit's activation share is kept.
    pub(super) fn shared_by(&mut self, unit: &UnitName) -> PathBuf {
        let live = self.known.live_mut(unit);
        let (activation, kept) = (live.activation, live.shared.clone());
        let key = match kept {
            Some((of, key)) if of == activation => key,
            _ => {
                let key = match self.joined(unit) {
                    Some(key) => key,
                    // A name that is no label can't be begun at all.
                    None => match name::label(unit) {
                        Ok(label) => format!("{label}-{activation}"),
                        Err(_) => String::from("none"),
                    },
                };
                self.known.live_mut(unit).shared = Some((activation, key.clone()));
                self.dirty.insert(unit.clone());
                key
            }
        };
        self.run.join(key)
    }

    /// The key of a unit that is up and whose namespaces this one joins: either may say so.
    fn joined(&self, unit: &UnitName) -> Option<String> {
        let kind = Dependency::JoinsNamespaceOf;
        let mut others = self.known.on(unit, kind);
        others.extend(self.known.of_others(unit, kind));
        others.iter().find_map(|other| self.key(other))
    }

    /// The key of a unit that isn't down.
    fn key(&self, unit: &UnitName) -> Option<String> {
        let live = self.known.live.get(unit)?;
        let (of, key) = live.shared.as_ref()?;
        let down = matches!(live.activity(), Activity::Inactive | Activity::Failed);
        (!down && *of == live.activation).then(|| key.clone())
    }

    fn keys(&self) -> BTreeSet<String> {
        let units = self.known.live.keys();
        units.filter_map(|unit| self.key(unit)).collect()
    }

    /// A service is down: what it shared ends, unless another one goes on with it.
    pub(super) async fn end_shared(&mut self, unit: &UnitName) {
        let Some((_, key)) = self.known.live_mut(unit).shared.take() else {
            return;
        };
        self.dirty.insert(unit.clone());
        if self.keys().contains(&key) {
            return;
        }
        let folder = self.run.join(key);
        // Before another start: what is left would be kept for as long as the node runs.
        let _ = tokio::task::spawn_blocking(move || shared::end(&folder)).await;
    }

    /// Takes away what no activation has, that an earlier daemon or boot has left.
    pub(super) async fn remove_orphans(&self) {
        let (run, keys) = (self.run.clone(), self.keys());
        let remove = move || {
            shared::remove_orphans(&run, &keys);
            shared::remove_of_earlier_boots();
        };
        let _ = tokio::task::spawn_blocking(remove).await;
    }
}
