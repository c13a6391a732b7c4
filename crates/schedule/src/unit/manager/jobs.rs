// SPDX-License-Identifier: Apache-2.0
//! Jobs: planned by `units::job`, begun when nothing is before them, ended when their unit is where
//! it was to be; and what follows when a unit has changed.

use kernel::time::{boottime_ns, realtime_ns};
use model::error::{Error, Reason};
use model::unit::JobMode;
use tokio::sync::oneshot;
use units::depend::Dependency;
use units::job::engine::{Action, Ended, Ending, Job, Progress};
use units::job::follow::stopped_with;
use units::job::transaction::{Mode, Note, Refusal, plan_beside};
use units::job::{Activity, JobType, World};
use units::name::{UnitName, UnitType};
use units::service::Type;

use super::Manager;
use crate::unit::live::Machine;
use crate::unit::marker::outlive;
use crate::unit::scope;
use crate::unit::socket::state as socket;
use crate::unit::steps::{End, Outcome, service};

/// A job that is there now.
pub(crate) struct Accepted {
    /// Its number; `None`: there is nothing to do.
    pub(crate) id: Option<u64>,
    /// What gave way.
    pub(crate) notes: Vec<String>,
    /// Resolves when it has ended.
    pub(crate) ended: Option<oneshot::Receiver<Ending>>,
}

/// A job that follows from another unit's change.
pub(super) struct Wanted {
    pub(super) unit: UnitName,
    pub(super) kind: JobType,
    pub(super) mode: JobMode,
    pub(super) why: String,
}

pub(super) const fn mode(mode: JobMode) -> Mode {
    match mode {
        JobMode::Replace => Mode::Replace,
        JobMode::Fail => Mode::Fail,
        JobMode::Isolate => Mode::Isolate,
        JobMode::IgnoreDependencies => Mode::IgnoreDependencies,
        JobMode::IgnoreRequirements => Mode::IgnoreRequirements,
        JobMode::ReplaceIrreversibly => Mode::ReplaceIrreversibly,
        JobMode::Flush => Mode::Flush,
    }
}

/// The word of a job's result, as `systemctl` has it.
pub(crate) const fn word(ending: Ending) -> &'static str {
    match ending {
        Ending::Done => "done",
        Ending::Skipped => "skipped",
        Ending::Cancelled => "canceled",
        Ending::TimedOut => "timeout",
        Ending::Failed => "failed",
        Ending::Dependency => "dependency",
    }
}

fn said(note: &Note) -> String {
    match note {
        Note::LeftOut(unit, why) => format!("{unit} was left out: {why}"),
        Note::CycleBroken(cycle, victim) => {
            let names: Vec<String> = cycle.iter().map(ToString::to_string).collect();
            format!(
                "these jobs wait for each other: {}; {victim} was deleted to break the cycle",
                names.join(", ")
            )
        }
        Note::Contradiction(job) => {
            format!("{job} was deleted: it contradicts another job on the same unit")
        }
    }
}

/// Whether a program is executed for each start of it.
fn runs_programs(unit: &UnitName) -> bool {
    matches!(
        unit.kind(),
        UnitType::Service | UnitType::Mount | UnitType::Swap
    )
}

impl Manager {
    /// Adds a job and what it needs. What it is about is loaded.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE`: it can't be done, or would undo what stays.
    pub(super) fn enqueue(
        &mut self,
        unit: &UnitName,
        kind: JobType,
        how: JobMode,
    ) -> Result<Accepted, Error> {
        let unit = self.id(unit);
        let refused = |refusal: Refusal| self.refused(&refusal);
        let pending = |unit: &UnitName| self.engine.job(unit).map(|it| it.kind);
        let planned = plan_beside(&self.known, &unit, kind, mode(how), &pending);
        let transaction = planned.map_err(refused)?;
        let ended = self.engine.install(&transaction, &self.known);
        let ended = ended.map_err(|refusal| self.refused(&refusal))?;
        self.tell(ended);
        let notes: Vec<String> = transaction.notes.iter().map(said).collect();
        for (note, words) in transaction.notes.iter().zip(&notes) {
            match note {
                // Each login wants its user's manager, which is masked.
                Note::LeftOut(..) => tracing::debug!(%unit, words, "a job gave way"),
                _ => tracing::warn!(%unit, words, "a job gave way"),
            }
        }
        let id = self.engine.job(&unit).map(|job| job.id);
        let ended = id.map(|id| {
            let (waiter, ended) = oneshot::channel();
            self.waiting.entry(id).or_default().push(waiter);
            ended
        });
        Ok(Accepted { id, notes, ended })
    }

