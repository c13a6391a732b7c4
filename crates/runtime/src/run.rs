// SPDX-License-Identifier: Apache-2.0
//! Running cells and executables: admission (permits, names, retries), and what is made in which
//! order. The making of a cell is [`super::create`]'s, the start of an executable its cell's
//! owner's.

use std::sync::Arc;
use std::time::Duration;

use identity::Effect;
use identity::permit::Permit;
use model::cell::{CellSpec, Namespace};
use model::error::{Error, Reason};
use model::label::Labels;
use model::name::{RequestId, Tenant, Uid};
use model::object::Kind;
use model::request::{RunCell, RunExecutable, WaitFor};
use model::status::{Meta, Object};
use serde::Serialize;
use tokio::sync::watch;

use super::api::{joined, new_uid};
use super::caller::{Callers, given_up};
use super::cell::{CellHandle, Request, StartOrder};
use super::effects::{MayReplace, REMOVE, RUN_CELL, RUN_EXECUTABLE};
use super::extras::Extras;
use super::index::requests::{Attempt, IdempotencyKey, Outcome};
use super::index::{IdWish, Index, Key, Reservation, Taken};
use super::record::{CellRecord, ExecutableRecord};
use super::slices::Slice;
use super::{InitState, Runtime, Shared, create, now, privilege, specs};

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
        self.launch(permit, request, Extras::default()).await
    }

    /// The same for a subsystem of the node, which gives the executable what no message has. Where
    /// the request is a retry of an earlier one, the extras of that one count.
    ///
    /// # Errors
    /// As [`Runtime::run_executable`], and `PERMISSION_DENIED` where there are extras and the
    /// permit isn't an administrator's.
    pub async fn launch(
        &self,
        permit: Permit,
        request: RunExecutable,
        extras: Extras,
    ) -> Result<Arc<Object>, Error> {
        let tenant = &request.tenant;
        privilege::check_extras(&permit, &request.spec, &extras)?;
        permit.demand(tenant, &Effect::on(RUN_EXECUTABLE, &request.path))?;
        privilege::check_executable(&permit, &request.spec)?;
        self.check_place(&permit, tenant, &request.path)?;
        // What a subsystem of the node runs for itself leaves no record, on no user's word.
        if request.spec.auto_remove && !permit.is_the_nodes() {
            permit.demand(tenant, &Effect::on(REMOVE, &request.path))?;
        }
        if let Some((spec, path)) = request.own_cell.as_ref().zip(request.path.parent()) {
            permit.demand(tenant, &Effect::on(RUN_CELL, &path))?;
            demand_joined(&permit, tenant, spec)?;
            let settings = &self.shared.settings;
            privilege::check_cell(&permit, settings, &path, spec).map_err(of_own_cell)?;
        }
        let body = (
            &request.path,
            &request.labels,
            &request.spec,
            &request.own_cell,
        );
        let wanted = RunRequest::new(tenant, &request.request_id, &body, request.wait_for)?;
        let names = Names {
            own: MayReplace::of(&permit, tenant, &request.path),
            cell: request
                .path
                .parent()
                .map(|cell| MayReplace::of(&permit, tenant, &cell)),
            by_administrator: permit.is_administrator(),
        };
        self.open(permit.is_the_nodes() && request.own_cell.is_none())?;
        let shared = self.shared.clone();
        let run = move |run: Run| async move {
            run_executable(&shared, run, request, names, extras).await
        };
        self.once(wanted, run).await
    }

    /// Makes a cell.
    ///
    /// # Errors
    /// As [`Runtime::run_executable`], of the cell.
    pub async fn run_cell(&self, permit: Permit, request: RunCell) -> Result<Arc<Object>, Error> {
        self.run_cell_in(permit, request, Vec::new()).await
    }

    /// Makes a cell in slices of the cell around it, the first of which is around the second. Of a
    /// light cell, and by the node's own permit: whose slices they are is the caller's to know.
    ///
    /// # Errors
    /// As [`Runtime::run_cell`]; `INVALID_FIELD`: it isn't light. `PERMISSION_DENIED`: it isn't
    /// the node's own permit.
    pub async fn run_cell_in(
        &self,
        permit: Permit,
        request: RunCell,
        slices: Vec<Slice>,
    ) -> Result<Arc<Object>, Error> {
        if !slices.is_empty() {
            check_slices(&permit, &request)?;
        }
        permit.demand(&request.tenant, &Effect::on(RUN_CELL, &request.path))?;
        demand_joined(&permit, &request.tenant, &request.spec)?;
        privilege::check_cell(&permit, &self.shared.settings, &request.path, &request.spec)?;
        self.check_place(&permit, &request.tenant, &request.path)?;
        let body = (&request.path, &request.labels, &request.spec);
        let tenant = &request.tenant;
        let wanted = RunRequest {
            uid: request.annex.as_ref().map(|(uid, _)| *uid),
            ..RunRequest::new(tenant, &request.request_id, &body, request.wait_for)?
        };
        let replace = MayReplace::of(&permit, tenant, &request.path);
        let by_administrator = permit.is_administrator() && !request.for_a_member;
        self.open(false)?;
        let shared = self.shared.clone();
        let run = move |run: Run| async move {
            run_cell(&shared, run, (request, slices), replace, by_administrator).await
        };
        self.once(wanted, run).await
    }

    /// Whether the node goes down: what ends now ends with it, and not by itself.
    pub fn goes_down(&self) -> bool {
        self.open(false).is_err()
    }

    /// Nothing new begins on a node that goes down, but what the node itself does for workloads to
    /// end well (`for_an_end`).
    fn open(&self, for_an_end: bool) -> Result<(), Error> {
        let state = self.shared.node.state();
        let message = match *state.borrow() {
            InitState::Serving => return Ok(()),
            InitState::ShuttingDown(..) if for_an_end => return Ok(()),
            InitState::ShuttingDown(..) => "the node goes down: nothing new can begin",
            InitState::Gone => "node-init is gone: nothing new can begin until it is back",
        };
        Err(Error::new(Reason::ShuttingDown, message))
    }

    /// Runs the first of all requests with the same id; the others get its answer.
    async fn once<F>(
        &self,
        wanted: RunRequest,
        run: impl FnOnce(Run) -> F + Send + 'static,
    ) -> Result<Arc<Object>, Error>
    where
        F: Future<Output = Result<Arc<Object>, Error>> + Send + 'static,
    {
        let (callers, _present) = Callers::new();
        match wanted.begin(&self.shared.index, &callers)? {
            Attempt::First(outcome) => self.first(wanted, callers, outcome, run).await,
            Attempt::Again(outcome, _present) => self.again(outcome, wanted.wait_for).await,
        }
    }

    /// Carries a request out, in a task that a caller that goes away leaves to itself.
    async fn first<F>(
        &self,
        wanted: RunRequest,
        callers: Callers,
        outcome: watch::Sender<Outcome>,
        run: impl FnOnce(Run) -> F + Send + 'static,
    ) -> Result<Arc<Object>, Error>
    where
        F: Future<Output = Result<Arc<Object>, Error>> + Send + 'static,
    {
        let uid = wanted.uid.map_or_else(new_uid, Ok)?;
        let index = self.shared.index.clone();
        let mut end = index.expect_end(uid);
        let wait_for = wanted.wait_for;
        let share = self.shared.tenants.share(&wanted.tenant);
        let work = async move {
            let RunRequest {
                tenant,
                key: idempotency_key,
                ..
            } = wanted;
            let id = idempotency_key.as_ref().map(|key| key.id.clone());
            let result = run(Run {
                uid,
                idempotency_key,
                callers,
            })
            .await;
            if result.is_err() {
                index.expect_no_end(uid);
                if let Some(id) = id {
                    index.attempt_failed(&tenant, &id);
                }
            }
            outcome.send_replace(Some(result.clone().map(|object| object.meta().uid)));
            result
        };
        let object = joined(tokio::spawn(share.run(work))).await?;
        if wait_for == WaitFor::Started {
            return Ok(self.shared.index.present(&object));
        }
        let ended = end.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|ended| ended.clone());
        ended.ok_or_else(|| object.meta().to_ref().not_found())
    }

    /// The answer of the first try.
    async fn again(
        &self,
        mut outcome: watch::Receiver<Outcome>,
        wait_for: WaitFor,
    ) -> Result<Arc<Object>, Error> {
        let broke_off = || Error::internal("the first try of this request was given up");
        let outcome = outcome.wait_for(Option::is_some).await;
        let outcome = outcome.map_err(|_| broke_off())?.clone();
        let uid = outcome.unwrap_or_else(|| Err(broke_off()))?;
        let object = self.shared.index.by_uid(uid).ok_or_else(|| {
            Error::new(Reason::NotFound, "what this request made was removed since")
        })?;
        match wait_for {
            WaitFor::Started => Ok(self.present(&self.shared.whole(&object).await?)),
            WaitFor::Exited => self.ended(&object).await,
        }
    }
}

