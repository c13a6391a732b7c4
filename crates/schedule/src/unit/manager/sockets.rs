// SPDX-License-Identifier: Apache-2.0
//! Socket units in the manager: their commands, their descriptors, who waits at them, and the start
//! of what serves them. Connections are [`super::connections`]'.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::oneshot;
use units::depend::{Dependency, triggered};
use units::job::{JobType, World};
use units::name::{UnitName, UnitType};
use units::unit::Unit;

use super::jobs::Wanted;
use super::triggers::Happened;
use super::{Happened as Event, Manager};
use crate::unit::kept::Use;
use crate::unit::live::Machine;
use crate::unit::program::{self, Told};
use crate::unit::rows;
use crate::unit::runs::Run;
use crate::unit::socket::rules::Rules;
use crate::unit::socket::state::{self, Effect, Has, State, Sub};
use crate::unit::socket::{Listening, jobs, place};
use crate::unit::steps::{Commands, Outcome, Phase, Step, limit};

/// No list has more commands than are looked for when one is ended.
const COMMANDS: usize = 1000;

/// The lists of commands of a unit.
#[derive(Debug)]
struct Lists(Arc<Commands>);

impl Has for Lists {
    fn has(&self, phase: Phase) -> bool {
        self.0.has(Step {
            phase,
            index: 0,
            round: 0,
        })
    }
}

/// Whether the daemon listens in a socket unit's place: that is up, and has no descriptors here.
pub(super) fn is_the_daemons(files: &Unit) -> bool {
    files.fragment.as_deref().is_some_and(rows::is_present)
}

impl Manager {
    pub(super) fn socket_files(&self, unit: &UnitName) -> Option<Arc<Unit>> {
        Some(self.known.table.find(unit)?.unit.clone())
    }

    pub(super) fn socket_state(&mut self, unit: &UnitName) -> Option<&mut State> {
        match &mut self.known.live_mut(unit).machine {
            Machine::Socket(state) => Some(state),
            _ => None,
        }
    }

    /// Its conditions hold.
    pub(super) fn start_socket(&mut self, unit: &UnitName) {
        let files = self.socket_files(unit);
        if files.as_ref().is_some_and(|it| is_the_daemons(it)) {
            let before = self.known.activity(unit);
            if let Some(state) = self.socket_state(unit) {
                state.sub = Sub::Running;
            }
            return self.changed(unit, before);
        }
        let serves = files.filter(|it| !Rules::of(it).accept);
        let serves = serves.and_then(|it| triggered(&it)).map(|it| self.id(&it));
        if let Some(service) = serves.filter(|it| self.known.activity(it).is_active()) {
            let before = self.known.activity(unit);
            let live = self.known.live_mut(unit);
            live.words = format!("{service} is up already: it would not get the sockets");
            live.failed = Some(Outcome::Failure);
            return self.changed(unit, before);
        }
        let live = self.known.live_mut(unit);
        live.activation = live.activation.saturating_add(1);
        self.socket_event(unit, state::Event::Start);
    }

    /// Something happened to a socket unit.
    pub(super) fn socket_event(&mut self, unit: &UnitName, event: state::Event) {
        let before = self.known.activity(unit);
        let loaded = self.known.table.find(unit);
        let lists = Lists(loaded.map(|it| it.commands.clone()).unwrap_or_default());
        let rules = loaded.map(|it| Rules::of(&it.unit));
        let rules = state::Rules {
            has: &lists,
            flush: rules.as_ref().is_some_and(|it| it.flush),
            accept: rules.as_ref().is_some_and(|it| it.accept),
        };
        let Some(state) = self.socket_state(unit) else {
            return;
        };
        let was = state.sub;
        let effects = state::advance(rules, state, event);
        let sub = state.sub;
        if sub == was && effects.is_empty() {
            return;
        }
        tracing::debug!(%unit, ?event, sub = sub.as_str(), ?effects, "a socket");
        let effects = effects.into_iter().map(|it| (unit.clone(), it));
        self.triggers.effects.extend(effects);
        self.changed(unit, before);
    }

    pub(super) fn socket_fails(&mut self, unit: &UnitName, outcome: Outcome, words: String) {
        if !self.known.activity(unit).is_up() {
            return;
        }
        tracing::warn!(%unit, words, "a socket unit failed");
        self.known.live_mut(unit).words = words;
        self.socket_event(unit, state::Event::Failed(outcome));
    }

