// SPDX-License-Identifier: Apache-2.0
//! What is the machine's and not ours: mounts, swaps and devices are up where it has them. Mounts
//! are looked at whenever the kernel says that its table has changed; a device is waited for while
//! a job starts it.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use units::job::engine::Ending;
use units::job::{Activity, JobType, World};
use units::name::{UnitName, UnitType};
use units::time::Span;

use super::{Happened, Manager};
use crate::unit::live::Machine;
use crate::unit::mount;
use crate::unit::online;
use crate::unit::path::watch::{Since, wait};
use crate::unit::path::{Kind, Rules};

/// The kernel's table of mounts, which says when it has changed (proc(5)).
pub(super) type Table = Arc<AsyncFd<File>>;

/// Opens it; without it mounts are looked at when units are loaded.
pub(super) fn table() -> Option<Table> {
    let file = File::open("/proc/self/mountinfo");
    let watched = file.and_then(|it| runtime::watched::watch(it, Interest::PRIORITY));
    match watched {
        Ok(watched) => Some(Arc::new(watched)),
        Err(error) => {
            tracing::error!(%error, "what is mounted by others is not seen");
            None
        }
    }
}

/// What is up once the disk's file systems are mounted.
const DISKS: &str = "local-fs.target";

/// Whether what a unit stands for is the machine's.
fn is_of_machine(unit: &UnitName) -> bool {
    mount::is_one(unit.kind()) || unit.kind() == UnitType::Device
}

impl Manager {
    /// What the disk's units have mounted is there for cells to come, too.
    pub(super) fn show_disks(&mut self, unit: &UnitName, now: Activity) {
        if unit.as_str() != DISKS || now != Activity::Active || !self.is_machine {
            return;
        }
        let init = self.runs.runtime.node_init().clone();
        self.jobs.spawn(async move {
            init.renew_root().await;
            Happened::Nothing
        });
    }

    /// Waits for the next change of mounts.
    pub(super) fn watch_mounts(&mut self) {
        let Some(table) = self.mounts.clone() else {
            return;
        };
        self.jobs.spawn(async move {
            match table.ready(Interest::PRIORITY).await {
                Ok(mut ready) => {
                    ready.clear_ready();
                    Happened::Mounts
                }
                Err(_) => Happened::Nothing,
            }
        });
    }

    /// Mounts have changed: units of what has come are up, of what has gone they are down.
    pub(super) fn mounts_changed(&mut self) {
        self.watch_mounts();
        for unit in self.of_machine() {
            let before = self.known.activity(&unit);
            if self.look_at(&unit) {
                self.changed(&unit, before);
            }
        }
    }

    /// Looks at all of them, where it isn't known yet.
    pub(super) fn look_at_machine(&mut self) {
        self.look_at_each(&self.of_machine());
    }

    /// Looks at those of these units that are the machine's.
    pub(super) fn look_at_each(&mut self, units: &[UnitName]) {
        for unit in units.iter().filter(|it| is_of_machine(it)) {
            self.look_at(unit);
        }
    }

    fn of_machine(&self) -> Vec<UnitName> {
        let all = self.known.table.all().map(|(name, _)| name);
        all.filter(|it| is_of_machine(it)).cloned().collect()
    }

    pub(super) fn is_there(&self, unit: &UnitName) -> Option<bool> {
        // What udev's rules say of it counts before its file.
        if let Some(ready) = self.devices.known.is_ready(unit) {
            return Some(ready);
        }
        let loaded = self.known.table.find(unit);
        mount::is_there(unit, loaded.map(|it| &*it.unit))
    }

    /// Takes in whether the machine has it; whether that is new.
    pub(super) fn look_at(&mut self, unit: &UnitName) -> bool {
        let Some(is_there) = self.is_there(unit) else {
            return false;
        };
        match &mut self.known.live_mut(unit).machine {
            Machine::Service(state) => mount::seen(state, is_there),
            Machine::Plain(was) => std::mem::replace(was, is_there) != is_there,
            _ => false,
        }
    }

