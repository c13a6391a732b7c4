// SPDX-License-Identifier: Apache-2.0
//! What is done for a schedule, each act with a permit on behalf of its owner that is decided just
//! then. What is seen of its runs is in [`look`].

mod give;
mod health;
mod look;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use identity::{Effect, Identity, Permit, UserKey};
use model::container::Container;
use model::error::{Error, Reason, Within};
use model::executable::{self, ExecutableSpec};
use model::label::Labels;
use model::name::{ObjectPath, Tenant, Uid};
use model::object::{Kind, ObjectRef};
use model::pod::request::{RemovePod, RunPod, StopPod, WaitFor as WaitForPod};
use model::request::{Remove, RunCell, RunExecutable, Stop, WaitFor};
use model::schedule::Work;
use model::schedule::request::Named;
use model::schedule::spec::Program;
use model::schedule::state::{Run, Shape};
use pod::Pods;
use runtime::Runtime;
use tokio::sync::Semaphore;

use crate::configs::Configs;
use crate::effects::{self, RUN_CELL, below};
use crate::needed::NeededUnits;
use crate::{OWNER, RUN};

pub(crate) use look::{Left, Look};

/// The highest number of a run that is taken for one.
pub(crate) const MAX_NUMBER: u64 = 1 << 48;
/// The niceness of what has time.
const LAX_NICE: i32 = 19;

/// Brings the images of what is to run.
pub trait Images: Send + Sync + 'static {
    /// The effect of bringing that one, where it has to be.
    ///
    /// # Errors
    /// `INVALID_FIELD` for what is neither there nor a reference.
    fn effect(&self, tenant: &Tenant, root: &Container) -> Result<Option<Effect>, Error>;

    /// Brings it, where it has to be.
    fn fetch<'a>(
        &'a self,
        permit: &'a Permit,
        tenant: &'a Tenant,
        root: &'a Container,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// What acts go through.
#[derive(Clone)]
pub(crate) struct Ports {
    pub(crate) runtime: Runtime,
    pub(crate) pods: Pods,
    pub(crate) identity: Arc<Identity>,
    pub(crate) images: Arc<dyn Images>,
    pub(crate) configs: Arc<Configs>,
    pub(crate) units: Arc<NeededUnits>,
}

/// A run that is to begin.
pub(crate) struct Start {
    pub(crate) run: Run,
    /// What it is made by.
    pub(crate) work: Work,
    /// It has time.
    pub(crate) lax: bool,
}

/// Acts for one schedule.
#[derive(Clone)]
pub(crate) struct Actor {
    pub(crate) ports: Ports,
    pub(crate) named: Named,
}

impl Actor {
    fn run(&self, number: u64) -> Result<ObjectPath, Error> {
        self.named.run(number)
    }

    /// What was seen to be the schedule's, and nothing that takes its name by then.
    fn target(&self, path: ObjectPath, uid: Uid, kind: Kind) -> ObjectRef {
        ObjectRef {
            uid: Some(uid),
            kind: Some(kind),
            ..ObjectRef::new(self.named.tenant.clone(), path)
        }
    }

    /// Decides an act on behalf of the owner.
    fn permit(&self, owner: &UserKey, effects: Vec<Effect>, about: &str) -> Result<Permit, Error> {
        let about = format!("schedule {} {about}", self.named.name);
        let (action, target) = effects::target(&self.named.tenant, effects, about)
            .ok_or_else(|| Error::internal("an act without an effect"))?;
        let identity = &self.ports.identity;
        let permit = identity.permit_on_behalf(owner, action, &self.named.tenant, &target);
        permit.map_err(Error::from)
    }

    /// The roots of containers that a run has.
    fn roots(work: &Work) -> Vec<Container> {
        match work {
            Work::Executable { cell, .. } => cell.container.iter().cloned().collect(),
            Work::Cell { spec, .. } => spec.container.iter().cloned().collect(),
            Work::Pod { spec, .. } => spec.all().filter_map(|it| it.root()).collect(),
        }
    }

    /// What a start does, the bringing of images included.
    pub(crate) fn effects_of_start(
        &self,
        work: &Work,
        run: &ObjectPath,
    ) -> Result<Vec<Effect>, Error> {
        let mut all = effects::start(work, run)?;
        for root in Self::roots(work) {
            let pull = self.ports.images.effect(&self.named.tenant, &root)?;
            all.extend(pull);
        }
        Ok(all)
    }