    pub(super) fn socket_effect(&mut self, unit: &UnitName, effect: Effect) {
        match effect {
            Effect::Run(phase) => self.run_socket(unit, phase),
            Effect::Open => self.open_socket(unit),
            Effect::Watch => self.watch_socket(unit),
            Effect::Leave => self.triggers.leave(unit),
            Effect::Flush => self.flush(unit),
            Effect::Trigger => self.trigger_service(unit),
            Effect::Close => self.close_socket(unit),
            Effect::Cancel => self.cancel_commands(unit),
        }
    }

    /// Runs the commands of a list, one after the other.
    fn run_socket(&mut self, unit: &UnitName, phase: Phase) {
        let Some(loaded) = self.known.table.find(unit) else {
            return self.socket_event(unit, state::Event::Done(phase, Outcome::Success));
        };
        let (files, lists) = (loaded.unit.clone(), loaded.commands.clone());
        let live = self.known.live.get(unit);
        let run = Run {
            unit: unit.clone(),
            activation: live.map_or(0, |it| it.activation),
            step: Step {
                phase,
                index: 0,
                round: 0,
            },
        };
        let turn = self.triggers.next();
        let (runs, name, first) = (self.runs.clone(), unit.clone(), run.clone());
        let told = Told {
            invocation: super::acts::invocation(),
            shared: self.shared_by(unit),
            slices: self.slices_of(&files),
            environment: self.given.variables().clone(),
            ..Told::default()
        };
        let job = self.jobs.spawn(async move {
            let (outcome, words) = jobs::run_list(&runs, first, &files, &lists, &told).await;
            Event::Trigger(Happened::Commands(name, turn, phase, outcome, words))
        });
        let running = (turn, job, Some(run));
        self.triggers.commands.insert(unit.clone(), running);
    }

    pub(super) fn commands_done(
        &mut self,
        unit: &UnitName,
        turn: u64,
        phase: Phase,
        outcome: Outcome,
        words: String,
    ) {
        if !self.is_command(unit, turn) {
            return;
        }
        self.triggers.commands.remove(unit);
        if !words.is_empty() {
            self.known.live_mut(unit).words = words;
        }
        self.socket_event(unit, state::Event::Done(phase, outcome));
    }

    fn is_command(&self, unit: &UnitName, turn: u64) -> bool {
        let known = self.triggers.commands.get(unit);
        known.is_some_and(|(it, ..)| *it == turn)
    }

    /// Ends what goes on for a socket unit.
    fn cancel_commands(&mut self, unit: &UnitName) {
        let going = self.triggers.commands.remove(unit);
        let turn = self.triggers.next();
        let (runs, name) = (self.runs.clone(), unit.clone());
        let run = going.and_then(|(_, job, run)| {
            job.abort();
            run
        });
        let grace = self.socket_files(unit).map(|it| Rules::of(&it).grace());
        let grace = grace.unwrap_or_default();
        let job = self.jobs.spawn(async move {
            if let Some(run) = run {
                // Whichever of the list it is at.
                for index in 0..COMMANDS {
                    let step = Step { index, ..run.step };
                    let run = Run {
                        step,
                        ..run.clone()
                    };
                    if runs.seen(&run).is_none() && index > 0 {
                        break;
                    }
                    runs.stop_surely(&run, grace).await;
                }
                jobs::let_go(&runs, &run).await;
            }
            Event::Trigger(Happened::Gone(name, turn))
        });
        let running = (turn, job, None);
        self.triggers.commands.insert(unit.clone(), running);
    }

    pub(super) fn commands_gone(&mut self, unit: &UnitName, turn: u64) {
        if self.is_command(unit, turn) {
            self.triggers.commands.remove(unit);
            self.socket_event(unit, state::Event::Gone);
        }
    }