    /// The name that a unit is kept by.
    pub(super) fn id(&self, unit: &UnitName) -> UnitName {
        let loaded = self.known.table.find(unit);
        loaded.map_or_else(|| unit.clone(), |it| it.unit.id.clone())
    }

    fn refused(&self, refusal: &Refusal) -> Error {
        let words = refusal.to_string();
        match refusal {
            Refusal::NotFound(unit) => Error::not_found("unit", unit.to_string())
                .hint("`aurae unit ls --all` lists those that are loaded"),
            Refusal::Bad(unit) => {
                let bad = self.known.table.find(unit).and_then(|it| it.bad.clone());
                let words = format!("{unit} is not started: {}", bad.unwrap_or(words));
                Error::new(Reason::WrongState, words).about("unit", unit.to_string())
            }
            Refusal::Masked(unit) => {
                Error::new(Reason::WrongState, words).about("unit", unit.to_string())
            }
            _ => Error::new(Reason::WrongState, words),
        }
    }

    /// Jobs have ended: who waits is told.
    pub(super) fn tell(&mut self, ended: Vec<Ended>) {
        for job in ended {
            self.followed.moved = true;
            self.feed.ended(job.id, &job.unit, word(job.ending));
            self.checking.remove(&job.unit);
            if matches!(job.ending, Ending::Dependency) {
                tracing::warn!(unit = %job.unit, job = %job.kind, "a unit that it needs failed");
                // systemd.unit(5), OnFailure=: a target has no other way to fail.
                if job.unit.kind() == UnitType::Target && job.kind == JobType::Start {
                    self.on_end(&job.unit, Dependency::OnFailure, "OnFailureJobMode");
                }
            }
            for waiter in self.waiting.remove(&job.id).unwrap_or_default() {
                // Who went away has asked all the same.
                let _ = waiter.send(job.ending);
            }
            self.waits_no_more(&job);
            if job.kind == JobType::Start && job.unit.kind() == UnitType::Mount {
                let failed = !matches!(job.ending, Ending::Done | Ending::Skipped);
                self.tell_points(&job.unit, failed);
            }
            self.tell_triggers(&job.unit);
        }
    }

    /// A service whose next start was asked for, by a job that didn't do it, isn't being started.
    /// One that waits for its time goes on waiting.
    fn waits_no_more(&mut self, job: &Ended) {
        let starts = matches!(job.kind, JobType::Start | JobType::Restart);
        let live = self.known.live.get(&job.unit).map(|it| &it.machine);
        if let Some(Machine::Service(state)) = live
            && starts
            && job.ending != Ending::Done
            && service::is_stuck(state)
        {
            self.event(&job.unit, service::Event::GivenUp);
        }
    }

    /// Begins what may begin, until nothing may.
    pub(super) async fn settle(&mut self) {
        loop {
            self.follow().await;
            // Also when those before them had nothing to do, and no event follows.
            let taken = self.engine.take_up(self.places_left());
            let ready = self.engine.ready(&self.known);
            let begun = ready.iter().filter(|unit| self.begins(unit)).count();
            if begun == 0 && !taken && self.wanted.is_empty() {
                self.look_for_followers();
                if self.wanted.is_empty() {
                    break;
                }
            }
        }
        self.take_changed_jobs();
        // What waits is behind what is at work, or behind an idle service: that would wait for it.
        let at_work = |(unit, job): (&UnitName, &Job)| {
            job.progress == Progress::Running && !self.is_idle(unit)
        };
        let others = self.engine.jobs().any(at_work);
        self.busy.send_replace(others);
    }

    /// How many starts may begin beside those that are on their way.
    fn places_left(&self) -> usize {
        self.places.left(self.checking.len() + self.effects.len())
    }

    /// Begins a job that may begin; `false` where a start waits for the starts of others, and is
    /// looked at again when one of those is done.
    fn begins(&mut self, unit: &UnitName) -> bool {
        let starts = self.engine.job(unit).map(|it| it.kind) == Some(JobType::Start);
        if starts && runs_programs(unit) && self.places_left() == 0 {
            self.engine.set_aside(unit);
            return false;
        }
        self.thaw_for_job(unit);
        let (action, ended) = self.engine.begin(unit, &self.known);
        self.tell(ended);
        match action {
            Action::Start => self.check(unit),
            Action::Stop => self.stop(unit),
            Action::Reload => self.reload(unit),
            Action::Nothing => {}
        }
        true
    }