    /// A mount or a swap that is started and is there already: nothing is to be done. Whether it
    /// was one.
    pub(super) fn is_made(&mut self, unit: &UnitName) -> bool {
        if !mount::is_one(unit.kind()) || self.is_there(unit) != Some(true) {
            return false;
        }
        let live = self.known.live_mut(unit);
        live.machine = Machine::Service(mount::there());
        live.failed = None;
        live.words.clear();
        true
    }

    /// The target of a network is started: that is waited for.
    pub(super) fn await_network(&mut self, unit: &UnitName) {
        let unit = unit.clone();
        self.jobs.spawn(async move {
            let words = online::wait().await;
            Happened::Online(unit, words)
        });
    }

    /// The machine is on a network, or was waited for long enough.
    pub(super) fn network_came(&mut self, unit: &UnitName, words: Option<String>) {
        let starts = self.engine.job(unit).map(|it| it.kind) == Some(JobType::Start);
        if !starts {
            // It was called off.
            return;
        }
        if let Some(words) = &words {
            tracing::warn!(%unit, words, "what needs a network goes on without");
        }
        let before = self.known.activity(unit);
        let live = self.known.live_mut(unit);
        live.words = words.unwrap_or_default();
        live.failed = None;
        live.machine = Machine::Plain(true);
        self.changed(unit, before);
    }

    /// A device is started: it is waited for, as long as its unit says.
    pub(super) fn await_device(&mut self, unit: &UnitName) {
        let loaded = self.known.table.find(unit);
        let time = loaded.map_or(Span::from_secs(90), |it| mount::device_timeout(&it.unit));
        let rules = Rules {
            watches: vec![(Kind::Exists, mount::device(unit).unwrap_or_default())],
            makes: None,
            trigger_interval: Span::INFINITY,
            trigger_burst: 0,
        };
        let unit = unit.clone();
        self.jobs.spawn(async move {
            let comes = wait(rules, Vec::new(), Since::Start);
            let came = match time.micros() {
                Some(micros) => tokio::time::timeout(Duration::from_micros(micros), comes).await,
                None => Ok(comes.await),
            };
            let words = match came {
                Ok(Ok(_)) => None,
                Ok(Err(words)) => Some(words),
                Err(_) => Some(format!("it has not come within {time}")),
            };
            Happened::Device(unit, words)
        });
    }

    /// A device that is there and not ready: as long as its unit says.
    fn await_ready(&mut self, unit: &UnitName) {
        let loaded = self.known.table.find(unit);
        let time = loaded.map_or(Span::from_secs(90), |it| mount::device_timeout(&it.unit));
        let Some(micros) = time.micros() else {
            return;
        };
        let unit = unit.clone();
        self.jobs.spawn(async move {
            // The time-out itself; what udev says comes by its own event.
            tokio::time::sleep(Duration::from_micros(micros)).await;
            let words = format!("udev has not called it ready within {time}");
            Happened::Device(unit, Some(words))
        });
    }

    /// A device that was waited for is there, or not.
    pub(super) fn device_came(&mut self, unit: &UnitName, words: Option<String>) {
        let before = self.known.activity(unit);
        let is_there = self.look_at(unit) || self.is_there(unit) == Some(true);
        if is_there {
            return self.changed(unit, before);
        }
        if words.is_none() && self.devices.known.is_ready(unit) == Some(false) {
            // Its file is there, and it may not be used yet: udev's next word counts.
            return self.await_ready(unit);
        }
        tracing::warn!(%unit, words, "a device is not there");
        self.known.live_mut(unit).words = words.unwrap_or_default();
        // As under systemd it hasn't failed by that: who waits for it can't go on.
        if self.engine.job(unit).map(|it| it.kind) == Some(JobType::Start) {
            self.end_job(unit, Ending::TimedOut);
        }
    }
}
