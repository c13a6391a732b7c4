// SPDX-License-Identifier: Apache-2.0
//! Scopes: what their states ask for is done here, by `runtime::scopes`. Their processes are
//! others'; a new daemon finds them by their groups.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kernel::time::boottime_ns;
use model::error::{Error, Reason};
use model::signal::Signal;
use runtime::scopes::{Draft, Scopes};
use tokio::sync::oneshot;
use units::job::World;
use units::name::{UnitName, UnitType};
use units::time::Span;

use super::slices::{chain, names};
use super::{Happened, Manager};
use crate::unit::live::Machine;
use crate::unit::program::group::resources;
use crate::unit::scope::{Effect, Event, Rules, State, Sub, advance};
use crate::unit::steps::service::nanos;

/// systemd-system.conf(5), DefaultTimeoutStopSec=.
const STOP: Span = Span::from_secs(90);
/// Processes that a scope may begin with.
const MOST: usize = 1_024;

/// What is known of them beside their states.
pub(super) struct Known {
    pub(super) groups: Result<Scopes, Error>,
    /// With which processes those begin that are to be begun.
    wanted: BTreeMap<UnitName, Vec<i32>>,
}

impl Known {
    pub(super) fn new(groups: Result<Scopes, Error>) -> Known {
        Known {
            groups,
            wanted: BTreeMap::new(),
        }
    }
}

impl Manager {
    /// The next start of a scope begins with these processes.
    pub(super) fn scope_begins_with(
        &mut self,
        unit: UnitName,
        processes: Vec<i32>,
    ) -> Result<(), Error> {
        if self.known.activity(&unit).is_up() {
            let words = format!("{unit} is there already");
            return Err(Error::new(Reason::AlreadyExists, words).about("unit", unit.to_string()));
        }
        if processes.is_empty() || processes.len() > MOST {
            let words = format!("must have 1 to {MOST} processes");
            return Err(Error::invalid("PIDs", words));
        }
        // One whose job was called off never begins.
        let engine = &self.engine;
        self.scopes
            .wanted
            .retain(|unit, _| engine.job(unit).is_some());
        self.scopes.wanted.insert(unit, processes);
        Ok(())
    }

    pub(super) fn scope_does_not_begin(&mut self, unit: &UnitName) {
        self.scopes.wanted.remove(unit);
    }

    pub(super) fn rules_of_scope(&self, unit: &UnitName) -> Rules {
        let settings = self.known.table.find(unit).map(|it| &it.unit.settings);
        let span = |field| settings.and_then(|it| it.span(field));
        Rules {
            stop: nanos(span("TimeoutStopSec").unwrap_or(STOP)),
            longest: span("RuntimeMaxSec").and_then(nanos),
            kills: settings.and_then(|it| it.flag("SendSIGKILL")) != Some(false),
        }
    }

    /// Something happened to a scope.
    pub(super) fn scope_event(&mut self, unit: &UnitName, event: Event) {
        let rules = self.rules_of_scope(unit);
        let before = self.known.activity(unit);
        let live = self.known.live_mut(unit);
        let Machine::Scope(state) = &mut live.machine else {
            return;
        };
        let effect = advance(state, rules, event.clone(), boottime_ns());
        tracing::debug!(%unit, ?event, sub = state.sub.as_str(), ?effect, "a scope");
        let group = PathBuf::from(&state.group);
        match effect {
            Some(Effect::Make) => self.make_scope(unit),
            Some(Effect::Watch) => self.watch_scope(unit, group),
            Some(Effect::Ask) => self.ask_scope(unit, group),
            Some(Effect::Kill) => self.signal_group(group, vec![Signal::KILL]),
            Some(Effect::Remove) => self.remove_scope(group),
            None => {}
        }
        self.changed(unit, before);
    }

    fn make_scope(&mut self, unit: &UnitName) {
        let settings = self
            .known
            .table
            .find(unit)
            .map(|it| it.unit.settings.clone());
        let settings = settings.unwrap_or_default();
        let processes = self.scopes.wanted.remove(unit).unwrap_or_default();
        let groups = self.scopes.groups.clone();
        let around = settings.units("Slice").first().cloned();
        let around = around.or_else(|| UnitName::parse("system.slice").ok());
        let slices = chain(around).into_iter().map(|it| self.slice(&it));
        let slices: Vec<_> = slices.map(|it| (it.name, it.resources)).collect();
        let unit = unit.clone();
        self.jobs.spawn(async move {
            let name = unit.to_string();
            let made = tokio::task::spawn_blocking(move || {
                if processes.is_empty() {
                    let words = "a scope has no processes yet: the program that started them \
                                 creates it (StartTransientUnit)";
                    return Err(words.to_owned());
                }
                let draft = Draft {
                    slices,
                    name,
                    resources: resources(&settings),
                    processes,
                };
                let made = groups.and_then(|it| it.make(&draft));
                made.map_err(|error| error.to_string())
            });
            let made = made.await.unwrap_or_else(|error| Err(error.to_string()));
            let made = made.map(|folder| folder.display().to_string());
            Happened::Scope(unit, made)
        });
    }

    /// A scope's group was made, or not; or nothing lives in it any more.
    pub(super) fn scope_happened(&mut self, unit: &UnitName, made: Result<String, String>) {
        match made {
            Ok(group) if group.is_empty() => self.scope_event(unit, Event::Empty),
            Ok(group) => self.scope_event(unit, Event::Made(group)),
            Err(words) => {
                tracing::warn!(%unit, words, "a scope is not begun");
                self.known.live_mut(unit).words = words;
                self.scope_event(unit, Event::NotMade);
            }
        }
    }