/// A request to run something.
struct RunRequest {
    tenant: Tenant,
    /// Where it came with an id.
    key: Option<IdempotencyKey>,
    wait_for: WaitFor,
    /// Of a subsystem that has chosen it.
    uid: Option<Uid>,
}

impl RunRequest {
    fn new(
        tenant: &Tenant,
        id: &Option<RequestId>,
        body: &impl Serialize,
        wait_for: WaitFor,
    ) -> Result<Self, Error> {
        let id = id.clone();
        Ok(Self {
            tenant: tenant.clone(),
            key: id.map(|id| IdempotencyKey::new(id, body)).transpose()?,
            wait_for,
            uid: None,
        })
    }

    fn begin(&self, index: &Index, callers: &Callers) -> Result<Attempt, Error> {
        match &self.key {
            Some(key) => index.begin(&self.tenant, key, callers),
            None => Ok(Attempt::First(watch::Sender::new(None))),
        }
    }
}

/// A run that is being carried out.
struct Run {
    uid: Uid,
    idempotency_key: Option<IdempotencyKey>,
    callers: Callers,
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
    run: Run,
    (request, slices): (RunCell, Vec<Slice>),
    replace: MayReplace,
    by_administrator: bool,
) -> Result<Arc<Object>, Error> {
    let key = Key {
        tenant: request.tenant,
        path: request.path,
    };
    let record = CellRecord {
        by_administrator,
        idempotency_key: run.idempotency_key,
        annex: request.annex.map(|(_, annex)| annex),
        ..cell_record(
            meta(&key, run.uid, Kind::Cell, request.labels),
            request.spec,
        )
    };
    new_cell(shared, &key, record, replace, &slices, &run.callers).await?;
    found(shared, run.uid)
}

