// SPDX-License-Identifier: Apache-2.0
//! What was added, by cell: it is removed as it was configured when it was added, whatever the
//! folder of configurations says now.

use std::collections::BTreeSet;

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

impl Added {
    /// Opens the folder, which is made where it isn't there.
    ///
    /// # Errors
    /// It can't be made.
    pub fn open(settings: Settings) -> Result<Self> {
        Ok(Self {
            runner: Runner {
                folders: settings.plugins,
                timeout: settings.timeout,
            },
            cache: Cache::open(settings.cache)?,
        })
    }

    /// The cells that have something, also half of it; the ids that they were added by.
    ///
    /// # Errors
    /// The folder can't be read, or a file of it.
    pub fn cells(&self) -> Result<BTreeSet<String>> {
        let entries = self.cache.list()?;
        Ok(entries.into_iter().map(|entry| entry.container).collect())
    }

    /// Removes all interfaces of a cell whose namespace is gone. That there is none is no error.
    ///
    /// # Errors
    /// The first plugin that failed. All others were run; what is left can be removed again.
    pub async fn remove(&self, container: &str) -> Result<()> {
        let mut outcome = Ok(());
        for entry in self.cache.list()? {
            if entry.container == container {
                let removed = del(&self.runner, &self.cache, &entry, &Namespace::Gone).await;
                outcome = outcome.and(removed);
            }
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
