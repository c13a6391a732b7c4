// SPDX-License-Identifier: Apache-2.0
//! The executables of one cell: those that run or end, and those that the cell-init was asked to
//! start. Here they are found; what becomes of them is in `start`, `stop`, `freeze`, `relabel`,
//! `input` and `finish`.

use std::collections::HashMap;

use model::name::Uid;

use super::executable::Executable;
use super::start::Starting;

/// See the module. A table has room for more than are in it, and an executable is kilobytes: so
/// the tables hold pointers.
#[derive(Default)]
pub(super) struct Executables {
    begun: HashMap<Uid, Box<Executable>>,
    starting: HashMap<Uid, Starting>,
}

impl Executables {
    /// One whose program was executed and whose end is not dealt with.
    pub(super) fn get(&self, uid: &Uid) -> Option<&Executable> {
        self.begun.get(uid).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, uid: &Uid) -> Option<&mut Executable> {
        self.begun.get_mut(uid).map(Box::as_mut)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Executable> {
        self.begun.values().map(Box::as_ref)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Executable> {
        self.begun.values_mut().map(Box::as_mut)
    }

    pub(super) fn uids(&self) -> Vec<Uid> {
        self.begun.keys().copied().collect()
    }

    pub(super) fn insert(&mut self, uid: Uid, executable: Box<Executable>) {
        self.begun.insert(uid, executable);
    }

    pub(super) fn remove(&mut self, uid: &Uid) {
        self.begun.remove(uid);
    }

    /// One that is being started.
    pub(super) fn starting(&self, uid: &Uid) -> Option<&Starting> {
        self.starting.get(uid)
    }

    /// All that are being started.
    pub(super) fn all_starting(&self) -> impl Iterator<Item = &Executable> {
        self.starting.values().map(Starting::executable)
    }

    pub(super) fn insert_starting(&mut self, uid: Uid, starting: Starting) {
        self.starting.insert(uid, starting);
    }

    /// Its start was answered, or given up.
    pub(super) fn take_starting(&mut self, uid: &Uid) -> Option<Starting> {
        self.starting.remove(uid)
    }

    pub(super) fn starting_uids(&self) -> Vec<Uid> {
        self.starting.keys().copied().collect()
    }

    /// Whether nothing runs, ends or starts.
    pub(super) fn are_idle(&self) -> bool {
        self.begun.is_empty() && self.starting.is_empty()
    }

    /// Whether a newer run has the name.
    pub(super) fn has_another_of_its_name(&self, executable: &Executable) -> bool {
        let starting = self.starting.values().map(Starting::executable);
        let mut all = self.values().chain(starting);
        let name = executable.leaf_name();
        all.any(|other| other.uid() != executable.uid() && other.leaf_name() == name)
    }
}
