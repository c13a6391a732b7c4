// SPDX-License-Identifier: Apache-2.0
//! Changing a running cell: labels, limits, grants. The record first, then the kernel; what the
//! kernel refuses is taken back in both, so that record, kernel and view say the same.

use std::sync::Arc;

use init::protocol::{CellRequest, GrantMount};
use model::cell::{CellSpec, Grant};
use model::error::{Error, Reason};
use model::request::UpdateCell;
use model::status::Object;

use super::owner::{Call, Owner};
use super::{Reply, limits};
use crate::runtime::record::{self, CellRecord};
use crate::runtime::{grants, make};

/// An update whose record is being written.
pub(crate) struct Update {
    /// As it was.
    before: CellRecord,
    added: Vec<grants::Prepared>,
    removed: Vec<Vec<u8>>,
    pub(super) reply: Reply<Arc<Object>>,
}

impl Owner {
    pub(super) fn update(&mut self, request: &UpdateCell, reply: Reply<Arc<Object>>) {
        match self.plan(request) {
            Ok((after, added, removed)) => {
                let update = Update {
                    before: self.record.clone(),
                    added,
                    removed,
                    reply,
                };
                self.write_update(after, update);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Everything that can be refused is, before anything changes.
    #[allow(
        clippy::type_complexity,
        reason = "three lists that are taken apart at once"
    )]
    fn plan(
        &self,
        request: &UpdateCell,
    ) -> Result<(CellRecord, Vec<grants::Prepared>, Vec<Vec<u8>>), Error> {
        if self.ending.begun {
            let message = format!("the cell {} is stopping", self.key.path);
            return Err(Error::new(Reason::WrongState, message));
        }
        let now = self.record.meta.generation;
        if request
            .expected_generation
            .is_some_and(|expected| expected != now)
        {
            let message = format!("the cell {} has generation {now}", self.key.path);
            return Err(Error::new(Reason::Conflict, message)
                .about("cell", self.key.path.to_string())
                .hint("read it again, and update what it says now"));
        }
        let old = (&self.record.spec, &self.record.meta.labels);
        let (spec, labels) =
            model::update::apply(&request.mask, old, (&request.spec, &request.labels))?;
        limits::exactly(&spec.resources, &self.record.spec.resources)?;
        self.enable(&spec)?;
        let removed = missing(&self.record.spec, &spec).map(target).collect();
        let added = missing(&spec, &self.record.spec)
            .map(|grant| grants::prepare(grant, self.root_id))
            .collect::<Result<_, _>>()?;
        let mut after = self.record.clone();
        after.spec = spec;
        after.meta.labels = labels;
        after.meta.generation += 1;
        Ok((after, added, removed))
    }

    /// The controllers of the cell's own limits are its parent's to hand on, and so on up.
    fn enable(&self, spec: &CellSpec) -> Result<(), Error> {
        let mut above: Vec<_> = self.group.path().ancestors().skip(1).collect();
        above.retain(|path| path.starts_with(self.shared.root.path()));
        for path in above.into_iter().rev() {
            let group = kernel::cgroup::Cgroup::open(path)
                .map_err(|e| Error::internal(e.to_string()).errno(e.errno()))?;
            limits::enable(&group, &spec.resources)?;
        }
        Ok(())
    }

    fn write_update(&mut self, after: CellRecord, update: Update) {
        match record::encode(&after) {
            Ok(record) => {
                self.record = after;
                self.call(Call::Update(Box::new(update)), Vec::new(), |request| {
                    CellRequest::PutCellRecord { request, record }
                });
            }
            Err(error) => {
                let _ = update.reply.send(Err(error));
            }
        }
    }

    /// The record says so: now the kernel.
    pub(super) fn apply_update(&mut self, update: Update) {
        let (before, after) = (&update.before.spec.resources, &self.record.spec.resources);
        let set = limits::exactly(after, before).and_then(|l| limits::set(&self.group, &l));
        if let Err(error) = set {
            let lifted = limits::exactly(before, after).and_then(|l| limits::set(&self.group, &l));
            if let Err(error) = lifted {
                tracing::error!(cell = %self.key.path, %error, "a limit could not be taken back");
            }
            return self.undo_update(update, error);
        }
        for target in update.removed {
            self.call(Call::Noted("to detach a grant"), Vec::new(), |request| {
                CellRequest::Unmount { request, target }
            });
        }
        let mut reply = Some(update.reply);
        let last = update.added.len().saturating_sub(1);
        for (i, grants::Prepared { mount, target }) in update.added.into_iter().enumerate() {
            let call = match reply.take_if(|_| i == last) {
                Some(reply) => Call::Attached(reply),
                None => Call::Noted("to attach a grant"),
            };
            self.attach_grant(call, mount, target);
        }
        self.show_update();
        if let Some(reply) = reply {
            let _ = reply.send(self.object(self.record.meta.uid));
        }
    }

    fn attach_grant(&mut self, call: Call, mount: std::os::fd::OwnedFd, grant: GrantMount) {
        self.call(call, vec![mount], |request| CellRequest::Mount {
            request,
            grant,
        });
    }

    pub(super) fn undo_update(&mut self, update: Update, error: Error) {
        self.record = update.before;
        self.put_record("that an update was taken back");
        let _ = update.reply.send(Err(error));
    }

    fn show_update(&mut self) {
        self.status.meta = self.record.meta.clone();
        self.status.spec = self.record.spec.clone();
        self.status.effective = make::effective(&self.record.spec, &self.key, self.record.ids);
        self.publish_cell();
    }
}

/// The grants of `one` that are not in `other`.
fn missing<'a>(one: &'a CellSpec, other: &'a CellSpec) -> impl Iterator<Item = &'a Grant> {
    one.grants
        .iter()
        .filter(|grant| !other.grants.contains(grant))
}

fn target(grant: &Grant) -> Vec<u8> {
    grant.effective_target().as_bytes().to_vec()
}
