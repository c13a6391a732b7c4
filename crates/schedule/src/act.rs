// SPDX-License-Identifier: Apache-2.0
//! What is done for a schedule, each act with a permit on behalf of its owner that is decided just
//! then; and what is seen of its runs, which takes no permit.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{BoxFuture, select_all};
use identity::{Effect, Identity, Permit, UserKey};
use model::container::Container;
use model::error::{Error, Reason};
use model::executable::{self, ExecutableSpec};
use model::exit::How;
use model::label::Labels;
use model::name::{ObjectPath, Tenant};
use model::object::{Kind, ObjectRef};
use model::pod::request::{RemovePod, RunPod, StopPod, WaitFor as WaitForPod};
use model::pod::status::{Phase, PodStatus};
use model::request::{Remove, RunCell, RunExecutable, Stop, WaitFor};
use model::schedule::request::Named;
use model::schedule::spec::Program;
use model::schedule::state::said;
use model::schedule::steps::MAX_RUNS;
use model::schedule::{Spec, When, Work};
use model::status::Object;
use pod::Pods;
use runtime::Runtime;

use crate::effects::{self, RUN_CELL, below};
use crate::{OWNER, RUN};

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
}

/// What there is of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Nothing, or not all of it.
    Absent,
    /// It goes on.
    Living,
    /// It has ended: whether it succeeded, and words. `None`: it went with the node.
    Ended(Option<(bool, String)>),
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

    fn target(&self, path: ObjectPath, kind: Kind) -> ObjectRef {
        ObjectRef {
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

    /// Begins a run. Where it fails, nothing is left.
    pub(crate) async fn start(
        &self,
        owner: &UserKey,
        spec: &Spec,
        number: u64,
    ) -> Result<(), Error> {
        let run = self.run(number)?;
        let mut effects = self.effects_of_start(&spec.work, &run)?;
        effects.extend(effects::at_name(&effects, &run, &self.named));
        let permit = self.permit(owner, effects, &format!("run {number}"))?;
        for root in Self::roots(&spec.work) {
            let fetched = self.ports.images.fetch(&permit, &self.named.tenant, &root);
            fetched.await.map_err(|e| match &e.object {
                Some(_) => e,
                None => e.about("image", root.image.clone()),
            })?;
        }
        let lax = matches!(spec.when, When::Lax(_));
        match &spec.work {
            Work::Executable { program, cell } => {
                let part = permit.part(effects::start(&spec.work, &run)?)?;
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
                };
                let part = permit.part(vec![Effect::on(RUN_CELL, &run)])?;
                self.ports.runtime.run_cell(part, request).await?;
                self.fill(&permit, &run, number, programs, lax).await
            }
            Work::Pod { labels, spec } => {
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
        run: &ObjectPath,
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
                let removed = self.remove_cell(permit.part(undo)?, run.clone()).await;
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

    /// With those that say whose run it is.
    fn labels(&self, labels: &Labels, number: u64) -> Result<Labels, Error> {
        let mut map: std::collections::BTreeMap<_, _> = labels.clone().into();
        map.insert(OWNER.to_owned(), self.named.name.to_string());
        map.insert(RUN.to_owned(), number.to_string());
        Labels::new(map)
    }

    /// Ends a run, with a permit for that, or on behalf of the owner. What isn't there has ended.
    pub(crate) async fn stop(
        &self,
        owner: &UserKey,
        work: &Work,
        number: u64,
        permit: Option<Permit>,
    ) -> Result<(), Error> {
        let run = self.run(number)?;
        let permit = match permit {
            Some(permit) => permit.part(effects::stop(work, &run))?,
            None => {
                let about = format!("the end of run {number}");
                self.permit(owner, effects::stop(work, &run), &about)?
            }
        };
        let stopped = match work {
            Work::Pod { .. } => {
                let request = StopPod {
                    target: self.target(run, Kind::Cell),
                    grace: None,
                };
                self.ports.pods.stop(permit, request).await.map(drop)
            }
            Work::Executable { .. } | Work::Cell { .. } => {
                let request = Stop {
                    target: self.target(run, Kind::Cell),
                    grace: None,
                };
                self.ports.runtime.stop(permit, request).await.map(drop)
            }
        };
        match stopped {
            Err(error) if error.reason != Reason::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The pods among the last runs that are there, ended or not.
    pub(crate) fn pods(&self, work: &Work, last: u64) -> Vec<u64> {
        let Work::Pod { .. } = work else {
            return Vec::new();
        };
        let most = u64::try_from(MAX_RUNS).unwrap_or(u64::MAX);
        let is_there = |number: &u64| self.look(work, *number) != Look::Absent;
        let numbers = last.saturating_sub(most) + 1..=last;
        numbers.filter(is_there).collect()
    }

    /// Forgets the record and the logs of a run that has ended, with a permit for that, or on
    /// behalf of the owner.
    pub(crate) async fn forget(
        &self,
        owner: &UserKey,
        work: &Work,
        number: u64,
        permit: Option<&Permit>,
    ) -> Result<(), Error> {
        let run = self.run(number)?;
        let about = format!("the record of run {number}");
        let permit = match permit {
            Some(permit) => permit.part(effects::forget(work, &run))?,
            None => self.permit(owner, effects::forget(work, &run), &about)?,
        };
        let removed = match work {
            Work::Pod { .. } => {
                let request = RemovePod {
                    target: self.target(run, Kind::Cell),
                    force: true,
                };
                self.ports.pods.remove(permit, request).await
            }
            Work::Cell { .. } => self.remove_cell(permit, run).await,
            Work::Executable { program, .. } => {
                let request = Remove {
                    target: self.target(below(&run, &program.name)?, Kind::Executable),
                    recursive: false,
                    force: false,
                };
                self.ports.runtime.remove(permit, request).await.map(drop)
            }
        };
        match removed {
            Err(error) if error.reason != Reason::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn remove_cell(&self, permit: Permit, run: ObjectPath) -> Result<(), Error> {
        let request = Remove {
            target: self.target(run, Kind::Cell),
            recursive: true,
            force: true,
        };
        self.ports.runtime.remove(permit, request).await.map(drop)
    }

    /// The number of the last run of that name of which something is there.
    pub(crate) fn last_number(&self) -> u64 {
        let own = self.labelled().into_iter().map(|(number, _)| number);
        own.max().unwrap_or(0)
    }

    /// What bears the schedule's labels at the path of a run, with the run's number.
    pub(crate) fn labelled(&self) -> Vec<(u64, Arc<Object>)> {
        // All names that go on with `-` and a digit.
        let bound = |end: &str| format!("{}-{end}", self.named.name).parse().ok();
        let Some((from, to)) = bound("0").zip(bound("a")) else {
            return Vec::new();
        };
        let runtime = &self.ports.runtime;
        let all = runtime.seen_between(&self.named.tenant, &from, &to);
        all.into_iter()
            .filter_map(|object| {
                let meta = object.meta();
                let own = meta.labels.get(OWNER) == Some(self.named.name.as_str());
                let number = meta.labels.get(RUN).filter(|_| own)?.parse().ok()?;
                let run = self.run(number).ok()?;
                meta.path.is_within(&run).then_some((number, object))
            })
            .collect()
    }

    /// What there is of a run now.
    pub(crate) fn look(&self, work: &Work, number: u64) -> Look {
        let Ok(run) = self.run(number) else {
            return Look::Absent;
        };
        let programs = match work {
            Work::Executable { program, .. } => std::slice::from_ref(&**program),
            Work::Cell { programs, .. } => programs.as_slice(),
            Work::Pod { .. } => return self.look_at_pod(&run),
        };
        let mut worst = Some((true, String::new()));
        for program in programs {
            let seen = below(&run, &program.name).ok();
            let seen = seen.and_then(|path| self.ports.runtime.seen(&self.named.tenant, &path));
            let Some(object) = seen else {
                return Look::Absent;
            };
            if !object.state().is_final() {
                return Look::Living;
            }
            worst = worse(worst, end(&object, &program.name.to_string()));
        }
        Look::Ended(worst)
    }

    fn look_at_pod(&self, run: &ObjectPath) -> Look {
        let Some(status) = self.ports.pods.seen(&self.named.tenant, run) else {
            return Look::Absent;
        };
        let status = status.borrow();
        match status.phase.is_final() {
            true => Look::Ended(Some(end_of_pod(&status))),
            false => Look::Living,
        }
    }

    /// Whether a run is as others may need it: a pod is ready.
    pub(crate) fn is_ready(&self, work: &Work, number: u64) -> bool {
        let Work::Pod { .. } = work else {
            return true;
        };
        let run = self.run(number).ok();
        let seen = run.and_then(|run| self.ports.pods.seen(&self.named.tenant, &run));
        seen.is_some_and(|status| status.borrow().ready)
    }

    /// Resolves when a run has ended, as [`Look::Ended`] says how: all its programs have, or one
    /// has failed, which ends the others.
    pub(crate) async fn ended(
        &self,
        owner: &UserKey,
        work: &Work,
        number: u64,
    ) -> Option<(bool, String)> {
        let run = self.run(number).ok()?;
        let programs = match work {
            Work::Executable { program, .. } => std::slice::from_ref(&**program),
            Work::Cell { programs, .. } => programs.as_slice(),
            Work::Pod { .. } => return self.end_of_pod(&run).await,
        };
        let each = |program: &Program| Box::pin(self.end_of(&run, program.clone()));
        let mut going: Vec<_> = programs.iter().map(each).collect();
        let mut worst = Some((true, String::new()));
        while !going.is_empty() {
            let (end, _, rest) = select_all(going).await;
            going = rest;
            worst = worse(worst, end);
            if !matches!(worst, Some((true, _))) {
                break;
            }
        }
        if let Work::Cell { .. } = work
            && let Err(error) = self.stop(owner, work, number, None).await
        {
            tracing::warn!(%run, %error, "the cell of a run that has ended stays behind");
        }
        worst
    }

    async fn end_of(&self, run: &ObjectPath, program: Program) -> Option<(bool, String)> {
        let path = below(run, &program.name).ok()?;
        let object = self.ports.runtime.seen(&self.named.tenant, &path)?;
        let ended = self.ports.runtime.end_of(&object).await.ok()?;
        end(&ended, program.name.as_str())
    }

    async fn end_of_pod(&self, run: &ObjectPath) -> Option<(bool, String)> {
        let mut status = self.ports.pods.seen(&self.named.tenant, run)?;
        let ended = pin!(status.wait_for(|status| status.phase.is_final()));
        let ended = ended.await.ok()?;
        Some(end_of_pod(&ended))
    }
}

/// How a program ended; `None`: with the node.
fn end(object: &Object, name: &str) -> Option<(bool, String)> {
    let Object::Executable(executable) = object else {
        return None;
    };
    let exit = executable.exit?;
    let success = exit.how == How::Code(0);
    let oom = if exit.oom_killed {
        ": out of memory"
    } else {
        ""
    };
    match exit.how {
        How::Unknown => None,
        how => Some((success, format!("{name} {}{oom}", said(how)))),
    }
}

fn end_of_pod(status: &PodStatus) -> (bool, String) {
    let failed = status.containers.iter().find(|it| {
        let code = it.last_exit.map(|exit| exit.how);
        code.is_some_and(|how| how != How::Code(0))
    });
    let words = failed.and_then(|it| {
        let how = it.last_exit?.how;
        Some(format!("{} {}", it.name, said(how)))
    });
    let success = status.phase == Phase::Succeeded;
    let words = words.unwrap_or_else(|| match success {
        true => "the pod succeeded".to_owned(),
        false => "the pod failed".to_owned(),
    });
    (success, words)
}

/// The end that counts of two.
fn worse(a: Option<(bool, String)>, b: Option<(bool, String)>) -> Option<(bool, String)> {
    match (a, b) {
        (Some((true, _)), Some(b)) => Some(b),
        (Some(a), Some(_)) => Some(a),
        (None, _) | (_, None) => None,
    }
}

/// Of the lowest priority, where the spec asks for none.
fn nice(spec: &ExecutableSpec) -> Result<ExecutableSpec, Error> {
    let mut draft: executable::Draft = spec.clone().into();
    draft.nice.get_or_insert(LAX_NICE);
    draft.try_into()
}
