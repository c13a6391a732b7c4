// SPDX-License-Identifier: Apache-2.0
//! What is remembered of a unit, and the world of jobs made of it. A row of the store each, as
//! JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use units::depend::{Dependency, Graph};
use units::job::{Activity, Load, World};
use units::name::{UnitName, UnitType};

use super::marker::Markers;
use super::mount;
use super::path;
use super::scope;
use super::socket::state as socket;
use super::steps::service::Sub;
use super::steps::{Outcome, service, timer};
use super::table::Table;

/// A unit's state by its type.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Machine {
    /// A mount or a swap, too: see [`super::mount`].
    Service(service::State),
    Timer(timer::State),
    Socket(socket::State),
    Path(path::State),
    Scope(scope::State),
    /// A target, a slice, or a device, which is there or not.
    Plain(bool),
}

impl Machine {
    /// Whether it is a service at what comes before its main process.
    pub(crate) fn is_before_main(&self) -> bool {
        match self {
            Machine::Service(state) => matches!(state.sub, Sub::Condition | Sub::StartPre),
            _ => false,
        }
    }
}

/// See the module. Times are `CLOCK_REALTIME` in nanoseconds unless said otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Live {
    pub(crate) machine: Machine,
    /// Starts within the limit's time: `CLOCK_BOOTTIME`.
    #[serde(default)]
    pub(crate) starts: Vec<u64>,
    /// The number of its last activation.
    #[serde(default)]
    pub(crate) activation: u64,
    /// When it was last begun: `CLOCK_BOOTTIME`.
    #[serde(default)]
    pub(crate) begun: Option<u64>,
    /// When it became active, and when it went down; real time and `CLOCK_BOOTTIME`.
    #[serde(default)]
    pub(crate) active: Option<(u64, u64)>,
    #[serde(default)]
    pub(crate) inactive: Option<(u64, u64)>,
    /// When it was active no more, likewise.
    #[serde(default)]
    pub(crate) left: Option<(u64, u64)>,
    /// When it was last something else.
    #[serde(default)]
    pub(crate) changed: u64,
    /// The condition or assertion that held it up last.
    #[serde(default)]
    pub(crate) condition: Option<String>,
    /// What went wrong last, in words.
    #[serde(default)]
    pub(crate) words: String,
    /// It failed before it was begun.
    #[serde(default)]
    pub(crate) failed: Option<Outcome>,
    /// The main process.
    #[serde(default)]
    pub(crate) main_pid: Option<u32>,
    /// What its commands share: of which activation, and by which key.
    #[serde(default)]
    pub(crate) shared: Option<(u64, String)>,
    /// Of its last activation: `$INVOCATION_ID`.
    #[serde(default)]
    pub(crate) invocation: String,
    /// What it says of itself (`STATUS=`).
    #[serde(default)]
    pub(crate) said: Option<String>,
    /// The unit whose end has asked for it last (`$MONITOR_UNIT`).
    #[serde(default)]
    pub(crate) monitored: Option<String>,
    /// What a timer or path unit that has started it tells it (`$TRIGGER_UNIT` and the like).
    #[serde(default)]
    pub(crate) trigger: Vec<(String, String)>,
    /// Of an automount: the last number under which a process has waited, and whether it does.
    #[serde(default)]
    pub(crate) token: Option<(u32, bool)>,
    /// What is to be done with it later (`Markers=`).
    #[serde(default, skip_serializing_if = "Markers::is_empty")]
    pub(crate) markers: Markers,
}

impl Live {
    pub(crate) fn new(kind: UnitType) -> Live {
        let machine = match kind {
            UnitType::Service | UnitType::Mount | UnitType::Swap => {
                Machine::Service(service::State::default())
            }
            UnitType::Timer => Machine::Timer(timer::State::default()),
            UnitType::Socket => Machine::Socket(socket::State::default()),
            UnitType::Path => Machine::Path(path::State::default()),
            UnitType::Scope => Machine::Scope(scope::State::default()),
            _ => Machine::Plain(false),
        };
        Live {
            machine,
            starts: Vec::new(),
            activation: 0,
            begun: None,
            active: None,
            inactive: None,
            left: None,
            changed: 0,
            condition: None,
            words: String::new(),
            failed: None,
            main_pid: None,
            shared: None,
            invocation: String::new(),
            said: None,
            monitored: None,
            trigger: Vec::new(),
            token: None,
            markers: Markers::new(),
        }
    }

    pub(crate) fn activity(&self) -> Activity {
        let own = match &self.machine {
            Machine::Service(state) => state.sub.activity(),
            Machine::Socket(state) => state.sub.activity(),
            Machine::Path(state) => state.sub.activity(),
            Machine::Scope(state) => state.sub.activity(),
            Machine::Timer(state) if state.active => Activity::Active,
            Machine::Plain(true) => Activity::Active,
            Machine::Timer(_) | Machine::Plain(false) => Activity::Inactive,
        };
        match (own, self.failed) {
            (Activity::Inactive, Some(_)) => Activity::Failed,
            (own, _) => own,
        }
    }

