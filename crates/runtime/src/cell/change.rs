// SPDX-License-Identifier: Apache-2.0
//! How an update of a cell is carried out, one step after the other, so that record, kernel and
//! view say the same whatever fails, and whenever the daemon is killed:
//!
//! ```text
//!  Announce ─► Apply ─► Commit ─► answered     recorded: begun; then each step; recorded: done
//!                │ a step is refused
//!                ▼
//!              Undo ─► Withdraw ─► refused        the steps that were done, backwards
//! ```
//!
//! Until `Commit` the record holds the old spec and a note of what is being changed, with the ids
//! of the mounts concerned. A daemon that finds such a note takes back what it finds done.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use init::protocol::{CellRequest, Failure};
use model::cell::{CellSpec, Mount};
use model::error::{Error, Reason};
use model::label::Labels;
use model::resources::Resources;
use model::status::Object;
use rustix::io::Errno;

use super::owner::{Call, Owner};
use super::{Reply, limits};
use crate::layout;
use crate::mounts::Prepared;
use crate::record::{self, Pending};
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

/// What the cell-init is being asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Announce,
    Apply,
    Commit,
    Undo,
    Withdraw,
}

/// An update that is being carried out.
pub(crate) struct Running {
    /// What is to be.
    pub(super) spec: CellSpec,
    pub(super) labels: Labels,
    pub(super) steps: VecDeque<Step>,
    /// What was done, to be taken back from behind.
    pub(super) undo: Vec<Step>,
    /// A mount on its way: the cell-init is attaching the folder that it is to come by.
    pub(super) coming: Option<(Stage, Prepared)>,
    /// The folder, while the cell-init copies what has come to its place.
    pub(super) stage: Option<Stage>,
    /// Takes back the step that is being done.
    pub(super) inverse: Option<Step>,
    pub(super) phase: Phase,
    /// Why it is being taken back.
    pub(super) error: Option<Error>,
    /// `None`: an earlier daemon's; nobody waits.
    pub(super) reply: Option<Reply<Arc<Object>>>,
}

impl Owner {
    /// Has it in the record that something is about to change; without effects there is nothing to
    /// announce.
    pub(super) fn announce_update(&mut self, update: Running, pending: Pending) {
        let effects = !update.steps.is_empty();
        self.updating = Some(update);
        if effects {
            self.record.pending = Some(pending);
            self.write_change(Phase::Announce);
        } else {
            self.commit_update();
        }
    }

    /// Takes back what an earlier daemon had done.
    pub(super) fn take_back(&mut self, undo: Vec<Step>) {
        self.updating = Some(Running {
            spec: self.record.spec.clone(),
            labels: self.record.meta.labels.clone(),
            steps: VecDeque::new(),
            undo,
            coming: None,
            stage: None,
            inverse: None,
            phase: Phase::Undo,
            error: None,
            reply: None,
        });
        self.next_step();
    }

    fn write_change(&mut self, phase: Phase) {
        let Some(update) = &mut self.updating else {
            return;
        };
        update.phase = phase;
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
        let Some(update) = &mut self.updating else {
            return;
        };
        let detaching = matches!(
            update.inverse,
            Some(Step::Attach(..) | Step::DetachTarget(_))
        );
        if detaching && NOT_MOUNTED.contains(&Errno::from_raw_os_error(failure.errno)) {
            return self.changed(Ok(()));
        }
        let error = match update.phase {
            Phase::Apply | Phase::Undo => not_mounted(detaching, failure),
            _ => super::start::failure("the cell's record was not written", failure),
        };
        self.changed(Err(error.about("cell", self.key.path.to_string())));
    }

    /// The step that was being done is done, or refused.
    pub(super) fn changed(&mut self, outcome: Result<(), Error>) {
        let Some(update) = &mut self.updating else {
            return;
        };
        if let (Some(coming), Ok(())) = (update.coming.take(), &outcome) {
            return self.has_come(coming);
        }
        update.stage = None;
        let inverse = update.inverse.take();
        match (update.phase, outcome) {
            (Phase::Announce, Ok(())) => {
                update.phase = Phase::Apply;
                self.next_step();
            }
            (Phase::Announce, Err(error)) => {
                update.error = Some(error);
                self.withdraw_update();
            }
            (Phase::Apply, Ok(())) => {
                update.undo.extend(inverse);
                self.next_step();
            }
            (Phase::Apply, Err(error)) => {
                update.error = Some(error);
                update.phase = Phase::Undo;
                self.next_step();
            }
            (Phase::Commit, Ok(())) => self.finish_update(),
            (Phase::Commit, Err(error)) => {
                update.error = Some(error);
                self.uncommit();
                self.next_step();
            }
            (Phase::Undo, outcome) => {
                if let Err(error) = outcome {
                    self.not_undone(inverse, &error);
                }
                self.next_step();
            }
            // The last record that the cell-init has says that it is to be taken back: harmless.
            (Phase::Withdraw, _) => self.finish_update(),
        }
    }

