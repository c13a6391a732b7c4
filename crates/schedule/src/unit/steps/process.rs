// SPDX-License-Identifier: Apache-2.0
//! The processes that a unit runs: which command of which list, how it ended, and what that end is
//! called.

use serde::{Deserialize, Serialize};
use units::name::UnitType;
use units::service::{self, Restart, Service};
use units::unit::Unit;
use units::value::Statuses;

use super::state::Sub;
use crate::unit::mount;

/// A list of commands of a unit (systemd.service(5), "Options").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// `ExecCondition=`.
    Condition,
    /// `ExecStartPre=`.
    StartPre,
    /// `ExecStart=`.
    Start,
    /// `ExecStartPost=`.
    StartPost,
    /// `ExecReload=`.
    Reload,
    /// `ExecStop=`.
    Stop,
    /// `ExecStopPost=`.
    StopPost,
}

impl Phase {
    pub(crate) const ALL: [Phase; 7] = [
        Self::Condition,
        Self::StartPre,
        Self::Start,
        Self::StartPost,
        Self::Reload,
        Self::Stop,
        Self::StopPost,
    ];

    /// The directive.
    pub(crate) const fn directive(self) -> &'static str {
        match self {
            Self::Condition => "ExecCondition",
            Self::StartPre => "ExecStartPre",
            Self::Start => "ExecStart",
            Self::StartPost => "ExecStartPost",
            Self::Reload => "ExecReload",
            Self::Stop => "ExecStop",
            Self::StopPost => "ExecStopPost",
        }
    }

    /// The directive, in a unit of that type: a socket has two lists for its stop.
    pub(crate) fn directive_of(self, kind: UnitType) -> &'static str {
        match (self, kind) {
            (Self::Stop, UnitType::Socket) => "ExecStopPre",
            _ => self.directive(),
        }
    }

    /// A part of a path's label.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Condition => "condition",
            Self::StartPre => "start-pre",
            Self::Start => "start",
            Self::StartPost => "start-post",
            Self::Reload => "reload",
            Self::Stop => "stop",
            Self::StopPost => "stop-post",
        }
    }
}

/// One command of a list, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) phase: Phase,
    pub(crate) index: usize,
    /// Tells a reload from the one before it, whose commands may still end: below [`ROUNDS`].
    #[serde(default)]
    pub(crate) round: u8,
}

/// So many reloads of an activation have names of their own; then they come again.
pub(crate) const ROUNDS: u8 = 8;

/// What a process is to its service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// The service itself.
    Main,
    /// A command beside it.
    Control,
}

/// For each list, whether the failure of each command counts (`-`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Commands([Vec<bool>; 7]);

impl Commands {
    pub(crate) fn of(unit: &Unit) -> Commands {
        Commands(Phase::ALL.map(|phase| {
            let all = mount::commands(unit, phase);
            all.iter().map(|command| command.ignores_failure).collect()
        }))
    }

    fn list(&self, phase: Phase) -> &[bool] {
        self.0.get(phase as usize).map_or(&[], Vec::as_slice)
    }

    /// How often `TimeoutStopSec=` is given at most in the stop of a service that is so far: for
    /// each command of it, and for the signal to what runs. (`SIGKILL` needs no time.)
    pub(crate) fn of_a_stop(&self, sub: Sub) -> u32 {
        let stops = self.list(Phase::Stop).len() + self.list(Phase::StopPost).len();
        let runs = match sub {
            Sub::Dead | Sub::Failed | Sub::AutoRestart | Sub::Exited => 0,
            _ => 1,
        };
        u32::try_from(stops.saturating_add(runs)).unwrap_or(u32::MAX)
    }

    pub(crate) fn has(&self, step: Step) -> bool {
        step.index < self.list(step.phase).len()
    }

    pub(crate) fn ignores_failure(&self, step: Step) -> bool {
        self.list(step.phase).get(step.index) == Some(&true)
    }
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// With a status.
    Exited(u8),
    /// By a signal.
    Signalled(u8),
    /// By a signal, and its memory was written down.
    Dumped(u8),
    /// The kernel had no memory for it.
    OutOfMemory,
    /// It could not be begun: an exit status of systemd.exec(5), "Process exit codes".
    NotBegun(u8),
    /// It ended, and the daemon doesn't know how.
    Unknown,
}

