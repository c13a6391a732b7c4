// SPDX-License-Identifier: Apache-2.0
//! Changing the labels of a running executable: the one thing about it that can be changed. The new
//! labels are in its record before they are told; where the cell's init refuses them, the old ones
//! stay.

use std::sync::Arc;

use model::error::{Error, Reason};
use model::label::Labels;
use model::name::Uid;
use model::request::UpdateExecutable;
use model::status::Object;

use super::Reply;
use super::executables::Executables;
use super::state::Cell;
use crate::record::{self, Written};

impl Executables {
    /// Into the record in memory at once: a stop that is written meanwhile is written with them.
    /// Returns the record to be written, and the labels that it had.
    pub(super) fn put_labels(
        &mut self,
        uid: Uid,
        request: UpdateExecutable,
    ) -> Result<(Written, Labels), Error> {
        let found = self.get_mut(&uid).filter(|it| it.exit.is_none());
        let Some(executable) = found else {
            let message = format!("{} has ended", request.target.path);
            return Err(Error::new(Reason::WrongState, message));
        };
        let meta = &mut executable.record.meta;
        if request
            .expected_generation
            .is_some_and(|it| it != meta.generation)
        {
            let message = format!(
                "the executable {} has generation {}",
                meta.path, meta.generation
            );
            return Err(Error::new(Reason::Conflict, message)
                .about("executable", meta.path.to_string())
                .hint("read it again, and update what it says now"));
        }
        let labels = meta.labels.relabelled(&request.labels);
        let labels = labels.map_err(|e| e.within("labels"))?;
        let old = std::mem::replace(&mut meta.labels, labels);
        meta.generation += 1;
        match record::encode(&executable.record) {
            Ok(written) => Ok((written, old)),
            Err(error) => {
                let meta = &mut executable.record.meta;
                meta.labels = old;
                meta.generation -= 1;
                Err(error)
            }
        }
    }

    /// The record is written: now it is told.
    pub(super) fn relabelled(&mut self, uid: Uid, reply: Reply<Arc<Object>>, cell: &Cell) {
        if let Some(executable) = self.get_mut(&uid) {
            executable.status.meta.labels = executable.record.meta.labels.clone();
            executable.status.meta.generation = executable.record.meta.generation;
            executable.publish(cell);
        }
        let _ = reply.send(cell.object(uid));
    }

    /// The record isn't written: what was stays.
    pub(super) fn not_relabelled(
        &mut self,
        uid: Uid,
        old: Labels,
        error: Error,
        reply: Reply<Arc<Object>>,
    ) {
        if let Some(executable) = self.get_mut(&uid) {
            executable.record.meta.labels = old;
            executable.record.meta.generation -= 1;
        }
        let _ = reply.send(Err(error));
    }
}
