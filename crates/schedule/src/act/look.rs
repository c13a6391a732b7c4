// SPDX-License-Identifier: Apache-2.0
//! What is seen of a schedule's runs. It takes no permit: that a run has ended is known whatever
//! its owner may do now.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::select_all;
use identity::UserKey;
use model::exit::How;
use model::label::Labels;
use model::name::{Label, ObjectPath, Uid};
use model::object::Kind;
use model::pod::status::{Phase, PodStatus};
use model::schedule::state::{Shape, said};
use model::status::Object;
use tokio::sync::watch;

use super::{Actor, MAX_NUMBER};
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

/// What is there of a run, whatever it was made of, and whether it goes on.
pub(crate) enum Left {
    /// The run has left nothing.
    Nothing,
    /// A pod.
    Pod(Uid, bool),
    /// A cell with what is in it.
    Cell(Uid, bool),
    /// Programs whose cell went with them, or will.
    Programs(Vec<Arc<Object>>),
}

impl Left {
    pub(crate) fn lives(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Pod(_, lives) | Self::Cell(_, lives) => *lives,
            Self::Programs(programs) => programs.iter().any(|it| !it.state().is_final()),
        }
    }
}

impl Actor {
    /// The pods of runs that are there, ended or not.
    pub(crate) fn pods(&self) -> BTreeSet<u64> {
        let numbers = self.numbers().into_iter();
        let is_pod = |number: &u64| self.pod(*number).is_some();
        numbers.filter(is_pod).collect()
    }

    /// The runs of which something is there.
    pub(crate) fn numbers(&self) -> BTreeSet<u64> {
        self.labelled().into_iter().map(|(it, _)| it).collect()
    }

    /// The number of the last run of that name of which something is there.
    pub(crate) fn last_number(&self) -> u64 {
        self.numbers().last().copied().unwrap_or(0)
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
        let run_of = |object: &Arc<Object>| {
            let meta = object.meta();
            let number = self.number_of(&meta.labels)?;
            let run = self.run(number).ok()?;
            meta.path.is_within(&run).then_some(number)
        };
        let numbered = |object| Some((run_of(&object)?, object));
        all.into_iter().filter_map(numbered).collect()
    }

    /// Which run of the schedule bears these labels.
    fn number_of(&self, labels: &Labels) -> Option<u64> {
        let own = labels.get(OWNER) == Some(self.named.name.as_str());
        let number = labels.get(RUN).filter(|_| own)?.parse().ok()?;
        (number <= MAX_NUMBER).then_some(number)
    }

    /// What is at a path, where it bears the labels of that run.
    fn own(&self, path: &ObjectPath, number: u64) -> Option<Arc<Object>> {
        let object = self.ports.runtime.seen(&self.named.tenant, path)?;
        (self.number_of(&object.meta().labels) == Some(number)).then_some(object)
    }

    /// A program of a run.
    fn program(&self, run: &ObjectPath, name: &Label, number: u64) -> Option<Arc<Object>> {
        self.own(&below(run, name).ok()?, number)
    }

    /// The pod of a run.
    pub(super) fn pod(&self, number: u64) -> Option<watch::Receiver<PodStatus>> {
        let run = self.run(number).ok()?;
        let status = self.ports.pods.seen(&self.named.tenant, &run)?;
        let own = self.number_of(&status.borrow().meta.labels) == Some(number);
        own.then_some(status)
    }

    /// Of what is to be stopped, where it goes on and is the run.
    pub(super) fn uid(&self, shape: &Shape, number: u64) -> Option<Uid> {
        let run = self.run(number).ok()?;
        match shape {
            Shape::Pod => Some(self.pod(number)?.borrow().meta.uid),
            Shape::Cell(_) => Some(self.own(&run, number)?.meta().uid),
            // Its cell is made for it, and goes with it.
            Shape::Executable(name) => {
                let program = self.program(&run, name, number)?;
                let goes_on = !program.state().is_final();
                let cell = self.ports.runtime.seen(&self.named.tenant, &run);
                Some(cell.filter(|_| goes_on)?.meta().uid)
            }
        }
    }

    /// What there is of a run, whatever it was made of.
    pub(crate) fn left(&self, number: u64) -> Left {
        if let Some(status) = self.pod(number) {
            let status = status.borrow();
            return Left::Pod(status.meta.uid, !status.phase.is_final());
        }
        let own = self.labelled().into_iter().filter(|(it, _)| *it == number);
        let mut cells = Vec::new();
        let mut programs = Vec::new();
        for (_, object) in own {
            match object.meta().kind {
                Kind::Cell => cells.push(object),
                Kind::Executable => programs.push(object),
            }
        }
        let lives = programs.iter().any(|it| !it.state().is_final());
        match cells.first() {
            Some(cell) => Left::Cell(cell.meta().uid, lives),
            None if programs.is_empty() => Left::Nothing,
            None => Left::Programs(programs),
        }
    }

    /// What there is of a run now. `whole`: it had begun, so that a record that isn't there is of a
    /// program that ended long ago.
    pub(crate) fn look(&self, shape: &Shape, number: u64, whole: bool) -> Look {
        let Ok(run) = self.run(number) else {
            return Look::Absent;
        };
        if *shape == Shape::Pod {
            return self.look_at_pod(number);
        }
        let programs = shape.programs();
        let seen = |name: &Label| Some((name.to_string(), self.program(&run, name, number)?));
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

    fn look_at_pod(&self, number: u64) -> Look {
        let Some(status) = self.pod(number) else {
            return Look::Absent;
        };
        let status = status.borrow();
        match status.phase.is_final() {
            true => Look::Ended(Some(end_of_pod(&status))),
            false => Look::Living,
        }
    }

    /// Whether a run is as others may need it: a pod is ready.
    pub(crate) fn is_ready(&self, shape: &Shape, number: u64) -> bool {
        *shape != Shape::Pod || self.pod(number).is_some_and(|it| it.borrow().ready)
    }

    /// The status of a run's pod as it changes.
    pub(crate) fn changes(&self, shape: &Shape, number: u64) -> Option<watch::Receiver<PodStatus>> {
        self.pod(number).filter(|_| *shape == Shape::Pod)
    }

    /// Resolves when a run has ended, as [`Look::Ended`] says how: all its programs have, or one
    /// has failed, which ends the others.
    pub(crate) async fn ended(
        &self,
        owner: &UserKey,
        shape: &Shape,
        number: u64,
    ) -> Option<(bool, String)> {
        let run = self.run(number).ok()?;
        if *shape == Shape::Pod {
            return self.end_of_pod(number).await;
        }
        let each = |name: &Label| {
            let object = self.program(&run, name, number)?;
            Some(Box::pin(self.end_of(object, name.to_string())))
        };
        let mut going: Vec<_> = shape.programs().iter().filter_map(each).collect();
        let mut worst = (!going.is_empty()).then(|| (true, String::new()));
        while !going.is_empty() {
            let (end, _, rest) = select_all(going).await;
            going = rest;
            worst = worse(worst, end);
            if !matches!(worst, Some((true, _))) {
                break;
            }
        }
        if let Shape::Cell(_) = shape
            && let Err(error) = self.stop(owner, shape, number, None).await
        {
            tracing::warn!(%run, %error, "the cell of a run that has ended stays behind");
        }
        worst
    }

    async fn end_of(&self, object: Arc<Object>, name: String) -> Option<(bool, String)> {
        let ended = self.ports.runtime.end_of(&object).await.ok()?;
        end(&ended, &name)
    }

    async fn end_of_pod(&self, number: u64) -> Option<(bool, String)> {
        let mut status = self.pod(number)?;
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
