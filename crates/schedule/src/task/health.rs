// SPDX-License-Identifier: Apache-2.0
//! The health of runs: a question that is asked while a run goes on (`spec.health`). One that has
//! answered well is ready; one that doesn't any more is stopped, and that it has failed is what its
//! end says. A daemon that comes back asks anew, and a run isn't ready until it has answered that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pod::Asking;
use tokio::time::Instant;

use super::{Happened, Task};

/// What is known of the runs that go on.
#[derive(Default)]
pub(super) struct Health {
    /// Those that have answered well.
    well: BTreeSet<u64>,
    /// Those that are stopped for their answers, and why.
    failed: BTreeMap<u64, String>,
}

impl Health {
    /// The run is over; why, where that was for its answers.
    pub(super) fn over(&mut self, number: u64) -> Option<String> {
        self.well.remove(&number);
        self.failed.remove(&number)
    }

    pub(super) fn failed(&self) -> Vec<u64> {
        self.failed.keys().copied().collect()
    }

    /// Whether a run has answered well.
    pub(super) fn is_well(&self, number: u64) -> bool {
        self.well.contains(&number)
    }
}

impl Task {
    /// Whether a run is as others may need it.
    pub(super) fn answers(&self, number: u64) -> bool {
        self.wish.spec.health.is_none() || self.health.is_well(number)
    }

    /// Begins to ask a run that goes on.
    pub(super) fn ask(&mut self, number: u64) {
        let Some(probe) = self.wish.spec.health.clone() else {
            return;
        };
        let run = self.state.runs.iter().find(|run| run.number == number);
        let age = run.and_then(|run| run.began);
        let age = age.map_or(Duration::ZERO, |began| runtime::now().since(began));
        let since = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
        self.ask_again(number, Asking::new(probe, since));
    }

    fn ask_again(&mut self, number: u64, mut asking: Asking) {
        let work = &self.wish.spec.work;
        let Some(reached) = self.actor.reached(&self.wish.owner, work, number) else {
            return;
        };
        let yard = self.yard.clone();
        self.job(async move {
            let verdict = asking.verdict(&reached, "", &yard.questions).await;
            Happened::Asked(number, Box::new(asking), verdict)
        });
    }

    pub(super) fn asked(&mut self, number: u64, asking: Asking, (well, why): (bool, String)) {
        let goes_on = self.state.runs.iter().any(|run| run.number == number);
        if !goes_on || self.actor.ports.runtime.goes_down() {
            return;
        }
        if well {
            self.health.well.insert(number);
            return self.ask_again(number, asking);
        }
        let name = &self.wish.named.name;
        tracing::warn!(schedule = %name, number, why, "a run is not healthy, and is stopped");
        self.health.well.remove(&number);
        let words = format!("its health check failed: {why}");
        self.health.failed.insert(number, words);
    }
}