    /// The next step in the direction that the update goes.
    fn next_step(&mut self) {
        let Some(update) = &mut self.updating else {
            return;
        };
        match update.phase {
            Phase::Undo => match update.undo.pop() {
                Some(step) => self.take(step),
                None => self.withdraw_update(),
            },
            _ => match update.steps.pop_front() {
                Some(step) => self.take(step),
                None => self.commit_update(),
            },
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Limit { to, from } => {
                let outcome = self.set_limits(&to, &from);
                self.expect_change(Step::Limit { to: from, from: to });
                self.changed(outcome);
            }
            Step::Detach(mount, spare) => {
                let target = mount.effective_target().as_bytes().to_vec();
                self.expect_change(Step::Attach(mount, spare));
                self.detach(target);
            }
            Step::DetachTarget(target) => {
                let bytes = target.clone().into_bytes();
                self.expect_change(Step::DetachTarget(target));
                self.detach(bytes);
            }
            Step::Attach(mount, prepared) => self.attach(mount, prepared),
        }
    }

    fn expect_change(&mut self, inverse: Step) {
        if let Some(update) = &mut self.updating {
            update.inverse = Some(inverse);
        }
    }

    fn detach(&mut self, target: Vec<u8>) {
        self.call(Call::Change, Vec::new(), |request| CellRequest::Unmount {
            request,
            target,
        });
    }

    fn attach(&mut self, mount: Mount, prepared: Option<Prepared>) {
        let source = mount.source.clone();
        self.expect_change(Step::Detach(mount, None));
        match prepared {
            Some(prepared) => {
                let directories = vec![prepared.target.directory];
                match self.shared.staging.open(directories) {
                    Ok((stage, slave)) => self.stage(stage, slave, prepared),
                    Err(error) => self.changed(Err(error)),
                }
            }
            None => {
                let message = format!("the node no longer has {source}");
                self.changed(Err(Error::internal(message)));
            }
        }
    }

    fn stage(&mut self, stage: Stage, slave: OwnedFd, prepared: Prepared) {
        if let Some(update) = &mut self.updating {
            update.coming = Some((stage, prepared));
        }
        self.call(Call::Change, vec![slave], |request| CellRequest::Stage {
            request,
        });
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

    /// Sets them all, or leaves them as they were.
    fn set_limits(&self, to: &Resources, from: &Resources) -> Result<(), Error> {
        let set = |to, from| limits::exactly(to, from).and_then(|l| limits::set(&self.group, &l));
        set(to, from).inspect_err(|_| {
            if let Err(error) = set(from, to) {
                tracing::error!(cell = %self.key.path, %error, "a limit could not be taken back");
            }
        })
    }

    /// Everything is as asked for: the record says so from here on.
    fn commit_update(&mut self) {
        let Some(update) = &mut self.updating else {
            return;
        };
        self.record.pending = None;
        std::mem::swap(&mut self.record.spec, &mut update.spec);
        std::mem::swap(&mut self.record.meta.labels, &mut update.labels);
        self.record.meta.generation += 1;
        self.write_change(Phase::Commit);
    }

    fn uncommit(&mut self) {
        let Some(update) = &mut self.updating else {
            return;
        };
        std::mem::swap(&mut self.record.spec, &mut update.spec);
        std::mem::swap(&mut self.record.meta.labels, &mut update.labels);
        self.record.meta.generation -= 1;
        update.phase = Phase::Undo;
    }

    /// A mount that the cell had is lost in taking an update back: the record says so.
    fn not_undone(&mut self, inverse: Option<Step>, error: &Error) {
        tracing::error!(cell = %self.key.path, %error, "a step of an update was not taken back");
        let Some(Step::Detach(lost, _)) = inverse else {
            return;
        };
        let mut draft = model::cell::Draft::from(self.record.spec.clone());
        draft.mounts.retain(|mount| *mount != lost);
        if let Ok(spec) = CellSpec::try_from(draft) {
            self.record.spec = spec;
            self.record.meta.generation += 1;
        }
        if let Some(update) = &mut self.updating
            && let Some(why) = update.error.take()
        {
            let lost = format!("the cell has lost the mount of {}", lost.source);
            update.error = Some(why.hint(lost));
        }
    }

    fn withdraw_update(&mut self) {
        self.record.pending = None;
        self.write_change(Phase::Withdraw);
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
                .error
                .map_or_else(|| self.object(self.record.meta.uid), Err);
            let _ = reply.send(updated);
        }
        self.next_update();
    }
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
