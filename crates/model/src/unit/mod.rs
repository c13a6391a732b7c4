// SPDX-License-Identifier: Apache-2.0
//! What is said of systemd units, and what may be asked for: plain values between the unit manager
//! (`schedule::unit`) and the wire. The words are systemd's own.

pub mod why;

use crate::time::Timestamp;

/// What is to be done to a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// It is to be active.
    Start,
    /// It is not to be active.
    Stop,
    /// It is stopped where it is active, and started.
    Restart,
    /// The same, where it is active.
    TryRestart,
    /// It reads its configuration again.
    Reload,
    /// The same, or a restart where it can't.
    ReloadOrRestart,
}

/// How a job goes together with others (systemctl(1), `--job-mode=`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum JobMode {
    /// Jobs that are there give way.
    #[default]
    Replace,
    /// Refused where it would undo a job that is there.
    Fail,
    /// What isn't pulled in is stopped.
    Isolate,
    /// The unit alone, in no order.
    IgnoreDependencies,
    /// The unit alone, in its order.
    IgnoreRequirements,
    /// Jobs that are there give way, and these to none that comes later.
    ReplaceIrreversibly,
    /// All other jobs are cancelled.
    Flush,
}

/// Which processes of a unit a signal is for (systemctl(1), `--kill-whom=`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Whom {
    /// Every one, whichever process has started it.
    #[default]
    All,
    /// The main process.
    Main,
    /// The command beside it.
    Control,
    /// Those two, and nothing that they have started.
    MainAndControl,
}

/// A change of what is enabled or masked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileVerb {
    /// Link it as its `[Install]` says.
    Enable,
    /// Remove its links.
    Disable,
    /// Nothing may start it.
    Mask,
    /// End that.
    Unmask,
    /// Enable or disable it as the machine's presets say; without names, all that folders have.
    Preset(PresetMode),
    /// The link `default.target` is to lead to it.
    SetDefault,
}

/// What presetting does (systemctl(1), `--preset-mode=`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PresetMode {
    /// It enables and disables.
    #[default]
    Full,
    /// It enables alone.
    EnableOnly,
    /// It disables alone.
    DisableOnly,
}

/// A link that was made (`target`), or removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileChange {
    /// The link's own path.
    pub path: String,
    /// Where it leads; empty: it is gone.
    pub target: String,
}

/// What came of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobDone {
    /// Its number; 0: there was nothing to do.
    pub id: u64,
    /// `done`, `failed`, `dependency`, `canceled`, `timeout`, `skipped`; empty: it goes on.
    pub result: &'static str,
    /// What gave way: wanted units that were left out, cycles that were broken.
    pub notes: Vec<String>,
    /// The unit afterwards.
    pub unit: UnitStatus,
}

/// A unit, as `systemctl status` has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnitStatus {
    /// Its name.
    pub name: String,
    /// Its other names.
    pub aliases: Vec<String>,
    /// In words.
    pub description: String,
    /// `loaded`, `not-found`, `masked`, `bad-setting`.
    pub load: &'static str,
    /// Why it can't be started.
    pub load_error: String,
    /// `active`, `inactive`, `failed`, `activating`, `deactivating`, `reloading`.
    pub active: &'static str,
    /// More exactly, in the words of its type.
    pub sub: &'static str,
    /// How it ended: `success`, `exit-code`, …
    pub result: &'static str,
    /// `enabled`, `disabled`, `static`, `masked`, …
    pub file_state: &'static str,
    /// Its main file.
    pub fragment: String,
    /// Its drop-ins.
    pub dropins: Vec<String>,
    /// The main process, in the node's pid namespace.
    pub main_pid: Option<u32>,
    /// Its last activation's executable.
    pub path: String,
    /// The number of its last activation.
    pub activation: u64,
    /// Starts by itself since a caller or a unit asked for one.
    pub restarts: u32,
    /// When it became active last.
    pub active_since: Option<Timestamp>,
    /// When it went down last.
    pub inactive_since: Option<Timestamp>,
    /// How the main process ended: `exited` or `killed`, and the status.
    pub ended: Option<(String, String)>,
    /// The condition that held it up.
    pub condition: String,
    /// What went wrong last.
    pub words: String,
    /// What is to be said of its files.
    pub findings: Vec<String>,
    /// The job that it has: its number and kind.
    pub job: Option<(u64, String)>,
    /// Which unit a timer starts.
    pub triggers: String,
    /// When a timer elapses next.
    pub next: Option<Timestamp>,
    /// When a timer elapsed last.
    pub last: Option<Timestamp>,
    /// What is to be done with it later: `needs-reload`, `needs-restart`.
    pub markers: Vec<&'static str>,
}

/// What callers have given the unit manager itself, until the next boot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnitManager {
    /// What every command of a unit gets, as `NAME=value`, ordered by name.
    pub environment: Vec<String>,
    /// Whether services that don't say that they live are ended.
    pub service_watchdogs: bool,
}

/// All of one unit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnitDetail {
    /// How it is.
    pub status: UnitStatus,
    /// Its files: path and text.
    pub files: Vec<(String, String)>,
    /// Its dependencies: kind and units.
    pub dependencies: Vec<(&'static str, Vec<String>)>,
    /// Its settings as they were read: directive and value.
    pub settings: Vec<(String, String)>,
    /// Why it isn't running, or that it is.
    pub why: why::UnitWhy,
    /// Where its processes are, as `/proc/PID/cgroup` has it.
    pub control_group: Option<String>,
    /// When its state changed.
    pub times: UnitTimes,
    /// Of its last activation: `$INVOCATION_ID`.
    pub invocation: String,
    /// The process of a command beside the main one.
    pub control_pid: Option<u32>,
}

/// When a unit's state changed last, beside what its status says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnitTimes {
    /// It was another before.
    pub changed: Option<Timestamp>,
    /// It began to start.
    pub begun: Option<Timestamp>,
    /// It was active no more.
    pub left: Option<Timestamp>,
    /// Its main process began.
    pub main_begun: Option<Timestamp>,
    /// Its main process ended.
    pub main_ended: Option<Timestamp>,
}
