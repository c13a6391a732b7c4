// SPDX-License-Identifier: Apache-2.0
//! Signals of node-init: children and orphans that ended, orders to stop.

use kernel::signal::Signal;
use kernel::wait::{self, Exit, ExitStatus, Reap, Target};

use super::Node;
use super::cells::Stage;
use crate::cell::workload::exit_record;
use crate::protocol::{PowerMode, Role};

impl Node {
    /// Takes what signals there are. One of a kind stands for many, so all children are looked at.
    pub(super) fn read_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.next() {
            match info.signal {
                Signal::HUP => self.signal_daemon(Signal::HUP),
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
    fn reap(&mut self) {
        while let Ok(Some(exit)) = wait::try_wait(Target::Any, Reap::No) {
            self.record_end(&exit);
            let _ = wait::try_wait(Target::Pid(exit.pid), Reap::Yes);
        }
    }

    fn record_end(&mut self, exit: &Exit) {
        let is = |child: &Option<super::child::Child>| {
            child.as_ref().is_some_and(|child| child.pid == exit.pid)
        };
        if is(&self.daemon.child) {
            return self.daemon_ended(&describe(exit.status));
        }
        if is(&self.spawner.child) {
            // Cells that it made are known first.
            self.read_spawner();
            return self.lose_spawner();
        }
        // The spawner tells of a cell-init before it lets it go on; so whoever ends as one is known
        // after this.
        if self.cells.by_pid(exit.pid).is_none() && self.cells.any_in_the_making() {
            self.read_spawner();
        }
        if let Some(at) = self.cells.by_pid(exit.pid) {
            self.cell_ended(at, exit);
        }
        // Anybody else is an orphan.
    }

    fn cell_ended(&mut self, at: usize, exit: &Exit) {
        // It may have said that it was ready, or why not, since its pipe was last looked at.
        self.conclude_birth(at);
        let Some(cell) = self.cells.0.get_mut(at) else {
            return;
        };
        if let Stage::Failing { failure, .. } = &cell.stage {
            let failure = failure.clone();
            return self.fail_cell(at, failure);
        }
        let exit = exit_record(exit, cell.started_ns);
        cell.stage = Stage::Ended { exit, told: false };
        self.news = true;
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
