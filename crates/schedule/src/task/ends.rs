// SPDX-License-Identifier: Apache-2.0
//! What a task does when a run has ended, or can't be made to.

use std::time::Duration;

use model::error::Error;
use model::schedule::Work;
use model::schedule::state::Event;
use tokio::time::Instant;

use super::{AGAIN, Happened, Task};

/// The longest time between two tries to stop a run: its owner may not, perhaps for ever.
const SELDOM: Duration = Duration::from_secs(300);

/// The most runs that are forgotten when one has ended: where nothing may be removed, they add up.
const FORGET: usize = 16;

impl Task {
    pub(super) fn not_stopped(&mut self, number: u64, error: Error) {
        let name = &self.wish.named.name;
        tracing::warn!(schedule = %name, number, %error, "a run can't be stopped");
        let ending = self.stops.entry(number).or_default();
        let wait = AGAIN.saturating_mul(1 << ending.failed.min(8)).min(SELDOM);
        ending.failed = ending.failed.saturating_add(1);
        ending.again = Some(Instant::now() + wait);
        // Who wanted it removed is told, and may ask again.
        self.stays(error);
    }

    /// A run has ended. With the node it does so only while that goes down: an end that can't be
    /// read otherwise is a failure, and what follows waits.
    pub(super) fn ended(&mut self, number: u64, end: Option<(bool, String)>) {
        if self.actor.ports.runtime.goes_down() {
            return self.lost(number);
        }
        let unread = || (false, "ended; how is not known".to_owned());
        let (success, words) = end.unwrap_or_else(unread);
        self.event(Event::Ended(number, success, words));
        self.over(number);
    }

    pub(super) fn lost(&mut self, number: u64) {
        self.event(Event::Lost(number));
        self.over(number);
    }

    /// Forgets what is older than the history.
    fn over(&mut self, number: u64) {
        self.stops.remove(&number);
        // A pod that has ended costs a process.
        let keep = match self.wish.spec.work {
            Work::Pod { .. } => u64::from(self.wish.spec.history()).min(1),
            _ => u64::from(self.wish.spec.history()),
        };
        let last = number.saturating_sub(keep);
        let goes_on = |old: &u64| self.state.runs.iter().any(|run| run.number == *old);
        let old = self.actor.numbers();
        let old: Vec<_> = old
            .range(..=last)
            .filter(|it| !goes_on(it))
            .take(FORGET)
            .collect();
        for number in old {
            self.forget(*number, false);
        }
    }

    /// Removes what is left of a run.
    pub(super) fn forget(&mut self, number: u64, force: bool) {
        let (actor, owner) = (self.actor.clone(), self.wish.owner.clone());
        self.job(async move {
            if let Err(error) = actor.forget(&owner, number, None, force).await {
                tracing::debug!(number, %error, "the record of an old run stays");
            }
            Happened::Forgotten
        });
    }
}