    /// A permit for all of a start, decided now.
    fn permit_of_start(
        &self,
        owner: &UserKey,
        work: &Work,
        run: &ObjectPath,
        number: u64,
    ) -> Result<Permit, Error> {
        let mut effects = self.effects_of_start(work, run)?;
        effects.extend(effects::at_name(&effects, run, &self.named));
        self.permit(owner, effects, &format!("run {number}"))
    }

    /// Brings the images of a start. Whether there was anything to bring.
    async fn fetch(&self, permit: &Permit, work: &Work) -> Result<bool, Error> {
        let mut fetches = false;
        for root in Self::roots(work) {
            let tenant = &self.named.tenant;
            fetches |= self.ports.images.effect(tenant, &root)?.is_some();
            let fetched = self.ports.images.fetch(permit, tenant, &root);
            fetched.await.map_err(|e| match &e.object {
                Some(_) => e,
                None => e.about("image", root.image.clone()),
            })?;
        }
        Ok(fetches)
    }

    /// Begins a run. Where it fails, nothing is left. A place among the tenant's `starts` is taken
    /// once the images are there: a slow registry holds no other run up.
    pub(crate) async fn start(
        &self,
        owner: &UserKey,
        start: &Start,
        starts: &Semaphore,
    ) -> Result<(), Error> {
        let (number, lax) = (start.run.number, start.lax);
        let run = self.run(number)?;
        let work = self.made(start)?;
        let mut permit = self.permit_of_start(owner, &start.work, &run, number)?;
        let fetched = self.fetch(&permit, &work).await?;
        // Closed never.
        let _place = starts.acquire().await;
        if fetched {
            // That may have taken long.
            permit = self.permit_of_start(owner, &start.work, &run, number)?;
        }
        match &work {
            Work::Executable { program, cell } => {
                let part = permit.part(effects::start(&work, &run)?)?;
                let own_cell = Some((**cell).clone());
                self.execute(part, &run, number, program, own_cell, lax)
                    .await
            }
            Work::Cell {
                labels,
                spec: cell,
                programs,
            } => {
                let request = RunCell {
                    tenant: self.named.tenant.clone(),
                    path: run.clone(),
                    labels: self.labels(labels, number)?,
                    spec: (**cell).clone(),
                    request_id: None,
                    wait_for: WaitFor::Started,
                    annex: None,
                    for_a_member: false,
                };
                let part = permit.part(vec![Effect::on(RUN_CELL, &run)])?;
                let cell = self.ports.runtime.run_cell(part, request).await?;
                let cell = (&run, cell.meta().uid);
                self.fill(&permit, cell, number, programs, lax).await
            }
            Work::Pod { labels, spec, .. } => {
                let request = RunPod {
                    tenant: self.named.tenant.clone(),
                    path: run,
                    labels: self.labels(labels, number)?,
                    spec: (**spec).clone(),
                    wait_for: WaitForPod::Created,
                };
                self.ports.pods.run(permit, request).await.map(drop)
            }
        }
    }

    /// Starts the programs of a cell that was just made.
    async fn fill(
        &self,
        permit: &Permit,
        (run, uid): (&ObjectPath, Uid),
        number: u64,
        programs: &[Program],
        lax: bool,
    ) -> Result<(), Error> {
        for program in programs {
            let effect = Effect::on(effects::RUN_EXECUTABLE, &below(run, &program.name)?);
            let part = permit.part(vec![effect])?;
            let started = self.execute(part, run, number, program, None, lax).await;
            if let Err(error) = started {
                let undo = vec![
                    Effect::below(effects::REMOVE, run),
                    Effect::below(effects::STOP, run),
                ];
                let removed = self.remove_cell(permit.part(undo)?, run.clone(), uid);
                let removed = removed.await;
                if let Err(error) = removed {
                    tracing::warn!(%run, %error, "what was begun of a run stays behind");
                }
                return Err(error);
            }
        }
        Ok(())
    }

    async fn execute(
        &self,
        permit: Permit,
        run: &ObjectPath,
        number: u64,
        program: &Program,
        own_cell: Option<model::cell::CellSpec>,
        lax: bool,
    ) -> Result<(), Error> {
        let request = RunExecutable {
            tenant: self.named.tenant.clone(),
            path: below(run, &program.name)?,
            labels: self.labels(&program.labels, number)?,
            spec: match lax {
                true => nice(&program.spec)?,
                false => program.spec.clone(),
            },
            request_id: None,
            wait_for: WaitFor::Started,
            own_cell,
            attach_follows: false,
        };
        let started = self.ports.runtime.run_executable(permit, request).await;
        started.map(drop)
    }

