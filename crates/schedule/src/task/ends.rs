// SPDX-License-Identifier: Apache-2.0
//! What a task does when a run has ended, or can't be made to.

use std::collections::BTreeSet;
use std::time::Duration;

use model::error::Error;
use model::schedule::Work;
use model::schedule::state::{Event, Outcome};
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
        let (success, words) = match self.health.over(number) {
            Some(why) => (false, why),
            None => (success, words),
        };
        self.event(Event::Ended(number, success, words));
        self.over(number);
    }

    pub(super) fn lost(&mut self, number: u64) {
        self.health.over(number);
        self.event(Event::Lost(number));
        self.over(number);
    }

    /// Forgets what is older than the history.
    fn over(&mut self, number: u64) {
        self.stops.remove(&number);
        let kept = self.kept(number);
        let goes_on = |old: &u64| self.state.runs.iter().any(|run| run.number == *old);
        let old = self.actor.numbers();
        let old: Vec<_> = old
            .range(..=number)
            .filter(|it| !goes_on(it) && !kept.contains(it))
            .filter(|it| !self.forgets.contains_key(it))
            .take(FORGET)
            .collect();
        for number in old {
            self.forgets.entry(*number).or_insert(false);
        }
    }

    /// Removes what is left of old runs. As long as the disk doesn't have their ends, it stays: the
    /// next daemon would take them for lost, and begin them anew.
    pub(super) fn forget_old(&mut self) {
        if self.keep.is_behind() {
            return;
        }
        for (number, force) in std::mem::take(&mut self.forgets) {
            self.forget(number, force);
        }
    }

    /// The runs whose records stay, when one has ended.
    fn kept(&self, number: u64) -> BTreeSet<u64> {
        let spec = &self.wish.spec;
        let ends = self.history.iter().rev().filter(|it| it.number > 0);
        if spec.keep_succeeded.is_none() && spec.keep_failed.is_none() {
            // A pod that has ended costs a process.
            let most = match spec.work {
                Work::Pod { .. } => spec.history().min(1),
                Work::Executable { .. } | Work::Cell { .. } => spec.history(),
            };
            return (number.saturating_sub(most.into()) + 1..=number).collect();
        }
        let of = |success: bool, most: Option<u32>| {
            let most = usize::try_from(most.unwrap_or_else(|| spec.history()));
            let ends = ends.clone();
            ends.filter(move |it| (it.outcome == Outcome::Succeeded) == success)
                .map(|it| it.number)
                .take(most.unwrap_or(usize::MAX))
        };
        of(true, spec.keep_succeeded)
            .chain(of(false, spec.keep_failed))
            .collect()
    }

    /// Removes what is left of a run.
    fn forget(&mut self, number: u64, force: bool) {
        let (actor, owner) = (self.actor.clone(), self.wish.owner.clone());
        self.job(async move {
            if let Err(error) = actor.forget(&owner, number, None, force).await {
                tracing::debug!(number, %error, "the record of an old run stays");
            }
            Happened::Forgotten
        });
    }
}
