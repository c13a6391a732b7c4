// SPDX-License-Identifier: Apache-2.0
//! What `auraed/rpc` calls: a method per RPC, each with the `Permit` that identity gave for it.
//! Admission is here (names, bounds, retries); the work is the owners'.
//!
//! What changes something runs as a task of its own: a client that goes away half-way leaves it
//! whole.

use std::sync::Arc;
use std::time::Duration;

use model::error::{Error, Reason};
use model::name::{Tenant, Uid};
use model::object::{Kind, ObjectRef};
use model::request::{
    ListQuery, Remove, RunCell, RunExecutable, Scope, SendSignal, Stop, UpdateCell,
    UpdateExecutable, WaitFor, WatchQuery,
};
use model::signal::Signal;
use model::status::{Meta, Object};
use serde::Serialize;

use super::cell::{CellHandle, Request, StartOrder};
use super::effects::{
    MayReplace, RUN_CELL, RUN_EXECUTABLE, STOP, demand_remove, demand_stop, shows,
};
use super::index::requests::{Attempt, IdempotencyKey};
use super::index::silent::{self, is_silent};
use super::index::{IdWish, Key, Reservation, Taken};
use super::record::{CellRecord, ExecutableRecord};
use super::{InitState, Page, Runtime, Shared, Watcher, create, now, privilege};
use identity::Effect;
use identity::permit::Permit;

impl Runtime {
    /// Starts an executable, with a cell of its own where asked for.
    ///
    /// # Errors
    /// `NOT_FOUND` (no such cell), `ALREADY_EXISTS`, `PROGRAM_NOT_FOUND`, `PROGRAM_NOT_EXECUTABLE`,
    /// `REQUEST_ID_REUSED`, `LIMIT_EXCEEDED`, `CONTROLLER_UNAVAILABLE`, `WRONG_STATE`,
    /// `UNSUPPORTED`. Nothing is left behind.
    pub async fn run_executable(
        &self,
        permit: Permit,
        request: RunExecutable,
    ) -> Result<Arc<Object>, Error> {
        let tenant = &request.tenant;
        permit.demand(tenant, &Effect::on(RUN_EXECUTABLE, &request.path))?;
        privilege::check_executable(&permit, &request.spec)?;
        if let Some((spec, path)) = request.own_cell.as_ref().zip(request.path.parent()) {
            permit.demand(tenant, &Effect::on(RUN_CELL, &path))?;
            privilege::check_cell(&permit, &path, spec)?;
        }
        let wait_for = request.wait_for;
        let body = (
            &request.path,
            &request.labels,
            &request.spec,
            &request.own_cell,
        );
        let asked = asked(request.request_id.clone(), &body)?;
        let tenant = request.tenant.clone();
        let shared = self.shared.clone();
        let names = Names {
            own: MayReplace::of(&permit, &tenant, &request.path),
            cell: request
                .path
                .parent()
                .map(|cell| MayReplace::of(&permit, &tenant, &cell)),
        };
        let run = move |uid, asked| async move {
            run_executable(&shared, uid, request, names, asked).await
        };
        self.once(&tenant, asked, wait_for, run).await
    }

    /// Makes a cell.
    ///
    /// # Errors
    /// As [`Runtime::run_executable`], of the cell.
    pub async fn run_cell(&self, permit: Permit, request: RunCell) -> Result<Arc<Object>, Error> {
        permit.demand(&request.tenant, &Effect::on(RUN_CELL, &request.path))?;
        privilege::check_cell(&permit, &request.path, &request.spec)?;
        let wait_for = request.wait_for;
        let body = (&request.path, &request.labels, &request.spec);
        let asked = asked(request.request_id.clone(), &body)?;
        let tenant = request.tenant.clone();
        let shared = self.shared.clone();
        let replace = MayReplace::of(&permit, &tenant, &request.path);
        let run =
            move |uid, asked| async move { run_cell(&shared, uid, request, replace, asked).await };
        self.once(&tenant, asked, wait_for, run).await
    }

    /// Nothing new begins on a node that goes down.
    fn open(&self) -> Result<(), Error> {
        let state = self.shared.node.state();
        let message = match *state.borrow() {
            InitState::Serving => return Ok(()),
            InitState::ShuttingDown(..) => "the node goes down: nothing new can begin",
            InitState::Gone => "node-init is gone: nothing new can begin until it is back",
        };
        Err(Error::new(Reason::ShuttingDown, message))
    }

