// SPDX-License-Identifier: Apache-2.0
//! What the manager does by the runtime: a unit's activation is a light cell in the cell `system`,
//! which shares every namespace of the node, and its commands are executables in it. Each act has a
//! permit of the node's own, as `boot.run` has; it is on record in the audit.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use identity::{Effect, Identity};
use model::error::{Error, Reason};
use model::executable::ExecutableSpec;
use model::exit::How;
use model::label::Labels;
use model::name::{InvalidName, ObjectPath, Tenant};
use model::object::ObjectRef;
use model::request::{RunExecutable, SendSignal, WaitFor};
use model::signal::Signal;
use model::status::Object;
use runtime::{Extras, Runtime, Slice};
use tokio::sync::{Notify, Semaphore};
use units::name::UnitName;
use units::unit::Settings;

use super::cells::MANAGER;
use super::past::Past;
use super::steps::{End, Step};
use super::{name, printed, program};
use crate::effects::{REMOVE, RUN_EXECUTABLE, STOP};

/// The label of what runs for a unit: what its cells are called by.
pub const UNIT: &str = "schedule.aurae/unit";
/// The label of the boot in which it has begun: `journalctl -b` reads it.
pub(super) const BOOT: &str = "schedule.aurae/boot";
/// The cell of all units.
pub(super) const CELL: &str = "system";
/// Between two tries to end what is to be killed.
const AGAIN: Duration = Duration::from_secs(2);
/// Commands of all units that are begun at the same time, by each processor, and at least and at
/// most. One init starts them all: where more wait with it, each waits longer for its answer, and
/// none begins sooner.
const STARTS: (usize, usize, usize) = (2, 4, 32);
/// A command that takes longer to begin (one that forks, and has no main process yet) gives its
/// place to others: as many as there are places must not hold up a machine.
const LONG: Duration = Duration::from_secs(2);

/// Starts that the manager has begun and that have no program yet. As long as there are many, jobs
/// wait: the time that a unit has for its start must not pass while others are started.
#[derive(Debug)]
pub(crate) struct Places {
    all: usize,
    taken: Arc<()>,
    given_up: Arc<Notify>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Arc<()>,
    given_up: Arc<Notify>,
}

impl Places {
    pub(crate) fn new() -> Places {
        Places {
            all: 2 * at_once(),
            taken: Arc::default(),
            given_up: Arc::default(),
        }
    }

    pub(crate) fn take(&self) -> Place {
        Place {
            taken: self.taken.clone(),
            given_up: self.given_up.clone(),
        }
    }

    /// How many are left beside those that are taken, and those that were decided on.
    pub(crate) fn left(&self, decided: usize) -> usize {
        let taken = Arc::strong_count(&self.taken).saturating_sub(1);
        self.all.saturating_sub(taken.saturating_add(decided))
    }

    /// Resolves when one was given up before its command had begun.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

fn at_once() -> usize {
    let (each, least, most) = STARTS;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors.saturating_mul(each).clamp(least, most)
}

impl Place {
    /// It is free before that is told.
    fn give_up(self) {
        let Place { taken, given_up } = self;
        drop(taken);
        given_up.notify_one();
    }
}

/// Acts for the manager.
#[derive(Clone)]
pub(crate) struct Runs {
    pub(crate) runtime: Runtime,
    pub(crate) identity: Arc<Identity>,
    /// Held while the cell is made.
    pub(super) making: Arc<tokio::sync::Mutex<()>>,
    /// Commands that are begun at the same time; more wait.
    starts: Arc<Semaphore>,
    /// 32 hexadecimal digits.
    boot_id: Arc<str>,
    /// Of each unit the last activation that has asked for its cell. Held while that is made or
    /// ended.
    latest: Arc<std::sync::Mutex<BTreeMap<UnitName, Latest>>>,
    /// Held by who puts records away.
    pub(super) putting_away: Arc<tokio::sync::Mutex<()>>,
    /// What takes the lines of runs whose records go.
    pub(super) past: Arc<dyn Past>,
}

/// The number of an activation, and who makes or ends its cell now.
pub(super) type Latest = Arc<tokio::sync::Mutex<u64>>;

/// A command of an activation of a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) unit: UnitName,
    pub(crate) activation: u64,
    pub(crate) step: Step,
}

