// SPDX-License-Identifier: Apache-2.0
//! What is done for units, and what comes of it: conditions, commands, ends, folders, timers.

use std::sync::Arc;
use std::time::Duration;

use model::name::Uid;
use model::status::Object;
use rustix::rand::{GetRandomFlags, getrandom};
use units::calendar::zones::FileZones;
use units::condition::{Verdict, evaluate};
use units::depend::{Dependency, triggered};
use units::job::engine::{Ending, Progress};
use units::job::{Activity, JobType, World};
use units::name::{UnitName, UnitType};
use units::service::{Service, Type};

use super::{Happened, Manager};
use crate::unit::disk::Disk;
use crate::unit::facts;
use crate::unit::live::Machine;
use crate::unit::program;
use crate::unit::runs::{self, Run};
use crate::unit::scope;
use crate::unit::steps::service::{Effect, Event, IDLE, Start, Sub};
use crate::unit::steps::{End, Outcome, Phase, Role, Step, limit, timer};

/// What waits for the machine to be on a network (systemd.special(7)).
const ONLINE: &str = "network-online.target";

/// What is to be done for an activation of a unit. The next one may have begun by the time that it
/// is done: a unit is down and up again within one turn.
pub(super) struct Decided {
    pub(super) unit: UnitName,
    activation: u64,
    effect: Effect,
}

/// 64 random bits.
fn random() -> u64 {
    let mut bits = [0; 8];
    match getrandom(&mut bits, GetRandomFlags::empty()) {
        Ok(_) => u64::from_ne_bytes(bits),
        Err(_) => 0,
    }
}

pub(super) fn invocation() -> String {
    let mut bits = [0; 16];
    bits[..8].copy_from_slice(&random().to_ne_bytes());
    bits[8..].copy_from_slice(&random().to_ne_bytes());
    Uid(bits).to_string().replace('-', "")
}

impl Manager {
    /// A start begins with conditions, which ask the machine's files.
    pub(super) fn check(&mut self, unit: &UnitName) {
        let Some(loaded) = self.known.table.find(unit) else {
            return self.end_job(unit, Ending::Failed);
        };
        let settings = loaded.unit.settings.clone();
        if !self.starts_now(unit) {
            return;
        }
        self.checking.insert(unit.clone());
        let all = ["Conditions", "Asserts"].map(|field| settings.conditions(field).is_empty());
        if all == [true, true] {
            return self.checked(unit, Verdict::Holds, Verdict::Holds);
        }
        let unit = unit.clone();
        self.jobs.spawn(async move {
            let name = unit.clone();
            let looked = tokio::task::spawn_blocking(move || {
                let look = |field| evaluate(settings.conditions(field), &facts::Machine);
                (look("Conditions"), look("Asserts"))
            });
            let broken = || Verdict::Fails("it could not be looked at".to_owned());
            let (conditions, asserts) = looked.await.unwrap_or_else(|_| (broken(), broken()));
            Happened::Checked(name, conditions, asserts)
        });
    }

    /// Whether a start begins now. One that is on its way already goes on as this job's; what goes
    /// down is started once it is down.
    fn starts_now(&mut self, unit: &UnitName) -> bool {
        let live = self.known.live.get(unit).map(|it| &it.machine);
        let start = match live {
            Some(Machine::Service(state)) => Start::of(state.sub),
            Some(Machine::Socket(state)) => state.sub.start(),
            Some(Machine::Scope(state)) => state.sub.start(),
            _ => return true,
        };
        match start {
            Start::Now => true,
            Start::Already => {
                if self.known.activity(unit).is_active() {
                    self.end_job(unit, Ending::Skipped);
                }
                false
            }
            Start::Later => {
                self.engine.put_back(unit);
                false
            }
        }
    }