    /// Runs the first of all requests with the same id; the others get its answer.
    async fn once<F>(
        &self,
        tenant: &Tenant,
        asked: Option<IdempotencyKey>,
        wait_for: WaitFor,
        run: impl FnOnce(Uid, Option<IdempotencyKey>) -> F + Send + 'static,
    ) -> Result<Arc<Object>, Error>
    where
        F: Future<Output = Result<Arc<Object>, Error>> + Send + 'static,
    {
        self.open()?;
        let turn = asked
            .as_ref()
            .map(|asked| self.shared.index.begin(tenant, asked))
            .transpose()?;
        let uid = match turn {
            Some(Attempt::Again(mut outcome)) => {
                let outcome = outcome.wait_for(Option::is_some).await;
                let gave_up = || Error::internal("the first try of this request was given up");
                outcome
                    .map_err(|_| gave_up())?
                    .clone()
                    .unwrap_or_else(|| Err(gave_up()))?
            }
            turn => {
                let uid = new_uid()?;
                let index = self.shared.index.clone();
                let mut end = index.expect_end(uid);
                let request = asked
                    .as_ref()
                    .map(|asked| (tenant.clone(), asked.id.clone()));
                let task = tokio::spawn(async move {
                    let result = run(uid, asked).await;
                    if result.is_err() {
                        index.expect_no_end(uid);
                        if let Some((tenant, id)) = request {
                            index.attempt_failed(&tenant, &id);
                        }
                    }
                    if let Some(Attempt::First(outcome)) = turn {
                        outcome.send_replace(Some(result.clone().map(|o| o.meta().uid)));
                    }
                    result
                });
                let object = joined(task).await?;
                if wait_for == WaitFor::Started {
                    return Ok(self.shared.index.present(&object));
                }
                let ended = end.wait_for(Option::is_some).await;
                let ended = ended.ok().and_then(|ended| ended.clone());
                return ended.ok_or_else(|| object.meta().to_ref().not_found());
            }
        };
        let object = self.shared.index.by_uid(uid).ok_or_else(|| {
            Error::new(Reason::NotFound, "what this request made was removed since")
        })?;
        match wait_for {
            WaitFor::Started => Ok(self.present(&self.shared.whole(&object).await?)),
            WaitFor::Exited => self.ended(&object).await,
        }
    }

