// SPDX-License-Identifier: Apache-2.0
//! A unit as the bus shows it: its state and what its files say, as values and not as words.
//! [`model::unit`] has what the API shows.

use std::path::PathBuf;
use std::sync::Arc;

use identity::Permit;
use model::error::{Error, Reason};
use model::unit::{JobDone, JobMode, UnitStatus};
use tokio::sync::broadcast;
use units::depend::Dependency;
use units::name::{UnitName, UnitType};
use units::service::Service;
use units::unit::Unit;

use super::handle::Units;
use super::manager::Order;
use super::news::News;

/// A unit, looked at. Times are nanoseconds.
#[derive(Clone, Debug)]
pub struct View {
    /// Its name, without which there is none.
    pub id: UnitName,
    /// As the API has it.
    pub status: UnitStatus,
    /// What its files say.
    pub unit: Arc<Unit>,
    /// The same of a service, with all defaults put in.
    pub service: Option<Arc<Service>>,
    /// Which units it depends on, and which on it (`true`).
    pub dependencies: Vec<(Dependency, bool, Vec<UnitName>)>,
    /// When it was begun, became active, went down: `CLOCK_BOOTTIME`.
    pub begun: Option<u64>,
    /// See [`View::begun`].
    pub active: Option<u64>,
    /// See [`View::begun`].
    pub inactive: Option<u64>,
    /// When it was active no more, likewise.
    pub left: Option<u64>,
    /// When its state was last another: `CLOCK_REALTIME`.
    pub changed: u64,
    /// The process of a command beside the main one.
    pub control_pid: Option<u32>,
    /// How its main process ended: the code of waitid(2), and the status or signal.
    pub ended: Option<(i32, i32)>,
    /// What it says of itself.
    pub said: String,
    /// `$INVOCATION_ID`, in hexadecimal digits.
    pub invocation: String,
    /// What the timer or path unit that has started it tells it.
    pub trigger: Vec<(String, String)>,
    /// The folder of its group.
    pub group: Option<PathBuf>,
    /// Its processes are held.
    pub is_held: bool,
    /// The kinds of folders that it has: `state`, `cache` and so on.
    pub folders: Vec<String>,
    /// It was made by a call.
    pub is_transient: bool,
}

/// A job, looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// The unit that the job is for.
    pub unit: UnitName,
    /// `start`, `stop`, …
    pub kind: String,
    /// Whether it has begun.
    pub runs: bool,
}

impl Units {
    /// From now on tells what happens. Who doesn't take it in time misses the oldest.
    ///
    /// # Errors
    /// `UNSUPPORTED`: the node runs no units.
    pub fn listen(&self) -> Result<broadcast::Receiver<News>, Error> {
        let none = || Error::new(Reason::Unsupported, "this node runs no units");
        Ok(self.news.as_ref().ok_or_else(none)?.subscribe())
    }

    /// A unit that is loaded; with `load` it is loaded first.
    ///
    /// # Errors
    /// `NOT_FOUND`, `UNSUPPORTED`.
    pub async fn view(&self, permit: &Permit, unit: UnitName, load: bool) -> Result<View, Error> {
        self.ask(permit, |reply| Order::View(unit, load, reply))
            .await
    }

    /// The same for what the node tells by itself, to clients that listen.
    ///
    /// # Errors
    /// As [`Units::view`].
    pub async fn seen(&self, unit: UnitName) -> Result<View, Error> {
        self.ask_by_itself(|reply| Order::View(unit, false, reply))
            .await
    }

    /// The same, of a unit that is loaded for it.
    pub(crate) async fn looked_at(&self, unit: UnitName) -> Result<View, Error> {
        self.ask_by_itself(|reply| Order::View(unit, true, reply))
            .await
    }

    /// Moves more processes into a scope that runs.
    ///
    /// # Errors
    /// `WRONG_STATE`: it doesn't run, or a process can't be moved. `UNSUPPORTED`.
    pub async fn attach(
        &self,
        permit: &Permit,
        unit: UnitName,
        processes: Vec<i32>,
    ) -> Result<(), Error> {
        self.ask(permit, |reply| Order::Attach(unit, processes, reply))
            .await
    }

    /// All jobs.
    ///
    /// # Errors
    /// `UNSUPPORTED`.
    pub async fn jobs(&self, permit: &Permit) -> Result<Vec<Job>, Error> {
        self.ask(permit, Order::Jobs).await
    }

    /// Calls a job off. What it has begun goes on.
    ///
    /// # Errors
    /// `NOT_FOUND`, `UNSUPPORTED`.
    pub async fn cancel(&self, permit: &Permit, job: u64) -> Result<(), Error> {
        self.ask(permit, |reply| Order::Cancel(job, reply)).await
    }

    /// The unit whose process this is; `None`: it is no unit's.
    ///
    /// # Errors
    /// `UNSUPPORTED`.
    pub async fn of_process(&self, permit: &Permit, pid: i32) -> Result<Option<UnitName>, Error> {
        self.ask(permit, |reply| Order::OfProcess(pid, reply)).await
    }

    /// Says that who has made a scope doesn't look after it any more.
    ///
    /// # Errors
    /// `WRONG_STATE`: it isn't running. `UNSUPPORTED`.
    pub async fn abandon(&self, permit: &Permit, unit: UnitName) -> Result<(), Error> {
        self.ask(permit, |reply| Order::Abandon(unit, reply)).await
    }

    /// Makes a scope of processes that are there: writes its file, has them moved into its group.
    /// Answers when the job is there.
    ///
    /// # Errors
    /// `INVALID_FIELD`: it is no scope, or has no process. `ALREADY_EXISTS`, `LIMIT_EXCEEDED`,
    /// `WRONG_STATE`: as [`Units::start_transient`].
    pub async fn start_scope(
        &self,
        permit: &Permit,
        unit: UnitName,
        text: String,
        processes: Vec<i32>,
        mode: JobMode,
    ) -> Result<JobDone, Error> {
        if unit.kind() != UnitType::Scope || unit.is_template() {
            return Err(Error::invalid("name", "is no scope"));
        }
        self.is_free(permit, &unit).await?;
        let written = self.write(vec![(unit.clone(), text)]).await?;
        let name = unit.clone();
        let started = self
            .ask(permit, |reply| Order::Scope(name, processes, mode, reply))
            .await;
        if started.is_err() {
            self.take_back(&written);
        }
        self.look_again();
        let accepted = started?;
        Ok(JobDone {
            id: accepted.id.unwrap_or(0),
            result: "",
            notes: accepted.notes,
            unit: self.get(permit, unit).await?.status,
        })
    }
}
