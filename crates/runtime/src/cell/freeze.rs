// SPDX-License-Identifier: Apache-2.0
//! Freezing and thawing a cell: the leaves of its executables and, through their owners, those of
//! the cells in it. Never an `_init`: a frozen cell-init could not answer.
//!
//! A cell is held when it was frozen itself or a cell around it was; thawing an outer cell leaves
//! an inner one frozen that was frozen by name. Nothing can be started in a frozen cell
//! (`WRONG_STATE`); a stop thaws the leaf of what is to end.

use std::sync::Arc;
use std::time::Duration;

use init::protocol::CellRequest;
use model::lifecycle::Event as Life;
use model::name::Uid;
use model::status::Object;

use super::owner::{Call, Event, Owner};
use super::{Reply, Request, leaf};
use crate::record;
use model::error::{Error, Reason};

/// How long the kernel may take to stop every process.
const SETTLE: Duration = Duration::from_secs(10);

impl Owner {
    pub(super) fn freeze(&mut self, frozen: bool, by_parent: bool, reply: Reply<Arc<Object>>) {
        let life = if frozen { Life::Freeze } else { Life::Thaw };
        if let Err(illegal) = self.status.state.after(life) {
            let error = Error::from(illegal).about("cell", self.key.path.to_string());
            let _ = reply.send(Err(error));
            return;
        }
        if by_parent {
            self.parent_frozen = frozen;
            return self.apply_freeze(frozen, reply);
        }
        if !frozen && self.parent_frozen {
            let message = format!("the cell around {} is frozen", self.key.path);
            let error = Error::new(Reason::WrongState, message).hint("thaw that one");
            let _ = reply.send(Err(error));
            return;
        }
        // What holds is what is written: it is set once the init has it.
        let mut intended = self.record.clone();
        intended.frozen = frozen;
        match record::encode(&intended) {
            Ok(record) => {
                self.call(
                    Call::FreezeIntent { frozen, reply },
                    Vec::new(),
                    |request| CellRequest::PutCellRecord { request, record },
                );
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    /// The record says so: now the kernel.
    pub(super) fn freeze_written(&mut self, frozen: bool, reply: Reply<Arc<Object>>) {
        self.record.frozen = frozen;
        self.apply_freeze(frozen, reply);
    }

    fn apply_freeze(&mut self, frozen: bool, reply: Reply<Arc<Object>>) {
        let hold = self.is_frozen();
        for uid in self.executables.uids() {
            self.hold(uid, hold);
        }
        let leaves: Vec<_> = self.executables.values().map(|e| e.leaf.clone()).collect();
        let nested = self.shared.index.nested(&self.key);
        self.beside(async move {
            let cells = nested.iter().map(|cell| {
                cell.ask(|reply| Request::Freeze {
                    frozen: hold,
                    by_parent: true,
                    reply,
                })
            });
            // A nested cell that has ended meanwhile holds nothing.
            futures_util::future::join_all(cells).await;
            let settled = leaves
                .iter()
                .map(|group| leaf::settled(group, hold, SETTLE));
            let reached = futures_util::future::join_all(settled)
                .await
                .into_iter()
                .all(|ok| ok);
            Event::FreezeDone {
                frozen,
                reached,
                reply,
            }
        });
    }

    /// Holds one executable, or lets it go on. One that is to end is not held.
    pub(super) fn hold(&mut self, uid: Uid, hold: bool) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        if executable.record.stop.is_some() || executable.exit.is_some() {
            return;
        }
        let value = if hold { "1" } else { "0" };
        if let Err(error) = executable.leaf.write("cgroup.freeze", value) {
            tracing::warn!(%error, "an executable could not be frozen or thawed");
            return;
        }
        let life = if hold { Life::Freeze } else { Life::Thaw };
        if executable.step(life).is_ok() {
            self.publish_executable(uid);
        }
    }

    pub(super) fn freeze_done(&mut self, frozen: bool, reached: bool, reply: Reply<Arc<Object>>) {
        self.step(if self.is_frozen() {
            Life::Freeze
        } else {
            Life::Thaw
        });
        self.publish_cell();
        let answer = if reached {
            self.object(self.record.meta.uid)
        } else {
            let what = if frozen { "stopped" } else { "went on" };
            let message = format!("not every process {what} within {SETTLE:?}; the rest will");
            Err(Error::new(Reason::Deadline, message).about("cell", self.key.path.to_string()))
        };
        let _ = reply.send(answer);
    }
}
