// SPDX-License-Identifier: Apache-2.0
//! Signals of node-init: children and orphans that ended, orders to stop.

use kernel::signal::Signal;
use kernel::wait::{Exit, ExitStatus};

use super::Node;
use super::cells::Stage;
use crate::cell::workload::exit_record;
use crate::protocol::{PowerMode, Role};
use crate::reap::each_end;

impl Node {
    /// Takes the pending signals. One `SIGCHLD` may stand for many ends, so all children are
    /// checked.
    pub(super) fn read_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.next() {
            match info.signal {
                Signal::HUP => self.reload_daemon(),
                Signal::TERM | Signal::INT | Signal::PWR | Signal::USR2 => {
                    self.order_to_stop(info.signal);
                }
                _ => {}
            }
        }
        self.reap();
    }

    /// A machine's SIGINT is ctrl-alt-del; SIGUSR2 and SIGPWR are what power buttons and UPS
    /// daemons send.
    fn order_to_stop(&mut self, signal: Signal) {
        let mode = match (self.role, signal) {
            (Role::Machine, Signal::INT) => PowerMode::Reboot,
            (Role::Machine, _) => PowerMode::PowerOff,
            _ => PowerMode::Exit,
        };
        self.begin_shutdown(mode, None, &signal.to_string());
    }

    /// Looks at every child that has ended before the kernel forgets it.
    pub(super) fn reap(&mut self) {
        self.reap_again = each_end(|exit| self.record_end(exit));
    }

    /// `false` where it can't be known yet how a cell's creation went.
    fn record_end(&mut self, exit: &Exit) -> bool {
        let is = |child: &Option<super::child::Child>| {
            child.as_ref().is_some_and(|child| child.pid == exit.pid)
        };
        if is(&self.daemon.child) {
            self.daemon_ended(&describe(exit.status));
            return true;
        }
        if is(&self.spawner.child) {
            // Cells that the spawner cloned become known first.
            self.read_spawner_to_the_end();
            self.lose_spawner();
            return true;
        }
        if self.is_shells_end(exit.pid) {
            return true;
        }
        // The spawner reports a cell-init before it lets it go on, so a cell-init that ends is
        // known after this. One that was killed before that is reported when it is gone already.
        if self.cells.by_pid(exit.pid).is_none() && self.cells.any_asked() {
            self.read_spawner_to_the_end();
        }
        match self.cells.by_pid(exit.pid) {
            Some(at) => self.cell_ended(at, exit),
            // Any other process is an orphan.
            None => {
                self.orphan_ended(exit);
                true
            }
        }
    }

    fn cell_ended(&mut self, at: usize, exit: &Exit) -> bool {
        // It may have reported that it is ready, or a failure, since its pipe was last read.
        self.conclude_creation(at);
        let Some(cell) = self.cells.0.get_mut(at) else {
            return true;
        };
        match &cell.stage {
            Stage::Cloned { .. } => return false,
            Stage::Failing { failure, .. } => {
                let failure = failure.clone();
                self.fail_cell(at, failure);
            }
            _ => {
                self.orphans.forget(cell.uid);
                let exit = exit_record(exit, cell.started_ns);
                cell.stage = Stage::Ended { exit, told: false };
                self.news = true;
            }
        }
        true
    }
}

fn describe(status: ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => format!("exited with code {code}"),
        ExitStatus::Signal { signal, .. } => {
            let name = Signal::from_number(signal.into()).map(|signal| signal.to_string());
            format!(
                "was ended by {}",
                name.unwrap_or_else(|| signal.to_string())
            )
        }
    }
}
