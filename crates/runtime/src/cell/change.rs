// SPDX-License-Identifier: Apache-2.0
//! How an update of a cell is carried out, one step after the other, so that record, kernel and
//! view say the same whatever fails, and whenever the daemon is killed. [`super::progress`] decides
//! what comes next, and here it is done.
//!
//! Until the commit the record holds the old spec and a note of what is being changed, with the ids
//! of the mounts concerned. A daemon that finds such a note takes back what it finds done.

use std::sync::Arc;

use init::protocol::{CellRequest, Failure};
use kernel::cgroup::Cgroup;
use model::cell::{CellSpec, Mount};
use model::error::{Error, Reason};
use model::label::Labels;
use model::resources::Resources;
use model::status::Object;
use rustix::io::Errno;

use super::owner::{Call, Owner};
use super::progress::{Effect, Phase, Progress};
use super::{Reply, limits};
use crate::layout;
use crate::mounts::Prepared;
use crate::record::{self, CellRecord, Pending};
use crate::staging::Stage;

/// One effect of an update.
pub(crate) enum Step {
    Limit {
        to: Resources,
        from: Resources,
    },
    /// With a mount to give it again, where the node still has what was mounted.
    Detach(Mount, Option<Prepared>),
    Attach(Mount, Option<Prepared>),
    /// What an unfinished update attached.
    DetachTarget(String),
}

/// An update that is being carried out.
pub(crate) struct Running {
    /// What is to be; once it is committed, what was.
    pub(super) spec: CellSpec,
    pub(super) labels: Labels,
    pub(super) progress: Progress<Step>,
    /// A mount on its way: the cell-init is attaching the folder that it is to come by.
    coming: Option<(Stage, Prepared)>,
    /// The folder, while the cell-init copies what has come to its place.
    stage: Option<Stage>,
    /// `None`: an earlier daemon's; no client waits.
    reply: Option<Reply<Arc<Object>>>,
}

impl Running {
    pub(super) fn new(
        spec: CellSpec,
        labels: Labels,
        progress: Progress<Step>,
        reply: Option<Reply<Arc<Object>>>,
    ) -> Self {
        Self {
            spec,
            labels,
            progress,
            coming: None,
            stage: None,
            reply,
        }
    }

    /// Spec and labels of record and update change places.
    fn swap(&mut self, record: &mut CellRecord) {
        std::mem::swap(&mut record.spec, &mut self.spec);
        std::mem::swap(&mut record.meta.labels, &mut self.labels);
    }

    /// A mount that the cell had is lost in taking the update back: the record says so.
    fn lose(&mut self, inverse: Option<Step>, record: &mut CellRecord) {
        let Some(Step::Detach(lost, _)) = inverse else {
            return;
        };
        let mut draft = model::cell::Draft::from(record.spec.clone());
        draft.mounts.retain(|mount| *mount != lost);
        if let Ok(spec) = CellSpec::try_from(draft) {
            record.spec = spec;
            record.meta.generation += 1;
        }
        let why = self.progress.error.take();
        self.progress.error =
            why.map(|why| why.hint(format!("the cell has lost the mount of {}", lost.source)));
    }
}

impl Owner {
    /// Begins an update. `pending` is the note of it for a daemon that finds it unfinished.
    pub(super) fn begin_change(&mut self, mut update: Running, pending: Option<Pending>) {
        let first = update.progress.begin();
        self.updating = Some(update);
        self.record.pending = pending;
        self.carry_out_change(first);
    }

    fn carry_out_change(&mut self, effect: Effect<Step>) {
        let Some(update) = &mut self.updating else {
            return;
        };
        match effect {
            Effect::Announce => self.write_change(),
            Effect::Take(step) => self.take(step),
            // Everything is as asked for: the record says so from here on.
            Effect::Commit => {
                update.swap(&mut self.record);
                self.record.meta.generation += 1;
                self.record.pending = None;
                self.write_change();
            }
            Effect::Uncommit => {
                update.swap(&mut self.record);
                self.record.meta.generation -= 1;
            }
            Effect::Lost(inverse, error) => {
                tracing::error!(cell = %self.key.path, %error, "a step was not taken back");
                update.lose(inverse, &mut self.record);
            }
            Effect::Withdraw => {
                self.record.pending = None;
                self.write_change();
            }
            Effect::Finish => self.finish_update(),
        }
    }

    fn write_change(&mut self) {
        match record::encode(&self.record) {
            Ok(record) => self.call(Call::Change, Vec::new(), |request| {
                CellRequest::PutCellRecord { request, record }
            }),
            Err(error) => self.changed(Err(error)),
        }
    }

