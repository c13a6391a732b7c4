// SPDX-License-Identifier: Apache-2.0
//! Changing a running cell: labels, limits, mounts; all of it or nothing. What can be refused is
//! refused here, before anything changes; [`super::change`] carries it out, one update at a time.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use kernel::cgroup::Cgroup;
use kernel::mount::info::{self, MountInfo};
use model::cell::{CellSpec, Mount};
use model::error::{Error, Reason};
use model::label::Labels;
use model::request::UpdateCell;
use model::status::Object;

use super::change::{Ask, Running, Step, Updates};
use super::progress::Progress;
use super::state::Cell;
use super::{Reply, container, limits};
use crate::mounts;
use crate::record::{Mounted, Pending};

/// How many updates wait for the one that is being carried out.
const WAITING: usize = 64;

/// What an update comes to.
struct Plan {
    spec: CellSpec,
    labels: Labels,
    steps: VecDeque<Step>,
    /// Goes into the record before the first step.
    pending: Pending,
}

impl Updates {
    /// One at a time: what an update finds is what the one before has left. [`Self::next`] begins
    /// it.
    pub(super) fn put(&mut self, request: Box<UpdateCell>, reply: Reply<Arc<Object>>, cell: &Cell) {
        if !self.is_busy() || self.waiting.len() < WAITING {
            return self.waiting.push_back((request, reply));
        }
        let message = format!("{WAITING} updates of the cell {} wait", cell.key.path);
        let error = Error::new(Reason::LimitExceeded, message).hint("ask again later");
        let _ = reply.send(Err(error.about("cell", cell.key.path.to_string())));
    }

    /// Begins the update that has waited longest, where none is being carried out. Returns what the
    /// cell-init is to be asked.
    pub(super) fn next(&mut self, cell: &mut Cell, is_ending: bool) -> Option<Ask> {
        while !self.is_busy()
            && let Some((request, reply)) = self.waiting.pop_front()
        {
            match plan(&request, cell, is_ending) {
                Ok(plan) => {
                    let pending = (!plan.steps.is_empty()).then_some(plan.pending);
                    let progress = Progress::of(plan.steps);
                    let update = Running::new(plan.spec, plan.labels, progress, Some(reply));
                    if let Some(ask) = self.begin(update, pending, cell) {
                        return Some(ask);
                    }
                }
                Err(error) => {
                    let _ = reply.send(Err(error));
                }
            }
        }
        None
    }

    /// Takes back what an earlier daemon began and did not finish: no client was told of it.
    /// Returns what the cell-init is to be asked.
    pub(super) fn resume(&mut self, cell: &mut Cell) -> Option<Ask> {
        let pending = cell.record.pending.take()?;
        let mounted = mounted_in(cell.status.pid).unwrap_or_else(|error| {
            tracing::error!(cell = %cell.key.path, %error, "what an update left can't be seen");
            Vec::new()
        });
        let undo = steps_back(pending, &mounted, &cell.record.spec, cell.root_id);
        tracing::warn!(cell = %cell.key.path, "an update that was cut short is taken back");
        let (spec, labels) = (&cell.record.spec, &cell.record.meta.labels);
        let progress = Progress::taken_back(undo);
        let update = Running::new(spec.clone(), labels.clone(), progress, None);
        self.begin(update, None, cell)
    }
}

/// Everything that can be refused is, before anything changes.
fn plan(request: &UpdateCell, cell: &Cell, is_ending: bool) -> Result<Plan, Error> {
    if is_ending {
        let message = format!("the cell {} is stopping", cell.key.path);
        return Err(Error::new(Reason::WrongState, message));
    }
    let now = cell.record.meta.generation;
    if request
        .expected_generation
        .is_some_and(|expected| expected != now)
    {
        let message = format!("the cell {} has generation {now}", cell.key.path);
        return Err(Error::new(Reason::Conflict, message)
            .about("cell", cell.key.path.to_string())
            .hint("read it again, and update what it says now"));
    }
    let old = (&cell.record.spec, &cell.record.meta.labels);
    let (spec, labels) =
        model::update::apply(&request.mask, old, (&request.spec, &request.labels))?;
    if container::seals(&cell.record.spec) && !container::seals(&spec) {
        let problem = "a mount that can be written, or follows what is mounted later, can't be \
                       added to a container: what runs in it may set set-id bits";
        return Err(Error::invalid("cell.spec.mounts", problem)
            .hint("run the cell anew, with the mount from the beginning"));
    }
    container::check_writes(&cell.shared.index, &cell.key, &spec)?;
    limits::exactly(&spec.resources, &cell.record.spec.resources)?;
    let around = cell.shared.around(cell.key.tenant.as_str());
    enable(&cell.group, around, &spec)?;
    let (steps, pending) = steps_to(&cell.record.spec, &spec, cell.status.pid, cell.root_id)?;
    Ok(Plan {
        spec,
        labels,
        steps,
        pending,
    })
}

