// SPDX-License-Identifier: Apache-2.0
//! Path units in the manager: they wait, start their unit, and wait again when that has ended.

use units::depend::triggered;
use units::job::{Activity, World};
use units::name::UnitName;

use super::triggers::Happened;
use super::{Happened as Event, Manager};
use crate::unit::live::Machine;
use crate::unit::path::watch::{Seen, Since, wait};
use crate::unit::path::{Rules, State, Sub};
use crate::unit::steps::{Outcome, limit};

impl Manager {
    fn path_state(&mut self, unit: &UnitName) -> Option<&mut State> {
        match &mut self.known.live_mut(unit).machine {
            Machine::Path(state) => Some(state),
            _ => None,
        }
    }

    fn set_path(&mut self, unit: &UnitName, sub: Sub) {
        let before = self.known.activity(unit);
        if let Some(state) = self.path_state(unit) {
            state.sub = sub;
        }
        self.changed(unit, before);
    }

    /// Its conditions hold.
    pub(super) fn start_path(&mut self, unit: &UnitName) {
        if let Some(state) = self.path_state(unit) {
            *state = State::default();
        }
        self.set_path(unit, Sub::Waiting);
        self.triggers.looks.push((unit.clone(), Since::Start));
    }

    pub(super) fn stop_path(&mut self, unit: &UnitName) {
        self.triggers.leave(unit);
        self.set_path(unit, Sub::Dead);
    }

    pub(super) fn path_fails(&mut self, unit: &UnitName, outcome: Outcome, words: String) {
        let Some(state) = self.path_state(unit) else {
            return;
        };
        if state.sub.activity() != Activity::Active {
            return;
        }
        state.result = outcome;
        tracing::warn!(%unit, words, "a path unit failed");
        self.known.live_mut(unit).words = words;
        self.triggers.leave(unit);
        self.set_path(unit, Sub::Failed);
    }

    /// Begins to wait. Where its unit is up already, that counts.
    pub(super) fn look_at_path(&mut self, unit: &UnitName, since: Since) {
        let Some(loaded) = self.known.table.find(unit) else {
            return;
        };
        let files = loaded.unit.clone();
        let up = triggered(&files).is_some_and(|it| {
            let it = self.id(&it);
            self.known.activity(&it).is_active()
        });
        if self
            .path_state(unit)
            .is_none_or(|it| it.sub != Sub::Waiting)
        {
            return;
        }
        if up {
            return self.set_path(unit, Sub::Running);
        }
        let existed = self.path_state(unit).map(|it| it.existed.clone());
        let rules = Rules::of(&files);
        self.triggers.leave(unit);
        let turn = self.triggers.next();
        let name = unit.clone();
        let job = self.jobs.spawn(async move {
            let (making, shown) = (rules.clone(), name.to_string());
            if since == Since::Start {
                let made = tokio::task::spawn_blocking(move || making.make(&shown));
                let _ = made.await;
            }
            let seen = wait(rules, existed.unwrap_or_default(), since).await;
            Event::Trigger(Happened::Path(name, turn, seen))
        });
        self.triggers.waits.insert(unit.clone(), (turn, job));
    }

    /// What it waits for is there.
    pub(super) fn path_seen(&mut self, unit: &UnitName, seen: Result<Seen, String>) {
        let now = self.now();
        let Some(loaded) = self.known.table.find(unit) else {
            return;
        };
        let files = loaded.unit.clone();
        let rules = Rules::of(&files);
        let seen = match seen {
            Ok(seen) => seen,
            Err(words) => return self.path_fails(unit, Outcome::Failure, words),
        };
        let Some(state) = self.path_state(unit).filter(|it| it.sub == Sub::Waiting) else {
            return;
        };
        state.existed = seen.existed;
        let (interval, burst) = (rules.trigger_interval, rules.trigger_burst);
        if !limit::take(&mut state.triggers, now.boot, interval, burst) {
            let words = format!("it was triggered more than {burst} times within its limit's time");
            return self.path_fails(unit, Outcome::TriggerLimitHit, words);
        }
        self.set_path(unit, Sub::Running);
        if let Some(other) = triggered(&files) {
            let told = [("TRIGGER_PATH", seen.path.clone())];
            self.trigger(other, unit, &told, format!("{unit}: {}", seen.path));
        }
    }

    /// Its unit is up, or down (and failed for good).
    pub(super) fn path_told(
        &mut self,
        unit: &UnitName,
        other: &UnitName,
        (down, up, limit): (bool, bool, bool),
    ) {
        let Some(sub) = self.path_state(unit).map(|it| it.sub) else {
            return;
        };
        match sub {
            Sub::Waiting | Sub::Running if down && limit => {
                let words = format!("{other} was started too often");
                self.path_fails(unit, Outcome::StartLimitHit, words);
            }
            Sub::Running if down => {
                self.set_path(unit, Sub::Waiting);
                self.triggers.looks.push((unit.clone(), Since::End));
            }
            Sub::Waiting if up => {
                self.triggers.leave(unit);
                self.set_path(unit, Sub::Running);
            }
            _ => {}
        }
    }

    /// A new daemon goes on with it.
    pub(super) fn adopt_path(&mut self, unit: &UnitName) {
        let Some(sub) = self.path_state(unit).map(|it| it.sub) else {
            return;
        };
        if sub.activity() != Activity::Active {
            return;
        }
        let since = match sub {
            Sub::Running => Since::End,
            _ => Since::Adoption,
        };
        self.set_path(unit, Sub::Waiting);
        self.triggers.looks.push((unit.clone(), since));
    }
}