/// What runs in another cell's namespaces is as good as run there.
fn demand_joined(permit: &Permit, tenant: &Tenant, spec: &CellSpec) -> Result<(), Error> {
    let mut joined = spec.join.values();
    joined.try_for_each(|other| permit.demand(tenant, &Effect::on(RUN_CELL, other)))
}

fn check_slices(permit: &Permit, request: &RunCell) -> Result<(), Error> {
    if !permit.is_the_nodes() {
        let words = "slices are the unit manager's";
        return Err(Error::new(Reason::PermissionDenied, words));
    }
    match request.spec.light {
        true => Ok(()),
        false => Err(Error::invalid(
            "cell.spec.light",
            "must be set of a cell in a slice",
        )),
    }
}

/// Of a cell that begins now.
fn cell_record(meta: Meta, spec: CellSpec) -> CellRecord {
    CellRecord {
        meta,
        spec,
        idempotency_key: None,
        ids: None,
        frozen: false,
        goes_with: None,
        stop: None,
        pending: None,
        annex: None,
        image: None,
        attached: false,
        by_administrator: false,
        started: now(),
    }
}

async fn new_cell(
    shared: &Arc<Shared>,
    key: &Key,
    record: CellRecord,
    replace: MayReplace,
    slices: &[Slice],
    callers: &Callers,
) -> Result<CellHandle, Error> {
    let wish = match record.spec.shares(Namespace::User) {
        true => IdWish::None,
        false => IdWish::Count(record.spec.id_range),
    };
    let reservation = reserve_cell(shared, key, &record, wish, callers).await?;
    replace.check(&shared.index, key)?;
    create::cell(shared, record, reservation, slices, callers).await
}