impl End {
    /// In the words of systemd.service(5).
    fn of_systemd(self) -> service::End {
        let signal = |number| match model::signal::Signal::from_number(number) {
            Some(signal) => service::End::Signalled(signal),
            None => service::End::Resources,
        };
        match self {
            Self::Exited(code) | Self::NotBegun(code) => service::End::Exited(code),
            Self::Signalled(number) | Self::Dumped(number) => signal(number),
            Self::OutOfMemory => signal(9),
            Self::Unknown => service::End::Resources,
        }
    }

    /// What it means for its service.
    pub(crate) fn outcome(self, service: &Service) -> Outcome {
        if service.is_clean(self.of_systemd()) {
            return Outcome::Success;
        }
        match self {
            Self::Exited(_) | Self::NotBegun(_) => Outcome::ExitCode,
            Self::Signalled(_) => Outcome::Signal,
            Self::Dumped(_) => Outcome::CoreDump,
            Self::OutOfMemory => Outcome::OomKill,
            Self::Unknown => Outcome::Resources,
        }
    }

    /// `$EXIT_CODE` and `$EXIT_STATUS` (systemd.exec(5)).
    pub(crate) fn words(self) -> (&'static str, String) {
        let name = |number| {
            let signal = model::signal::Signal::from_number(number);
            let name = signal.map_or_else(|| number.to_string(), |it| it.to_string());
            name.trim_start_matches("SIG").to_owned()
        };
        match self {
            Self::Exited(code) | Self::NotBegun(code) => ("exited", code.to_string()),
            Self::Signalled(number) => ("killed", name(number)),
            Self::Dumped(number) => ("dumped", name(number)),
            Self::OutOfMemory => ("killed", "KILL".to_owned()),
            Self::Unknown => ("exited", "255".to_owned()),
        }
    }
}

/// What has become of a unit: `Result=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    #[default]
    Success,
    Protocol,
    Timeout,
    ExitCode,
    Signal,
    CoreDump,
    Watchdog,
    StartLimitHit,
    Resources,
    OomKill,
    ExecCondition,
    /// A timer, path or socket whose unit can't be started.
    TriggerLimitHit,
    /// What it mounts, binds or opens isn't to be had.
    Failure,
}

impl Outcome {
    /// As `systemctl show -p Result` prints it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Protocol => "protocol",
            Self::Timeout => "timeout",
            Self::ExitCode => "exit-code",
            Self::Signal => "signal",
            Self::CoreDump => "core-dump",
            Self::Watchdog => "watchdog",
            Self::StartLimitHit => "start-limit-hit",
            Self::Resources => "resources",
            Self::OomKill => "oom-kill",
            Self::ExecCondition => "exec-condition",
            Self::TriggerLimitHit => "trigger-limit-hit",
            Self::Failure => "resources",
        }
    }

    /// Whether a unit with it is `failed`.
    pub(crate) const fn is_failure(self) -> bool {
        !matches!(self, Self::Success | Self::ExecCondition)
    }

    /// Whether a service is started again after it, given how its main process ended: that says
    /// whether an exit status prevents or forces it, and the result everything else
    /// (systemd.service(5), Restart=, table 2).
    pub(crate) fn restarts(self, service: &Service, end: Option<End>) -> bool {
        let within = |set: &Statuses| match end.map(End::of_systemd) {
            Some(service::End::Exited(code)) => set.codes.contains(&code),
            Some(service::End::Signalled(signal)) => set.signals.contains(&signal),
            _ => false,
        };
        if self == Self::StartLimitHit || within(&service.prevents_restart) {
            return false;
        }
        if within(&service.forces_restart) {
            return true;
        }
        match service.restart {
            Restart::No => false,
            Restart::Always => self != Self::ExecCondition,
            Restart::OnSuccess => self == Self::Success,
            Restart::OnFailure => self.is_failure(),
            Restart::OnAbnormal => self.is_failure() && self != Self::ExitCode,
            Restart::OnWatchdog => self == Self::Watchdog,
            Restart::OnAbort => matches!(self, Self::Signal | Self::CoreDump),
        }
    }
}