    /// `SubState=`.
    pub(crate) fn sub(&self, kind: UnitType) -> &'static str {
        if self.activity() == Activity::Failed {
            return "failed";
        }
        match &self.machine {
            Machine::Service(state) => mount::sub(kind, state.sub).unwrap_or(state.sub.as_str()),
            Machine::Socket(state) => state.sub.as_str(),
            Machine::Path(state) => state.sub.as_str(),
            Machine::Scope(state) => state.sub.as_str(),
            Machine::Timer(state) => match (state.active, state.running) {
                (false, _) => "dead",
                (true, true) => "running",
                (true, false) if state.next_real.is_none() && state.next_boot.is_none() => {
                    "elapsed"
                }
                (true, false) => "waiting",
            },
            Machine::Plain(false) => "dead",
            Machine::Plain(true) => match kind {
                UnitType::Device => "plugged",
                UnitType::Automount => "waiting",
                _ => "active",
            },
        }
    }

    /// `Result=`.
    pub(crate) fn result(&self) -> Outcome {
        match (&self.machine, self.failed) {
            (_, Some(outcome)) => outcome,
            (Machine::Service(state), None) => state.result,
            (Machine::Socket(state), None) => state.result,
            (Machine::Path(state), None) => state.result,
            (Machine::Scope(state), None) => state.result,
            _ => Outcome::Success,
        }
    }

    /// When time matters next: `CLOCK_BOOTTIME`.
    pub(crate) fn wake(&self) -> Option<u64> {
        match &self.machine {
            Machine::Service(state) => [state.deadline, state.watchdog].into_iter().flatten().min(),
            Machine::Timer(state) if state.active => state.next_boot,
            Machine::Scope(state) => state.deadline,
            _ => None,
        }
    }

    /// Forgets times that have passed.
    pub(crate) fn drop_passed(&mut self, now: timer::Now) {
        let passed = |at: &mut u64, now: u64| *at <= now;
        match &mut self.machine {
            Machine::Service(state) => {
                state.deadline.take_if(|at| passed(at, now.boot));
                state.watchdog.take_if(|at| passed(at, now.boot));
            }
            Machine::Timer(state) => {
                state.next_boot.take_if(|at| passed(at, now.boot));
                state.next_real.take_if(|at| passed(at, now.real));
            }
            Machine::Scope(state) => {
                state.deadline.take_if(|at| passed(at, now.boot));
            }
            Machine::Socket(_) | Machine::Path(_) | Machine::Plain(_) => {}
        }
    }

    /// The same by the real clock.
    pub(crate) fn wake_real(&self) -> Option<u64> {
        match &self.machine {
            Machine::Timer(state) if state.active => state.next_real,
            _ => None,
        }
    }
}

/// The word of `ActiveState=`.
pub(crate) const fn word(activity: Activity) -> &'static str {
    match activity {
        Activity::Inactive => "inactive",
        Activity::Failed => "failed",
        Activity::Activating => "activating",
        Activity::Active => "active",
        Activity::Reloading => "reloading",
        Activity::Deactivating => "deactivating",
    }
}

/// All that jobs are planned by.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) table: Table,
    pub(crate) live: BTreeMap<UnitName, Live>,
}

impl World for Known {
    fn graph(&self) -> &Graph {
        self.table.graph()
    }

    fn activity(&self, unit: &UnitName) -> Activity {
        let live = self.live.get(unit);
        live.map_or(Activity::Inactive, Live::activity)
    }

    fn load(&self, unit: &UnitName) -> Load {
        match self.table.find(unit) {
            None => Load::NotFound,
            Some(loaded) => loaded.load(),
        }
    }

    fn up(&self) -> Vec<UnitName> {
        let up = self.live.iter().filter(|(_, live)| live.activity().is_up());
        up.map(|(unit, _)| unit.clone()).collect()
    }

    fn ignores_isolation(&self, unit: &UnitName) -> bool {
        let loaded = self.table.find(unit);
        let given = loaded.and_then(|it| it.unit.settings.flag("IgnoreOnIsolate"));
        // systemd.unit(5), IgnoreOnIsolate=: true for these types.
        given.unwrap_or(!matches!(
            unit.kind(),
            UnitType::Service
                | UnitType::Target
                | UnitType::Timer
                | UnitType::Path
                | UnitType::Socket
        ))
    }

    fn may_isolate(&self, unit: &UnitName) -> bool {
        let loaded = self.table.find(unit);
        loaded.and_then(|it| it.unit.settings.flag("AllowIsolate")) == Some(true)
    }

    fn stops_when_unneeded(&self, unit: &UnitName) -> bool {
        let loaded = self.table.find(unit);
        loaded.and_then(|it| it.unit.settings.flag("StopWhenUnneeded")) == Some(true)
    }
}

impl Known {
    pub(crate) fn on(&self, unit: &UnitName, kind: Dependency) -> Vec<UnitName> {
        self.graph().on(unit, kind)
    }

    pub(crate) fn of_others(&self, unit: &UnitName, kind: Dependency) -> Vec<UnitName> {
        self.graph().of_others(unit, kind)
    }

    pub(crate) fn live_mut(&mut self, unit: &UnitName) -> &mut Live {
        let kind = unit.kind();
        self.live
            .entry(unit.clone())
            .or_insert_with(|| Live::new(kind))
    }
}
