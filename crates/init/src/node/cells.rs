// SPDX-License-Identifier: Apache-2.0
//! The cells that node-init knows, by uid and pid. It knows nothing of their workloads.
//!
//! ```text
//!         spawner: cloned        status: ready          ended           AckCell
//! Asked ────────────────▶ Cloned ─────────────────▶ Running ─────▶ Ended ─────────▶ (gone)
//!   │ spawner: failed      │ status: failed, or died
//!   └─▶ (gone)             └─▶ Failing ── reaped ──▶ (gone)
//! ```
//! Both ways to (gone) before `Running` are answered with `CellFailed`. No cell stays `Asked` or
//! `Cloned` for ever: see `creation`.

use std::os::fd::OwnedFd;

use kernel::poll::Deadline;

use crate::protocol::{ExitRecord, Failure, MAX_CELLS, Uid};

/// Where a cell is on its way.
pub(super) enum Stage {
    /// The spawner was asked.
    Asked,
    /// Its init is there, and furnishes it.
    Cloned {
        pid: i32,
        pidfd: OwnedFd,
        status: OwnedFd,
        /// When it is killed, if it isn't ready.
        due: Deadline,
    },
    /// It failed, was killed, and waits to be reaped.
    Failing {
        pid: i32,
        failure: Failure,
    },
    Running {
        pid: i32,
    },
    Ended {
        exit: ExitRecord,
        told: bool,
    },
}

/// One cell, as node-init keeps it.
pub(super) struct Cell {
    pub(super) uid: Uid,
    /// The number of the request, of the connected daemon; `None` once that daemon is gone.
    pub(super) request: Option<u64>,
    /// The number of the request to the spawner: unlike the daemon's, never used twice.
    pub(super) serial: u64,
    pub(super) started_ns: u64,
    pub(super) stage: Stage,
}

impl Cell {
    /// Its init, while there is one to be reaped.
    pub(super) fn pid(&self) -> Option<i32> {
        match self.stage {
            Stage::Cloned { pid, .. } | Stage::Failing { pid, .. } | Stage::Running { pid } => {
                Some(pid)
            }
            Stage::Asked | Stage::Ended { .. } => None,
        }
    }

    /// Whether it may yet become a cell.
    pub(super) fn is_in_the_making(&self) -> bool {
        matches!(self.stage, Stage::Asked | Stage::Cloned { .. })
    }
}

/// All cells, at most [`MAX_CELLS`].
#[derive(Default)]
pub(super) struct Cells(pub(super) Vec<Cell>);

impl Cells {
    /// Makes room for one more: `false` where there is none, in the table or in memory.
    pub(super) fn reserve(&mut self) -> bool {
        self.0.len() < MAX_CELLS && self.0.try_reserve(1).is_ok()
    }

    pub(super) fn position(&self, matches: impl Fn(&Cell) -> bool) -> Option<usize> {
        self.0.iter().position(matches)
    }

    pub(super) fn by_uid(&self, uid: Uid) -> Option<usize> {
        self.position(|cell| cell.uid == uid)
    }

    pub(super) fn by_pid(&self, pid: i32) -> Option<usize> {
        self.position(|cell| cell.pid() == Some(pid))
    }

    pub(super) fn by_serial(&self, serial: u64) -> Option<usize> {
        self.position(|cell| cell.serial == serial)
    }

    pub(super) fn remove(&mut self, at: usize) {
        if at < self.0.len() {
            self.0.swap_remove(at);
        }
        if self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(self.0.len() * 2);
        }
    }

    pub(super) fn any_in_the_making(&self) -> bool {
        self.0.iter().any(Cell::is_in_the_making)
    }

    /// Whether the spawner owes an answer.
    pub(super) fn any_asked(&self) -> bool {
        self.0.iter().any(|cell| matches!(cell.stage, Stage::Asked))
    }

    /// When the next of those that are being created has passed its bound.
    pub(super) fn creation_due(&self) -> Option<Deadline> {
        let due = |cell: &Cell| match &cell.stage {
            Stage::Cloned { due, .. } => Some(*due),
            _ => None,
        };
        let creations = self.0.iter().filter_map(due);
        creations.min_by_key(|due| due.remaining())
    }

    pub(super) fn any_alive(&self) -> bool {
        self.0.iter().any(|cell| cell.pid().is_some())
    }

    /// Those that run, as [`crate::protocol::Welcome`] lists them.
    pub(super) fn running(&self) -> Vec<(Uid, i32)> {
        let pid = |cell: &Cell| match cell.stage {
            Stage::Running { pid } => Some((cell.uid, pid)),
            _ => None,
        };
        self.0.iter().filter_map(pid).collect()
    }
}