    fn watch_scope(&mut self, unit: &UnitName, group: PathBuf) {
        let Ok(groups) = self.scopes.groups.clone() else {
            return;
        };
        let unit = unit.clone();
        self.jobs.spawn(async move {
            groups.emptied(&group).await;
            Happened::Scope(unit, Ok(String::new()))
        });
    }

    /// systemd.kill(5): the signal, then SIGHUP where the unit says so, and SIGCONT, without which
    /// what is stopped hears neither.
    fn ask_scope(&mut self, unit: &UnitName, group: PathBuf) {
        let settings = self.known.table.find(unit).map(|it| &it.unit.settings);
        let flag = |field| settings.and_then(|it| it.flag(field)) == Some(true);
        let mode = settings.and_then(|it| it.word("KillMode"));
        let given = settings.and_then(|it| match it.get("KillSignal") {
            Some(units::value::Value::Signal(signal)) => Some(*signal),
            _ => None,
        });
        let mut signals = vec![given.unwrap_or(Signal::TERM)];
        if flag("SendSIGHUP") {
            signals.push(Signal::HUP);
        }
        signals.push(Signal::CONT);
        if mode != Some("none") {
            self.signal_group(group, signals);
        }
    }

    fn signal_group(&mut self, group: PathBuf, signals: Vec<Signal>) {
        let Ok(groups) = self.scopes.groups.clone() else {
            return;
        };
        self.jobs.spawn_blocking(move || {
            for signal in signals {
                groups.signal(&group, signal);
            }
            Happened::Nothing
        });
    }

    fn remove_scope(&mut self, group: PathBuf) {
        let Ok(groups) = self.scopes.groups.clone() else {
            return;
        };
        self.jobs.spawn_blocking(move || {
            groups.remove(&group);
            Happened::Nothing
        });
    }

    /// `KillUnit` of a scope.
    pub(super) fn signal_scope(&mut self, unit: &UnitName, signal: Signal) -> Result<(), Error> {
        match self.group_of_scope(unit) {
            Some(group) => {
                self.signal_group(group, vec![signal]);
                Ok(())
            }
            None => {
                let words = format!("{unit} has no process");
                Err(Error::new(Reason::WrongState, words).about("unit", unit.to_string()))
            }
        }
    }

    /// The folder of a scope that is up.
    pub(super) fn group_of_scope(&self, unit: &UnitName) -> Option<PathBuf> {
        match &self.known.live.get(unit)?.machine {
            Machine::Scope(state) if state.sub.activity().is_up() && !state.group.is_empty() => {
                Some(PathBuf::from(&state.group))
            }
            _ => None,
        }
    }

    /// The folder of a slice.
    pub(super) fn group_of_slice(&self, unit: &UnitName) -> Option<PathBuf> {
        let groups = self.scopes.groups.as_ref().ok()?;
        let mut all = names(&chain(Some(unit.clone())));
        let name = all.pop()?;
        Some(groups.folder(&all, &name))
    }

    /// The scope whose group this is, or is in.
    pub(super) fn scope_of_group(&self, folder: &Path) -> Option<UnitName> {
        let mut live = self.known.live.iter();
        live.find_map(|(unit, live)| match &live.machine {
            Machine::Scope(State { sub, group, .. })
                if *sub != Sub::Dead && !group.is_empty() && folder.starts_with(group) =>
            {
                Some(unit.clone())
            }
            _ => None,
        })
    }

    /// Moves more processes into a scope that is up.
    pub(super) fn attach(
        &mut self,
        unit: &UnitName,
        processes: Vec<i32>,
        reply: oneshot::Sender<Result<(), Error>>,
    ) {
        let (group, groups) = (self.group_of_scope(unit), self.scopes.groups.clone());
        let words = format!("{unit} is not a scope that runs");
        self.jobs.spawn_blocking(move || {
            let added = match group {
                None => Err(Error::new(Reason::WrongState, words)),
                Some(_) if processes.len() > MOST => {
                    Err(Error::invalid("pids", "are too many at once"))
                }
                Some(group) => groups.and_then(|it| it.add(&group, &processes)),
            };
            // Who has gone away has asked all the same.
            let _ = reply.send(added);
            Happened::Nothing
        });
    }

    /// Goes on with a scope of an earlier daemon.
    pub(super) fn go_on_with_scope(&mut self, unit: &UnitName) {
        let Some(live) = self.known.live.get(unit) else {
            return;
        };
        let Machine::Scope(state) = live.machine.clone() else {
            return;
        };
        let group = PathBuf::from(&state.group);
        match state.sub {
            // Whether it was made, and with whom, that daemon alone knew.
            Sub::StartChown => self.scope_event(unit, Event::NotMade),
            Sub::Running | Sub::Abandoned => self.watch_scope(unit, group),
            Sub::StopSigterm => {
                self.watch_scope(unit, group.clone());
                self.ask_scope(unit, group);
            }
            Sub::StopSigkill => {
                self.watch_scope(unit, group.clone());
                self.signal_group(group, vec![Signal::KILL]);
            }
            Sub::Dead | Sub::Failed => {}
        }
    }

    /// Forgets scopes that are over: one comes with each login.
    pub(super) fn forget_scopes(&mut self) {
        let is_over = |(unit, live): &(&UnitName, &crate::unit::live::Live)| {
            unit.kind() == UnitType::Scope
                && matches!(&live.machine, Machine::Scope(state) if state.sub == Sub::Dead)
                && self.engine.job(unit).is_none()
                && !self.scopes.wanted.contains_key(*unit)
        };
        let over: Vec<UnitName> = self
            .known
            .live
            .iter()
            .filter(is_over)
            .map(|(unit, _)| unit.clone())
            .collect();
        for unit in over {
            self.known.table.forget(&unit);
            self.known.live.remove(&unit);
            self.feed.moved = true;
            self.dirty.insert(unit);
        }
    }
}
