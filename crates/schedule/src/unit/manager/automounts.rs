// SPDX-License-Identifier: Apache-2.0
//! Automount units at work: who uses a point has its mount unit started, and goes on when that is
//! up. What isn't used for long is unmounted. The kernel's pipe is node-init's to keep: who waits
//! when a daemon dies is answered by the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use kernel::autofs::{Control, PACKET, Packet};
use model::unit::JobMode;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use units::depend::triggered;
use units::job::{Activity, JobType, World};
use units::name::{UnitName, UnitType};

use super::jobs::Wanted;
use super::{Happened, Manager};
use crate::unit::automount::{self, Point, Rules};
use crate::unit::kept::{DescriptorStore, Use};
use crate::unit::live::Machine;
use crate::unit::runs::Run;
use crate::unit::steps::{End, Outcome, Phase};

/// Numbers come one after the other, for all points together. So many behind the last one that was
/// written down may be those of a process that waits.
const AHEAD: u32 = 256;

/// A point that is there.
pub(super) struct Waited {
    rules: Rules,
    pipe: Arc<AsyncFd<OwnedFd>>,
    control: Arc<Control>,
    /// Under which number node-init keeps the pipe.
    kept: u64,
    /// Those who wait.
    tokens: BTreeSet<u32>,
    /// It is looked for what has expired.
    looks: bool,
}

/// All of them.
pub(super) type Points = BTreeMap<UnitName, Waited>;

/// What has come of an act.
pub(super) enum Told {
    /// A point was made, and is kept; or words.
    Made(UnitName, Result<(Point, u64), String>),
    /// The kernel has said something; `None`: the pipe has ended.
    Said(UnitName, Vec<Packet>, bool),
    /// It was looked for what has expired.
    Looked(UnitName),
    /// What was mounted beside is at its point; or words.
    Moved(Run, Result<(), String>),
}