    pub(super) fn happened(&mut self, happened: Happened) {
        match happened {
            Happened::Checked(unit, conditions, asserts) => {
                self.checked(&unit, conditions, asserts)
            }
            Happened::Began(run, role, object) => {
                self.began(&run, role, object);
                self.began_with(&run, role);
                self.is_settled(&run.unit);
            }
            Happened::NotBegun(run, status, words) => {
                self.note(&run, &words);
                if self.is_now(&run) {
                    self.event(&run.unit, Event::NotBegun(run.step, status));
                }
                self.is_settled(&run.unit);
            }
            Happened::Refused(run, words) => {
                self.note(&run, &words);
                if self.is_now(&run) {
                    self.event(&run.unit, Event::Refused(run.step));
                }
                self.is_settled(&run.unit);
            }
            Happened::Ended(run, end) => self.ended(&run, end),
            Happened::Signalled(unit, sent, reached) => self.signalled(&unit, sent, reached),
            Happened::Gone(unit, activation) => {
                if self.activation(&unit) == activation {
                    self.event(&unit, Event::Gone);
                }
            }
            Happened::OutOfMemory(unit, activation) => self.out_of_memory(&unit, activation),
            Happened::Mounts => self.mounts_changed(),
            Happened::Clock(change) => self.clock_changed(change),
            Happened::Devices => self.devices_spoke(),
            Happened::AllDevices(all) => self.devices_were_read(all),
            Happened::Online(unit, words) => self.network_came(&unit, words),
            Happened::Device(unit, words) => self.device_came(&unit, words),
            Happened::Automount(told) => self.automount_told(told),
            Happened::Trigger(happened) => self.triggered(happened),
            Happened::Scope(unit, made) => self.scope_happened(&unit, made),
            Happened::PutAway(told) => self.gone_told(told),
            Happened::Nothing => {}
        }
    }

    /// A command was executed; where it forks, its main process is known, or it has failed.
    fn began(&mut self, run: &Run, role: Role, object: Arc<Object>) {
        let watched = (self.runs.clone(), run.clone(), object.clone());
        self.jobs.spawn(async move {
            let (runs, run, object) = watched;
            let end = runs.end_of(&object).await;
            Happened::Ended(run, end)
        });
        let known = self.processes(&run.unit);
        if !known.iter().any(|(it, _)| it == run) {
            // It was given up while it was begun.
            return self.end_one(&run.unit, run.activation, run.step);
        }
        if !self.is_now(run) {
            return;
        }
        self.watch_memory(&run.unit);
        let forks = self.known.table.rules(&run.unit).1.kind == Type::Forking;
        if forks && run.step.phase == Phase::Start && object.state().is_final() {
            // Its first process has failed, or has left nothing: its end says so.
            return;
        }
        if role == Role::Main {
            self.known.live_mut(&run.unit).main_pid = runs::pid(&object);
        }
        self.event(&run.unit, Event::Began(run.step));
    }

    /// A command was begun, or not: what waited for that goes on.
    fn is_settled(&mut self, unit: &UnitName) {
        self.kill_late(unit);
        self.signal_late(unit);
        self.hear_early(unit);
    }

    fn note(&mut self, run: &Run, words: &str) {
        let Run { unit, step, .. } = run;
        tracing::warn!(%unit, phase = step.phase.word(), words, "a command was not begun");
        let words = format!("{}: {words}", step.phase.directive());
        self.known.live_mut(unit).words = words;
    }

    pub(super) fn ended(&mut self, run: &Run, end: End) {
        if self.is_now(run) && !self.moves(run, end) {
            self.ended_here(run, end);
        }
    }

    /// The same, when all of it is done.
    pub(super) fn ended_here(&mut self, run: &Run, end: End) {
        if !self.is_now(run) {
            return;
        }
        if run.step.phase == Phase::Start {
            self.known.live_mut(&run.unit).main_pid = None;
        }
        self.event(&run.unit, Event::Ended(run.step, end));
    }

    pub(super) fn activation(&self, unit: &UnitName) -> u64 {
        self.known.live.get(unit).map_or(0, |it| it.activation)
    }

    /// Whether it is of the activation that goes on.
    fn is_now(&self, run: &Run) -> bool {
        self.activation(&run.unit) == run.activation
    }

