// SPDX-License-Identifier: Apache-2.0
//! What is seen of a schedule's runs. It takes no permit: that a run has ended is known whatever
//! its owner may do now.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::select_all;
use identity::UserKey;
use model::exit::How;
use model::name::ObjectPath;
use model::pod::status::{Phase, PodStatus};
use model::schedule::Work;
use model::schedule::spec::Program;
use model::schedule::state::said;
use model::schedule::steps::MAX_RUNS;
use model::status::Object;

use super::Actor;
use crate::effects::below;
use crate::{OWNER, RUN};

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

impl Actor {
    /// The pods among the last runs that are there, ended or not.
    pub(crate) fn pods(&self, work: &Work, last: u64) -> Vec<u64> {
        let Work::Pod { .. } = work else {
            return Vec::new();
        };
        let most = u64::try_from(MAX_RUNS).unwrap_or(u64::MAX);
        let is_there = |number: &u64| self.look(work, *number, true) != Look::Absent;
        let numbers = last.saturating_sub(most) + 1..=last;
        numbers.filter(is_there).collect()
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

    /// A program of a run.
    fn program(&self, run: &ObjectPath, program: &Program) -> Option<Arc<Object>> {
        let path = below(run, &program.name).ok()?;
        self.ports.runtime.seen(&self.named.tenant, &path)
    }

    /// What there is of a run now. `whole`: it had begun, so that a record that isn't there is of a
    /// program that ended long ago.
    pub(crate) fn look(&self, work: &Work, number: u64, whole: bool) -> Look {
        let Ok(run) = self.run(number) else {
            return Look::Absent;
        };
        let programs = match work {
            Work::Executable { program, .. } => std::slice::from_ref(&**program),
            Work::Cell { programs, .. } => programs.as_slice(),
            Work::Pod { .. } => return self.look_at_pod(&run),
        };
        let seen =
            |program: &Program| Some((program.name.to_string(), self.program(&run, program)?));
        let seen: Vec<_> = programs.iter().filter_map(seen).collect();
        if seen.is_empty() || (!whole && seen.len() < programs.len()) {
            return Look::Absent;
        }
        if seen.iter().any(|(_, object)| !object.state().is_final()) {
            return Look::Living;
        }
        let ends = seen.iter().map(|(name, object)| end(object, name));
        Look::Ended(ends.fold(Some((true, String::new())), worse))
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
        let each = |program: &Program| {
            let object = self.program(&run, program)?;
            Some(Box::pin(self.end_of(object, program.name.to_string())))
        };
        let mut going: Vec<_> = programs.iter().filter_map(each).collect();
        let mut worst = (!going.is_empty()).then(|| (true, String::new()));
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

    async fn end_of(&self, object: Arc<Object>, name: String) -> Option<(bool, String)> {
        let ended = self.ports.runtime.end_of(&object).await.ok()?;
        end(&ended, &name)
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
