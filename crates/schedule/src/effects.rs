// SPDX-License-Identifier: Apache-2.0
//! What the acts of a schedule do, in the words of the policies. An act needs permission for the
//! run itself, and for the same at the schedule's name: what is denied at `web` is denied to
//! `web-3`.

use identity::{Effect, Reach, Target};
use model::error::Error;
use model::name::{Label, ObjectPath, Tenant};
use model::schedule::Work;
use model::schedule::given;
use model::schedule::request::Named;
use model::schedule::state::Shape;

pub(crate) const RUN_CELL: &str = "runtime.RunCell";
pub(crate) const RUN_EXECUTABLE: &str = "runtime.RunExecutable";
pub(crate) const STOP: &str = "runtime.Stop";
pub(crate) const REMOVE: &str = "runtime.Remove";
pub(crate) const RUN_POD: &str = "pod.Run";
pub(crate) const STOP_POD: &str = "pod.Stop";
pub(crate) const REMOVE_POD: &str = "pod.Remove";
pub(crate) const UPDATE_POD: &str = "pod.Update";
pub(crate) const UPDATE_CELL: &str = "runtime.UpdateCell";
pub(crate) const GET_CONFIG: &str = "schedule.GetConfig";

/// The path of something in a run.
pub(crate) fn below(run: &ObjectPath, name: &Label) -> Result<ObjectPath, Error> {
    run.child(name.clone())
        .map_err(|e| Error::invalid("name", e))
}

/// What beginning a run at a path does, its own action first.
pub(crate) fn start(work: &Work, run: &ObjectPath) -> Result<Vec<Effect>, Error> {
    Ok(match work {
        Work::Executable { program, .. } => vec![
            Effect::on(RUN_EXECUTABLE, &below(run, &program.name)?),
            Effect::on(RUN_CELL, run),
        ],
        Work::Cell { programs, .. } => {
            let mut effects = vec![Effect::on(RUN_CELL, run)];
            for program in programs {
                effects.push(Effect::on(RUN_EXECUTABLE, &below(run, &program.name)?));
            }
            // Where one of them can't be started, the cell goes again.
            effects.push(Effect::below(STOP, run));
            effects.push(Effect::below(REMOVE, run));
            effects
        }
        Work::Pod { .. } => {
            let mut effects = vec![
                Effect::on(RUN_POD, run),
                Effect::below(RUN_CELL, run),
                Effect::below(RUN_EXECUTABLE, run),
            ];
            effects.extend(configs(work));
            effects
        }
    })
}

/// What a work is given is read.
fn configs(work: &Work) -> impl Iterator<Item = Effect> {
    given::mentioned(work).map(|it| {
        let path = ObjectPath::from(it.config.name.clone());
        Effect::on(GET_CONFIG, &path)
    })
}

/// What giving a pod other files does. Who may not read them any more gives none.
pub(crate) fn update(work: &Work, run: &ObjectPath) -> Vec<Effect> {
    let mut effects = vec![Effect::on(UPDATE_POD, run), Effect::below(UPDATE_CELL, run)];
    effects.extend(configs(work));
    effects
}

/// What ending a run does.
pub(crate) fn stop(shape: &Shape, run: &ObjectPath) -> Vec<Effect> {
    match shape {
        Shape::Pod => vec![Effect::on(STOP_POD, run), Effect::below(STOP, run)],
        Shape::Executable(_) | Shape::Cell(_) => vec![Effect::below(STOP, run)],
    }
}

/// What the removal of a schedule does with a run. A pod goes for good: one that has ended keeps a
/// process.
pub(crate) fn leave(shape: &Shape, run: &ObjectPath) -> Vec<Effect> {
    let mut effects = stop(shape, run);
    if *shape == Shape::Pod {
        effects.extend(forget(true, run));
    }
    effects
}

/// What forgetting a run that has ended does.
pub(crate) fn forget(pod: bool, run: &ObjectPath) -> Vec<Effect> {
    let mut effects = match pod {
        true => vec![Effect::on(REMOVE_POD, run)],
        false => Vec::new(),
    };
    effects.push(Effect::below(REMOVE, run));
    effects.push(Effect::below(STOP, run));
    effects
}

/// The same effects at the schedule's own name.
pub(crate) fn at_name(effects: &[Effect], run: &ObjectPath, named: &Named) -> Vec<Effect> {
    let moved = |effect: &Effect| {
        let path = effect.path.as_ref().filter(|it| it.is_within(run))?;
        let rest = path.labels().get(run.labels().len()..)?;
        let moved = rest
            .iter()
            .try_fold(named.path(), |path, label| path.child(label.clone()));
        Some(Effect {
            path: moved.ok(),
            ..effect.clone()
        })
    };
    effects.iter().filter_map(moved).collect()
}

/// A decision's target: the first effect is its own.
pub(crate) fn target(
    tenant: &Tenant,
    effects: Vec<Effect>,
    about: String,
) -> Option<(&'static str, Target)> {
    let mut effects = effects.into_iter();
    let own = effects.next()?;
    let mut target = Target::of(Some(tenant.clone()), own.path).about(about);
    target.reach = match own.reach {
        Reach::Object | Reach::Visible => Reach::Object,
        Reach::Subtree => Reach::Subtree,
    };
    target.also = effects.collect();
    Some((own.action, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_read_a_config_gives_no_pod_its_files() {
        let text = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
            "spec": {
                "containers": [{"name": "app", "image": "a:1", "volumeMounts": [
                    {"name": "files", "mountPath": "/files"}]}],
                "volumes": [{"name": "files", "secret": {"secretName": "keys"}}],
            },
        });
        let all = model::schedule::manifest::read(vec![text]).unwrap();
        let work = &all.schedules[0].spec.work;
        let run = "web-1".parse::<Label>().unwrap().into();
        let (begin, fresh) = (start(work, &run).unwrap(), update(work, &run));
        for effects in [begin, fresh] {
            let config = effects.iter().find(|it| it.action == GET_CONFIG);
            let path = config.and_then(|it| it.path.as_ref()).unwrap();
            assert_eq!(path.to_string(), "keys");
        }
    }
}
