// SPDX-License-Identifier: Apache-2.0
//! How an update of a cell is carried out, one step after the other, so that record, kernel and
//! view say the same whatever fails, and whenever the daemon is killed. [`super::progress`] decides
//! what comes next, and here it is done. Which updates there are, and what each comes to, is
//! [`super::update`]'s.
//!
//! ```text
//!  begin ─► Ask ─► the cell-init ─► after ─► Ask ─► … ─► after ─► nothing: it is finished
//! ```
//!
//! Until the commit the record holds the old spec and a note of what is being changed, with the ids
//! of the mounts concerned. A daemon that finds such a note takes back what it finds done.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use init::protocol::{Failure, MountTarget};
use kernel::cgroup::Cgroup;
use model::cell::{CellSpec, Mount};
use model::error::{Error, Reason};
use model::label::Labels;
use model::request::UpdateCell;
use model::resources::Resources;
use model::status::Object;
use rustix::io::Errno;

use super::progress::{Effect, Phase, Progress};
use super::state::Cell;
use super::{Reply, limits};
use crate::layout;
use crate::mounts::Prepared;
use crate::record::{self, CellRecord, Pending, Written};
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

/// What the cell-init is to be asked next. Its answer is [`Updates::after`]'s.
pub(super) enum Ask {
    /// To keep this record of the cell.
    Record(Written),
    /// To detach what is mounted there.
    Unmount(Vec<u8>),
    /// To attach the folder by which mounts come.
    Stage(OwnedFd),
    /// To copy what has come to its place.
    Mount(MountTarget),
}

/// The updates of a cell.
#[derive(Default)]
pub(super) struct Updates {
    /// The one that is being carried out.
    running: Option<Running>,
    /// Those that come after it: bounded in [`super::update`].
    pub(super) waiting: VecDeque<(Box<UpdateCell>, Reply<Arc<Object>>)>,
}

impl Updates {
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// There is no init to carry them out any more: those that wait for one are told so.
    pub(super) fn forget(&mut self) {
        self.running = None;
        self.waiting.clear();
    }

    /// Begins an update. `pending` is the note of it for a daemon that finds it unfinished. Returns
    /// what the cell-init is to be asked, unless the update is finished without.
    pub(super) fn begin(
        &mut self,
        mut update: Running,
        pending: Option<Pending>,
        cell: &mut Cell,
    ) -> Option<Ask> {
        let first = update.progress.begin();
        self.running = Some(update);
        cell.record.pending = pending;
        self.carry_out(first, cell)
    }

    fn carry_out(&mut self, effect: Effect<Step>, cell: &mut Cell) -> Option<Ask> {
        let update = self.running.as_mut()?;
        match effect {
            Effect::Announce => self.write(cell),
            Effect::Take(step) => self.take(step, cell),
            // Everything is as asked for: the record says so from here on.
            Effect::Commit => {
                update.swap(&mut cell.record);
                cell.record.meta.generation += 1;
                cell.record.pending = None;
                self.write(cell)
            }
            Effect::Uncommit => {
                update.swap(&mut cell.record);
                cell.record.meta.generation -= 1;
                None
            }
            Effect::Lost(inverse, error) => {
                tracing::error!(cell = %cell.key.path, %error, "a step was not taken back");
                update.lose(inverse, &mut cell.record);
                None
            }
            Effect::Withdraw => {
                cell.record.pending = None;
                self.write(cell)
            }
            Effect::Finish => {
                self.finish(cell);
                None
            }
        }
    }

    fn write(&mut self, cell: &mut Cell) -> Option<Ask> {
        match record::encode(&cell.record) {
            Ok(record) => Some(Ask::Record(record)),
            Err(error) => self.after(Err(error), cell),
        }
    }

