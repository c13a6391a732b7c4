// SPDX-License-Identifier: Apache-2.0
//! What is known of units goes to the store, and comes back from there: a new daemon goes on with
//! what runs. The truth of that is the runtime's.

use std::cmp::Ordering;
use std::time::Duration;

use model::error::Error;
use serde::{Deserialize, Serialize};
use units::job::engine::{Job, Progress};
use units::job::{JobType, World};
use units::name::{UnitName, UnitType};

use super::{Happened, Manager};
use crate::unit::live::{Live, Machine};
use crate::unit::mount;
use crate::unit::runs::{self, Run};
use crate::unit::steps::service::{self, Event, Sub};
use crate::unit::steps::{Phase, Role, Step, timer};

/// How long a write may take before what was decided is done without it.
const WRITE: Duration = Duration::from_secs(5);
/// The row that says of which boot the others are.
const BOOT: &str = "@boot";
/// The row of what callers have given the manager itself.
const GIVEN: &str = "@given";
/// Before the name of a unit: the row of its job.
const JOB: &str = "@job/";

/// A job as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptJob {
    kind: String,
    runs: bool,
    stays: bool,
}

const KINDS: [JobType; 5] = [
    JobType::Start,
    JobType::Stop,
    JobType::Restart,
    JobType::Reload,
    JobType::VerifyActive,
];

#[derive(Serialize, Deserialize)]
struct Boot {
    id: String,
    /// What was to be started with the node has been: until then it is asked for again.
    #[serde(default)]
    done: bool,
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    let broken = |e| Error::internal(format!("a unit can't be kept: {e}"));
    serde_json::to_vec(value).map_err(broken)
}

/// A row of the store; without a state it is to go.
type Row = (String, Option<Vec<u8>>);

