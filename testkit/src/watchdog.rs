// SPDX-License-Identifier: Apache-2.0
//! A bound for one use of a node. Past it the machine's power is cut, so that every wait for the
//! node ends, and the last lines of the console are printed.
//!
//! An emulator may stand still without ending: its processors are busy with each other, and the
//! guest gets nowhere. Called by the stories.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::machine::Machine;
use crate::node::tail;

/// Over this time it is looked how much the emulator does.
const LOOK: Duration = Duration::from_secs(2);

/// Cuts the power of a node's machine, whichever of its boots it is in.
#[derive(Clone, Debug)]
pub(crate) struct PowerCord(Arc<Mutex<(u32, OwnedFd)>>);

impl PowerCord {
    pub(crate) fn of(machine: &Machine) -> Result<Self> {
        Ok(Self(Arc::new(Mutex::new(process(machine)?))))
    }

    /// From now on it is this machine's.
    pub(crate) fn plug(&self, machine: &Machine) -> Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = process(machine)?;
        Ok(())
    }

    fn pid(&self) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn pull(&self) {
        let process = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An error says that it is off already.
        let _ = pidfd_send_signal(&process.1, Signal::KILL);
    }
}

fn process(machine: &Machine) -> Result<(u32, OwnedFd)> {
    let pid = machine.pid();
    let pidfd = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(number) = pidfd else {
        bail!("{pid} is no process id")
    };
    Ok((pid, pidfd_open(number, PidfdFlags::empty())?))
}

/// Waits for the bound; dropped, it is called off.
#[derive(Debug)]
pub struct Watchdog {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<Option<String>>>,
}

impl Watchdog {
    pub(crate) fn start(cord: PowerCord, console: PathBuf, limit: Duration) -> Self {
        let (over, is_over) = channel();
        let thread = std::thread::spawn(move || guard(&cord, &console, limit, &is_over));
        Self {
            over: Some(over),
            thread: Some(thread),
        }
    }

    /// Calls it off. An error says that it was too late: the power is cut.
    ///
    /// # Errors
    /// When the bound had passed, with what the emulator did then and what the console showed last.
    pub fn call_off(mut self) -> Result<()> {
        match self.end() {
            Some(seen) => bail!(seen),
            None => Ok(()),
        }
    }

    fn end(&mut self) -> Option<String> {
        drop(self.over.take());
        self.thread.take()?.join().ok().flatten()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// What was seen when the bound had passed.
fn guard(
    cord: &PowerCord,
    console: &Path,
    limit: Duration,
    is_over: &Receiver<()>,
) -> Option<String> {
    if is_over.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
        return None;
    }
    let before = processor_time(cord.pid());
    let _ = is_over.recv_timeout(LOOK);
    let used = processor_time(cord.pid()).saturating_sub(before);
    let said = tail(console);
    cord.pull();
    let busy = used.as_millis() * 100 / LOOK.as_millis();
    Some(format!(
        "the emulator stands still: after {limit:?} there was no end to it, and QEMU was busy with \
         {busy} % of a processor. Its power was cut; {said}"
    ))
}

/// The processor time of a process since its start, of user and system.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field may hold spaces and ends with the last parenthesis.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let times = fields.split(' ').skip(11).take(2);
    let ticks: u64 = times.filter_map(|field| field.parse::<u64>().ok()).sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn cord_of(pid: u32) -> PowerCord {
        let number = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let pidfd = pidfd_open(number, PidfdFlags::empty()).unwrap();
        PowerCord(Arc::new(Mutex::new((pid, pidfd))))
    }

    #[test]
    fn past_the_bound_the_power_is_cut_and_the_console_shown() {
        let scratch = tempfile::tempdir().unwrap();
        let console = scratch.path().join("console");
        fs::write(&console, "rcu: INFO: rcu_preempt self-detected stall\n").unwrap();
        let mut still = Command::new("sleep").arg("1000").spawn().unwrap();
        let watchdog = Watchdog::start(cord_of(still.id()), console, Duration::from_millis(50));
        assert!(!still.wait().unwrap().success(), "it was killed");
        let seen = watchdog.call_off().unwrap_err().to_string();
        assert!(seen.starts_with("the emulator stands still"), "{seen}");
        assert!(seen.contains("self-detected stall"), "{seen}");
        assert!(seen.contains("busy with 0 %"), "{seen}");
    }

    #[test]
    fn one_that_is_called_off_cuts_nothing() {
        let mut runs = Command::new("sleep").arg("1000").spawn().unwrap();
        let limit = Duration::from_secs(1000);
        let watchdog = Watchdog::start(cord_of(runs.id()), PathBuf::new(), limit);
        watchdog.call_off().unwrap();
        assert!(runs.try_wait().unwrap().is_none(), "it runs");
        runs.kill().unwrap();
        runs.wait().unwrap();
    }
}
