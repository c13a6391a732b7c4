// SPDX-License-Identifier: Apache-2.0
//! The ends of children that were no workload's process when they ended. A daemon that puts itself
//! in
//! the background is such a child until the node's daemon has said that it is a main process: one
//! that ends before is remembered here. The last ones alone: a workload can make as many orphans as
//! it likes.

use std::collections::VecDeque;

use kernel::wait::Exit;

/// How many ends are remembered.
const REMEMBERED: usize = 64;

/// See the module.
#[derive(Default)]
pub(super) struct Orphans(VecDeque<Exit>);

impl Orphans {
    pub(super) fn remember(&mut self, exit: &Exit) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        if self.0.try_reserve(1).is_ok() {
            self.0.push_back(*exit);
        }
    }

    /// The last end of a process of that number.
    pub(super) fn take(&mut self, pid: i32) -> Option<Exit> {
        let at = self.0.iter().rposition(|exit| exit.pid == pid)?;
        self.0.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::wait::{ExitStatus, Usage};

    #[test]
    fn the_newest_ends_are_known_and_no_more_of_them() {
        let mut orphans = Orphans::default();
        for pid in 1..=100 {
            let status = ExitStatus::Code(pid as u8);
            let usage = Usage::default();
            orphans.remember(&Exit {
                pid,
                uid: 0,
                status,
                usage,
            });
        }
        assert!(orphans.take(36).is_none());
        assert_eq!(orphans.take(37).unwrap().status, ExitStatus::Code(37));
        assert!(orphans.take(37).is_none());
        assert_eq!(orphans.0.len(), REMEMBERED - 1);
    }
}