    /// What a refusal of the cell-init comes to; a mount that isn't there is detached.
    pub(super) fn refused(&self, failure: &Failure, cell: &Cell) -> Result<(), Error> {
        const NOT_MOUNTED: [Errno; 2] = [Errno::NOENT, Errno::INVAL];
        let progress = self.running.as_ref().map(|running| &running.progress);
        let detaching = matches!(
            progress.and_then(Progress::inverse),
            Some(Step::Attach(..) | Step::DetachTarget(_))
        );
        if detaching && NOT_MOUNTED.contains(&Errno::from_raw_os_error(failure.errno)) {
            return Ok(());
        }
        let error = match progress.map(Progress::phase) {
            Some(Phase::Apply | Phase::Undo) => not_mounted(detaching, failure),
            _ => super::start::failure("the cell's record was not written", failure),
        };
        Err(error.about("cell", cell.key.path.to_string()))
    }

    /// What was being done is done, or refused. Returns what the cell-init is to be asked next;
    /// nothing where the update is finished.
    pub(super) fn after(&mut self, outcome: Result<(), Error>, cell: &mut Cell) -> Option<Ask> {
        let update = self.running.as_mut()?;
        if let (Some(coming), Ok(())) = (update.coming.take(), &outcome) {
            return self.has_come(coming, cell);
        }
        update.stage = None;
        let mut ask = None;
        // The last one alone can have something to be asked: what comes before it has no outcome.
        for effect in update.progress.after(outcome) {
            ask = self.carry_out(effect, cell);
        }
        ask
    }

    fn take(&mut self, step: Step, cell: &mut Cell) -> Option<Ask> {
        let progress = &mut self.running.as_mut()?.progress;
        match step {
            Step::Limit { to, from } => {
                let outcome = set_limits(&cell.group, &to, &from);
                progress.expect(Step::Limit { to: from, from: to });
                self.after(outcome, cell)
            }
            Step::Detach(mount, spare) => {
                let target = mount.effective_target().as_bytes().to_vec();
                progress.expect(Step::Attach(mount, spare));
                Some(Ask::Unmount(target))
            }
            Step::DetachTarget(target) => {
                let bytes = target.clone().into_bytes();
                progress.expect(Step::DetachTarget(target));
                Some(Ask::Unmount(bytes))
            }
            Step::Attach(mount, prepared) => {
                let source = mount.source.clone();
                progress.expect(Step::Detach(mount, None));
                self.attach(&source, prepared, cell)
            }
        }
    }

    fn attach(&mut self, source: &str, prepared: Option<Prepared>, cell: &mut Cell) -> Option<Ask> {
        let gone = || Error::internal(format!("the node no longer has {source}"));
        let staged = prepared.ok_or_else(gone).and_then(|prepared| {
            let directories = vec![prepared.target.directory];
            let (stage, slave) = cell.shared.staging.open(directories)?;
            Ok((stage, slave, prepared))
        });
        match staged {
            Ok((stage, slave, prepared)) => {
                self.running.as_mut()?.coming = Some((stage, prepared));
                Some(Ask::Stage(slave))
            }
            Err(error) => self.after(Err(error), cell),
        }
    }

    /// The cell has the folder: now the mount itself, and the copy of it.
    fn has_come(&mut self, (stage, prepared): (Stage, Prepared), cell: &mut Cell) -> Option<Ask> {
        let Prepared {
            mount,
            file,
            target,
        } = prepared;
        if let Err(error) = stage.attach(vec![(mount, file)]) {
            return self.after(Err(error), cell);
        }
        self.running.as_mut()?.stage = Some(stage);
        Some(Ask::Mount(target))
    }

    fn finish(&mut self, cell: &mut Cell) {
        let Some(update) = self.running.take() else {
            return;
        };
        if cell.status.meta.generation != cell.record.meta.generation {
            cell.status.meta = cell.record.meta.clone();
            cell.status.spec = cell.record.spec.clone();
            cell.status.effective = layout::effective(&cell.record, &cell.key);
            cell.publish();
        }
        if let Some(reply) = update.reply {
            let updated = update
                .progress
                .error
                .map_or_else(|| cell.object(cell.record.meta.uid), Err);
            let _ = reply.send(updated);
        }
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