    /// The object once it has ended.
    async fn ended(&self, object: &Arc<Object>) -> Result<Arc<Object>, Error> {
        if object.state().is_final() {
            return self.shared.whole(object).await;
        }
        let uid = object.meta().uid;
        let Some(mut end) = self.shared.index.end_of(uid) else {
            // It ended and was removed between our look and now; its end went to whoever asked
            // then.
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
        covers(&permit, &target.tenant)?;
        let object = self.shared.index.get(target)?;
        let whole = self.shared.whole(&object).await?;
        Ok(self.present(&whole))
    }

    /// Objects, by tenant and path.
    ///
    /// # Errors
    /// `INVALID_FIELD` for a page token that isn't one.
    pub async fn list(&self, permit: &Permit, query: &ListQuery) -> Result<Page, Error> {
        covers_scope(permit, &query.filter.scope)?;
        let index = &self.shared.index;
        let page = index.list(query, &|object| shows(permit, object))?;
        self.whole_page(page).await
    }

    /// A snapshot and then every change.
    ///
    /// # Errors
    /// Where the permit does not cover what is asked for.
    pub fn watch(&self, permit: Permit, query: WatchQuery) -> Result<Watcher, Error> {
        covers_scope(&permit, &query.filter.scope)?;
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
        covers(&permit, &target.tenant)?;
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
        covers(&permit, &request.target.tenant)?;
        if request.signal == Signal::KILL {
            let target = &request.target;
            permit.demand(&target.tenant, &Effect::on(STOP, &target.path))?;
        }
        let object = self.shared.index.get(&request.target)?;
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

    /// Asks to end; answers when it has.
    ///
    /// # Errors
    /// `NOT_FOUND`. What has ended already is answered as it is.
    pub async fn stop(&self, permit: Permit, request: Stop) -> Result<Arc<Object>, Error> {
        demand_stop(&permit, &request.target)?;
        let object = self.shared.index.get(&request.target)?;
        self.stop_object(&object, request.grace).await
    }

    async fn stop_object(
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

    /// Removes a record with its logs. Answers how many went.
    ///
    /// # Errors
    /// `NOT_FOUND`, `NOT_EMPTY`, `WRONG_STATE` for what runs, without `force`.
    pub async fn remove(&self, permit: Permit, request: Remove) -> Result<u32, Error> {
        demand_remove(&permit, &request.target, request.recursive)?;
        let this = self.clone();
        let removed = async move { this.remove_now(&permit, request).await };
        joined(tokio::spawn(removed)).await
    }

    async fn remove_now(&self, permit: &Permit, request: Remove) -> Result<u32, Error> {
        let object = self.shared.index.get(&request.target)?;
        let key = Key::of(&object);
        let cell = object.meta().kind == Kind::Cell;
        if cell && !request.recursive {
            self.refuse_full(&object, &key)?;
        }
        if !object.state().is_final() {
            demand_stop(permit, &request.target)?;
            self.stop_to_remove(&object, &key, request.force).await?;
        }
        let meant = |object: &Arc<Object>| {
            let uid = object.meta().uid;
            (cell || uid == request.target.uid.unwrap_or(uid)) && object.state().is_final()
        };
        let ended = self.shared.index.subtree(&key).into_iter().filter(meant);
        let gone: Vec<_> = ended
            .filter_map(|object| self.shared.index.remove(object.meta().uid))
            .collect();
        // Answered once the next daemon would not find them either. Where it would, they are not
        // gone.
        if let Err(error) = self.shared.forget(&gone).await {
            for object in gone {
                self.shared.index.publish_known(Object::clone(&object));
            }
            return Err(error);
        }
        Ok(u32::try_from(gone.len()).unwrap_or(u32::MAX).max(1))
    }

    /// A cell that contains more than the executable that it was made for.
    fn refuse_full(&self, cell: &Object, key: &Key) -> Result<(), Error> {
        let made_for = self.owner_of(cell).and_then(|owner| owner.goes_with());
        let is_other = |object: &&Arc<Object>| {
            let uid = object.meta().uid;
            uid != cell.meta().uid && Some(uid) != made_for
        };
        let inside = self.shared.index.subtree(key);
        let count = inside.iter().filter(is_other).count();
        let message = match count {
            0 => return Ok(()),
            1 => format!("the cell {} contains 1 object", key.path),
            _ => format!("the cell {} contains {count} objects", key.path),
        };
        Err(Error::new(Reason::NotEmpty, message)
            .about("cell", key.path.to_string())
            .hint("remove them first, or say recursive"))
    }

    async fn stop_to_remove(
        &self,
        object: &Arc<Object>,
        key: &Key,
        force: bool,
    ) -> Result<(), Error> {
        match object.meta().kind {
            Kind::Cell => self.shared.index.close(key, !force)?,
            Kind::Executable if !force => {
                let message = format!("{} is {}", key.path, object.state());
                return Err(Error::new(Reason::WrongState, message)
                    .about("executable", key.path.to_string())
                    .hint("stop it first, or say force"));
            }
            Kind::Executable => {}
        }
        self.stop_object(object, None).await.map(drop)
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
        covers(&permit, &request.target.tenant)?;
        privilege::check_cell(&permit, &request.target.path, &request.spec)?;
        let object = self.cell(&request.target)?;
        let owner = self.owner_of(&object).ok_or_else(|| has_ended(&object))?;
        let request = Box::new(request);
        let updated = owner
            .ask(|reply| Request::Update { request, reply })
            .await?;
        Ok(self.present(&updated))
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
        covers(&permit, &request.target.tenant)?;
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

    fn present(&self, object: &Arc<Object>) -> Arc<Object> {
        self.with_totals(self.shared.index.present(object))
    }

    /// How much a running executable has written is asked when somebody looks.
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

/// A permit is for one tenant's objects. That another one arrives here is a defect above, not a
/// question of policy; it must still not get through.
pub(super) fn covers(permit: &Permit, tenant: &Tenant) -> Result<(), Error> {
    if permit.tenant() == tenant || permit.every_tenant() {
        return Ok(());
    }
    Err(Error::internal(format!(
        "the permit for {} does not cover this object",
        permit.action()
    )))
}

fn covers_scope(permit: &Permit, scope: &Scope) -> Result<(), Error> {
    match scope {
        Scope::Tenant(tenant) => covers(permit, tenant),
        Scope::Every if permit.every_tenant() => Ok(()),
        Scope::Every => Err(Error::internal("the permit does not cover every tenant")),
    }
}

fn asked(
    id: Option<model::name::RequestId>,
    body: &impl Serialize,
) -> Result<Option<IdempotencyKey>, Error> {
    id.map(|id| IdempotencyKey::new(id, body)).transpose()
}

async fn joined<T>(task: tokio::task::JoinHandle<Result<T, Error>>) -> Result<T, Error> {
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

fn meta(key: &Key, uid: Uid, kind: Kind, labels: model::label::Labels) -> Meta {
    Meta {
        tenant: key.tenant.clone(),
        path: key.path.clone(),
        uid,
        kind,
        labels,
        generation: 1,
        revision: 0,
        created: now(),
    }
}

async fn run_cell(
    shared: &Arc<Shared>,
    uid: Uid,
    request: RunCell,
    replace: MayReplace,
    asked: Option<IdempotencyKey>,
) -> Result<Arc<Object>, Error> {
    let key = Key {
        tenant: request.tenant,
        path: request.path,
    };
    let record = CellRecord {
        meta: meta(&key, uid, Kind::Cell, request.labels),
        spec: request.spec,
        asked,
        ids: None,
        frozen: false,
        goes_with: None,
        stop: None,
        pending: None,
        started: now(),
    };
    new_cell(shared, &key, record, replace).await?;
    found(shared, uid)
}

async fn new_cell(
    shared: &Arc<Shared>,
    key: &Key,
    record: CellRecord,
    replace: MayReplace,
) -> Result<CellHandle, Error> {
    let wish = match record.spec.shares(model::cell::Namespace::User) {
        true => IdWish::None,
        false => IdWish::Count(record.spec.id_range),
    };
    let reservation = reserve_cell(shared, key, record.meta.uid, wish).await?;
    replace.check(&shared.index, key)?;
    create::cell(shared, record, reservation).await
}

/// Reserves the name of a new cell. A cell of that name that is ending is waited for: mostly the
/// own cell of an executable whose end was just told, and a client that was told may run the name
/// again. The new run waits, not the answer about the old one: every `aurae run` would wait for the
/// end of a cell that few callers need gone.
async fn reserve_cell(
    shared: &Arc<Shared>,
    key: &Key,
    uid: Uid,
    wish: IdWish,
) -> Result<Reservation, Error> {
    let limit = shared.settings.ending_timeout;
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        let ending = match shared.index.reserve_cell(key, uid, wish) {
            Ok(reservation) => return Ok(reservation),
            Err(Taken::Refused(error)) => return Err(error),
            Err(Taken::Ending(owner)) => owner,
        };
        if tokio::time::timeout_at(deadline, ending.ended())
            .await
            .is_err()
        {
            return Err(still_ending(key, limit));
        }
    }
}

fn still_ending(key: &Key, limit: Duration) -> Error {
    let message = format!(
        "the cell {} is stopping, and has not ended within {limit:?}",
        key.path
    );
    Error::new(Reason::WrongState, message)
        .about("cell", key.path.to_string())
        .hint("wait until it has ended, or choose another name")
        .retry_after(limit)
}

fn found(shared: &Shared, uid: Uid) -> Result<Arc<Object>, Error> {
    shared
        .index
        .by_uid(uid)
        .ok_or_else(|| Error::not_found("object", uid.to_string()))
}

/// Which finished records a run of an executable may replace.
#[derive(Clone, Copy)]
struct Names {
    own: MayReplace,
    /// Of the cell around it, where that is made as well.
    cell: Option<MayReplace>,
}

async fn run_executable(
    shared: &Arc<Shared>,
    uid: Uid,
    request: RunExecutable,
    names: Names,
    asked: Option<IdempotencyKey>,
) -> Result<Arc<Object>, Error> {
    let key = Key {
        tenant: request.tenant,
        path: request.path,
    };
    let record = ExecutableRecord {
        meta: meta(&key, uid, Kind::Executable, request.labels),
        spec: request.spec,
        asked,
        logs: shared.settings.logs,
        stop: None,
        attach_follows: request.attach_follows,
    };
    match request.own_cell {
        None => start(shared, key, record, names.own).await,
        Some(spec) => {
            let cell = own_cell(shared, &key, uid, spec, names).await?;
            let started = start(shared, key, record, names.own).await;
            if started.is_err() {
                let grace = Some(Duration::ZERO);
                // It goes with an executable that never was; the answer is about that one.
                let _ = cell.ask(|reply| Request::StopCell { grace, reply }).await;
                cell.ended().await;
            }
            started
        }
    }
}

async fn own_cell(
    shared: &Arc<Shared>,
    executable: &Key,
    uid: Uid,
    spec: model::cell::CellSpec,
    names: Names,
) -> Result<CellHandle, Error> {
    let Some((key, replace)) = executable.parent().zip(names.cell) else {
        return Err(Error::invalid(
            "path",
            "must name the cell to be made, too: CELL/NAME",
        ));
    };
    let record = CellRecord {
        meta: meta(
            &key,
            new_uid()?,
            Kind::Cell,
            model::label::Labels::default(),
        ),
        spec,
        asked: None,
        ids: None,
        frozen: false,
        goes_with: Some(uid),
        stop: None,
        pending: None,
        started: now(),
    };
    new_cell(shared, &key, record, replace).await
}

async fn start(
    shared: &Arc<Shared>,
    key: Key,
    record: ExecutableRecord,
    replace: MayReplace,
) -> Result<Arc<Object>, Error> {
    let uid = record.meta.uid;
    let cell = key.parent().and_then(|parent| shared.index.cell(&parent));
    let reservation = shared
        .index
        .reserve(key.clone(), uid, Kind::Executable, IdWish::None)?;
    replace.check(&shared.index, &key)?;
    let Some(cell) = cell else {
        return Err(Error::not_found(
            "cell",
            key.parent().map(|k| k.path.to_string()).unwrap_or_default(),
        ));
    };
    cell.ask(|reply| {
        Request::Start(Box::new(StartOrder {
            record,
            reservation,
            reply,
        }))
    })
    .await
}
