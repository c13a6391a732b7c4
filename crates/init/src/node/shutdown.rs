// SPDX-License-Identifier: Apache-2.0
//! The shutdown: everything is stopped in order, within a bound that is announced and kept.
//!
//! ```text
//! First ──▶ Cells ──▶ Killing ──▶ Daemon ──▶ (last steps)
//!    0.7 (0.4)         0.1         0.1        the rest of the bound
//! ```
//! *First*: the daemon ends what ends in an order of its own (pods); skipped where it has nothing,
//! or is gone. *Cells*: every cell-init stops its workloads, all in parallel, each with its own
//! grace; the daemon stores output and exits. *Killing*: what is left in cells is killed by cgroup.
//! *Daemon*: it gets the request to stop, then is killed. A stage that has nothing left to wait for
//! ends at once.
//!
//! Where no caller has set the bound and the daemon ends something first, it is asked how long that
//! takes, and the bound becomes longer by what the first stage lacks. What is announced on the
//! console is the bound that came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::machine::{self, Power};
use kernel::pidfd;
use kernel::poll::{self, Deadline};
use kernel::signal::Signal;
use kernel::wait::{self, Reap, Target};
use kernel::{clone, process};
use rustix::process::Pid;

use super::Node;
use super::groups::CellInit;
use crate::again::again;
use crate::protocol::{FIRST_PART, NodeEvent, PowerMode, Role, longer_by};

/// How often cell-inits of an earlier node-init are checked: they aren't this one's children, so no
/// signal reports their end.
const LOOK: Duration = Duration::from_millis(50);

/// How long the daemon has to say what it needs: it is asked at once, and looks at its units.
const ANSWER: Duration = Duration::from_secs(2);

/// The pause between two attempts to power the machine off.
const ANOTHER_TRY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    First,
    Cells,
    Killing,
    Daemon,
}

/// A shutdown under way.
pub(super) struct Shutdown {
    mode: PowerMode,
    end: Deadline,
    /// Node-init's own, or a caller's: what the later stages are parts of.
    bound: Duration,
    /// By which the first stage is longer than its part.
    longer: Duration,
    /// Why the machine goes down, until that and the bound are on the console; and until when the
    /// daemon's word on the bound is waited for.
    untold: Option<(String, Deadline)>,
    stage: Stage,
    stage_end: Deadline,
    cells_end: Deadline,
    /// Cell-inits that have not got their stop signal yet, because they may have nested cells.
    waiting: Vec<CellInit>,
    /// Cell-inits that have got it.
    told: Vec<CellInit>,
    /// Whether some of them are of an earlier node-init, so not this one's children.
    foreign: bool,
}

impl Shutdown {
    /// When the shutdown must be looked at again, if no event comes before.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        let watched = self.stage == Stage::Cells && self.foreign;
        Some(match &self.untold {
            Some((_, answer)) => *answer,
            None if watched => Deadline::after(LOOK),
            None => self.stage_end,
        })
    }

    /// Whether the bound is node-init's own, and the daemon may still say what it needs.
    const fn grows(&self) -> bool {
        self.untold.is_some()
    }

    /// The daemon needs this long in the first stage.
    fn lengthen(&mut self, needs: Duration) {
        self.longer = longer_by(self.bound, needs);
        let longer = self.longer;
        for deadline in [&mut self.end, &mut self.stage_end, &mut self.cells_end] {
            *deadline = match deadline.remaining() {
                Some(left) => Deadline::after(left.saturating_add(longer)),
                None => Deadline::NEVER,
            };
        }
    }

    /// The announcement, for a daemon that connects during the shutdown.
    pub(super) fn announcement(&self) -> NodeEvent {
        let left = self.end.remaining().unwrap_or_default();
        NodeEvent::ShuttingDown {
            mode: self.mode,
            bound_ms: u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
            grows: self.grows(),
        }
    }
}