    /// Checks that there is room for the labels that say whose run it is.
    ///
    /// # Errors
    /// `INVALID_FIELD`, naming the labels.
    pub(crate) fn check_labels(&self, work: &Work) -> Result<(), Error> {
        let check = |labels, field: &str| {
            let labelled = self.labels(labels, MAX_NUMBER);
            labelled.map(drop).within(&format!("spec.work.{field}"))
        };
        match work {
            Work::Executable { program, .. } => {
                check(&program.labels, "executable.executable.labels")
            }
            Work::Pod { labels, .. } => check(labels, "pod.pod.labels"),
            Work::Cell {
                labels, programs, ..
            } => {
                check(labels, "cell.cell.cell.labels")?;
                programs.iter().enumerate().try_for_each(|(i, it)| {
                    let field = format!("cell.executables[{i}].executable.labels");
                    check(&it.labels, &field)
                })
            }
        }
    }

    /// With those that say whose run it is.
    fn labels(&self, labels: &Labels, number: u64) -> Result<Labels, Error> {
        let mut map: std::collections::BTreeMap<_, _> = labels.clone().into();
        map.insert(OWNER.to_owned(), self.named.name.to_string());
        map.insert(RUN.to_owned(), number.to_string());
        Labels::new(map)
    }

    /// Ends a run, with a permit for that, or on behalf of the owner. What isn't there has ended,
    /// and what does not bear the run's labels isn't the run.
    pub(crate) async fn stop(
        &self,
        owner: &UserKey,
        shape: &Shape,
        number: u64,
        permit: Option<Permit>,
    ) -> Result<(), Error> {
        let run = self.run(number)?;
        let Some(uid) = self.uid(shape, number) else {
            return Ok(());
        };
        let permit = match permit {
            Some(permit) => permit.part(effects::stop(shape, &run))?,
            None => {
                let about = format!("the end of run {number}");
                self.permit(owner, effects::stop(shape, &run), &about)?
            }
        };
        let target = self.target(run, uid, Kind::Cell);
        let grace = None;
        let stopped = match shape {
            Shape::Pod => {
                let request = StopPod { target, grace };
                self.ports.pods.stop(permit, request).await.map(drop)
            }
            Shape::Executable(_) | Shape::Cell(_) => {
                let request = Stop { target, grace };
                self.ports.runtime.stop(permit, request).await.map(drop)
            }
        };
        there(stopped)
    }

    /// Forgets the records and the logs of a run, with a permit for that, or on behalf of the
    /// owner. What goes on is left alone; with `force` it is stopped first.
    pub(crate) async fn forget(
        &self,
        owner: &UserKey,
        number: u64,
        permit: Option<&Permit>,
        force: bool,
    ) -> Result<(), Error> {
        let run = self.run(number)?;
        let left = self.left(number);
        if matches!(left, Left::Nothing) || (!force && left.lives()) {
            return Ok(());
        }
        let about = format!("the record of run {number}");
        let effects = effects::forget(matches!(left, Left::Pod(..)), &run);
        let permit = match permit {
            Some(permit) => permit.part(effects)?,
            None => self.permit(owner, effects, &about)?,
        };
        match left {
            Left::Nothing => Ok(()),
            Left::Pod(uid, _) => {
                let target = self.target(run, uid, Kind::Cell);
                let request = RemovePod { target, force };
                there(self.ports.pods.remove(permit, request).await)
            }
            Left::Cell(uid, _) => there(self.remove_cell(permit, run, uid).await),
            Left::Programs(programs) => {
                for program in programs {
                    let meta = program.meta();
                    let part = permit.part(effects::forget(false, &run))?;
                    let request = Remove {
                        target: self.target(meta.path.clone(), meta.uid, Kind::Executable),
                        recursive: false,
                        force,
                    };
                    there(self.ports.runtime.remove(part, request).await.map(drop))?;
                }
                Ok(())
            }
        }
    }

    async fn remove_cell(&self, permit: Permit, run: ObjectPath, uid: Uid) -> Result<(), Error> {
        let request = Remove {
            target: self.target(run, uid, Kind::Cell),
            recursive: true,
            force: true,
        };
        self.ports.runtime.remove(permit, request).await.map(drop)
    }
}

/// What isn't there needs no end.
fn there(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.reason != Reason::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Of the lowest priority, where the spec asks for none.
fn nice(spec: &ExecutableSpec) -> Result<ExecutableSpec, Error> {
    let mut draft: executable::Draft = spec.clone().into();
    draft.nice.get_or_insert(LAX_NICE);
    draft.try_into()
}