    /// The conditions of a start are known.
    fn checked(&mut self, unit: &UnitName, conditions: Verdict, asserts: Verdict) {
        if !self.checking.remove(unit) {
            // Its job was called off.
            return;
        }
        let job = self.engine.job(unit);
        if !job.is_some_and(|it| it.kind == JobType::Start && it.progress == Progress::Running) {
            // It has become another.
            return;
        }
        if !self.starts_now(unit) {
            return;
        }
        if let Verdict::Fails(condition) = conditions {
            tracing::info!(%unit, condition, "a condition does not hold; it is skipped");
            self.known.live_mut(unit).condition = Some(condition);
            self.dirty.insert(unit.clone());
            return self.end_job(unit, Ending::Skipped);
        }
        let live = self.known.live_mut(unit);
        live.condition = None;
        if let Verdict::Fails(assertion) = asserts {
            live.words = format!("the assertion {assertion} does not hold");
            live.failed = Some(Outcome::Resources);
            return self.changed(unit, Activity::Inactive);
        }
        self.begin(unit);
    }

    /// Begins a unit whose conditions hold.
    fn begin(&mut self, unit: &UnitName) {
        let before = self.known.activity(unit);
        let now = self.now();
        let service = self
            .known
            .table
            .find(unit)
            .and_then(|it| it.service.clone());
        if self.is_made(unit) {
            return self.changed(unit, before);
        }
        if unit.kind() == UnitType::Device && self.is_there(unit) != Some(true) {
            return self.await_device(unit);
        }
        if unit.as_str() == ONLINE && self.is_machine {
            return self.await_network(unit);
        }
        let live = self.known.live_mut(unit);
        live.failed = None;
        live.words.clear();
        if let Some(service) = &service
            && !limit::take(
                &mut live.starts,
                now.boot,
                service.limit_interval,
                service.limit_burst,
            )
        {
            live.words = "it was started too often: `aurae unit reset-failed` lets it start".into();
            live.failed = Some(Outcome::StartLimitHit);
            if let Machine::Service(state) = &mut live.machine {
                (state.sub, state.deadline) = (Sub::Dead, None);
            }
            self.act(unit, "StartLimitAction");
            return self.changed(unit, before);
        }
        match &mut live.machine {
            Machine::Service(_) => {
                live.activation = live.activation.saturating_add(1);
                live.invocation = invocation();
                live.said = None;
                self.event(unit, Event::Start);
                return self.ask_for_name(unit);
            }
            Machine::Socket(_) => return self.start_socket(unit),
            Machine::Path(_) => return self.start_path(unit),
            Machine::Scope(_) => {
                live.invocation = invocation();
                return self.scope_event(unit, scope::Event::Start);
            }
            Machine::Plain(_) if unit.kind() == UnitType::Automount => {
                return self.start_automount(unit);
            }
            Machine::Plain(active) => *active = true,
            Machine::Timer(state) => {
                *state = timer::State {
                    last: state.last,
                    active: true,
                    since: now.real,
                    since_boot: now.boot,
                    ..timer::State::default()
                };
            }
        }
        self.changed(unit, before);
        if unit.kind() == UnitType::Timer {
            self.plan_timer(unit);
        }
    }

    fn stops(&self, unit: &UnitName) -> bool {
        self.engine
            .job(unit)
            .is_some_and(|it| it.kind == JobType::Stop)
    }

    /// Keeps in mind what is to be done for the activation that a unit is in.
    pub(super) fn decide(&mut self, unit: &UnitName, effect: Effect) {
        self.effects.push(Decided {
            unit: unit.clone(),
            activation: self.activation(unit),
            effect,
        });
    }

