// SPDX-License-Identifier: Apache-2.0
//! What the manager does by the runtime: a command of a unit is an executable of the cell `system`,
//! which shares every namespace of the node. Each act has a permit of the node's own, as
//! `boot.run` has; it is on record in the audit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use identity::{Effect, Identity};
use model::cell::{self, Namespace};
use model::error::{Error, Reason};
use model::executable::ExecutableSpec;
use model::exit::How;
use model::label::Labels;
use model::name::{InvalidName, ObjectPath, Tenant};
use model::object::{Kind, ObjectRef};
use model::request::{RunCell, RunExecutable, SendSignal, Stop, WaitFor};
use model::signal::Signal;
use model::status::Object;
use runtime::Runtime;
use units::name::UnitName;

use super::name;
use super::steps::{End, Step};
use crate::effects::{REMOVE, RUN_CELL, RUN_EXECUTABLE, STOP};

/// The label of what runs for a unit: what its cells are called by.
pub const UNIT: &str = "schedule.aurae/unit";
/// The cell of all units.
const CELL: &str = "system";
/// The label's value of that cell itself.
const MANAGER: &str = "units";
/// Between two tries to end a command.
const AGAIN: Duration = Duration::from_secs(2);
/// Commands of all units that are begun at the same time.
const STARTS: usize = 16;

/// Acts for the manager.
#[derive(Clone)]
pub(crate) struct Runs {
    pub(crate) runtime: Runtime,
    pub(crate) identity: Arc<Identity>,
    /// Held while the cell is made.
    making: Arc<tokio::sync::Mutex<()>>,
    /// Commands that are begun at the same time; more wait.
    starts: Arc<tokio::sync::Semaphore>,
}

/// A command of an activation of a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) unit: UnitName,
    pub(crate) activation: u64,
    pub(crate) step: Step,
}

fn parsed(text: &str) -> Result<ObjectPath, Error> {
    let broken = |e: InvalidName| Error::internal(format!("{text} is no path: {e}"));
    text.parse().map_err(broken)
}

impl Run {
    /// Where it runs: `system/nginx-3`, `system/nginx-3-start-pre-1`.
    pub(crate) fn path(&self) -> Result<ObjectPath, Error> {
        let label = name::label(&self.unit)?;
        let (number, step) = (self.activation, self.step);
        let mut word = match (step.phase, step.index) {
            (super::steps::Phase::Start, 0) => String::new(),
            (phase, 0) => format!("-{}", phase.word()),
            (phase, index) => format!("-{}-{index}", phase.word()),
        };
        if step.round > 0 {
            word.push_str(&format!("-r{}", step.round));
        }
        parsed(&format!("{CELL}/{label}-{number}{word}"))
    }
}

impl Runs {
    pub(crate) fn new(runtime: Runtime, identity: Arc<Identity>) -> Runs {
        Runs {
            runtime,
            identity,
            making: Arc::default(),
            starts: Arc::new(tokio::sync::Semaphore::new(STARTS)),
        }
    }

