// SPDX-License-Identifier: Apache-2.0
//! How far a service is, and all that is remembered of it. What comes next is [`super::service`]'s.

use serde::{Deserialize, Serialize};
use units::job::Activity;

use super::{End, Outcome, Phase, Step};

/// How far it is: `SubState=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sub {
    #[default]
    Dead,
    Condition,
    StartPre,
    Start,
    StartPost,
    Running,
    Exited,
    Reload,
    /// It was asked to reload, and hasn't said yet that it does.
    ReloadSignal,
    /// It says that it reloads.
    ReloadNotify,
    Stop,
    StopWatchdog,
    StopSigterm,
    StopSigkill,
    StopPost,
    FinalSigterm,
    FinalSigkill,
    Failed,
    AutoRestart,
}

impl Sub {
    /// As `systemctl` prints it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Condition => "condition",
            Self::StartPre => "start-pre",
            Self::Start => "start",
            Self::StartPost => "start-post",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Reload => "reload",
            Self::ReloadSignal => "reload-signal",
            Self::ReloadNotify => "reload-notify",
            Self::Stop => "stop",
            Self::StopWatchdog => "stop-watchdog",
            Self::StopSigterm => "stop-sigterm",
            Self::StopSigkill => "stop-sigkill",
            Self::StopPost => "stop-post",
            Self::FinalSigterm => "final-sigterm",
            Self::FinalSigkill => "final-sigkill",
            Self::Failed => "failed",
            Self::AutoRestart => "auto-restart",
        }
    }

    /// How far it is for jobs.
    pub(crate) const fn activity(self) -> Activity {
        match self {
            Self::Dead => Activity::Inactive,
            Self::Failed => Activity::Failed,
            Self::Condition | Self::StartPre | Self::Start | Self::StartPost => {
                Activity::Activating
            }
            Self::AutoRestart => Activity::Activating,
            Self::Running | Self::Exited => Activity::Active,
            Self::Reload | Self::ReloadSignal | Self::ReloadNotify => Activity::Reloading,
            Self::Stop
            | Self::StopWatchdog
            | Self::StopSigterm
            | Self::StopSigkill
            | Self::StopPost
            | Self::FinalSigterm
            | Self::FinalSigkill => Activity::Deactivating,
        }
    }

    pub(super) const fn of(phase: Phase) -> Sub {
        match phase {
            Phase::Condition => Self::Condition,
            Phase::StartPre => Self::StartPre,
            Phase::Start => Self::Start,
            Phase::StartPost => Self::StartPost,
            Phase::Reload => Self::Reload,
            Phase::Stop => Self::Stop,
            Phase::StopPost => Self::StopPost,
        }
    }
}

/// A process at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Which command it is.
    pub(crate) step: Step,
    /// It was begun: its program is executed.
    pub(crate) begun: bool,
}

/// All that is remembered of a service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) sub: Sub,
    pub(crate) result: Outcome,
    /// The main process, or what a forking service has started to become it.
    pub(crate) main: Option<Process>,
    /// A command beside it.
    pub(crate) control: Option<Process>,
    /// How the main process ended.
    pub(crate) ended: Option<End>,
    /// How the reload that was asked for last went.
    pub(crate) reloaded: Outcome,
    /// It isn't to be started again by itself.
    pub(crate) stopping: bool,
    /// It has been up since it was started: `ExecStop=` counts.
    pub(crate) was_up: bool,
    /// Which reload of this activation goes on, or was last.
    pub(crate) round: u8,
    /// Its next start by itself was asked for.
    pub(crate) again: bool,
    /// Counts starts by itself since a caller or a unit asked for one.
    pub(crate) restarts: u32,
    /// When what goes on takes too long, or begins.
    pub(crate) deadline: Option<u64>,
    /// When it must have said that it lives.
    pub(crate) watchdog: Option<u64>,
    /// How often it says that it lives by its own word, in nanoseconds; 0: never.
    pub(crate) watchdog_every: Option<u64>,
    /// When the reload that goes on, or was last, was asked for.
    pub(crate) reload_begun: u64,
    /// Its name on the bus has an owner (`BusName=`).
    pub(crate) named: bool,
    /// Nothing of it is left since its main process has ended (`ExitType=cgroup`).
    pub(crate) emptied: bool,
}