    /// Does what was decided.
    pub(super) async fn perform(&mut self) {
        for decided in std::mem::take(&mut self.effects) {
            let Decided {
                unit,
                activation,
                effect,
            } = decided;
            let is_over = self.activation(&unit) != activation;
            match effect {
                // It would be done to the next one.
                Effect::Run(..)
                | Effect::Kill(_)
                | Effect::KillNow
                | Effect::AskReload
                | Effect::Restart
                    if is_over => {}
                Effect::Run(step, role) => self.run_command(&unit, step, role),
                Effect::Kill(watchdog) => self.kill(&unit, watchdog),
                Effect::KillNow => self.kill_now(&unit),
                Effect::Watch => self.watch(&unit, activation),
                Effect::AskReload => self.ask_reload(&unit),
                Effect::End(step) => self.end_one(&unit, activation, step),
                Effect::Down => self.down(&unit, activation).await,
                // Who stops it has his will.
                Effect::Restart if self.stops(&unit) => self.event(&unit, Event::GivenUp),
                Effect::Restart => {
                    self.wanted.push(super::jobs::Wanted {
                        unit: unit.clone(),
                        kind: JobType::Restart,
                        mode: Default::default(),
                        why: format!("{unit} is to be restarted"),
                    });
                }
            }
        }
        if !self.wanted.is_empty() {
            // What follows begins with the next turn.
            self.jobs.spawn(async { Happened::Nothing });
        }
    }

    /// The processes that a service has now.
    pub(super) fn processes(&self, unit: &UnitName) -> Vec<(Run, bool)> {
        let Some(live) = self.known.live.get(unit) else {
            return Vec::new();
        };
        let Machine::Service(state) = &live.machine else {
            return Vec::new();
        };
        let of = |process: crate::unit::steps::service::Process| {
            let run = Run {
                unit: unit.clone(),
                activation: live.activation,
                step: process.step,
            };
            (run, process.begun)
        };
        [state.control, state.main]
            .into_iter()
            .flatten()
            .map(of)
            .collect()
    }

    /// What a command is told, with what units share and where a mount goes at first.
    fn told_in_full(
        &mut self,
        unit: &UnitName,
        service: &Service,
        step: Step,
        role: Role,
    ) -> Result<Option<program::Told>, String> {
        let told = self.told(unit, service, role);
        let Some(mut told) = told.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        told.shared = self.shared_by(unit);
        let loaded = self.known.table.find(unit);
        told.slices = loaded.map_or_else(Vec::new, |it| self.slices_of(&it.unit));
        let staged = self.staged(unit);
        told.stage = staged.filter(|_| step.phase == Phase::Start).transpose()?;
        Ok(Some(told))
    }

    pub(super) fn run_command(&mut self, unit: &UnitName, step: Step, role: Role) {
        let Some(loaded) = self.known.table.find(unit) else {
            return;
        };
        let Some(service) = loaded.service.clone() else {
            return;
        };
        let files = loaded.unit.clone();
        let run = Run {
            unit: unit.clone(),
            activation: self.activation(unit),
            step,
        };
        let mut told = match self.told_in_full(unit, &service, step, role) {
            Ok(Some(told)) => told,
            Ok(None) => return,
            Err(words) => {
                self.jobs
                    .spawn(async move { Happened::Refused(run, words) });
                return;
            }
        };
        let passed = self.passed_to(&run, role);
        let mut pid_env = Vec::new();
        pid_env.push("SYSTEMD_EXEC_PID".to_owned());
        if told.watchdog.is_some() {
            pid_env.push("WATCHDOG_PID".to_owned());
        }
        let (runs, users) = (self.runs.clone(), self.users.clone());
        let waits = service.kind == Type::Idle && step.phase == Phase::Start;
        let mut busy = self.busy.subscribe();
        // One that waits for the others keeps none of them waiting.
        let place = (!waits).then(|| self.places.take());
        self.jobs.spawn(async move {
            if waits {
                let quiet = busy.wait_for(|busy| !busy);
                let _ = tokio::time::timeout(Duration::from_nanos(IDLE), quiet).await;
            }
            let settings = files.clone();
            let slices = std::mem::take(&mut told.slices);
            let own = users.realize(&run.unit, run.activation, &files.settings);
            match own.await {
                Ok(dynamic) => told.dynamic = dynamic,
                // systemd.exec(5), "Process exit codes": EXIT_USER.
                Err(words) => return Happened::NotBegun(run, 217, words),
            }
            let prepared = tokio::task::spawn_blocking(move || {
                program::prepare(&files, &service, step, &told)?.into_parts()
            });
            let start = match prepared.await {
                Ok(Ok(parts)) => parts,
                Ok(Err(failure)) => return Happened::NotBegun(run, failure.status, failure.words),
                Err(error) => return Happened::Refused(run, error.to_string()),
            };
            let by_main = role == Role::Main && step.phase == Phase::Start;
            let start = match by_main {
                true => passed.into_start(start, &settings.settings),
                false => Ok(start),
            };
            let (spec, mut extras) = match start {
                Ok(start) => start,
                // EXIT_STDIN.
                Err(words) => return Happened::NotBegun(run, 208, words),
            };
            extras.pid_env.extend(pid_env);
            let begun = runs.begin(&run, spec, (&settings.settings, slices), extras, place);
            match begun.await {
                Ok(object) => Happened::Began(run, role, object),
                Err(error) => match runs::status_of(&error) {
                    Some(status) => Happened::NotBegun(run, status, error.to_string()),
                    None => Happened::Refused(run, error.to_string()),
                },
            }
        });
    }

