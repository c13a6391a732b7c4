// SPDX-License-Identifier: Apache-2.0
//! How a task begins a run, by which work, and gives one that goes on its files.

use std::sync::Arc;
use std::time::Duration;

use model::error::{Error, Reason};
use model::schedule::state::{Event, RefusalKind};
use model::schedule::{When, Work};

use super::{Happened, Task};
use crate::act::Start;

/// The pause before files that could not be brought up to date are tried again.
const REFRESH: Duration = Duration::from_secs(30);

impl Task {
    /// Brings the work that old replicas go on by.
    pub(super) async fn load_stable(&mut self) {
        let other = |number: &u64| *number != self.state.revision;
        let Some(number) = self.state.stable.filter(other) else {
            return;
        };
        let named = &self.wish.named;
        let (tenant, name) = (named.tenant.to_string(), named.name.to_string());
        let work = self.store.schedule_revision(tenant, name, number).await;
        let parsed = match &work {
            Ok(Some(work)) => serde_json::from_slice(work).ok(),
            Ok(None) | Err(_) => None,
        };
        match parsed {
            Some(work) => self.stable = Some((number, Arc::new(work))),
            None => tracing::error!(schedule = %named.name, number, "its work can't be read"),
        }
    }

    /// The work of a revision: the current one's, or that of the last whole one.
    fn work(&self, revision: u64) -> Result<Work, Error> {
        // A run of what has no replicas is made by the spec of its moment.
        if revision == self.state.revision || self.wish.spec.replicas.is_none() {
            return Ok(self.wish.spec.work.clone());
        }
        let stable = self.stable.as_ref().filter(|(it, _)| *it == revision);
        let gone = || {
            let message = format!("the work of revision {revision} is not kept");
            Error::new(Reason::Degraded, message)
        };
        stable.map(|(_, work)| Work::clone(work)).ok_or_else(gone)
    }

    pub(super) fn start(&mut self, number: u64) {
        let Some(run) = self.state.runs.iter().find(|run| run.number == number) else {
            return;
        };
        let run = run.clone();
        let work = match self.work(run.revision) {
            Ok(work) => work,
            Err(error) => {
                let kind = RefusalKind::of(&error);
                return self.event(Event::Refused(number, kind, error.to_string()));
            }
        };
        let lax = matches!(self.wish.spec.when, When::Lax(_));
        let start = Start { run, work, lax };
        let (actor, owner) = (self.actor.clone(), self.wish.owner.clone());
        let yard = self.yard.clone();
        self.job(async move {
            let started = actor.start(&owner, &start, &yard.starts).await;
            Happened::Started(number, started)
        });
    }

    /// Gives a pod that goes on the files of its configs as they are now.
    pub(super) fn refresh(&mut self, number: u64) {
        let (actor, owner) = (self.actor.clone(), self.wish.owner.clone());
        let spec = self.spec();
        self.job(async move {
            match actor.refresh(&owner, &spec.work, number).await {
                Ok(()) => Happened::Forgotten,
                Err(error) => {
                    tracing::warn!(number, %error, "a pod has old files yet");
                    tokio::time::sleep(REFRESH).await;
                    Happened::NotRefreshed(number)
                }
            }
        });
    }
}
