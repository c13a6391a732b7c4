// SPDX-License-Identifier: Apache-2.0
//! What a task has decided goes to the store, and to those who look.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use model::error::Error;
use model::schedule::Why;
use model::schedule::state::Entry;

use super::Task;
use crate::kept::{self, Status};
use crate::watch::key;

/// How long a write may take before what was decided is done without it.
const WRITE: Duration = Duration::from_secs(5);

/// What isn't written yet.
pub(super) struct Keeping {
    /// The state as it was written last.
    written: Vec<u8>,
    /// The number of the last line of the history.
    lines: u64,
    /// Lines that aren't written.
    unwritten: VecDeque<(u64, Entry)>,
    /// The last write failed.
    behind: bool,
}

impl Keeping {
    pub(super) fn new(lines: u64) -> Self {
        Self {
            written: Vec::new(),
            lines,
            unwritten: VecDeque::new(),
            behind: false,
        }
    }

    /// Whether something is in memory only, because the disk took nothing.
    pub(super) fn is_behind(&self) -> bool {
        self.behind
    }
}

impl Task {
    /// Adds a line to the history.
    pub(super) fn note(&mut self, entry: Entry) {
        let most = usize::try_from(self.wish.spec.history())
            .unwrap_or(usize::MAX)
            .max(1);
        let history = Arc::make_mut(&mut self.history);
        history.push_back(entry.clone());
        while history.len() > most {
            history.pop_front();
        }
        let keep = &mut self.keep;
        keep.lines = keep.lines.saturating_add(1);
        keep.unwritten.push_back((keep.lines, entry));
        while keep.unwritten.len() > most {
            keep.unwritten.pop_front();
        }
    }

    /// Writes what has changed. What can't be written now is written later.
    pub(super) async fn keep(&mut self) {
        let written = tokio::time::timeout(WRITE, self.write()).await;
        let late = || Err(Error::internal("the store does not answer"));
        let failed = written.unwrap_or_else(|_| late()).err();
        if let Some(error) = &failed
            && !self.keep.behind
        {
            let name = &self.wish.named.name;
            tracing::error!(schedule = %name, %error, "it goes on from memory");
        }
        self.keep.behind = failed.is_some();
    }

    async fn write(&mut self) -> Result<(), Error> {
        let state = kept::json(&self.state)?;
        if state == self.keep.written && self.keep.unwritten.is_empty() {
            return Ok(());
        }
        let lines = self.keep.unwritten.iter();
        let lines = lines.map(|(number, entry)| kept::entry(*number, entry));
        let lines = lines.collect::<Result<Vec<_>, _>>()?;
        let named = &self.wish.named;
        let (tenant, name) = (named.tenant.to_string(), named.name.to_string());
        let most = u64::from(self.wish.spec.history()).max(1);
        let kept = self
            .store
            .keep_schedule(tenant, name, state.clone(), lines, most);
        kept.await?;
        self.keep.written = state;
        self.keep.unwritten.clear();
        Ok(())
    }

    /// Writes the wish whole, and what is known with it.
    pub(super) async fn keep_wish(&mut self) -> Result<(), Error> {
        let row = kept::row(&self.wish, &self.state)?;
        let state = row.state.clone();
        let (work, revisions) = kept::revisions(&self.wish, &self.state)?;
        self.store.put_schedule(row, work, revisions).await?;
        self.keep.written = state;
        Ok(())
    }

    /// Shows what is known.
    pub(super) fn publish(&mut self, why: Why) {
        let mut began = self.state.runs.iter().filter(|run| run.began.is_some());
        let ready = began
            .any(|run| self.answers(run.number) && self.actor.is_ready(&run.shape, run.number));
        let status = Status {
            wish: self.wish.clone(),
            state: self.state.clone(),
            why,
            history: self.history.clone(),
            ready,
            unwritten: self.keep.behind,
            lines: self.keep.lines,
        };
        let changed = self.status.send_if_modified(|published| {
            let changed = **published != status;
            if changed {
                *published = Arc::new(status);
            }
            changed
        });
        if changed {
            self.feed.changed(&key(&self.wish.named), self.wish.uid);
            self.yard.tell();
        }
    }
}
