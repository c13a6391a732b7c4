// SPDX-License-Identifier: Apache-2.0
//! The ends of processes that were no workload's when they ended. A daemon that puts itself in the
//! background is such a child until the node's daemon has said that it is a main process: one that
//! ends before is remembered here. So is what node-init says of processes that it is the parent of
//! ([`super::adopted`]). The last ones alone: a workload can make as many orphans as it likes.

use std::collections::VecDeque;

use crate::protocol::{ExitRecord, Orphan};

/// See the module.
pub(super) struct Orphans {
    ends: VecDeque<Orphan>,
    /// How many are remembered.
    most: usize,
}

impl Orphans {
    pub(super) fn at_most(most: usize) -> Orphans {
        Orphans {
            ends: VecDeque::new(),
            most,
        }
    }

    pub(super) fn remember(&mut self, orphan: Orphan) {
        if self.ends.len() >= self.most {
            self.ends.pop_front();
        }
        if self.ends.try_reserve(1).is_ok() {
            self.ends.push_back(orphan);
        }
    }

    /// The last end of a process of that number.
    pub(super) fn take(&mut self, pid: i32) -> Option<ExitRecord> {
        let at = self.ends.iter().rposition(|orphan| orphan.pid == pid)?;
        self.ends.remove(at).map(|orphan| orphan.exit)
    }

    /// A process of that number lives: what is remembered is of earlier ones.
    pub(super) fn forget(&mut self, pid: i32) {
        self.ends.retain(|orphan| orphan.pid != pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ExitHow;

    fn orphan(pid: i32, code: u8) -> Orphan {
        let exit = ExitRecord {
            how: ExitHow::Code(code),
            ..super::super::workload::unknown_end(0)
        };
        Orphan { pid, exit }
    }

    #[test]
    fn the_newest_ends_are_known_and_no_more_of_them() {
        let mut orphans = Orphans::at_most(64);
        for pid in 1..=100_u8 {
            orphans.remember(orphan(pid.into(), pid));
        }
        assert!(orphans.take(36).is_none());
        assert_eq!(orphans.take(37).unwrap().how, ExitHow::Code(37));
        assert!(orphans.take(37).is_none());
        assert_eq!(orphans.ends.len(), 63);
    }

    #[test]
    fn of_two_processes_of_a_number_the_last_counts_and_a_living_one_has_no_end() {
        let mut orphans = Orphans::at_most(64);
        orphans.remember(orphan(7, 1));
        orphans.remember(orphan(7, 2));
        assert_eq!(orphans.take(7).unwrap().how, ExitHow::Code(2));
        orphans.forget(7);
        assert!(orphans.take(7).is_none());
    }
}