    /// The cell-init refused a step; a mount that isn't there is detached.
    pub(super) fn change_refused(&mut self, failure: &Failure) {
        const NOT_MOUNTED: [Errno; 2] = [Errno::NOENT, Errno::INVAL];
        let Some(Running { progress, .. }) = &self.updating else {
            return;
        };
        let detaching = matches!(
            progress.inverse(),
            Some(Step::Attach(..) | Step::DetachTarget(_))
        );
        if detaching && NOT_MOUNTED.contains(&Errno::from_raw_os_error(failure.errno)) {
            return self.changed(Ok(()));
        }
        let error = match progress.phase() {
            Phase::Apply | Phase::Undo => not_mounted(detaching, failure),
            _ => super::start::failure("the cell's record was not written", failure),
        };
        self.changed(Err(error.about("cell", self.key.path.to_string())));
    }

    /// What was being done is done, or refused.
    pub(super) fn changed(&mut self, outcome: Result<(), Error>) {
        let Some(update) = &mut self.updating else {
            return;
        };
        if let (Some(coming), Ok(())) = (update.coming.take(), &outcome) {
            return self.has_come(coming);
        }
        update.stage = None;
        for effect in update.progress.after(outcome) {
            self.carry_out_change(effect);
        }
    }

    fn take(&mut self, step: Step) {
        let Some(Running { progress, .. }) = &mut self.updating else {
            return;
        };
        match step {
            Step::Limit { to, from } => {
                let outcome = set_limits(&self.group, &to, &from);
                progress.expect(Step::Limit { to: from, from: to });
                self.changed(outcome);
            }
            Step::Detach(mount, spare) => {
                let target = mount.effective_target().as_bytes().to_vec();
                progress.expect(Step::Attach(mount, spare));
                self.detach(target);
            }
            Step::DetachTarget(target) => {
                let bytes = target.clone().into_bytes();
                progress.expect(Step::DetachTarget(target));
                self.detach(bytes);
            }
            Step::Attach(mount, prepared) => {
                let source = mount.source.clone();
                progress.expect(Step::Detach(mount, None));
                self.attach(&source, prepared);
            }
        }
    }

    fn detach(&mut self, target: Vec<u8>) {
        self.call(Call::Change, Vec::new(), |request| CellRequest::Unmount {
            request,
            target,
        });
    }

    fn attach(&mut self, source: &str, prepared: Option<Prepared>) {
        let gone = || Error::internal(format!("the node no longer has {source}"));
        let staged = prepared.ok_or_else(gone).and_then(|prepared| {
            let (stage, slave) = self.shared.staging.open(vec![prepared.target.directory])?;
            Ok((stage, slave, prepared))
        });
        match staged {
            Ok((stage, slave, prepared)) => {
                if let Some(update) = &mut self.updating {
                    update.coming = Some((stage, prepared));
                }
                self.call(Call::Change, vec![slave], |request| CellRequest::Stage {
                    request,
                });
            }
            Err(error) => self.changed(Err(error)),
        }
    }

    /// The cell has the folder: now the mount itself, and the copy of it.
    fn has_come(&mut self, (stage, prepared): (Stage, Prepared)) {
        let Prepared { mount, target } = prepared;
        if let Err(error) = stage.attach(vec![mount]) {
            return self.changed(Err(error));
        }
        if let Some(update) = &mut self.updating {
            update.stage = Some(stage);
        }
        self.call(Call::Change, Vec::new(), |request| CellRequest::Mount {
            request,
            from: 0,
            to: target,
        });
    }

    fn finish_update(&mut self) {
        let Some(update) = self.updating.take() else {
            return;
        };
        if self.status.meta.generation != self.record.meta.generation {
            self.status.meta = self.record.meta.clone();
            self.status.spec = self.record.spec.clone();
            self.status.effective =
                layout::effective(&self.record.spec, &self.key, self.record.ids);
            self.publish_cell();
        }
        if let Some(reply) = update.reply {
            let updated = update
                .progress
                .error
                .map_or_else(|| self.object(self.record.meta.uid), Err);
            let _ = reply.send(updated);
        }
        self.next_update();
    }
}

/// Sets them all, or leaves them as they were.
fn set_limits(group: &Cgroup, to: &Resources, from: &Resources) -> Result<(), Error> {
    let set = |to, from| limits::exactly(to, from).and_then(|l| limits::set(group, &l));
    set(to, from).inspect_err(|_| {
        if let Err(error) = set(from, to) {
            let group = group.path().display();
            tracing::error!(%group, %error, "a limit could not be taken back");
        }
    })
}

/// A cell-init could not attach or detach.
fn not_mounted(detaching: bool, failure: &Failure) -> Error {
    let what = if detaching { "detached" } else { "attached" };
    let error = super::start::failure(&format!("a mount was not {what}"), failure);
    if failure.step != init::protocol::Step::Attach {
        return error;
    }
    let message = match failure.errno == rustix::io::Errno::ROFS.raw_os_error() {
        true => failure.detail.clone(),
        false => error.message.clone(),
    };
    Error::new(Reason::Unsupported, message)
        .errno(failure.errno)
        .field("cell.spec.mounts")
        .hint("nothing was changed; mount what can be attached where the cell wants it")
}
