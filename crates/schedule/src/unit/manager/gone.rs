// SPDX-License-Identifier: Apache-2.0
//! Units that are gone (connections, `systemd-run`, removed packages), also those of an earlier
//! daemon: what has run for them is put away by itself, a while after it ended. Which units are
//! there is looked up here; what is done with the others is [`crate::unit::past`]'s.

use std::collections::HashSet;

use units::job::{Activity, World};
use units::name::UnitName;

use super::{Happened, Manager};
use crate::unit::name;
use crate::unit::past::{GRACE, Removed};

/// Instances that go until the next look.
const MANY: usize = 64;

/// How far that is.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// It goes on.
    is_looking: bool,
    /// Another look is to come.
    is_due: bool,
    /// Instances that have gone since the last look.
    count: usize,
}

/// What has come of it.
#[derive(Debug)]
pub(super) enum Told {
    /// It is done.
    Removed(Removed),
    /// The time of those has come that had ended of late.
    Again,
}

impl Manager {
    /// A unit has gone.
    pub(super) fn one_is_gone(&mut self) {
        self.gone.count = self.gone.count.saturating_add(1);
        if self.gone.count >= MANY {
            self.put_gone_away();
        } else {
            self.look_for_gone_later();
        }
    }

    /// Looks for what is of no unit any more.
    pub(super) fn put_gone_away(&mut self) {
        if std::mem::replace(&mut self.gone.is_looking, true) {
            // What has gone since that look began is for another one.
            return self.look_for_gone_later();
        }
        self.gone.count = 0;
        let there = self.labels();
        let runs = self.runs.clone();
        self.jobs.spawn(async move {
            let removed = runs.put_gone_away(&there).await;
            Happened::PutAway(Told::Removed(removed))
        });
    }

    /// The labels of all units that are there.
    fn labels(&self) -> HashSet<String> {
        let files = self.known.table.files();
        let loaded = self.known.table.all().map(|(unit, _)| unit);
        let live = self.known.live.keys().filter(|it| !self.is_over(it));
        let known = loaded.chain(live).chain(&files);
        let labels = known.filter_map(|unit| name::label(unit).ok());
        labels.map(|label| label.to_string()).collect()
    }

    pub(super) fn gone_told(&mut self, told: Told) {
        match told {
            Told::Again => {
                self.gone.is_due = false;
                self.put_gone_away();
            }
            Told::Removed(removed) => {
                self.gone.is_looking = false;
                for unit in &removed.units {
                    self.forget_state(unit);
                }
                if removed.is_more {
                    self.look_for_gone_later();
                }
            }
        }
    }

    fn look_for_gone_later(&mut self) {
        if !std::mem::replace(&mut self.gone.is_due, true) {
            self.jobs.spawn(async {
                tokio::time::sleep(GRACE).await;
                Happened::PutAway(Told::Again)
            });
        }
    }

    /// Forgets how a unit was that has no file any more.
    fn forget_state(&mut self, unit: &UnitName) {
        let is_gone = self.is_over(unit) && !self.known.table.has(unit);
        if is_gone && self.known.live.remove(unit).is_some() {
            self.dirty.insert(unit.clone());
        }
    }

    /// Whether a unit is down, and nothing is to come of it.
    fn is_over(&self, unit: &UnitName) -> bool {
        self.known.activity(unit) == Activity::Inactive
            && self.engine.job(unit).is_none()
            && !self.effects.iter().any(|it| it.unit == *unit)
    }
}
