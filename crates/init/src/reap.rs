// SPDX-License-Identifier: Apache-2.0
//! The loop in which every init reaps its ended children. The caller handles each end: node-init's
//! and cell-init's `reap`.

use kernel::wait::{self, Exit, Reap, Target};
use rustix::io::Errno;

/// Hands over each child that has ended before the kernel forgets it. `record` answers `false`
/// where it can't tell yet what the end means: the child then stays, and so do those behind it.
///
/// `true`: children may have ended for which no signal will come, so look again soon.
pub(crate) fn each_end(mut record: impl FnMut(&Exit) -> bool) -> bool {
    loop {
        match wait::try_wait(Target::Any, Reap::No) {
            Ok(Some(exit)) => {
                if !record(&exit) {
                    return true;
                }
                // Between the two the child is a zombie: its pid can't be another's.
                let _ = wait::try_wait(Target::Pid(exit.pid), Reap::Yes);
            }
            Ok(None) => return false,
            // No child is no failure; after any other no signal may come again.
            Err(error) => return !error.is(Errno::CHILD.raw_os_error()),
        }
    }
}