/// From what an unfinished update has left to the spec that the cell has; the last one comes first.
fn steps_back(pending: Pending, mounted: &[MountInfo], spec: &CellSpec, root_id: u32) -> Vec<Step> {
    let is_mounted = |mount: &Mounted| {
        let target = Path::new(&mount.target);
        mounted
            .iter()
            .any(|m| m.id == mount.mount && m.target == target)
    };
    let mut undo = vec![Step::Limit {
        to: spec.resources.clone(),
        from: pending.resources,
    }];
    for removed in pending.removed.iter().filter(|mount| !is_mounted(mount)) {
        let of_target = |mount: &&Mount| mount.effective_target() == removed.target;
        if let Some(mount) = spec.mounts.iter().find(of_target) {
            let prepared = mounts::prepare(mount, root_id).ok();
            undo.push(Step::Attach(mount.clone(), prepared));
        }
    }
    // The copy that a cell-init attaches has a number that could not be known before: it is
    // what is neither below nor to be removed at its target. Elsewhere its number may be that
    // of another mount that was removed: the kernel gives the lowest free one.
    let is_added = |added: &&Mounted| {
        let old = |id: u32| {
            let same = |removed: &Mounted| removed.mount == id && removed.target == added.target;
            pending.removed.iter().any(same)
        };
        let uppermost = ids_at(mounted, &added.target).next_back();
        uppermost.is_some_and(|id| id != added.mount && !old(id))
    };
    for added in pending.added.iter().filter(is_added) {
        undo.push(Step::DetachTarget(added.target.clone()));
    }
    undo
}

/// From the old spec: the limits, then what goes, then what comes: a new mount may take an old
/// one's place. `pid` is of the cell's init, `root_id` the node's id of the cell's root.
fn steps_to(
    old: &CellSpec,
    spec: &CellSpec,
    pid: Option<u32>,
    root_id: u32,
) -> Result<(VecDeque<Step>, Pending), Error> {
    let mut steps = VecDeque::new();
    let mut pending = Pending {
        resources: spec.resources.clone(),
        added: Vec::new(),
        removed: Vec::new(),
    };
    if spec.resources != old.resources {
        steps.push_back(Step::Limit {
            to: spec.resources.clone(),
            from: old.resources.clone(),
        });
    }
    let going: Vec<_> = missing(old, spec).collect();
    let coming: Vec<_> = missing(spec, old).collect();
    let mounted = match going.is_empty() && coming.is_empty() {
        true => Vec::new(),
        false => mounted_in(pid)?,
    };
    for mount in going {
        // What is no longer there on the node can be taken back, but not given again.
        let spare = mounts::prepare(mount, root_id).ok();
        pending.removed.extend(uppermost(&mounted, mount));
        steps.push_back(Step::Detach(mount.clone(), spare));
    }
    for mount in coming {
        let prepared = mounts::prepare(mount, root_id)?;
        let target = mount.effective_target();
        let gone = |id: u32| pending.removed.iter().any(|removed| removed.mount == id);
        let below = ids_at(&mounted, target).rfind(|id| !gone(*id));
        pending.added.push(Mounted {
            target: target.to_owned(),
            mount: below.unwrap_or(NONE),
        });
        steps.push_back(Step::Attach(mount.clone(), Some(prepared)));
    }
    Ok((steps, pending))
}

/// The controllers of the cell's own limits are its parent's to hand on, and so on up to `root`.
fn enable(cell: &Cgroup, root: &Cgroup, spec: &CellSpec) -> Result<(), Error> {
    let mut above: Vec<_> = cell.path().ancestors().skip(1).collect();
    above.retain(|path| path.starts_with(root.path()));
    for path in above.into_iter().rev() {
        let group =
            Cgroup::open(path).map_err(|e| Error::internal(e.to_string()).errno(e.errno()))?;
        limits::enable(&group, &spec.resources)?;
    }
    match cell.path().parent().map(Cgroup::open) {
        Some(Ok(around)) => limits::check_protection(&around, &spec.resources),
        _ => Ok(()),
    }
}

/// What is mounted in the cell whose init is `pid`, the uppermost last.
fn mounted_in(pid: Option<u32>) -> Result<Vec<MountInfo>, Error> {
    let file = format!("/proc/{}/mountinfo", pid.unwrap_or_default());
    let text = std::fs::read(&file).map_err(|e| {
        Error::internal(format!("{file}: {e}")).errno(e.raw_os_error().unwrap_or_default())
    })?;
    info::parse(&text).map_err(|e| Error::internal(format!("{file}: {e}")))
}

/// The mounts of `one` that are not in `other`.
fn missing<'a>(one: &'a CellSpec, other: &'a CellSpec) -> impl Iterator<Item = &'a Mount> {
    one.mounts
        .iter()
        .filter(|mount| !other.mounts.contains(mount))
}

/// The mount that one sees at the mount's target.
fn uppermost(mounted: &[MountInfo], mount: &Mount) -> Option<Mounted> {
    let target = mount.effective_target();
    let at = mounted.iter().rev().find(|m| m.target == Path::new(target));
    at.map(|m| Mounted {
        target: target.to_owned(),
        mount: m.id,
    })
}

/// No mount's id.
const NONE: u32 = 0;

/// The ids of what is mounted at a target, the uppermost last.
fn ids_at<'a>(
    mounted: &'a [MountInfo],
    target: &'a str,
) -> impl DoubleEndedIterator<Item = u32> + 'a {
    let at = mounted
        .iter()
        .filter(move |m| m.target == Path::new(target));
    at.map(|m| m.id)
}
