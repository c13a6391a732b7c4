// SPDX-License-Identifier: Apache-2.0
//! Cells whose init has not answered this daemon: their names and their ids are taken, no task owns
//! them, and what is asked of them is refused with the reason. `adopt` says which they are.

use model::error::Error;
use model::status::{CellStatus, Object};

use super::{Index, Inner, Key, wrong_state};
use crate::ids::IdRange;

/// The condition of such a cell.
pub(crate) const INIT_SILENT: &str = "InitSilent";

/// The ids of a silent cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    range: IdRange,
    /// Of the pool that they are from; not yet where the cell around is silent, too.
    taken: bool,
}

impl Index {
    /// Publishes a cell that has not answered, and takes its ids where it has some of its own.
    /// `false` where the name is another's.
    pub(crate) fn publish_silent(&self, cell: CellStatus, ids: Option<IdRange>) -> bool {
        let cell = Object::Cell(cell);
        let key = Key::of(&cell);
        if !self.publish_known(cell) {
            return false;
        }
        if let Some(range) = ids {
            let mut inner = self.lock();
            let taken = false;
            inner.silent.insert(key.clone(), Held { range, taken });
            inner.hold(&key);
        }
        true
    }

    /// It is silent no more, or gone; its ids are free.
    pub(crate) fn forget_silent(&self, key: &Key) {
        self.lock().let_go(key);
    }
}

impl Inner {
    /// Takes the ids of a silent cell, where the cell around it has a pool by now.
    fn hold(&mut self, key: &Key) {
        let Some(held) = self.silent.get(key).copied().filter(|held| !held.taken) else {
            return;
        };
        // Those of the cell around it, which it shares, are not in the pool, and need no care.
        let taken = self.take(key, held.range);
        self.silent.insert(key.clone(), Held { taken, ..held });
    }

    /// The same for all that are directly in a cell, which has a pool now.
    pub(super) fn hold_within(&mut self, cell: &Key) {
        let within = self.silent.keys();
        let within: Vec<Key> = within
            .filter(|key| key.parent().as_ref() == Some(cell))
            .cloned()
            .collect();
        for key in within {
            self.hold(&key);
        }
    }

    pub(super) fn let_go(&mut self, key: &Key) {
        if let Some(held) = self.silent.remove(key)
            && held.taken
        {
            self.free(key, held.range);
        }
    }
}

/// Why nothing can be asked of a cell that has not answered.
pub(crate) fn refusal(key: &Key) -> Error {
    wrong_state(
        key,
        "can't be reached: its init has not answered this daemon",
    )
    .hint("try again in a moment; an init that says nothing for 20 s is killed with its cell")
}

/// Whether it is such a cell.
pub(crate) fn is_silent(object: &Object) -> bool {
    let Object::Cell(cell) = object else {
        return false;
    };
    !cell.state.is_final() && cell.conditions.iter().any(|c| c.kind == INIT_SILENT)
}
