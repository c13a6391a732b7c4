// SPDX-License-Identifier: Apache-2.0
//! The machine's clock was set, or its time zone is another: timers that wait for that elapse
//! (systemd.timer(5), OnClockChange=, OnTimezoneChange=), and the others are planned anew.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use kernel::time::{Clock, Timer};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use units::name::{UnitName, UnitType};

use super::{Happened, Manager};
use crate::unit::live::Machine;
use crate::unit::steps::timer;

/// Where a link to the machine's zone is, and its name there.
const FOLDER: &str = "/etc";
const ZONE: &str = "localtime";
/// Bytes of events that are read at a time.
const EVENTS: usize = 4096;
/// So many events are read at once: as many as the kernel keeps.
const MOST: usize = 16 * 1024;

/// What has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Clock,
    Zone,
}

impl Change {
    /// What a timer that elapses by it says.
    const fn directive(self) -> &'static str {
        match self {
            Change::Clock => "OnClockChange",
            Change::Zone => "OnTimezoneChange",
        }
    }
}

/// What tells of both; without one, timers that wait for it don't elapse, and the log says so.
#[derive(Clone, Default)]
pub(super) struct Watch {
    clock: Option<Arc<AsyncFd<Timer>>>,
    zone: Option<Arc<AsyncFd<OwnedFd>>>,
}

impl Watch {
    pub(super) fn new() -> Watch {
        let told = |error: &dyn std::fmt::Display, what| {
            tracing::error!(%error, "changes of {what} are not seen");
        };
        let clock = of_clock().inspect_err(|error| told(error, "the clock"));
        let zone = of_zone(Path::new(FOLDER)).inspect_err(|error| told(error, "the time zone"));
        Watch {
            clock: clock.ok().map(Arc::new),
            zone: zone.ok().map(Arc::new),
        }
    }
}

fn of_clock() -> std::io::Result<AsyncFd<Timer>> {
    let failed = |error: kernel::Error| std::io::Error::from_raw_os_error(error.errno());
    let timer = Timer::new(Clock::Realtime).map_err(failed)?;
    timer.watch_clock().map_err(failed)?;
    runtime::watched::watch(timer, Interest::READABLE)
}

fn of_zone(folder: &Path) -> std::io::Result<AsyncFd<OwnedFd>> {
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let of = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE;
    inotify::add_watch(&inotify, folder, of | WatchFlags::DELETE)?;
    runtime::watched::watch(inotify, Interest::READABLE)
}

/// Whether one of the events that wait is of that name.
fn names(inotify: &OwnedFd, wanted: &str) -> bool {
    let mut room = [MaybeUninit::uninit(); EVENTS];
    let mut events = inotify::Reader::new(inotify, &mut room);
    let mut found = false;
    for _ in 0..MOST {
        // At the end of what waits: `EAGAIN`.
        let Ok(event) = events.next() else { break };
        let name = event.file_name().map(|it| OsStr::from_bytes(it.to_bytes()));
        // Where events were lost, it may be.
        found |= name.is_none_or(|name| name == wanted);
    }
    found
}

impl Manager {
    /// Waits for the next change of the clock.
    pub(super) fn watch_clock(&mut self) {
        let clock = self.clock.clock.clone();
        self.await_change(clock, Timer::clock_was_set, Change::Clock);
    }

    /// Waits for the next change of the time zone.
    pub(super) fn watch_zone(&mut self) {
        let zone = self.clock.zone.clone();
        self.await_change(zone, |inotify| names(inotify, ZONE), Change::Zone);
    }

    /// Waits until what a descriptor tells is the change.
    fn await_change<T: AsRawFd + Send + Sync + 'static>(
        &mut self,
        descriptor: Option<Arc<AsyncFd<T>>>,
        has_changed: impl Fn(&T) -> bool + Send + 'static,
        change: Change,
    ) {
        let Some(descriptor) = descriptor else {
            return;
        };
        self.jobs.spawn(async move {
            loop {
                let Ok(mut ready) = descriptor.readable().await else {
                    return Happened::Nothing;
                };
                ready.clear_ready();
                if has_changed(descriptor.get_ref()) {
                    return Happened::Clock(change);
                }
            }
        });
    }

    /// Timers that wait for it elapse, the others are planned anew.
    pub(super) fn clock_changed(&mut self, change: Change) {
        match change {
            Change::Clock => self.watch_clock(),
            Change::Zone => self.watch_zone(),
        }
        let live = self.known.live.keys();
        let timers = live.filter(|it| it.kind() == UnitType::Timer);
        for unit in timers.cloned().collect::<Vec<UnitName>>() {
            let loaded = self.known.table.find(&unit);
            let settings = loaded.map(|it| &it.unit.settings);
            let waits = settings.and_then(|it| it.flag(change.directive())) == Some(true);
            let now = self.now();
            let Machine::Timer(state) = &mut self.known.live_mut(&unit).machine else {
                continue;
            };
            if !state.active {
                continue;
            }
            // Times of calendars are others now.
            (state.calendar, state.next_real) = (None, None);
            match waits {
                true => {
                    timer::elapsed(state, now);
                    self.start_triggered(&unit, &format!("{unit}: {}", change.directive()));
                }
                false => self.plan_timer(&unit),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn another_zone_is_seen_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let watch = of_zone(folder.path()).unwrap();
        std::fs::write(at("hosts"), "").unwrap();
        watch.readable().await.unwrap().clear_ready();
        assert!(!names(watch.get_ref(), ZONE));
        // As timedatectl and Debian's tzdata replace it.
        std::os::unix::fs::symlink("/usr/share/zoneinfo/Asia/Tokyo", at("new")).unwrap();
        std::fs::rename(at("new"), at(ZONE)).unwrap();
        watch.readable().await.unwrap().clear_ready();
        assert!(names(watch.get_ref(), ZONE));
        assert!(!names(watch.get_ref(), ZONE), "it is told once");
    }
}