impl Manager {
    pub(super) fn start_automount(&mut self, unit: &UnitName) {
        if !self.is_machine {
            // The kernel knows who may pass by the process group, which only a machine's init gives
            // to each daemon alike.
            let words = "automounts need a node that is the machine's init".to_owned();
            return self.automount_made(unit, Err(words));
        }
        let Some(loaded) = self.known.table.find(unit) else {
            return;
        };
        let rules = Rules::of(&loaded.unit);
        let (unit, descriptors) = (unit.clone(), self.triggers.descriptors.clone());
        self.jobs.spawn(async move {
            let place = rules.place.clone();
            let made = tokio::task::spawn_blocking(move || automount::make(&rules)).await;
            let made = match made.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(point) => match keep(&descriptors, &unit, &point).await {
                    Ok(number) => Ok((point, number)),
                    Err(words) => {
                        // The next daemon would know nothing of it.
                        let gone = move || automount::take_away(&place);
                        let _ = tokio::task::spawn_blocking(gone).await;
                        Err(words)
                    }
                },
                Err(words) => Err(words),
            };
            Happened::Automount(Told::Made(unit, made))
        });
    }

    pub(super) fn automount_told(&mut self, told: Told) {
        match told {
            Told::Made(unit, made) => self.automount_made(&unit, made),
            Told::Said(unit, packets, ended) => self.automount_said(&unit, packets, ended),
            Told::Looked(unit) => {
                if let Some(point) = self.points.get_mut(&unit) {
                    point.looks = false;
                }
                self.look_for_expired(&unit);
            }
            Told::Moved(run, moved) => {
                let end = match moved {
                    Ok(()) => End::Exited(0),
                    Err(words) => {
                        self.known.live_mut(&run.unit).words = words;
                        End::Exited(32)
                    }
                };
                self.ended_here(&run, end);
            }
        }
    }

    fn automount_made(&mut self, unit: &UnitName, made: Result<(Point, u64), String>) {
        let before = self.known.activity(unit);
        let starts = self.engine.job(unit).map(|it| it.kind) == Some(JobType::Start);
        let point = made.and_then(|(it, kept)| self.waited(unit, it, kept));
        match point {
            Ok(()) if starts => self.known.live_mut(unit).machine = Machine::Plain(true),
            // It was called off.
            Ok(()) => return self.stop_automount(unit),
            Err(words) => {
                let live = self.known.live_mut(unit);
                live.words = words;
                live.failed = Some(Outcome::Resources);
            }
        }
        self.changed(unit, before);
    }

    fn waited(&mut self, unit: &UnitName, point: Point, kept: u64) -> Result<(), String> {
        let loaded = self.known.table.find(unit).ok_or("its file is gone")?;
        let rules = Rules::of(&loaded.unit);
        let pipe = runtime::watched::watch(point.pipe, Interest::READABLE);
        let waited = Waited {
            rules,
            pipe: Arc::new(pipe.map_err(|error| error.to_string())?),
            control: point.control,
            kept,
            tokens: BTreeSet::new(),
            looks: false,
        };
        self.points.insert(unit.clone(), waited);
        self.await_use(unit);
        Ok(())
    }

    fn await_use(&mut self, unit: &UnitName) {
        let Some(point) = self.points.get(unit) else {
            return;
        };
        let (unit, pipe) = (unit.clone(), point.pipe.clone());
        self.jobs.spawn(async move {
            let (mut packets, mut ended) = (Vec::new(), false);
            while packets.is_empty() && !ended {
                let Ok(mut ready) = pipe.readable().await else {
                    ended = true;
                    break;
                };
                ended = take(pipe.get_ref(), &mut packets);
                ready.clear_ready();
            }
            Happened::Automount(Told::Said(unit, packets, ended))
        });
    }

    fn automount_said(&mut self, unit: &UnitName, packets: Vec<Packet>, ended: bool) {
        let Some(point) = self.points.get_mut(unit) else {
            return;
        };
        let mut is_wanted = false;
        for packet in packets {
            match packet {
                Packet::Missing { token } => {
                    // It may be there already, as one of those that an earlier daemon left.
                    point.tokens.insert(token);
                    is_wanted = true;
                }
                Packet::Expired { token } => {
                    let (place, control) = (point.rules.place.clone(), point.control.clone());
                    self.jobs.spawn_blocking(move || {
                        let done = automount::unmount(&place);
                        let answered = match done {
                            Ok(()) => control.ready(token),
                            Err(error) => control.fail(token, error.errno()),
                        };
                        if let Err(error) = answered {
                            let place = place.display();
                            tracing::warn!(%place, %error, "the kernel takes no answer");
                        }
                        Happened::Nothing
                    });
                }
            }
        }
        // Written before anything is done for them.
        self.keep_token(unit);
        if ended {
            // Another process has unmounted the point.
            return self.lose_automount(unit);
        }
        self.await_use(unit);
        let mount = self.mount_of(unit);
        if let Some(mount) = mount.filter(|_| is_wanted) {
            match self.known.activity(&mount) {
                Activity::Active => self.answer(unit, None),
                _ => self.wanted.push(Wanted {
                    why: format!("{unit} is used"),
                    unit: mount,
                    kind: JobType::Start,
                    mode: JobMode::Replace,
                }),
            }
        }
    }

    fn mount_of(&self, unit: &UnitName) -> Option<UnitName> {
        let loaded = self.known.table.find(unit)?;
        triggered(&loaded.unit).map(|it| self.id(&it))
    }

    /// The point that a mount goes to, where there is one.
    fn point_of(&self, mount: &UnitName) -> Option<UnitName> {
        let automount = mount.with_kind(UnitType::Automount)?;
        (mount.kind() == UnitType::Mount && self.points.contains_key(&automount))
            .then_some(automount)
    }

    /// Where a mount unit mounts at first, if not at its own place.
    pub(super) fn staged(&self, mount: &UnitName) -> Option<Result<PathBuf, String>> {
        self.point_of(mount)?;
        Some(automount::stage(&self.run, mount))
    }

    /// A mount command has ended: what it has mounted beside goes to its point. Whether it does.
    pub(super) fn moves(&mut self, run: &Run, end: End) -> bool {
        if run.step.phase != Phase::Start || end != End::Exited(0) {
            return false;
        }
        let Some(point) = self.point_of(&run.unit) else {
            return false;
        };
        let place = self.points.get(&point).map(|it| it.rules.place.clone());
        let (Some(place), Ok(stage)) = (place, automount::stage(&self.run, &run.unit)) else {
            return false;
        };
        let run = run.clone();
        self.jobs.spawn_blocking(move || {
            let moved = automount::move_to(&stage, &place);
            Happened::Automount(Told::Moved(run, moved))
        });
        true
    }

    /// A mount is up, down, or could not be made: who waits for it goes on.
    pub(super) fn tell_points(&mut self, mount: &UnitName, failed: bool) {
        let Some(unit) = self.point_of(mount) else {
            return;
        };
        match self.known.activity(mount) {
            Activity::Active => {
                self.answer(&unit, None);
                self.look_for_expired(&unit);
            }
            Activity::Failed => self.answer(&unit, Some(Errno::NODEV)),
            _ if failed => self.answer(&unit, Some(Errno::NODEV)),
            _ => {}
        }
    }

    fn answer(&mut self, unit: &UnitName, errno: Option<Errno>) {
        let Some(point) = self.points.get_mut(unit) else {
            return;
        };
        for token in std::mem::take(&mut point.tokens) {
            let answered = match errno {
                None => point.control.ready(token),
                Some(errno) => point.control.fail(token, errno.raw_os_error()),
            };
            if let Err(error) = answered {
                tracing::debug!(%unit, %error, "a process waits no more");
            }
        }
        if let Some((_, waits)) = &mut self.known.live_mut(unit).token {
            *waits = false;
            self.dirty.insert(unit.clone());
        }
    }

    /// Looks now and then whether what is mounted is used.
    fn look_for_expired(&mut self, unit: &UnitName) {
        let mount = self.mount_of(unit);
        let is_up = mount.is_some_and(|it| self.known.activity(&it) == Activity::Active);
        let Some(point) = self.points.get_mut(unit).filter(|it| is_up && !it.looks) else {
            return;
        };
        let Some(period) = point.rules.period() else {
            return;
        };
        point.looks = true;
        let (unit, control) = (unit.clone(), point.control.clone());
        self.jobs.spawn(async move {
            tokio::time::sleep(period).await;
            // It waits for our own answer.
            let looked = tokio::task::spawn_blocking(move || control.expire()).await;
            if let Ok(Err(error)) = looked {
                tracing::debug!(%unit, %error, "it is used again");
            }
            Happened::Automount(Told::Looked(unit))
        });
    }

    pub(super) fn stop_automount(&mut self, unit: &UnitName) {
        let before = self.known.activity(unit);
        self.answer(unit, Some(Errno::HOSTDOWN));
        if let Some(point) = self.points.remove(unit) {
            let (place, kept) = (point.rules.place, point.kept);
            let (unit, descriptors) = (unit.clone(), self.triggers.descriptors.clone());
            self.jobs.spawn(async move {
                let gone = tokio::task::spawn_blocking(move || automount::take_away(&place)).await;
                if let Err(error) = gone {
                    tracing::error!(%unit, %error, "an automount stays");
                }
                descriptors.forget(kept).await;
                Happened::Nothing
            });
        }
        self.known.live_mut(unit).machine = Machine::Plain(false);
        self.changed(unit, before);
    }

    /// The point has gone, and not by the manager's doing.
    fn lose_automount(&mut self, unit: &UnitName) {
        let before = self.known.activity(unit);
        if let Some(point) = self.points.remove(unit) {
            let descriptors = self.triggers.descriptors.clone();
            self.jobs.spawn(async move {
                descriptors.forget(point.kept).await;
                Happened::Nothing
            });
        }
        let live = self.known.live_mut(unit);
        live.machine = Machine::Plain(false);
        live.words = "its mount point was unmounted".to_owned();
        live.failed = Some(Outcome::Resources);
        self.changed(unit, before);
    }

    /// The last number, and whether a process waits: the next daemon answers it.
    fn keep_token(&mut self, unit: &UnitName) {
        let last = self
            .points
            .get(unit)
            .and_then(|it| it.tokens.last().copied());
        if let Some(last) = last {
            self.known.live_mut(unit).token = Some((last, true));
            self.dirty.insert(unit.clone());
        }
    }

    /// Goes on with the points of an earlier daemon.
    pub(super) async fn take_over_points(&mut self) {
        let units = self.known.live.keys();
        let units: Vec<UnitName> = units
            .filter(|it| it.kind() == UnitType::Automount)
            .cloned()
            .collect();
        for unit in units {
            let kept = self.triggers.left.remove(&(Use::Automount, unit.clone()));
            let kept = kept.and_then(|mut it| it.pop());
            if !self.known.activity(&unit).is_up() {
                continue;
            }
            let rules = self.known.table.find(&unit).map(|it| Rules::of(&it.unit));
            let (Some(kept), Some(rules)) = (kept, rules) else {
                self.lose_automount(&unit);
                continue;
            };
            let (number, fd) = (kept.number, kept.fd);
            let opened = tokio::task::spawn_blocking(move || automount::open(&rules, fd));
            let opened = opened.await.unwrap_or_else(|error| Err(error.to_string()));
            match opened.and_then(|point| self.waited(&unit, point, number)) {
                Ok(()) => self.take_over_who_waits(&unit),
                Err(words) => {
                    self.lose_automount(&unit);
                    self.known.live_mut(&unit).words = words;
                }
            }
        }
    }

    /// A process that the dead daemon read from the pipe and didn't answer waits under one of these
    /// numbers; for the others the kernel takes no answer.
    fn take_over_who_waits(&mut self, unit: &UnitName) {
        let known = self.known.live.get(unit).and_then(|it| it.token);
        let Some(mount) = self.mount_of(unit) else {
            return;
        };
        if let (Some((last, _)), Some(point)) = (known, self.points.get_mut(unit)) {
            let first = last.saturating_sub(AHEAD).max(1);
            point.tokens = (first..last.saturating_add(AHEAD)).collect();
        }
        if self.known.activity(&mount) == Activity::Active {
            self.answer(unit, None);
        } else if known.is_some_and(|(_, waits)| waits) {
            self.wanted.push(Wanted {
                why: format!("{unit} is used"),
                unit: mount,
                kind: JobType::Start,
                mode: JobMode::Replace,
            });
        }
        self.look_for_expired(unit);
    }
}

/// Has node-init keep the pipe of a point.
async fn keep(
    descriptors: &DescriptorStore,
    unit: &UnitName,
    point: &Point,
) -> Result<u64, String> {
    let copy = point.pipe.try_clone().map_err(|error| error.to_string())?;
    let kept = descriptors.keep(Use::Automount, unit, "pipe", copy).await;
    kept.map_err(|error| error.to_string())
}

/// What the pipe has; whether it has ended.
fn take(pipe: &OwnedFd, packets: &mut Vec<Packet>) -> bool {
    loop {
        let mut buffer = [0; PACKET];
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => return true,
            Ok(length) => packets.extend(buffer.get(..length).and_then(Packet::parse)),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