/// Tells each that has none inside any more to end.
fn tell_innermost(waiting: &mut Vec<CellInit>, told: &mut Vec<CellInit>) {
    waiting.retain(|cell| !cell.has_ended());
    told.retain(|cell| !cell.has_ended());
    let mut innermost: BTreeMap<usize, (usize, bool)> = BTreeMap::new();
    for cell in waiting.iter().chain(told.iter()) {
        let rank = innermost.entry(cell.tenant()).or_default();
        *rank = cell.rank().max(*rank);
    }
    let is_innermost = |cell: &mut CellInit| innermost.get(&cell.tenant()) == Some(&cell.rank());
    for cell in waiting.extract_if(.., is_innermost) {
        let _ = pidfd::send_signal(&cell.pidfd, Signal::TERM);
        told.push(cell);
    }
}

impl Node {
    pub(super) fn begin_shutdown(&mut self, mode: PowerMode, bound: Option<Duration>, why: &str) {
        if self.shutdown.is_some() {
            return;
        }
        // A daemon that isn't there, or ends nothing first, has nothing to say on it.
        let asks = bound.is_none() && self.daemon.ends_first && self.daemon.child.is_some();
        let answer = Deadline::after(if asks { ANSWER } else { Duration::ZERO });
        let bound = bound
            .unwrap_or(self.options.shutdown_bound)
            .min(self.options.shutdown_bound);
        let mode = if self.role == Role::Machine {
            mode
        } else {
            PowerMode::Exit
        };
        let mut shutdown = Shutdown {
            mode,
            end: Deadline::after(bound),
            bound,
            longer: Duration::ZERO,
            untold: Some((why.to_owned(), answer)),
            stage: Stage::First,
            stage_end: Deadline::after(bound.mul_f64(FIRST_PART)),
            cells_end: Deadline::after(bound.mul_f64(0.7)),
            waiting: Vec::new(),
            told: Vec::new(),
            foreign: false,
        };
        if !asks {
            self.tell_bound(&mut shutdown);
        }
        self.post(&shutdown.announcement(), &[]);
        self.notify("STOPPING=1");
        self.shutdown = Some(shutdown);
    }

    /// Says how long it takes, once.
    fn tell_bound(&self, shutdown: &mut Shutdown) {
        let Some((why, _)) = shutdown.untold.take() else {
            return;
        };
        let (mode, bound) = (shutdown.mode, shutdown.bound + shutdown.longer);
        self.console
            .promise(&format!("{why}: {mode:?} follows, in {bound:?} at most"));
    }

    /// The daemon has said how long it needs in the first stage.
    pub(super) fn lengthen_shutdown(&mut self, needs: Duration) {
        let Some(mut shutdown) = self.shutdown.take() else {
            return;
        };
        if shutdown.grows() && shutdown.stage == Stage::First {
            shutdown.lengthen(needs);
            self.tell_bound(&mut shutdown);
            // A service manager above gives so much, too.
            let bound = (shutdown.bound + shutdown.longer).as_micros();
            self.notify(&format!("EXTEND_TIMEOUT_USEC={bound}"));
        }
        self.shutdown = Some(shutdown);
    }

    /// Tells the cells to end.
    fn end_cells(&self, shutdown: &mut Shutdown) {
        shutdown.waiting = self.groups.cell_inits();
        let is_foreign = |cell: &CellInit| self.cells.by_pid(cell.pid).is_none();
        shutdown.foreign = shutdown.waiting.iter().any(is_foreign);
        tell_innermost(&mut shutdown.waiting, &mut shutdown.told);
        for cell in &shutdown.waiting {
            // Its workloads stop in parallel with those inside.
            let _ = pidfd::send_signal(&cell.pidfd, Signal::USR1);
        }
    }

    pub(super) fn advance_shutdown(&mut self) {
        let Some(mut shutdown) = self.shutdown.take() else {
            return;
        };
        let waits = |(_, answer): &(String, Deadline)| !answer.passed();
        if self.daemon.child.is_none() || !shutdown.untold.as_ref().is_some_and(waits) {
            self.tell_bound(&mut shutdown);
        }
        while self.stage_is_over(&mut shutdown) {
            match shutdown.stage {
                Stage::First => {
                    self.tell_bound(&mut shutdown);
                    self.end_cells(&mut shutdown);
                    shutdown.stage = Stage::Cells;
                    shutdown.stage_end = shutdown.cells_end;
                }
                Stage::Cells => {
                    self.groups.kill_cells();
                    shutdown.stage = Stage::Killing;
                    shutdown.stage_end = Deadline::after(shutdown.bound.mul_f64(0.1));
                }
                Stage::Killing => {
                    self.signal_daemon(Signal::TERM);
                    shutdown.stage = Stage::Daemon;
                    shutdown.stage_end = Deadline::after(shutdown.bound.mul_f64(0.1));
                }
                Stage::Daemon => {
                    self.signal_daemon(Signal::KILL);
                    self.finish(shutdown.mode, shutdown.end)
                }
            }
        }
        self.shutdown = Some(shutdown);
    }

