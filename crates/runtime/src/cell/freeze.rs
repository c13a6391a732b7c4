// SPDX-License-Identifier: Apache-2.0
//! Freezing and thawing a cell: the leaves of its executables and, through their owners, those of
//! the cells in it. Never an `_init`: a frozen cell-init could not answer.
//!
//! A cell is held when it was frozen itself or a cell around it was; thawing an outer cell leaves
//! an inner one frozen that was frozen by name. Nothing can be started in a frozen cell
//! (`WRONG_STATE`); a stop thaws the leaf of what is to end.

use std::sync::Arc;
use std::time::Duration;

use model::error::{Error, Reason};
use model::lifecycle::Event as Life;
use model::status::Object;

use super::executable::Executable;
use super::executables::Executables;
use super::owner::Event;
use super::state::Cell;
use super::{Reply, Request, leaf};
use crate::record::{self, Written};

/// How long the kernel may take to stop every process.
const SETTLE: Duration = Duration::from_secs(10);

/// Whether the cell can be frozen or thawed; a frozen cell around it is thawed by itself alone.
pub(super) fn admits(frozen: bool, by_parent: bool, cell: &Cell) -> Result<(), Error> {
    let life = if frozen { Life::Freeze } else { Life::Thaw };
    if let Err(illegal) = cell.status.state.after(life) {
        return Err(Error::from(illegal).about("cell", cell.key.path.to_string()));
    }
    if !by_parent && !frozen && cell.parent_frozen {
        let message = format!("the cell around {} is frozen", cell.key.path);
        return Err(Error::new(Reason::WrongState, message).hint("thaw that one"));
    }
    Ok(())
}

/// The record that says so. What holds is what is written: it is set once the init has it.
pub(super) fn intent(frozen: bool, cell: &Cell) -> Result<Written, Error> {
    let mut intended = cell.record.clone();
    intended.frozen = frozen;
    record::encode(&intended)
}

/// Every process is held, or goes on, or not in time.
pub(super) fn done(frozen: bool, reached: bool, reply: Reply<Arc<Object>>, cell: &mut Cell) {
    cell.step(if cell.is_frozen() {
        Life::Freeze
    } else {
        Life::Thaw
    });
    cell.publish();
    let answer = if reached {
        cell.object(cell.record.meta.uid)
    } else {
        let what = if frozen { "frozen" } else { "thawed" };
        let message = format!(
            "some processes weren't {what} within {SETTLE:?}; the kernel continues with them"
        );
        Err(Error::new(Reason::Deadline, message).about("cell", cell.key.path.to_string()))
    };
    let _ = reply.send(answer);
}

impl Executables {
    /// The cell is to be held, or not: now the kernel, and the cells in it. [`done`] answers.
    pub(super) fn freeze(&mut self, frozen: bool, reply: Reply<Arc<Object>>, cell: &Cell) {
        let hold = cell.is_frozen();
        for executable in self.values_mut() {
            executable.hold(hold, cell);
        }
        let leaves: Vec<_> = self.values().map(|e| e.leaf.clone()).collect();
        let nested = cell.shared.index.nested(&cell.key);
        cell.beside(async move {
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
}

impl Executable {
    /// Holds it, or lets it go on. One that is to end is not held.
    pub(super) fn hold(&mut self, hold: bool, cell: &Cell) {
        if self.record.stop.is_some() || self.exit.is_some() {
            return;
        }
        let value = if hold { "1" } else { "0" };
        if let Err(error) = self.leaf.write("cgroup.freeze", value) {
            tracing::warn!(%error, "an executable could not be frozen or thawed");
            return;
        }
        let life = if hold { Life::Freeze } else { Life::Thaw };
        if self.step(life).is_ok() {
            self.publish(cell);
        }
    }
}
