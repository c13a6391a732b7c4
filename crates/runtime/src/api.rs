// SPDX-License-Identifier: Apache-2.0
//! What `auraed/rpc` calls: a method per RPC, each with the `Permit` that identity gave for it.
//! Those that run something are in [`super::run`], that which removes it in [`super::remove`]; the
//! work is the owners'.
//!
//! What makes or removes something runs as a task of its own: a client that goes away half-way
//! leaves it whole.

use std::sync::Arc;
use std::time::Duration;

use identity::Effect;
use identity::permit::Permit;
use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant, Uid};
use model::network::Network;
use model::object::{Kind, ObjectRef};
use model::request::{ListQuery, SendSignal, Stop, UpdateCell, UpdateExecutable, WatchQuery};
use model::signal::Signal;
use model::status::{Annex, Object};

use super::cell::{CellHandle, Request};
use super::effects::{STOP, demand_stop, shows};
use super::index::Key;
use super::index::silent::{self, is_silent};
use super::{Page, Runtime, Watcher, privilege};

impl Runtime {
    /// The object once it has ended.
    pub(super) async fn ended(&self, object: &Arc<Object>) -> Result<Arc<Object>, Error> {
        if object.state().is_final() {
            return self.shared.whole(object).await;
        }
        let uid = object.meta().uid;
        let Some(mut end) = self.shared.index.end_of(uid) else {
            // It ended and was removed between our look and now; its end went to the client that
            // asked then.
            return Err(object.meta().to_ref().not_found());
        };
        let ended = end.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|ended| ended.clone());
        let ended = ended.ok_or_else(|| object.meta().to_ref().not_found())?;
        self.shared.whole(&ended).await
    }

    /// One object.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn get(&self, permit: Permit, target: &ObjectRef) -> Result<Arc<Object>, Error> {
        permit.demand_tenant(&target.tenant)?;
        let object = self.shared.index.get(target)?;
        let whose = &permit.user().tenant;
        let whole = self.shared.whole_for(whose, &object).await?;
        Ok(self.present(&whole))
    }

    /// Objects, by tenant and path.
    ///
    /// # Errors
    /// `INVALID_FIELD` for a page token that isn't one.
    pub async fn list(&self, permit: &Permit, query: &ListQuery) -> Result<Page, Error> {
        permit.demand_scope(&query.filter.scope)?;
        let index = &self.shared.index;
        let page = index.list(query, &|object| shows(permit, object))?;
        self.whole_page(&permit.user().tenant, page).await
    }

    /// A snapshot and then every change.
    ///
    /// # Errors
    /// Where the permit does not cover what is asked for.
    pub fn watch(&self, permit: Permit, query: WatchQuery) -> Result<Watcher, Error> {
        permit.demand_scope(&query.filter.scope)?;
        let token = query.resume_token.as_deref();
        let index = self.shared.index.clone();
        let shows = Box::new(move |object: &Object| shows(&permit, object));
        let watcher = Watcher::new(index, query.filter, shows, token);
        Ok(watcher.reading(self.shared.clone()))
    }

    /// The run of that uid once it has ended.
    ///
    /// # Errors
    /// `NOT_FOUND`, `INVALID_FIELD` without a uid.
    pub async fn wait(&self, permit: Permit, target: &ObjectRef) -> Result<Arc<Object>, Error> {
        permit.demand_tenant(&target.tenant)?;
        if target.uid.is_none() {
            return Err(Error::invalid(
                "ref.uid",
                "is required: a name may be run again meanwhile",
            ));
        }
        let object = self.shared.index.get(target)?;
        self.ended(&object).await
    }

    /// Signals an executable; answers when the signal was sent.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE` where it has ended.
    pub async fn signal(&self, permit: Permit, request: SendSignal) -> Result<Arc<Object>, Error> {
        permit.demand_tenant(&request.target.tenant)?;
        if request.signal.is_stop() {
            let target = &request.target;
            permit.demand(&target.tenant, &Effect::on(STOP, &target.path))?;
        }
        let object = self.shared.index.get(&request.target)?;
        self.check_place(&permit, &object.meta().tenant, &object.meta().path)?;
        if object.meta().kind != Kind::Executable {
            let message = format!(
                "{} is a cell: only executables are signalled",
                request.target.path
            );
            return Err(Error::new(Reason::WrongState, message));
        }
        let uid = object.meta().uid;
        let (signal, all) = (request.signal, request.all_processes);
        let owner = self.owner_of(&object).ok_or_else(|| has_ended(&object))?;
        owner
            .ask(|reply| Request::Signal {
                uid,
                signal,
                all,
                reply,
            })
            .await
    }

    /// Signals every process of a cell and of the cells in it, those that no executable has any
    /// more among them; for subsystems of the node.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE` where it has ended.
    pub async fn signal_all(
        &self,
        permit: Permit,
        target: &ObjectRef,
        signal: Signal,
    ) -> Result<(), Error> {
        demand_stop(&permit, target)?;
        let object = self.cell(target)?;
        self.check_place(&permit, &object.meta().tenant, &object.meta().path)?;
        let owner = self.owner_of(&object).ok_or_else(|| has_ended(&object))?;
        let request = |reply| Request::SignalAll { signal, reply };
        owner.ask(request).await
    }

    /// Makes a process of an executable's cell its main process, whose end is its own from then on;
    /// for a subsystem of the node that was told so (`MAINPID=`). `pid`: the node's number.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE` where the executable has ended, or the process is none of its
    /// cell.
    pub async fn set_main(
        &self,
        permit: Permit,
        target: &ObjectRef,
        pid: i32,
    ) -> Result<Arc<Object>, Error> {
        demand_stop(&permit, target)?;
        let object = self.shared.index.get(target)?;
        self.check_place(&permit, &object.meta().tenant, &object.meta().path)?;
        let owner = self.owner_of(&object).ok_or_else(|| has_ended(&object))?;
        let uid = object.meta().uid;
        let request = |reply| Request::Main { uid, pid, reply };
        owner.ask(request).await
    }

    /// Asks to end; answers when it has.
    ///
    /// # Errors
    /// `NOT_FOUND`. What has ended already is answered as it is.
    pub async fn stop(&self, permit: Permit, request: Stop) -> Result<Arc<Object>, Error> {
        demand_stop(&permit, &request.target)?;
        let object = self.shared.index.get(&request.target)?;
        self.check_place(&permit, &object.meta().tenant, &object.meta().path)?;
        self.stop_object(&object, request.grace).await
    }

    pub(super) async fn stop_object(
        &self,
        object: &Arc<Object>,
        grace: Option<Duration>,
    ) -> Result<Arc<Object>, Error> {
        if object.state().is_final() {
            return self.shared.whole(object).await;
        }
        let uid = object.meta().uid;
        if is_silent(object) {
            return Err(silent::refusal(&Key::of(object)));
        }
        let Some(owner) = self.owner_of(object) else {
            return self.ended(object).await;
        };
        let stopped = match object.meta().kind {
            Kind::Cell => owner.ask(|reply| Request::StopCell { grace, reply }).await,
            Kind::Executable => owner.ask(|reply| Request::Stop { uid, grace, reply }).await,
        };
        match stopped {
            Ok(object) if object.state().is_final() => Ok(object),
            // The owner ended with what it owns, or the end is still being told.
            _ => self.ended(object).await,
        }
    }

    /// Changes a running cell's labels, limits and mounts.
    ///
    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` (another generation), `WRONG_STATE`, `CONTROLLER_UNAVAILABLE`,
    /// `UNSUPPORTED`. Nothing has changed then.
    pub async fn update_cell(
        &self,
        permit: Permit,
        request: UpdateCell,
    ) -> Result<Arc<Object>, Error> {
        permit.demand_tenant(&request.target.tenant)?;
        let settings = &self.shared.settings;
        privilege::check_cell(&permit, settings, &request.target.path, &request.spec)?;
        let object = self.cell(&request.target)?;
        self.check_place(&permit, &object.meta().tenant, &object.meta().path)?;
        let owner = self.owner_of(&object).ok_or_else(|| has_ended(&object))?;
        let request = Box::new(request);
        let updated = owner
            .ask(|reply| Request::Update { request, reply })
            .await?;
        Ok(self.present(&updated))
    }

    /// Keeps another document of a subsystem above with a running cell. When it answers, `kill -9`
    /// of the daemon doesn't lose it.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE` where it has ended, `LIMIT_EXCEEDED` where it is too large.
    pub async fn annex(
        &self,
        permit: Permit,
        target: &ObjectRef,
        annex: Annex,
    ) -> Result<Arc<Object>, Error> {
        permit.demand_tenant(&target.tenant)?;
        let object = self.cell(target)?;
        let owner = self.owner_of(&object).ok_or_else(|| has_ended(&object))?;
        owner.ask(|reply| Request::Annex { annex, reply }).await
    }

    /// The running cells with such a document, of every tenant.
    pub fn annexed(&self) -> Vec<Arc<Object>> {
        self.shared.index.annexed()
    }

    /// The last bytes that an executable has printed, at most so many.
    ///
    /// # Errors
    /// `NOT_FOUND`, or where its log can't be read now.
    pub async fn last_output(
        &self,
        permit: Permit,
        target: &ObjectRef,
        most: usize,
    ) -> Result<Vec<u8>, Error> {
        permit.demand_tenant(&target.tenant)?;
        let object = self.shared.index.get(target)?;
        let uid = object.meta().uid;
        self.shared.logs.tail(&target.tenant, uid, most).await
    }

    /// Whether the caller may ask for such a network; `field` is where it stands in the request.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` by the port or network that is administrators'.
    pub fn check_network(
        &self,
        permit: &Permit,
        network: &Network,
        field: &str,
    ) -> Result<(), Error> {
        match permit.is_administrator() {
            true => Ok(()),
            false => privilege::check_network(&self.shared.settings, network, field),
        }
    }

    /// The cell of that run, while it lives, of whatever tenant.
    pub fn living(&self, uid: Uid) -> Option<Arc<Object>> {
        let object = self.shared.index.by_uid(uid)?;
        let is_cell = object.meta().kind == Kind::Cell;
        (is_cell && !object.state().is_final()).then_some(object)
    }

    /// What stands at names of a tenant from one on, up to another one, for a subsystem of the node
    /// that makes names by a rule.
    pub fn seen_between(
        &self,
        tenant: &Tenant,
        from: &ObjectPath,
        to: &ObjectPath,
    ) -> Vec<Arc<Object>> {
        let key = |path: &ObjectPath| Key {
            tenant: tenant.clone(),
            path: path.clone(),
        };
        self.shared.index.between(&key(from), &key(to))
    }

    /// Resolves with the object once it has ended; for a subsystem of the node that keeps it.
    ///
    /// # Errors
    /// `NOT_FOUND`: it was removed before.
    pub async fn end_of(&self, object: &Arc<Object>) -> Result<Arc<Object>, Error> {
        self.ended(object).await
    }

    /// What stands at a name now, where a subsystem of the node keeps it.
    pub fn seen(&self, tenant: &Tenant, path: &ObjectPath) -> Option<Arc<Object>> {
        let key = Key {
            tenant: tenant.clone(),
            path: path.clone(),
        };
        self.shared.index.at(&key)
    }

    /// Changes a running executable's labels.
    ///
    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` (another generation), `WRONG_STATE` where it has ended. Nothing has
    /// changed then.
    pub async fn update_executable(
        &self,
        permit: Permit,
        request: UpdateExecutable,
    ) -> Result<Arc<Object>, Error> {
        permit.demand_tenant(&request.target.tenant)?;
        let object = self.shared.index.get(&request.target)?;
        let owner = self.owner_of(&object).ok_or_else(|| has_ended(&object))?;
        let (uid, request) = (object.meta().uid, Box::new(request));
        owner
            .ask(|reply| Request::Relabel {
                uid,
                request,
                reply,
            })
            .await
    }

    /// Holds every process of a cell and of those in it.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE`, `DEADLINE` where some process could not be stopped in time.
    pub async fn freeze_cell(
        &self,
        permit: Permit,
        target: &ObjectRef,
    ) -> Result<Arc<Object>, Error> {
        self.hold(permit, target, true).await
    }

    /// Lets them go on.
    ///
    /// # Errors
    /// As [`Runtime::freeze_cell`].
    pub async fn thaw_cell(
        &self,
        permit: Permit,
        target: &ObjectRef,
    ) -> Result<Arc<Object>, Error> {
        self.hold(permit, target, false).await
    }

    async fn hold(
        &self,
        permit: Permit,
        target: &ObjectRef,
        frozen: bool,
    ) -> Result<Arc<Object>, Error> {
        let action = if frozen {
            "runtime.FreezeCell"
        } else {
            "runtime.ThawCell"
        };
        permit.demand(&target.tenant, &Effect::below(action, &target.path))?;
        let object = self.cell(target)?;
        self.check_place(&permit, &object.meta().tenant, &object.meta().path)?;
        let owner = self.owner_of(&object).ok_or_else(|| has_ended(&object))?;
        let held = owner
            .ask(|reply| Request::Freeze {
                frozen,
                by_parent: false,
                reply,
            })
            .await?;
        Ok(self.present(&held))
    }

    /// Whether the caller may act on what is, or is to be, at a path: `PERMISSION_DENIED` in a cell
    /// of the node's tenant with the node's namespaces, and below, where he is no administrator.
    pub(super) fn check_place(
        &self,
        permit: &Permit,
        tenant: &Tenant,
        path: &ObjectPath,
    ) -> Result<(), Error> {
        let mut path = path.clone();
        while let Some(around) = path.parent() {
            path = around;
        }
        let tenant = tenant.clone();
        let top = self.shared.index.at(&Key { tenant, path });
        let living = top.filter(|it| !it.state().is_final());
        privilege::check_place(permit, living.as_deref())
    }

    fn cell(&self, target: &ObjectRef) -> Result<Arc<Object>, Error> {
        let object = self.shared.index.get(target)?;
        if object.meta().kind == Kind::Cell {
            return Ok(object);
        }
        let message = format!("{} is an executable, not a cell", target.path);
        Err(Error::new(Reason::WrongState, message))
    }

    /// The owner of the cell that the object is, or is in.
    pub(super) fn owner_of(&self, object: &Object) -> Option<CellHandle> {
        let key = Key::of(object);
        match object.meta().kind {
            Kind::Cell => self
                .shared
                .index
                .cell(&key)
                .filter(|owner| owner.uid() == object.meta().uid),
            Kind::Executable => self.shared.index.cell(&key.parent()?),
        }
    }

    pub(super) fn present(&self, object: &Arc<Object>) -> Arc<Object> {
        self.with_totals(self.shared.index.present(object))
    }

    /// How much a running executable has written is asked when a client reads its status.
    pub(super) fn with_totals(&self, object: Arc<Object>) -> Arc<Object> {
        let Object::Executable(executable) = &*object else {
            return object;
        };
        if executable.state.is_final() {
            return object;
        }
        let Some(totals) = self.shared.logs.totals(executable.meta.uid) else {
            return object;
        };
        let mut executable = executable.clone();
        executable.stdout_bytes = totals.stdout;
        executable.stderr_bytes = totals.stderr;
        Arc::new(Object::Executable(executable))
    }
}

pub(super) async fn joined<T>(task: tokio::task::JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    task.await
        .unwrap_or_else(|e| Err(Error::internal(format!("the request broke off: {e}"))))
}

pub(super) fn has_ended(object: &Object) -> Error {
    if is_silent(object) {
        return silent::refusal(&Key::of(object));
    }
    let meta = object.meta();
    Error::new(Reason::WrongState, format!("{} has ended", meta.path))
        .about(meta.kind.as_str(), meta.path.to_string())
}

/// 128 random bits.
pub(crate) fn new_uid() -> Result<Uid, Error> {
    let mut bits = [0; 16];
    rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::internal(format!("no random bits: {e}")).errno(e.raw_os_error()))?;
    Ok(Uid(bits))
}
