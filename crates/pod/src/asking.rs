// SPDX-License-Identifier: Apache-2.0
//! A question that is asked again and again: when, and what its answers come to. Pods' probes and
//! the health checks of schedules' runs.

use model::pod::probe::Probe;
use model::pod::verdict::{Streak, Thresholds};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use crate::ask;
use crate::reach::Reach;

/// See the module.
#[derive(Debug)]
pub struct Asking {
    probe: Probe,
    first: Instant,
    ticks: Option<Interval>,
    streak: Streak,
}

impl Asking {
    /// Of something that began then: its delay counts from there.
    pub fn new(probe: Probe, since: Instant) -> Self {
        let first = since + probe.initial_delay.unwrap_or_default();
        Self {
            probe,
            first,
            ticks: None,
            streak: Streak::default(),
        }
    }

    /// The next verdict, and the last answer's reason where it was no success. `places` bounds the
    /// questions that are open.
    pub async fn verdict(
        &mut self,
        reach: &dyn Reach,
        container: &str,
        places: &Semaphore,
    ) -> (bool, String) {
        loop {
            let answer = self.once(reach, container, places).await;
            let of = Thresholds::of(&self.probe);
            let (streak, verdict) = self.streak.after(answer.is_ok(), of);
            self.streak = streak;
            if let Some(verdict) = verdict {
                return (verdict, answer.err().unwrap_or_default());
            }
        }
    }

    async fn once(
        &mut self,
        reach: &dyn Reach,
        container: &str,
        places: &Semaphore,
    ) -> Result<(), String> {
        sleep_until(self.first).await;
        let period = self.probe.period();
        let ticks = self.ticks.get_or_insert_with(|| {
            let mut ticks = interval_at(Instant::now(), period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        ticks.tick().await;
        // Closed never.
        let _open = places.acquire().await;
        ask::ask(reach, container, &self.probe.ask, self.probe.timeout()).await
    }
}
