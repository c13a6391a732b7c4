// SPDX-License-Identifier: Apache-2.0
//! Connections that wait because the daemon, or the machine, has no descriptor left for them. It is
//! tried again when the manager gives one back, and after a pause that doubles: who else gives one
//! back doesn't say so.

use std::time::Duration;

use units::name::UnitName;

use super::triggers::Happened;
use super::{Happened as Event, Manager};

/// The first pause, and the longest.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);
/// What is said of a unit meanwhile.
const WORDS: &str = "a client waits: there is nothing to take its connection with";

/// How long it is waited before the next try.
fn pause(tries: u32) -> Duration {
    let factor = 1_u32.checked_shl(tries).unwrap_or(u32::MAX);
    FIRST.saturating_mul(factor).min(LONGEST)
}

impl Manager {
    pub(super) fn socket_is_full(&mut self, unit: &UnitName, words: &str) {
        let tries = self.triggers.full.entry(unit.clone()).or_default();
        let wait = pause(*tries);
        if *tries == 0 {
            tracing::warn!(%unit, words, "a connection can't be taken; it is tried again");
            self.known.live_mut(unit).words = format!("{WORDS} ({words})");
            self.dirty.insert(unit.clone());
        }
        let tries = self.triggers.full.entry(unit.clone()).or_default();
        *tries = tries.saturating_add(1);
        let turn = self.triggers.next();
        let name = unit.clone();
        let job = self.jobs.spawn(async move {
            tokio::time::sleep(wait).await;
            Event::Trigger(Happened::Again(name, turn))
        });
        self.triggers.waits.insert(unit.clone(), (turn, job));
    }

    /// A connection was taken.
    pub(super) fn socket_has_room(&mut self, unit: &UnitName) {
        if self.triggers.full.remove(unit).is_none() {
            return;
        }
        let live = self.known.live_mut(unit);
        if live.words.starts_with(WORDS) {
            live.words.clear();
        }
        self.dirty.insert(unit.clone());
    }

    /// The manager has given descriptors back: who waits for one has his turn.
    pub(super) fn room_was_made(&mut self) {
        let waiting: Vec<UnitName> = self.triggers.full.keys().cloned().collect();
        for unit in waiting {
            match self.triggers.waits.contains_key(&unit) {
                true => self.watch_socket(&unit),
                // It listens no more.
                false => drop(self.triggers.full.remove(&unit)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_a_bound() {
        let all: Vec<u128> = (0..9).map(|it| pause(it).as_millis()).collect();
        assert_eq!(all, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(pause(u32::MAX), LONGEST);
    }
}
