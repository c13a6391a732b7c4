// SPDX-License-Identifier: Apache-2.0
//! What was added, by cell: it is removed as it was configured when it was added, whatever the
//! folder of configurations says now.

use std::collections::BTreeSet;

use serde_json::Value;

use super::cache::{Cache, Entry};
use super::error::Result;
use super::plugin::{Call, Runner};
use super::{Namespace, Settings};

/// The daemon's own folder of what was added.
#[derive(Debug)]
pub struct Added {
    runner: Runner,
    cache: Cache,
}

/// One interface as it is kept, also half of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// The arguments that it was added with.
    pub arguments: Vec<(String, String)>,
    /// Its `portMappings`: ports of the node, in the words of CNI.
    pub ports: Vec<Value>,
}

impl Added {
    /// Opens the folder, which is made where it isn't there.
    ///
    /// # Errors
    /// It can't be made.
    pub fn open(settings: Settings) -> Result<Self> {
        Ok(Self {
            cache: Cache::open(settings.cache.clone())?,
            runner: Runner::of(settings),
        })
    }

    /// Removes what a daemon that died has left half written. To be called while no cell is added.
    ///
    /// # Errors
    /// The folder can't be read or written.
    pub fn remove_partial(&self) -> Result<()> {
        self.cache.remove_partial()
    }

    /// The cells that have something, also half of it; the ids that they were added by.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn cells(&self) -> Result<BTreeSet<String>> {
        let entries = self.cache.list()?;
        Ok(entries
            .into_iter()
            .map(|(container, _)| container)
            .collect())
    }

    /// What is kept of a cell. What can't be read is left out.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn kept(&self, container: &str) -> Result<Vec<Kept>> {
        let entries = self.cache.of(container)?.into_iter().flatten();
        let kept = entries.map(|entry| {
            let ports = entry.offers.get("portMappings").and_then(Value::as_array);
            Kept {
                ports: ports.cloned().unwrap_or_default(),
                arguments: entry.arguments,
            }
        });
        Ok(kept.collect())
    }

    /// Removes all interfaces of a cell. That there is none is no error. Its namespace, where it is
    /// there: plugins may leave what is in one that they aren't told, and that something holds.
    ///
    /// # Errors
    /// The first plugin that failed, or a file of this cell that can't be read. All others were
    /// run; what is left can be removed again.
    pub async fn remove(&self, container: &str, netns: &Namespace) -> Result<()> {
        let mut outcome = Ok(());
        let netns = match netns.check() {
            Ok(()) => netns,
            Err(_) => &Namespace::Gone,
        };
        for entry in self.cache.of(container)? {
            let removed = match entry {
                Ok(entry) => del(&self.runner, &self.cache, &entry, netns).await,
                Err(error) => Err(error),
            };
            outcome = outcome.and(removed);
        }
        outcome
    }
}

/// Has each plugin remove an interface, the last one first, and forgets it when all have.
pub(super) async fn del(
    runner: &Runner,
    cache: &Cache,
    entry: &Entry,
    netns: &Namespace,
) -> Result<()> {
    let mut outcome = Ok(());
    for plugin in entry.network.plugins.iter().rev() {
        let call = Call::new("DEL", entry, plugin, netns, entry.result.as_ref());
        outcome = outcome.and(runner.run(&call).await.map(drop));
    }
    if outcome.is_ok() {
        cache.remove(entry)?;
    }
    outcome
}
