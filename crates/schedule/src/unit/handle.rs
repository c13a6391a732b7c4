// SPDX-License-Identifier: Apache-2.0
//! What `auraed/rpc` calls: a method per RPC, each with the `Permit` that identity gave for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use identity::{Identity, Permit};
use model::error::{Error, Reason};
use model::signal::Signal;
use model::unit::{FileChange, FileVerb, JobDone, JobMode, UnitDetail, UnitStatus, Verb, Whom};
use runtime::Runtime;
use store::Store;
use tokio::sync::{broadcast, mpsc, oneshot};
use units::install::mangle;
use units::name::UnitName;

use super::dynamic;
use super::generate::Generators;
use super::manager::{self, Manager, Order};
use super::news::News;
use super::past::Past;
use super::property;
use super::runs::Runs;
use super::table::Folders;
use super::transient::Folder;
use super::userdb;

/// What the unit manager is started with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Where units are.
    pub folders: Folders,
    /// What writes unit files before they are read; `None`: nothing does.
    pub generators: Option<Generators>,
    /// What is started with the node.
    pub first: Option<String>,
    /// Of this boot: what an earlier one has left is begun afresh.
    pub boot_id: String,
    /// A folder for namespaces and the like, gone with the boot.
    pub run: std::path::PathBuf,
    /// Where the sockets are on which services say something of themselves: a folder that every
    /// user of the machine may enter.
    pub sockets: std::path::PathBuf,
    /// The socket of the system bus, by which services of `Type=dbus` are known to be up.
    pub bus: std::path::PathBuf,
    /// The daemon's init is the machine's: units may bring it down (`FailureAction=`).
    pub is_machine: bool,
}

/// The handle of the unit manager; cheap to clone.
#[derive(Clone)]
pub struct Units {
    /// `None`: the node runs no units.
    orders: Option<mpsc::Sender<Order>>,
    /// What happens is told here.
    pub(super) news: Option<broadcast::Sender<News>>,
    /// Where the files of transient units are.
    pub(super) transient: Arc<Folder>,
    /// Where callers' drop-ins are.
    pub(super) places: Arc<property::Places>,
}

/// The unit that a word means.
///
/// # Errors
/// `INVALID_FIELD`: it is no name of a unit.
pub fn named(field: &str, word: &str) -> Result<UnitName, Error> {
    mangle(word).map_err(|problem| Error::invalid(field, problem))
}

impl Units {
    /// A node that runs no units.
    pub fn off() -> Units {
        Units {
            orders: None,
            news: None,
            transient: Arc::default(),
            places: Arc::default(),
        }
    }

    /// Starts the manager; what an earlier daemon has begun goes on. `past` takes what units have
    /// printed before their records go.
    ///
    /// # Errors
    /// `INVALID_FIELD`: the first unit's name is none.
    pub fn start(
        settings: Settings,
        store: Store,
        identity: Arc<Identity>,
        runtime: Runtime,
        past: Arc<dyn Past>,
    ) -> Result<Units, Error> {
        let first = settings.first.as_deref().filter(|it| !it.is_empty());
        let first = first.map(|it| named("units.default", it)).transpose()?;
        let transient = Arc::new(Folder::beside(&settings.folders));
        let places = Arc::new(property::Places::beside(&settings.folders));
        let (manager, orders) = Manager::new(manager::Beginning {
            folders: settings.folders,
            generators: settings.generators,
            first,
            runs: Runs::new(runtime, identity, &settings.boot_id, past),
            boot_id: settings.boot_id,
            run: settings.run,
            sockets: settings.sockets,
            store,
            bus: settings.bus,
            is_machine: settings.is_machine,
        });
        let news = Some(manager.news());
        tokio::spawn(manager.run());
        if settings.is_machine {
            let users = dynamic::FOLDER.into();
            tokio::spawn(userdb::serve(Path::new(userdb::SOCKET), users));
        }
        let units = Units {
            orders: Some(orders),
            news,
            transient,
            places,
        };
        units.tidy();
        Ok(units)
    }

    pub(super) async fn ask<T>(
        &self,
        // The decision was about the method: units are the node's, and no tenant's.
        _: &Permit,
        order: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Order,
    ) -> Result<T, Error> {
        self.ask_by_itself(order).await
    }