    fn is_idle(&self, unit: &UnitName) -> bool {
        let service = self
            .known
            .table
            .find(unit)
            .and_then(|it| it.service.clone());
        service.is_some_and(|it| it.kind == units::service::Type::Idle)
    }

    /// Jobs that follow from changes.
    async fn follow(&mut self) {
        for wanted in std::mem::take(&mut self.wanted) {
            self.load(vec![wanted.unit.clone()]).await;
            let Wanted {
                unit,
                kind,
                mode,
                why,
            } = wanted;
            match self.enqueue(&unit, kind, mode) {
                Ok(_) => tracing::info!(%unit, job = %kind, why, "a job follows"),
                Err(error) => {
                    tracing::warn!(%unit, job = %kind, why, %error, "none follows");
                    self.gives_up(&unit, &error);
                    if kind == JobType::Start {
                        self.not_triggered(&unit, &error);
                    }
                }
            }
        }
    }

    /// A service that waits for its next start, which is refused, waits no more.
    fn gives_up(&mut self, unit: &UnitName, error: &Error) {
        let live = self.known.live.get_mut(unit);
        let Some(live) = live else {
            return;
        };
        let Machine::Service(state) = &live.machine else {
            return;
        };
        if state.sub == service::Sub::AutoRestart {
            live.words = error.to_string();
            self.event(unit, service::Event::GivenUp);
        }
    }

    /// A unit's job has ended.
    pub(super) fn end_job(&mut self, unit: &UnitName, ending: Ending) {
        let ended = self.engine.end(unit, ending, &self.known);
        self.tell(ended);
    }

    fn stop(&mut self, unit: &UnitName) {
        match &mut self.known.live_mut(unit).machine {
            Machine::Service(_) => return self.event(unit, service::Event::Stop),
            Machine::Timer(state) => state.active = false,
            Machine::Socket(_) => return self.socket_event(unit, socket::Event::Stop),
            Machine::Path(_) => return self.stop_path(unit),
            Machine::Scope(_) => return self.scope_event(unit, scope::Event::Stop),
            Machine::Plain(_) if unit.kind() == UnitType::Automount => {
                return self.stop_automount(unit);
            }
            Machine::Plain(active) => *active = false,
        }
        if unit.kind() == UnitType::Slice {
            self.slice_stops(unit);
        }
        self.changed(unit, Activity::Active);
    }

    fn reload(&mut self, unit: &UnitName) {
        self.event(unit, service::Event::Reload);
        // Without a command there is nothing to wait for.
        if self.known.activity(unit) == Activity::Active {
            self.end_job(unit, Ending::Done);
        }
    }

    /// Something happened to a service.
    pub(super) fn event(&mut self, unit: &UnitName, event: service::Event) {
        let (commands, rules) = self.known.table.rules(unit);
        let before = self.known.activity(unit);
        let live = self.known.live_mut(unit);
        let Machine::Service(state) = &mut live.machine else {
            return;
        };
        let rules = service::Rules {
            service: &rules,
            commands: &commands,
        };
        let effects = service::advance(rules, state, event, boottime_ns());
        let sub = state.sub;
        tracing::debug!(%unit, ?event, sub = sub.as_str(), ?effects, "a service");
        for effect in effects {
            self.decide(unit, effect);
        }
        self.changed(unit, before);
    }

    /// A unit may be another than it was: jobs end, and others follow.
    pub(super) fn changed(&mut self, unit: &UnitName, before: Activity) {
        self.dirty.insert(unit.clone());
        self.feed.changed(unit);
        let now = self.known.activity(unit);
        self.stamp(unit, before, now);
        let expected = self.engine.job(unit).map(|job| job.kind);
        self.finish_job(unit, before, now);
        if unit.kind() == UnitType::Mount {
            self.tell_points(unit, false);
        }
        self.tell_triggers(unit);
        if before == now {
            return;
        }
        self.followed.moved = true;
        self.show_disks(unit, now);
        tracing::info!(%unit, from = crate::unit::live::word(before),
            to = crate::unit::live::word(now), "a unit changed");
        let down = !now.is_up();
        let by_itself = !matches!(expected, Some(JobType::Stop | JobType::Restart));
        if down && before.is_up() && by_itself {
            for other in stopped_with(&self.known, unit) {
                self.want(other, JobType::Stop, unit, "is bound to");
            }
        }
        if now == Activity::Failed {
            self.on_end(unit, Dependency::OnFailure, "OnFailureJobMode");
            self.act(unit, "FailureAction");
        } else if now == Activity::Inactive && before.is_up() {
            self.act(unit, "SuccessAction");
        }
        let restarts = expected == Some(JobType::Restart);
        let down = now == Activity::Inactive && before.is_up() && !restarts;
        if down && unit.kind() == UnitType::Service {
            self.on_end(unit, Dependency::OnSuccess, "OnSuccessJobMode");
        }
        for timer in self.known.of_others(unit, Dependency::Triggers) {
            self.plan_timer(&timer);
        }
    }