    /// Makes what a unit listens on, but what is there already, and has it kept.
    fn open_socket(&mut self, unit: &UnitName) {
        let Some(files) = self.socket_files(unit) else {
            let words = "its file has gone".to_owned();
            return self.socket_fails(unit, Outcome::Failure, words);
        };
        let there = self.triggers.open.get(unit).into_iter().flatten();
        let there: Vec<usize> = there.map(|it| it.at).collect();
        let turn = self.triggers.next();
        let (descriptors, name) = (self.triggers.descriptors.clone(), unit.clone());
        let closing = self.triggers.closing.remove(unit);
        let job = self.jobs.spawn(async move {
            // What is closed removes its files: those that are made now stay.
            if let Some(closed) = closing {
                let _ = closed.await;
            }
            let opened = jobs::open_all(&descriptors, &name, files, &there).await;
            Event::Trigger(Happened::Opened(name, turn, opened))
        });
        let running = (turn, job, None);
        self.triggers.commands.insert(unit.clone(), running);
    }

    pub(super) fn opened(
        &mut self,
        unit: &UnitName,
        turn: u64,
        opened: Result<Vec<Listening>, String>,
    ) {
        let current = self.is_command(unit, turn);
        match opened {
            Ok(listening) if current => {
                self.triggers.commands.remove(unit);
                let open = self.triggers.open.entry(unit.clone()).or_default();
                open.extend(listening);
                open.sort_by_key(|it| it.at);
                self.socket_event(unit, state::Event::Opened);
            }
            // It was stopped meanwhile.
            Ok(listening) => self.drop_kept(listening.into_iter().map(|it| it.number).collect()),
            Err(words) if current => {
                self.triggers.commands.remove(unit);
                self.socket_fails(unit, Outcome::Failure, words);
            }
            Err(_) => {}
        }
    }

    fn close_socket(&mut self, unit: &UnitName) {
        let all = self.triggers.open.remove(unit).unwrap_or_default();
        if all.is_empty() {
            return;
        }
        let descriptors = self.triggers.descriptors.clone();
        let files = self.socket_files(unit);
        let (closing, closed) = oneshot::channel::<()>();
        self.triggers.closing.insert(unit.clone(), closed);
        self.jobs.spawn(async move {
            for one in &all {
                descriptors.forget(one.number).await;
            }
            drop(all);
            if let Some(files) = files {
                let removed = tokio::task::spawn_blocking(move || {
                    let rules = Rules::of(&files);
                    if rules.remove {
                        place::remove(&rules, files.id.as_str());
                    }
                    if !program::keeps_folders(&files.settings, false) {
                        program::clear(&files);
                    }
                });
                let _ = removed.await;
            }
            drop(closing);
            Event::Nothing
        });
    }

    /// The descriptors of a unit that can be waited for, as duplicates.
    fn duplicates(&self, unit: &UnitName) -> Vec<OwnedFd> {
        let open = self.triggers.open.get(unit).into_iter().flatten();
        open.filter_map(|it| it.fd.try_clone().ok()).collect()
    }

    /// Waits for a client to come: once. What comes is taken in, then it is waited again.
    pub(super) fn watch_socket(&mut self, unit: &UnitName) {
        let accepts = self
            .socket_files(unit)
            .is_some_and(|it| Rules::of(&it).accept);
        let fds = self.duplicates(unit);
        self.triggers.leave(unit);
        let turn = self.triggers.next();
        let name = unit.clone();
        let job = self.jobs.spawn(async move {
            Event::Trigger(match jobs::wait_at(fds, accepts).await {
                Ok(jobs::Came::Connection(connection)) => {
                    Happened::Accepted(name, turn, connection)
                }
                Ok(jobs::Came::Readable) => Happened::Incoming(name, turn),
                Ok(jobs::Came::Full(words)) => Happened::Full(name, turn, words),
                Err(words) => Happened::Deaf(name, turn, words),
            })
        });
        self.triggers.waits.insert(unit.clone(), (turn, job));
    }

    /// `FlushPending=`: what waits is thrown away, then it is waited for more.
    fn flush(&mut self, unit: &UnitName) {
        let fds = self.duplicates(unit);
        self.triggers.leave(unit);
        let turn = self.triggers.next();
        let name = unit.clone();
        let job = self.jobs.spawn(async move {
            let flushed = tokio::task::spawn_blocking(move || fds.iter().for_each(jobs::flush_one));
            let _ = flushed.await;
            Event::Trigger(Happened::Flushed(name, turn))
        });
        self.triggers.waits.insert(unit.clone(), (turn, job));
    }