    /// The same for what the node does without a call.
    pub(super) async fn ask_by_itself<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Order,
    ) -> Result<T, Error> {
        let Some(orders) = &self.orders else {
            let error = Error::new(Reason::Unsupported, "this node runs no units");
            return Err(error.hint("set units.enabled in its configuration, and start it again"));
        };
        let gone = || Error::internal("the unit manager has ended");
        let (reply, answer) = oneshot::channel();
        orders.send(order(reply)).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// The units that are loaded, by name; with `files` all that a folder has, too.
    ///
    /// # Errors
    /// `UNSUPPORTED`: the node runs none.
    pub async fn list(&self, permit: &Permit, files: bool) -> Result<Vec<UnitStatus>, Error> {
        self.ask(permit, |reply| Order::List(files, reply)).await
    }

    /// All of one unit.
    ///
    /// # Errors
    /// `NOT_FOUND`, `UNSUPPORTED`.
    pub async fn get(&self, permit: &Permit, unit: UnitName) -> Result<UnitDetail, Error> {
        self.ask(permit, |reply| Order::Get(unit, reply)).await
    }

    /// Does something to a unit, with all that goes with it; answers when that has ended, or with
    /// `wait` unset when it is a job.
    ///
    /// # Errors
    /// `NOT_FOUND`; `WRONG_STATE`: it is masked, can't be used, or the job contradicts itself. A
    /// job that fails is an answer.
    pub async fn job(
        &self,
        permit: &Permit,
        unit: UnitName,
        verb: Verb,
        mode: JobMode,
        wait: bool,
    ) -> Result<JobDone, Error> {
        let name = unit.clone();
        let accepted = self
            .ask(permit, |reply| Order::Job(name, verb, mode, reply))
            .await?;
        let ending = match accepted.ended {
            Some(ended) if wait => {
                let gone = || Error::internal("the unit manager has ended");
                manager::word(ended.await.map_err(|_| gone())?)
            }
            Some(_) => "",
            None => "done",
        };
        Ok(JobDone {
            id: accepted.id.unwrap_or(0),
            result: ending,
            notes: accepted.notes,
            unit: self.get(permit, unit).await?.status,
        })
    }

    /// Sends a signal to what a service runs.
    ///
    /// # Errors
    /// `WRONG_STATE`: it runs nothing, or has no such process.
    pub async fn kill(
        &self,
        permit: &Permit,
        unit: UnitName,
        signal: Signal,
        whom: Whom,
    ) -> Result<(), Error> {
        self.ask(permit, |reply| Order::Kill(unit, signal, whom, reply))
            .await
    }

    /// Forgets failures and counts of starts, of these units or of all.
    ///
    /// # Errors
    /// `UNSUPPORTED`.
    pub async fn reset_failed(&self, permit: &Permit, units: Vec<UnitName>) -> Result<(), Error> {
        self.ask(permit, |reply| Order::ResetFailed(units, reply))
            .await
    }

    /// Enables, disables, masks, unmasks.
    ///
    /// # Errors
    /// `WRONG_STATE`: a unit doesn't exist, is masked, or a file is in the way.
    pub async fn change_files(
        &self,
        permit: &Permit,
        verb: FileVerb,
        units: Vec<UnitName>,
        runtime: bool,
    ) -> Result<Vec<FileChange>, Error> {
        self.ask(permit, |reply| Order::Files(verb, units, runtime, reply))
            .await
    }

    /// The unit whose executables have that label ([`super::UNIT`]); `None`: none that is loaded.
    pub async fn of_label(&self, label: &str) -> Option<String> {
        let plain = format!("{label}.service");
        if !label.contains("--") {
            return Some(plain);
        }
        let list = self.ask_by_itself(|reply| Order::List(false, reply)).await;
        let names = list.ok()?.into_iter().map(|it| it.name);
        let mut named = names.filter(|it| {
            let own = UnitName::parse(it)
                .ok()
                .and_then(|it| super::name::label(&it).ok());
            own.is_some_and(|it| it.as_str() == label)
        });
        named.next()
    }

    /// Whether the node runs units.
    pub const fn are_run(&self) -> bool {
        self.orders.is_some()
    }

    /// How long the end of all units takes at most, if the node went down now: the longest row of
    /// stops that wait for each other, each with its unit's time-outs. Nothing where no units run.
    pub async fn longest_end(&self) -> Duration {
        let asked = self.ask_by_itself(Order::LongestEnd).await;
        asked.unwrap_or_default()
    }

    /// Ends all units in the reverse of their order, and answers once they have ended or the time
    /// is over: for a node that goes down. What is left then ends with it.
    pub async fn end_all(&self, within: Duration) {
        let Some(orders) = &self.orders else {
            return;
        };
        let (reply, answer) = oneshot::channel();
        if orders.send(Order::EndAll(reply)).await.is_err() {
            return;
        }
        if tokio::time::timeout(within, answer).await.is_ok() {
            return;
        }
        let left = self.ask_by_itself(Order::StillEnding).await;
        let left: Vec<String> = left.iter().flatten().map(ToString::to_string).collect();
        let units = left.join(", ");
        tracing::warn!(
            ?within,
            units,
            "units have not ended in time; they end at once"
        );
    }

    /// Reads all unit files again.
    ///
    /// # Errors
    /// `UNSUPPORTED`.
    pub async fn reload(&self, permit: &Permit) -> Result<(), Error> {
        self.ask(permit, Order::Reload).await
    }
}