pub(super) fn parsed(text: &str) -> Result<ObjectPath, Error> {
    let broken = |e: InvalidName| Error::internal(format!("{text} is no path: {e}"));
    text.parse().map_err(broken)
}

/// The cell of a unit's activations: `system/nginx`.
pub(crate) fn cell_of(unit: &UnitName) -> Result<ObjectPath, Error> {
    parsed(&format!("{CELL}/{}", name::label(unit)?))
}

impl Run {
    /// Where it runs: `system/nginx/main-3`, `system/nginx/start-pre-3-1`; the second command of
    /// the second reload of the third activation is `system/nginx/reload-3-1-r1`.
    pub(crate) fn path(&self) -> Result<ObjectPath, Error> {
        let (number, step) = (self.activation, self.step);
        let word = match step.phase {
            super::steps::Phase::Start => "main",
            phase => phase.word(),
        };
        let mut word = format!("{word}-{number}");
        if step.index > 0 {
            word.push_str(&format!("-{}", step.index));
        }
        if step.round > 0 {
            word.push_str(&format!("-r{}", step.round));
        }
        parsed(&format!("{}/{word}", cell_of(&self.unit)?))
    }
}

impl Runs {
    pub(crate) fn new(
        runtime: Runtime,
        identity: Arc<Identity>,
        boot_id: &str,
        past: Arc<dyn Past>,
    ) -> Runs {
        Runs {
            past,
            putting_away: Arc::default(),
            boot_id: boot_id.replace('-', "").into(),
            runtime,
            identity,
            making: Arc::default(),
            starts: Arc::new(Semaphore::new(at_once())),
            latest: Arc::default(),
        }
    }

    pub(super) fn latest(&self, unit: &UnitName) -> Latest {
        let all = self.latest.lock();
        let mut all = all.unwrap_or_else(std::sync::PoisonError::into_inner);
        all.entry(unit.clone()).or_default().clone()
    }

    /// Forgets who has asked for the cell of a unit that is gone, where none waits for it.
    pub(super) fn forget_latest(&self, unit: &UnitName) {
        let all = self.latest.lock();
        let mut all = all.unwrap_or_else(std::sync::PoisonError::into_inner);
        if all.get(unit).is_some_and(|it| Arc::strong_count(it) == 1) {
            all.remove(unit);
        }
    }

    /// The processes that live in the cell of a unit.
    pub(crate) fn processes(&self, unit: &UnitName) -> Vec<i32> {
        match (self.living(unit), cell_of(unit)) {
            (Some(_), Ok(path)) => self.runtime.processes_in(&Tenant::system(), &path),
            _ => Vec::new(),
        }
    }

    /// Whether a process is one of a unit's at this moment.
    pub(crate) fn is_of(&self, unit: &UnitName, pid: i32) -> bool {
        cell_of(unit).is_ok_and(|path| self.runtime.is_process_in(&Tenant::system(), &path, pid))
    }

    /// Whether a process is the init that has a unit's commands as children.
    pub(crate) fn is_init_of(&self, unit: &UnitName, pid: i32) -> bool {
        let pid = u32::try_from(pid).ok();
        match self.living(unit).as_deref() {
            Some(Object::Cell(cell)) => pid.is_some() && cell.pid == pid,
            _ => false,
        }
    }

    /// Resolves when no process lives in the cell of a unit.
    pub(crate) async fn emptied(&self, unit: &UnitName) {
        if let Ok(path) = cell_of(unit) {
            self.runtime.emptied(&Tenant::system(), &path).await;
        }
    }

    /// How often the kernel has ended a process of a unit for want of memory, as far as it counts.
    pub(crate) fn oom_kills(&self, unit: &UnitName) -> u64 {
        let path = cell_of(unit).ok();
        path.map_or(0, |path| self.runtime.oom_kills(&Tenant::system(), &path))
    }

    /// Resolves when it has done so more often than that.
    pub(crate) async fn out_of_memory(&self, unit: &UnitName, seen: u64) {
        match cell_of(unit) {
            Ok(path) => {
                let system = Tenant::system();
                self.runtime.out_of_memory(&system, &path, seen).await;
            }
            Err(_) => std::future::pending().await,
        }
    }