impl Manager {
    /// Writes what has changed. What can't be written now is written later.
    pub(super) async fn keep(&mut self) {
        let done = self.booting && self.engine.is_empty() && self.wanted.is_empty();
        self.take_changed_jobs();
        let nothing = self.dirty.is_empty() && self.dirty_jobs.is_empty();
        if nothing && !done && !self.dirty_given {
            return;
        }
        let row = |unit: &UnitName| {
            // One that is forgotten has no row.
            let row = match self.known.live.get(unit) {
                Some(live) => Some(json(live).ok()?),
                None => None,
            };
            Some((unit.to_string(), row))
        };
        let mut rows: Vec<_> = self.dirty.iter().filter_map(row).collect();
        if done && let Ok(mark) = self.boot_mark(true) {
            rows.push(mark);
        }
        rows.extend(self.dirty_jobs.iter().filter_map(|unit| self.job_row(unit)));
        if self.dirty_given
            && let Ok(row) = json(&self.given)
        {
            rows.push((GIVEN.to_owned(), Some(row)));
        }
        let written = tokio::time::timeout(WRITE, self.store.keep_units(rows)).await;
        let failed = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Error::from(error)),
            Err(_) => Some(Manager::internal("the store does not answer")),
        };
        match failed {
            None => {
                self.dirty.clear();
                self.dirty_jobs.clear();
                self.dirty_given = false;
                self.booting &= !done;
            }
            Some(error) if !self.behind => {
                tracing::error!(%error, "units go on from memory");
                self.behind = true;
                return;
            }
            Some(_) => return,
        }
        self.behind = false;
    }

    /// Takes in which jobs have changed.
    pub(super) fn take_changed_jobs(&mut self) {
        let changed = self.engine.take_changed();
        self.watch_jobs(&changed);
        self.dirty_jobs.extend(changed);
    }

    /// The row of a unit's job. It is in one write with the states of units: a job that is at work
    /// has changed its unit.
    fn job_row(&self, unit: &UnitName) -> Option<Row> {
        let of = |job: Job| KeptJob {
            kind: job.kind.to_string(),
            runs: job.progress == Progress::Running,
            stays: job.stays,
        };
        let row = match self.engine.job(unit) {
            Some(job) => Some(json(&of(job)).ok()?),
            None => None,
        };
        Some((format!("{JOB}{unit}"), row))
    }

    /// Goes on with a job of an earlier daemon of this boot.
    fn take_job(&mut self, unit: UnitName, row: &[u8]) {
        let kept: Result<KeptJob, _> = serde_json::from_slice(row);
        let kind = |job: &KeptJob| KINDS.into_iter().find(|it| it.to_string() == job.kind);
        let Some((kind, job)) = kept.ok().and_then(|job| Some((kind(&job)?, job))) else {
            return tracing::error!(%unit, "a unit's job can't be read");
        };
        // A start whose conditions were being looked at has changed nothing yet.
        let begins = kind == JobType::Start && !self.known.activity(&unit).is_up();
        let progress = match job.runs && !begins {
            true => Progress::Running,
            false => Progress::Waiting,
        };
        tracing::info!(%unit, job = %kind, "a job of an earlier daemon goes on");
        self.engine.restore(unit, kind, progress, job.stays);
    }

    /// Goes on with what an earlier daemon has left. Whether this is the first one of this boot.
    pub(super) async fn adopt(&mut self) -> Result<bool, Error> {
        let rows = self.store.units().await?;
        let boot = rows.iter().find(|(name, _)| name == BOOT);
        let boot: Option<Boot> = boot.and_then(|(_, row)| serde_json::from_slice(row).ok());
        let done = boot.as_ref().is_some_and(|it| it.done);
        let same = boot.is_some_and(|it| it.id == self.boot_id);
        if let Some((_, row)) = rows.iter().find(|(name, _)| same && name == GIVEN) {
            self.take_given(row);
        }
        let mut all: Vec<(UnitName, Live)> = Vec::new();
        for (name, row) in rows.iter().filter(|(name, _)| !name.starts_with('@')) {
            match (UnitName::parse(name), serde_json::from_slice::<Live>(row)) {
                (Ok(name), Ok(live)) => {
                    let live = of_its_type(&name, live);
                    all.push((name, live));
                }
                (_, Err(error)) => tracing::error!(name, %error, "a unit's row can't be read"),
                (Err(error), _) => tracing::error!(name, error, "a unit's row can't be read"),
            }
        }
        let jobs = rows.iter().filter_map(|(name, row)| {
            let unit = UnitName::parse(name.strip_prefix(JOB)?);
            Some((unit.ok()?, row.as_slice()))
        });
        let mut jobs: Vec<(UnitName, &[u8])> = jobs.collect();
        if !same {
            let old = rows.iter().filter(|(name, _)| name.starts_with('@'));
            let mut begun: Vec<Row> = old.map(|(name, _)| (name.clone(), None)).collect();
            begun.push(self.boot_mark(false)?);
            if let Err(error) = self.store.keep_units(begun).await {
                tracing::error!(%error, "that units begin with this boot is not kept");
            }
            jobs.clear();
            all = all
                .into_iter()
                .map(|(name, live)| (name, afresh(live)))
                .collect();
        }
        // A unit that waits for its first start has no row yet.
        let waiting = jobs.iter().map(|(unit, _)| unit.clone());
        let named = all.iter().map(|(name, _)| name.clone());
        self.load(named.chain(waiting).collect()).await;
        for (name, live) in all {
            self.known.live.insert(name, live);
        }
        self.look_at_machine();
        self.take_what_is_left().await;
        self.take_over_points().await;
        let found = self.take_in();
        for (unit, row) in jobs {
            // What was found to be up has had its job.
            let is_done = found.contains(&unit) && self.known.activity(&unit).is_up();
            if !is_done {
                self.take_job(unit, row);
            }
        }
        self.remove_orphans().await;
        self.take_over_left().await;
        let units: Vec<UnitName> = self.known.live.keys().cloned().collect();
        for unit in units.iter().filter(|it| same || found.contains(it)) {
            self.go_on(unit);
        }
        self.drop_left().await;
        Ok(!same || !done)
    }

    fn boot_mark(&self, done: bool) -> Result<(String, Option<Vec<u8>>), Error> {
        let id = self.boot_id.clone();
        Ok((BOOT.to_owned(), Some(json(&Boot { id, done })?)))
    }

    /// What runs for units by the runtime's word, where the rows don't say so: a full disk has kept
    /// them from being written. No number of an activation is used twice, and a service that runs
    /// is its unit's. The units that were found to be up.
    fn take_in(&mut self) -> Vec<UnitName> {
        let known = self.known.live.keys().cloned();
        let names: Vec<UnitName> = known.chain(self.known.table.files()).collect();
        let usual = |it: &UnitName| it.kind() == UnitType::Service && !it.is_template();
        let services = names.into_iter().filter(usual);
        services
            .filter_map(|unit| self.take_in_one(&unit))
            .collect()
    }

    fn take_in_one(&mut self, unit: &UnitName) -> Option<UnitName> {
        let unit = self.id(unit);
        let seen = self.runs.seen_of(&unit);
        let last = seen.iter().map(|(number, _)| *number).max()?;
        let step = Step {
            phase: Phase::Start,
            index: 0,
            round: 0,
        };
        let run = Run {
            unit: unit.clone(),
            activation: last,
            step,
        };
        let living = self.runs.seen(&run).filter(|it| !it.state().is_final());
        let live = self.known.live_mut(&unit);
        let is_older = match last.cmp(&live.activation) {
            Ordering::Less => false,
            // It was at what comes before the main process, which runs.
            Ordering::Equal => living.is_some() && live.machine.is_before_main(),
            Ordering::Greater => true,
        };
        if !is_older {
            return None;
        }
        live.activation = last;
        live.machine = Machine::Service(match living {
            Some(_) => service::State {
                sub: Sub::Running,
                main: Some(service::Process { step, begun: true }),
                was_up: true,
                ..service::State::default()
            },
            None => service::State::default(),
        });
        self.dirty.insert(unit.clone());
        tracing::warn!(%unit, activation = last, "a unit's row is older than what it runs");
        Some(unit)
    }

    /// What a service was about, compared with what there is.
    fn go_on(&mut self, unit: &UnitName) {
        if unit.kind() == UnitType::Scope {
            return self.go_on_with_scope(unit);
        }
        if unit.kind() != UnitType::Service && !mount::is_one(unit.kind()) {
            return self.plan_timer(unit);
        }
        let Some(live) = self.known.live.get(unit) else {
            return;
        };
        let Machine::Service(state) = live.machine.clone() else {
            return;
        };
        let (_, rules) = self.known.table.rules(unit);
        if state.sub.activity().is_up() && rules.notify_access != "none" {
            // What runs has its address, and says the next thing by it.
            if let Err(error) = self.socket(unit) {
                tracing::error!(%unit, %error, "the manager doesn't hear what a service says");
            }
        }
        if state.sub.activity().is_up() {
            self.ask_for_name(unit);
        }
        for (process, role) in [(state.control, Role::Control), (state.main, Role::Main)] {
            let Some(process) = process else {
                continue;
            };
            let run = Run {
                unit: unit.clone(),
                activation: live_activation(self, unit),
                step: process.step,
            };
            self.go_on_with(run, role, process);
        }
        // The manager could not hear it meanwhile: its time begins anew.
        self.event(unit, Event::Said(service::Said::Alive));
        let live = self.known.live.get(unit).map(|it| &it.machine);
        let Some(Machine::Service(state)) = live else {
            return;
        };
        match state.sub {
            Sub::StopSigterm | Sub::FinalSigterm => self.kill(unit, false),
            Sub::StopWatchdog => self.kill(unit, true),
            Sub::StopSigkill | Sub::FinalSigkill => self.kill_now(unit),
            Sub::Running if state.main.is_none() => self.watch(unit, self.activation(unit)),
            Sub::AutoRestart if service::is_stuck(state) && self.engine.job(unit).is_none() => {
                self.decide(unit, service::Effect::Restart);
            }
            _ => {}
        }
    }

    fn go_on_with(&mut self, run: Run, role: Role, process: service::Process) {
        match self.runs.seen(&run) {
            Some(object) if !object.state().is_final() => {
                self.happened(Happened::Began(run, role, object));
            }
            Some(object) => {
                if !process.begun {
                    self.event(&run.unit, Event::Began(run.step));
                }
                self.ended(&run, runs::end(&object));
            }
            // It was decided, and not done.
            None if !process.begun => self.run_command(&run.unit, run.step, role),
            None => {
                let end = crate::unit::steps::End::Unknown;
                self.event(&run.unit, Event::Ended(run.step, end));
            }
        }
    }
}