    fn want(&mut self, unit: UnitName, kind: JobType, other: &UnitName, why: &str) {
        let why = format!("{unit} {why} {other}");
        self.wanted.push(Wanted {
            unit,
            kind,
            mode: JobMode::Replace,
            why,
        });
    }

    /// systemd.unit(5), OnFailure=, OnSuccess=, and their job modes.
    fn on_end(&mut self, unit: &UnitName, kind: Dependency, field: &str) {
        let loaded = self.known.table.find(unit);
        let word = loaded.and_then(|it| it.unit.settings.word(field));
        let mode = match word {
            Some("fail") => JobMode::Fail,
            Some("isolate") => JobMode::Isolate,
            Some("ignore-dependencies") => JobMode::IgnoreDependencies,
            Some("ignore-requirements") => JobMode::IgnoreRequirements,
            Some("replace-irreversibly") => JobMode::ReplaceIrreversibly,
            Some("flush") => JobMode::Flush,
            _ => JobMode::Replace,
        };
        for other in self.known.on(unit, kind) {
            let id = self.id(&other);
            self.known.live_mut(&id).monitored = Some(unit.to_string());
            self.wanted.push(Wanted {
                why: format!("{unit} ended"),
                unit: other,
                kind: JobType::Start,
                mode,
            });
        }
    }

    fn stamp(&mut self, unit: &UnitName, before: Activity, now: Activity) {
        let at = (realtime_ns(), boottime_ns());
        let live = self.known.live_mut(unit);
        outlive(&mut live.markers, before, now);
        if before != now {
            live.changed = at.0;
        }
        if now.is_up() && !before.is_up() {
            live.begun = Some(at.1);
        }
        if now.is_active() && !before.is_active() {
            live.active = Some(at);
        }
        if !now.is_active() && before.is_active() {
            live.left = Some(at);
        }
        if !now.is_up() && before.is_up() {
            live.inactive = Some(at);
            live.trigger.clear();
        }
    }

    /// A simple service whose program could not be executed: it was up as soon as there was a
    /// process for it (systemd.service(5), `Type=simple`: "will report success even if the
    /// service's binary cannot be invoked successfully").
    fn was_not_executed(&self, unit: &UnitName) -> bool {
        let live = self.known.live.get(unit).map(|it| &it.machine);
        let kind = self.known.table.rules(unit).1.kind;
        matches!(kind, Type::Simple | Type::Idle)
            && matches!(live, Some(Machine::Service(state))
                if matches!(state.ended, Some(End::NotBegun(_))))
    }

    /// A job has ended where its unit is where it was to be.
    fn finish_job(&mut self, unit: &UnitName, before: Activity, now: Activity) {
        let Some(job) = self.engine.job(unit) else {
            return;
        };
        if job.progress != Progress::Running || self.checking.contains(unit) {
            return;
        }
        let (sub, reloaded) = match &self.known.live_mut(unit).machine {
            Machine::Service(state) => (state.sub, state.reloaded),
            _ => (service::Sub::Dead, Outcome::Success),
        };
        let not_executed = self.was_not_executed(unit);
        let ending = match (job.kind, now) {
            // The service has failed, and its start has not.
            (JobType::Start, now) if not_executed && !now.is_active() => Ending::Done,
            (JobType::Start, Activity::Active | Activity::Reloading) => Ending::Done,
            (JobType::Start, Activity::Failed) => Ending::Failed,
            (JobType::Start, _) if sub == service::Sub::AutoRestart => Ending::Failed,
            (JobType::Start, Activity::Inactive) => Ending::Done,
            (JobType::Stop | JobType::Restart, Activity::Inactive | Activity::Failed) => {
                Ending::Done
            }
            (JobType::Reload, Activity::Active) if before == Activity::Reloading => {
                match reloaded {
                    Outcome::Success => Ending::Done,
                    _ => Ending::Failed,
                }
            }
            (JobType::Reload, now) if !now.is_active() => Ending::Failed,
            _ => return,
        };
        self.end_job(unit, ending);
    }
}