    /// Counts a trigger; `false`: there were too many, and the unit has failed.
    pub(super) fn may_trigger(&mut self, unit: &UnitName, rules: &Rules) -> bool {
        let now = self.now();
        let (interval, burst) = (rules.trigger_interval, rules.trigger_burst);
        let Some(state) = self.socket_state(unit) else {
            return false;
        };
        if limit::take(&mut state.triggers, now.boot, interval, burst) {
            return true;
        }
        let words = format!("it was triggered more than {burst} times within its limit's time");
        self.socket_fails(unit, Outcome::TriggerLimitHit, words);
        false
    }

    /// A client has come: the service of a socket is started.
    fn trigger_service(&mut self, unit: &UnitName) {
        let Some(files) = self.socket_files(unit) else {
            return;
        };
        let job = self.engine.job(unit);
        if job.is_some_and(|it| it.kind == JobType::Stop) {
            return;
        }
        let Some(service) = triggered(&files) else {
            return;
        };
        if self.may_trigger(unit, &Rules::of(&files)) {
            self.wanted.push(Wanted {
                unit: service,
                kind: JobType::Start,
                mode: Default::default(),
                why: format!("a client came to {unit}"),
            });
        }
    }

    /// The sockets that a start of a service is given: of each socket unit that starts it, or that
    /// it names (`Sockets=`), in the order of their names.
    pub(super) fn sockets_for(&self, service: &UnitName) -> Vec<runtime::Descriptor> {
        let mut units = self.known.of_others(service, Dependency::Triggers);
        if let Some(loaded) = self.known.table.find(service) {
            let named = loaded.unit.settings.units("Sockets");
            units.extend(named.iter().map(|it| self.id(it)));
        }
        units.retain(|it| it.kind() == UnitType::Socket);
        units.sort();
        units.dedup();
        let mut all = Vec::new();
        for unit in units {
            let Some(files) = self.socket_files(&unit) else {
                continue;
            };
            let name = Rules::of(&files).name;
            let fds = self.duplicates(&unit).into_iter();
            all.extend(fds.map(|fd| runtime::Descriptor {
                name: name.clone(),
                fd,
            }));
        }
        all
    }

    /// A new daemon goes on with a socket unit.
    pub(super) fn adopt_socket(&mut self, unit: &UnitName) {
        let Some(sub) = self.socket_state(unit).map(|it| it.sub) else {
            return;
        };
        if !sub.activity().is_up() {
            // What is kept for it is dropped with the rest.
            return;
        }
        if self
            .socket_files(unit)
            .is_some_and(|it| is_the_daemons(&it))
        {
            return;
        }
        let left = self.triggers.left.remove(&(Use::Socket, unit.clone()));
        let mut all = Vec::new();
        for kept in left.into_iter().flatten() {
            match kept.name.parse::<usize>() {
                Ok(at) if !all.iter().any(|it: &Listening| it.at == at) => all.push(Listening {
                    at,
                    fd: kept.fd,
                    number: kept.number,
                }),
                _ => self.drop_kept(vec![kept.number]),
            }
        }
        all.sort_by_key(|it| it.at);
        let files = self.socket_files(unit);
        let wanted = files.map_or(all.len(), |it| Rules::of(&it).listens.len());
        let complete = all.len() == wanted;
        self.triggers.open.insert(unit.clone(), all);
        let before = self.known.activity(unit);
        let live = self.known.live_mut(unit);
        // Its commands may have been begun: what comes has names of its own.
        live.activation = live.activation.saturating_add(1);
        let Some(state) = self.socket_state(unit) else {
            return;
        };
        match sub {
            Sub::Listening | Sub::Running if complete => {
                // Whether its service is up is told next, and then it doesn't wait.
                state.sub = Sub::Listening;
                self.triggers.effects.push((unit.clone(), Effect::Watch));
                let files = self.socket_files(unit);
                let service = files.and_then(|it| triggered(&it)).map(|it| self.id(&it));
                if let Some(service) = service
                    && self.known.activity(&service).is_active()
                {
                    self.socket_event(unit, state::Event::Serves);
                }
            }
            Sub::Listening | Sub::Running | Sub::StartChown | Sub::StartPost => {
                state.sub = Sub::StartChown;
                self.triggers.effects.push((unit.clone(), Effect::Open));
            }
            Sub::StartPre => {
                state.sub = Sub::Dead;
                self.socket_event(unit, state::Event::Start);
            }
            _ => {
                state.sub = Sub::Listening;
                self.socket_event(unit, state::Event::Stop);
            }
        }
        self.changed(unit, before);
    }
}