fn live_activation(manager: &Manager, unit: &UnitName) -> u64 {
    manager.known.live.get(unit).map_or(0, |it| it.activation)
}

/// A row of a daemon for which mounts were there or not, and nothing that it runs.
fn of_its_type(name: &UnitName, live: Live) -> Live {
    match live.machine {
        Machine::Plain(_) if mount::is_one(name.kind()) || name.kind() == UnitType::Scope => Live {
            machine: Live::new(name.kind()).machine,
            ..live
        },
        _ => live,
    }
}

/// What is left of a unit's state in another boot: the numbers of its runs, and when a timer
/// elapsed last.
fn afresh(live: Live) -> Live {
    let machine = match live.machine {
        Machine::Timer(state) => Machine::Timer(timer::State {
            last: state.last,
            ..timer::State::default()
        }),
        Machine::Service(_) => Machine::Service(service::State::default()),
        Machine::Socket(_) => Machine::Socket(Default::default()),
        Machine::Path(_) => Machine::Path(Default::default()),
        Machine::Scope(_) => Machine::Scope(Default::default()),
        Machine::Plain(_) => Machine::Plain(false),
    };
    Live {
        machine,
        starts: Vec::new(),
        begun: None,
        active: None,
        inactive: None,
        condition: None,
        words: String::new(),
        failed: None,
        main_pid: None,
        said: None,
        monitored: None,
        trigger: Vec::new(),
        token: None,
        markers: Default::default(),
        ..live
    }
}
