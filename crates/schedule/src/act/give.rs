// SPDX-License-Identifier: Apache-2.0
//! What a run is given when it begins: texts of configs, and its index in a job. And the files of a
//! pod that goes on, when a config has changed.

use std::collections::BTreeMap;

use identity::UserKey;
use model::error::{Error, Within};
use model::executable;
use model::label::Labels;
use model::name::Uid;
use model::object::Kind;
use model::pod::PodSpec;
use model::pod::env::{EnvVar, From};
use model::pod::request::UpdatePod;
use model::pod::spec::Draft;
use model::schedule::Work;
use model::schedule::given::{Given, Place, filled};

use super::{Actor, Start};
use crate::effects;

/// The variable with a run's index in its job.
const INDEX: &str = "JOB_COMPLETION_INDEX";
/// The label with it.
const INDEX_LABEL: &str = "batch.kubernetes.io/job-completion-index";

impl Actor {
    /// The work of a run, with what it is given.
    pub(super) fn made(&self, start: &Start) -> Result<Work, Error> {
        let index = start.run.index;
        Ok(match &start.work {
            Work::Pod {
                labels,
                spec,
                given,
            } => {
                let spec = self.filled(spec, given)?;
                Work::Pod {
                    labels: with_index(labels, index)?,
                    spec: Box::new(indexed(spec, index)?),
                    given: Vec::new(),
                }
            }
            Work::Executable { program, cell } => {
                let mut program = program.clone();
                program.spec = variable(&program.spec, index)?;
                let cell = cell.clone();
                Work::Executable { program, cell }
            }
            Work::Cell {
                labels,
                spec,
                programs,
            } => {
                let mut programs = programs.clone();
                for program in &mut programs {
                    program.spec = variable(&program.spec, index)?;
                }
                Work::Cell {
                    labels: labels.clone(),
                    spec: spec.clone(),
                    programs,
                }
            }
        })
    }

    fn filled(&self, spec: &PodSpec, given: &[Given]) -> Result<PodSpec, Error> {
        let texts = |config: &_| self.ports.configs.texts(&self.named.tenant, config);
        filled(spec, given, texts).within("work.pod.spec")
    }

    /// Gives a pod that goes on the files of its configs as they are now.
    pub(crate) async fn refresh(
        &self,
        owner: &UserKey,
        work: &Work,
        number: u64,
    ) -> Result<(), Error> {
        let Work::Pod { spec, given, .. } = work else {
            return Ok(());
        };
        let Some((uid, labels, known)) = self.known(number) else {
            return Ok(());
        };
        let spec = with_files(&known, &self.filled(spec, given)?, given)?;
        if spec == known {
            return Ok(());
        }
        let run = self.run(number)?;
        let about = format!("the files of run {number}");
        let permit = self.permit(owner, effects::update(work, &run), &about)?;
        let request = UpdatePod {
            target: self.target(run, uid, Kind::Cell),
            labels,
            spec,
        };
        self.ports.pods.update(permit, request).await.map(drop)
    }

    /// The pod of a run as it is.
    fn known(&self, number: u64) -> Option<(Uid, Labels, PodSpec)> {
        let status = self.pod(number)?;
        let status = status.borrow();
        let living = !status.phase.is_final();
        living.then(|| {
            let meta = &status.meta;
            (meta.uid, meta.labels.clone(), status.spec.clone())
        })
    }
}

/// A pod with the files that are given in another one, and otherwise as it is.
fn with_files(known: &PodSpec, filled: &PodSpec, given: &[Given]) -> Result<PodSpec, Error> {
    let of_volume = |it: &Given| match &it.place {
        Place::Volume { name, .. } => Some(name.clone()),
        Place::Env { .. } | Place::EnvAll { .. } => None,
    };
    let names: Vec<_> = given.iter().filter_map(of_volume).collect();
    let fresh = filled.volumes.iter().filter(|it| names.contains(&it.name));
    let fresh: BTreeMap<_, _> = fresh.map(|it| (it.name.clone(), it.clone())).collect();
    let mut draft: Draft = known.clone().into();
    for volume in &mut draft.volumes {
        if let Some(fresh) = fresh.get(&volume.name) {
            *volume = fresh.clone();
        }
    }
    draft.try_into()
}

fn with_index(labels: &Labels, index: Option<u32>) -> Result<Labels, Error> {
    let Some(index) = index else {
        return Ok(labels.clone());
    };
    let mut map: BTreeMap<_, _> = labels.clone().into();
    map.insert(INDEX_LABEL.to_owned(), index.to_string());
    Labels::new(map)
}

/// What a container says of the variable itself is left.
fn indexed(spec: PodSpec, index: Option<u32>) -> Result<PodSpec, Error> {
    let Some(index) = index else {
        return Ok(spec);
    };
    let mut draft: Draft = spec.into();
    let all = draft
        .init_containers
        .iter_mut()
        .chain(&mut draft.containers);
    for container in all {
        if container.env.iter().all(|it| it.name != INDEX) {
            let name = INDEX.to_owned();
            let from = From::Value(index.to_string());
            container.env.insert(0, EnvVar { name, from });
        }
    }
    draft.try_into()
}

fn variable(
    spec: &executable::ExecutableSpec,
    index: Option<u32>,
) -> Result<executable::ExecutableSpec, Error> {
    let Some(index) = index else {
        return Ok(spec.clone());
    };
    let mut draft: executable::Draft = spec.clone().into();
    let env = draft.env.entry(INDEX.to_owned());
    env.or_insert_with(|| index.to_string());
    draft.try_into()
}