    /// Decides when a timer elapses next.
    pub(super) fn plan_timer(&mut self, unit: &UnitName) {
        let Some(loaded) = self.known.table.find(unit) else {
            return;
        };
        let files = loaded.unit.clone();
        let now = self.now();
        let other = triggered(&files).map(|it| self.id(&it));
        let other = other.map(|it| (self.known.activity(&it), self.known.live.get(&it)));
        let other = other.map_or_else(timer::Other::default, |(activity, live)| timer::Other {
            active: live.and_then(|it| it.begun),
            inactive: live.and_then(|it| it.inactive).map(|(_, boot)| boot),
            up: activity.is_up(),
        });
        let Machine::Timer(state) = &mut self.known.live_mut(unit).machine else {
            return;
        };
        if !state.active {
            return;
        }
        state.running = other.up;
        timer::not_ahead(state, now);
        let rules = timer::Rules::of(&files);
        timer::plan(&rules, state, other, &FileZones(&Disk), random());
        self.dirty.insert(unit.clone());
    }

    /// A timer's time may have come.
    pub(super) fn elapse(&mut self, unit: &UnitName) {
        let now = self.now();
        let Machine::Timer(state) = &mut self.known.live_mut(unit).machine else {
            return;
        };
        if !timer::elapse(state, now) {
            return self.plan_timer(unit);
        }
        self.start_triggered(unit, &format!("{unit} elapsed"));
    }

    /// Starts what a timer or path unit is for, and has it told of that (systemd.exec(5),
    /// `$TRIGGER_UNIT`), unless it is up already.
    pub(super) fn trigger(
        &mut self,
        unit: UnitName,
        by: &UnitName,
        told: &[(&str, String)],
        why: String,
    ) {
        let id = self.id(&unit);
        if !self.known.activity(&id).is_up() {
            let told = told.iter().cloned();
            let all = [("TRIGGER_UNIT", by.to_string())].into_iter().chain(told);
            self.known.live_mut(&id).trigger =
                all.map(|(name, value)| (name.to_owned(), value)).collect();
        }
        self.wanted.push(super::jobs::Wanted {
            unit,
            kind: JobType::Start,
            mode: Default::default(),
            why,
        });
    }

    /// Starts what an elapsed timer is for, and plans its next time.
    pub(super) fn start_triggered(&mut self, unit: &UnitName, why: &str) {
        let (real, boot) = match self.known.live.get(unit).map(|it| &it.machine) {
            Some(Machine::Timer(state)) => (state.last, state.last_boot),
            _ => (None, None),
        };
        let micros = |ns: Option<u64>| (ns.unwrap_or(0) / 1_000).to_string();
        let told = [
            ("TRIGGER_TIMER_REALTIME_USEC", micros(real)),
            ("TRIGGER_TIMER_MONOTONIC_USEC", micros(boot)),
        ];
        for other in self.known.on(unit, Dependency::Triggers) {
            self.trigger(other, unit, &told, why.to_owned());
        }
        self.plan_timer(unit);
    }
}
