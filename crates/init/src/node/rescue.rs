// SPDX-License-Identifier: Apache-2.0
//! A shell on the machine's console where no daemon comes up, for a user that knows root's password
//! (sulogin(8)). Without a daemon no unit runs, and so neither a getty nor an ssh server.
//!
//! Daemons are still started meanwhile, more rarely: what kept them from serving may pass, and the
//! machine may have no one at its console. What a shell is given for where a file system can't be
//! repaired is in [`super::disk`].

use std::time::Duration;

use super::Node;
use crate::protocol::Role;
use crate::sulogin;

/// So many daemons in a row have ended without having served: by then the pauses between them are
/// the longest.
const ENOUGH: u32 = 8;
/// The pause between two daemons while the shell is there: what they print is in its way.
const RARELY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Default)]
pub(super) struct Rescue {
    failures: u32,
    shell: Option<i32>,
}

impl Rescue {
    /// The pause before the next daemon, where it is longer than this one.
    pub(super) fn pause(&self, pause: Duration) -> Duration {
        match self.shell {
            Some(_) => pause.max(RARELY),
            None => pause,
        }
    }

    /// A daemon serves.
    pub(super) const fn daemon_serves(&mut self) {
        self.failures = 0;
    }
}

impl Node {
    /// A daemon has ended without having served.
    pub(super) fn daemon_has_failed(&mut self) {
        self.rescue.failures = self.rescue.failures.saturating_add(1);
        let enough = self.rescue.failures >= ENOUGH && self.rescue.shell.is_none();
        if !enough || self.role != Role::Machine || self.shutdown.is_some() {
            return;
        }
        self.console.say(&format!(
            "no daemon comes up ({ENOUGH} have ended, and said why above): a shell is on the \
             console, and another daemon is tried every {RARELY:?}, or when the shell ends"
        ));
        match sulogin::start() {
            Ok(pid) => self.rescue.shell = Some(pid),
            Err(error) => self.console.say(&format!("no shell: {error}")),
        }
    }

    /// Whether this child was the shell, which has ended.
    pub(super) fn is_shells_end(&mut self, pid: i32) -> bool {
        if self.rescue.shell != Some(pid) {
            return false;
        }
        self.rescue = Rescue::default();
        if self.daemon.child.is_none() {
            self.console.say("the shell has ended; a daemon is started");
            self.daemon.start_now();
        }
        true
    }
}