/// Reserves the name of a new cell. A cell of that name that is ending is waited for: mostly the
/// own cell of an executable whose end was just told, and a client that was told may run the name
/// again. The new run waits, not the answer about the old one: every `aurae run` would wait for the
/// end of a cell that few callers need gone.
async fn reserve_cell(
    shared: &Arc<Shared>,
    key: &Key,
    record: &CellRecord,
    wish: IdWish,
    callers: &Callers,
) -> Result<Reservation, Error> {
    let (uid, spec) = (record.meta.uid, specs::length(&record.spec));
    let limit = shared.settings.ending_timeout;
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        let ending = match shared.index.reserve_cell(key, uid, spec, wish) {
            Ok(reservation) => return Ok(reservation),
            Err(Taken::Refused(error)) => return Err(error),
            Err(Taken::Ending(owner)) => owner,
        };
        tokio::select! {
            () = ending.ended() => {}
            () = callers.gone() => return Err(given_up()),
            () = tokio::time::sleep_until(deadline) => return Err(still_ending(key, limit)),
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

/// What a run of an executable may do by who asks for it: which finished records it replaces, and
/// what its own cell has.
#[derive(Clone, Copy)]
struct Names {
    own: MayReplace,
    /// Of the cell around it, where that is made as well.
    cell: Option<MayReplace>,
    by_administrator: bool,
}

async fn run_executable(
    shared: &Arc<Shared>,
    run: Run,
    request: RunExecutable,
    names: Names,
    extras: Extras,
) -> Result<Arc<Object>, Error> {
    let key = Key {
        tenant: request.tenant,
        path: request.path,
    };
    let record = ExecutableRecord {
        meta: meta(&key, run.uid, Kind::Executable, request.labels),
        spec: request.spec,
        idempotency_key: run.idempotency_key,
        logs: shared.settings.logs,
        stop: None,
        attach_follows: request.attach_follows,
        defaults: None,
    };
    match request.own_cell {
        None => start(shared, key, record, extras, names.own).await,
        Some(spec) => {
            let cell = own_cell(shared, &key, run.uid, spec, names, &run.callers).await?;
            let started = start(shared, key, record, extras, names.own).await;
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
    spec: CellSpec,
    names: Names,
    callers: &Callers,
) -> Result<CellHandle, Error> {
    let Some((key, replace)) = executable.parent().zip(names.cell) else {
        return Err(Error::invalid(
            "path",
            "must name the cell to be made, too: CELL/NAME",
        ));
    };
    let meta = meta(&key, new_uid()?, Kind::Cell, Labels::default());
    let record = CellRecord {
        by_administrator: names.by_administrator,
        goes_with: Some(uid),
        ..cell_record(meta, spec)
    };
    let made = new_cell(shared, &key, record, replace, &[], callers).await;
    made.map_err(of_own_cell)
}

/// A refusal names the field as the request has it.
fn of_own_cell(error: Error) -> Error {
    error.renamed("cell.spec", "own_cell")
}

async fn start(
    shared: &Arc<Shared>,
    key: Key,
    record: ExecutableRecord,
    extras: Extras,
    replace: MayReplace,
) -> Result<Arc<Object>, Error> {
    let uid = record.meta.uid;
    let cell = key.parent().and_then(|parent| shared.index.cell(&parent));
    let spec = specs::length(&record.spec);
    let kind = (Kind::Executable, spec);
    let reservation = shared.index.reserve(key.clone(), uid, kind, IdWish::None)?;
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
            extras,
            reservation,
            reply,
        }))
    })
    .await
}