    /// The cell of all units, made where it isn't there.
    async fn cell(&self) -> Result<(), Error> {
        let path = parsed(CELL)?;
        let is_there = || {
            let seen = self.runtime.seen(&Tenant::system(), &path)?;
            (!seen.state().is_final()).then_some(seen)
        };
        let _one_at_a_time = self.making.lock().await;
        if let Some(seen) = is_there() {
            return match seen.meta().labels.get(crate::OWNER) == Some(MANAGER) {
                true => Ok(()),
                false => Err(Error::new(
                    Reason::AlreadyExists,
                    format!("the cell {CELL} of the tenant system is somebody else's"),
                )
                .hint("stop it: units run in it")),
            };
        }
        let shared = cell::Draft {
            share: Namespace::ALL.into_iter().collect(),
            ..Default::default()
        };
        let label = BTreeMap::from([(crate::OWNER.to_owned(), MANAGER.to_owned())]);
        let request = RunCell {
            tenant: Tenant::system(),
            path: path.clone(),
            labels: Labels::new(label)?,
            spec: shared.try_into()?,
            request_id: None,
            wait_for: WaitFor::Started,
            annex: None,
            for_a_member: false,
        };
        let effects = vec![Effect::on(RUN_CELL, &path), Effect::on(REMOVE, &path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        self.runtime.run_cell(permit, request).await.map(drop)
    }

    /// Begins a command; answers when its program is executed.
    pub(crate) async fn begin(
        &self,
        run: &Run,
        spec: ExecutableSpec,
    ) -> Result<Arc<Object>, Error> {
        // Closed never.
        let _place = self.starts.acquire().await;
        self.cell().await?;
        let path = run.path()?;
        let label = name::label(&run.unit)?.to_string();
        let labels = BTreeMap::from([
            (crate::OWNER.to_owned(), MANAGER.to_owned()),
            (crate::RUN.to_owned(), run.activation.to_string()),
            (UNIT.to_owned(), label),
        ]);
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
        self.runtime.run_executable(permit, request).await
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

    fn target(&self, object: &Object) -> ObjectRef {
        let meta = object.meta();
        ObjectRef {
            uid: Some(meta.uid),
            kind: Some(Kind::Executable),
            ..ObjectRef::new(Tenant::system(), meta.path.clone())
        }
    }

    /// Ends a command: its stop signal, the grace, SIGKILL. Answers when it has ended.
    pub(crate) async fn stop(&self, run: &Run, grace: Option<Duration>) -> Result<(), Error> {
        let Some(object) = self.seen(run).filter(|it| !it.state().is_final()) else {
            return Ok(());
        };
        let effects = vec![Effect::below(STOP, &object.meta().path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        let target = self.target(&object);
        let stopped = self.runtime.stop(permit, Stop { target, grace }).await;
        there(stopped.map(drop))
    }

    /// Ends a command, and answers how it ended, once it has: a stop that fails, or that the
    /// runtime can't do now, is tried again as long as the command is there.
    pub(crate) async fn stop_surely(&self, run: &Run, grace: Option<Duration>) -> End {
        loop {
            if let Err(error) = self.stop(run, grace).await {
                tracing::warn!(unit = %run.unit, %error, "a process can't be ended");
            }
            let Some(object) = self.seen(run) else {
                return End::Unknown;
            };
            if object.state().is_final() {
                return end(&object);
            }
            let ended = tokio::time::timeout(AGAIN, self.end_of(&object)).await;
            if let Ok(end) = ended {
                return end;
            }
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
            target: self.target(&object),
            signal,
            all_processes: all,
        };
        there(self.runtime.signal(permit, request).await.map(drop))
    }

    /// What there is of a unit, with the numbers of its activations.
    pub(crate) fn seen_of(&self, unit: &UnitName) -> Vec<(u64, Arc<Object>)> {
        let Ok(label) = name::label(unit) else {
            return Vec::new();
        };
        let range = (
            parsed(&format!("{CELL}/{label}-0")),
            parsed(&format!("{CELL}/{label}-zz")),
        );
        let (Ok(from), Ok(to)) = range else {
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

    /// Removes the records and logs of the activations of a unit up to that one.
    pub(crate) async fn forget(&self, unit: &UnitName, last: u64) -> Result<(), Error> {
        let label = name::label(unit)?;
        let (from, to) = (
            parsed(&format!("{CELL}/{label}-0"))?,
            parsed(&format!("{CELL}/{label}-zz"))?,
        );
        for object in self.runtime.seen_between(&Tenant::system(), &from, &to) {
            let meta = object.meta();
            let own = meta.labels.get(UNIT) == Some(label.as_str());
            let number = meta
                .labels
                .get(crate::RUN)
                .and_then(|it| it.parse::<u64>().ok());
            if !own || !object.state().is_final() || number.is_none_or(|it| it > last) {
                continue;
            }
            let effects = vec![Effect::on(REMOVE, &meta.path), Effect::on(STOP, &meta.path)];
            let permit = self.identity.node_permit(effects).map_err(Error::from)?;
            let request = model::request::Remove {
                target: self.target(&object),
                recursive: false,
                force: false,
            };
            there(self.runtime.remove(permit, request).await.map(drop))?;
        }
        Ok(())
    }
}

/// What isn't there any more needs nothing.
fn there(done: Result<(), Error>) -> Result<(), Error> {
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
        Reason::ProgramNotFound | Reason::ProgramNotExecutable => Some(203),
        Reason::InvalidField if field.ends_with("user") => Some(217),
        Reason::InvalidField if field.contains("group") => Some(216),
        Reason::InvalidField if field.ends_with("cwd") => Some(200),
        _ => None,
    }
}