    fn stage_is_over(&self, shutdown: &mut Shutdown) -> bool {
        if shutdown.stage_end.passed() || shutdown.end.passed() {
            return true;
        }
        match shutdown.stage {
            Stage::First => !self.daemon.ends_first || self.daemon.child.is_none(),
            Stage::Cells | Stage::Killing => {
                if !shutdown.waiting.is_empty() || shutdown.foreign {
                    tell_innermost(&mut shutdown.waiting, &mut shutdown.told);
                } else {
                    // The ends of its own children come to node-init by signals.
                    shutdown.told.clear();
                }
                let inits = !shutdown.waiting.is_empty() || !shutdown.told.is_empty();
                let daemon_owes = self.news && self.daemon.child.is_some();
                !self.cells.any_alive() && !inits && !daemon_owes
            }
            Stage::Daemon => self.daemon.child.is_none(),
        }
    }

    /// The last steps; nothing comes back from them.
    fn finish(&mut self, mode: PowerMode, end: Deadline) -> ! {
        if self.role != Role::Machine {
            self.groups.remove_empty();
            self.console.say("stopped");
            process::exit(0)
        }
        self.end_watchdog(mode);
        if let Err(error) = again(|| super::machine::save_seed(&self.options.state_dir)) {
            self.console.say(&format!("the next boot's seed: {error}"));
        }
        self.kill_all(end);
        // Writing back can take for ever on a broken disk; the bound holds all the same.
        self.in_a_child(end, || {
            machine::sync();
            super::boot::unmount_all();
            machine::sync();
        });
        self.console.promise("the end");
        let how = match mode {
            PowerMode::Reboot => Power::Restart,
            PowerMode::Halt => Power::Halt,
            PowerMode::PowerOff | PowerMode::Exit => Power::Off,
        };
        // PID 1 must not end: the kernel would panic.
        let mut said = false;
        loop {
            if let Err(error) = machine::power(how)
                && !std::mem::replace(&mut said, true)
            {
                self.console
                    .say(&format!("{error}: switch the machine off by hand"));
            }
            let again = Deadline::after(ANOTHER_TRY);
            let _ = poll::wait(&self.signals, poll::Interest::Readable, again);
            let _ = self.signals.next();
        }
    }

    /// Runs the steps in a child and waits for it until the time is over.
    fn in_a_child(&self, end: Deadline, steps: impl FnOnce()) {
        match clone::clone(clone::Options::default()) {
            Ok(clone::Cloned::Child) => {
                steps();
                process::exit(0)
            }
            Ok(clone::Cloned::Parent(_, pidfd)) => {
                if !poll::wait(&pidfd, poll::Interest::Readable, end).unwrap_or(false) {
                    self.console
                        .say("syncing the disks takes too long; some data may be lost");
                }
            }
            Err(_) => steps(),
        }
    }
}

impl Node {
    /// Ends every process but this one, and waits until the last is reaped or the time is over.
    fn kill_all(&self, end: Deadline) {
        // The "group" of PID 1 is every process: kill(-1).
        let _ = rustix::process::kill_process_group(Pid::INIT, rustix::process::Signal::KILL);
        loop {
            match wait::try_wait(Target::Any, Reap::Yes) {
                Ok(Some(_)) => {}
                // No child is left.
                Err(_) => return,
                Ok(None) if end.passed() => return,
                Ok(None) => {
                    let _ = poll::wait(&self.signals, poll::Interest::Readable, end);
                    while let Ok(Some(_)) = self.signals.next() {}
                }
            }
        }
    }
}