    /// Signals every process of a unit.
    pub(crate) async fn signal_unit(&self, unit: &UnitName, signal: Signal) -> Result<(), Error> {
        let Some(object) = self.living(unit) else {
            return Ok(());
        };
        let effects = vec![Effect::below(STOP, &object.meta().path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        let target = target(&object);
        there(self.runtime.signal_all(permit, &target, signal).await)
    }

    /// Makes a process of a unit the main one of a command (`MAINPID=`).
    ///
    /// # Errors
    /// `WRONG_STATE`: it is none of the unit's.
    pub(crate) async fn set_main(&self, run: &Run, pid: i32) -> Result<(), Error> {
        let Some(object) = self.seen(run).filter(|it| !it.state().is_final()) else {
            return Ok(());
        };
        let effects = vec![Effect::below(STOP, &object.meta().path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        let target = target(&object);
        self.runtime.set_main(permit, &target, pid).await.map(drop)
    }

    /// Begins a command of a unit that has these settings and is in those slices; answers when its
    /// program is executed, and where it forks when its main process is known.
    pub(crate) async fn begin(
        &self,
        run: &Run,
        spec: ExecutableSpec,
        (settings, slices): (&Settings, Vec<Slice>),
        extras: Extras,
        place: Option<Place>,
    ) -> Result<Arc<Object>, Error> {
        // Closed never.
        let turn = self.starts.acquire().await;
        self.cell().await?;
        {
            let latest = self.latest(&run.unit);
            let mut latest = latest.lock().await;
            *latest = run.activation.max(*latest);
            self.unit_cell(&run.unit, &program::resources(settings), slices)
                .await?;
        }
        let path = run.path()?;
        let label = name::label(&run.unit)?.to_string();
        let mut labels = BTreeMap::from([
            (crate::OWNER.to_owned(), MANAGER.to_owned()),
            (crate::RUN.to_owned(), run.activation.to_string()),
            (UNIT.to_owned(), label),
            (BOOT.to_owned(), self.boot_id.to_string()),
        ]);
        labels.extend(printed::labels(settings));
        labels.extend(name::spelled(&run.unit));
        let request = RunExecutable {
            tenant: Tenant::system(),
            path: path.clone(),
            labels: Labels::new(labels)?,
            spec,
            request_id: None,
            wait_for: WaitFor::Started,
            own_cell: None,
            attach_follows: false,
        };
        let effects = vec![Effect::on(RUN_EXECUTABLE, &path), Effect::on(REMOVE, &path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        let mut launched = pin!(self.runtime.launch(permit, request, extras));
        if let Ok(begun) = tokio::time::timeout(LONG, &mut launched).await {
            return begun;
        }
        drop(turn);
        if let Some(place) = place {
            place.give_up();
        }
        launched.await
    }

    /// What there is of a command, where it is the unit's.
    pub(crate) fn seen(&self, run: &Run) -> Option<Arc<Object>> {
        let label = name::label(&run.unit).ok()?;
        let seen = self.runtime.seen(&Tenant::system(), &run.path().ok()?)?;
        (seen.meta().labels.get(UNIT) == Some(label.as_str())).then_some(seen)
    }

    /// Resolves when it has ended, with everything that it left behind.
    pub(crate) async fn end_of(&self, object: &Arc<Object>) -> End {
        let ended = self.runtime.end_of(object).await;
        ended.map_or(End::Unknown, |object| end(&object))
    }

    /// Ends a command with all that it has begun, and answers once it has ended: what fails, or
    /// can't be done now, is tried again as long as the command is there.
    pub(crate) async fn kill_surely(&self, run: &Run) {
        loop {
            if let Err(error) = self.signal(run, Signal::KILL, true).await {
                tracing::warn!(unit = %run.unit, %error, "a process can't be ended");
            }
            let Some(object) = self.seen(run).filter(|it| !it.state().is_final()) else {
                return;
            };
            if tokio::time::timeout(AGAIN, self.end_of(&object))
                .await
                .is_ok()
            {
                return;
            }
        }
    }

    /// Asks a command to end, and all that it has begun; what is left after the grace is killed.
    /// Answers once it has ended.
    pub(crate) async fn stop_surely(&self, run: &Run, grace: Duration) {
        if let Err(error) = self.signal(run, Signal::TERM, true).await {
            tracing::warn!(unit = %run.unit, %error, "a process can't be asked to end");
        }
        let Some(object) = self.seen(run).filter(|it| !it.state().is_final()) else {
            return;
        };
        let ended = tokio::time::timeout(grace, self.end_of(&object)).await;
        if ended.is_err() {
            self.kill_surely(run).await;
        }
    }

    /// Sends a signal to the process of a command, or to all that it began.
    pub(crate) async fn signal(&self, run: &Run, signal: Signal, all: bool) -> Result<(), Error> {
        let Some(object) = self.seen(run).filter(|it| !it.state().is_final()) else {
            return Ok(());
        };
        let path = &object.meta().path;
        let effects = vec![Effect::on("runtime.Signal", path), Effect::on(STOP, path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        let request = SendSignal {
            target: target(&object),
            signal,
            all_processes: all,
        };
        there(self.runtime.signal(permit, request).await.map(drop))
    }

    /// What there is of a unit, with the numbers of its activations.
    pub(crate) fn seen_of(&self, unit: &UnitName) -> Vec<(u64, Arc<Object>)> {
        let (Ok(label), Ok(from)) = (name::label(unit), cell_of(unit)) else {
            return Vec::new();
        };
        // No label begins with what sorts behind this.
        let Ok(to) = parsed(&format!("{from}/{}", "z".repeat(60))) else {
            return Vec::new();
        };
        let all = self.runtime.seen_between(&Tenant::system(), &from, &to);
        let numbered = |object: Arc<Object>| {
            let labels = &object.meta().labels;
            let own = labels.get(UNIT) == Some(label.as_str());
            let number = labels.get(crate::RUN)?.parse::<u64>().ok()?;
            own.then_some((number, object))
        };
        all.into_iter().filter_map(numbered).collect()
    }
}

pub(super) fn target(object: &Object) -> ObjectRef {
    let meta = object.meta();
    ObjectRef {
        uid: Some(meta.uid),
        kind: Some(meta.kind),
        ..ObjectRef::new(Tenant::system(), meta.path.clone())
    }
}

/// What isn't there any more needs nothing.
pub(super) fn there(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if !matches!(error.reason, Reason::NotFound | Reason::WrongState) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// How an executable ended.
pub(crate) fn end(object: &Object) -> End {
    let Object::Executable(executable) = object else {
        return End::Unknown;
    };
    match executable.exit {
        None => End::Unknown,
        Some(exit) if exit.oom_killed => End::OutOfMemory,
        Some(exit) => match exit.how {
            How::Code(code) => End::Exited(code),
            How::Signal(number) if exit.core_dumped => End::Dumped(number),
            How::Signal(number) => End::Signalled(number),
            How::Unknown => End::Unknown,
        },
    }
}

/// The process of an executable that goes on.
pub(crate) fn pid(object: &Object) -> Option<u32> {
    match object {
        Object::Executable(executable) => executable.pid,
        Object::Cell(_) => None,
    }
}

/// The status with which systemd's process would have ended (systemd.exec(5), "Process exit
/// codes"), where a program could not be begun for its own sake.
pub(crate) fn status_of(error: &Error) -> Option<u8> {
    let field = error.field.as_deref().unwrap_or("");
    match error.reason {
        _ if field.starts_with("sandbox.") => Some(match field {
            "sandbox.network" => 225,
            "sandbox.users" => 217,
            "sandbox.filter" => 228,
            "sandbox.label" => 231,
            "sandbox.memory" => 242,
            "sandbox.devices" | "sandbox.networks" => 245,
            _ => 226,
        }),
        Reason::ProgramNotFound | Reason::ProgramNotExecutable => Some(203),
        Reason::InvalidField if field.ends_with("user") => Some(217),
        Reason::InvalidField if field.contains("group") => Some(216),
        Reason::InvalidField if field.ends_with("cwd") => Some(200),
        _ => None,
    }
}
