// SPDX-License-Identifier: Apache-2.0
//! Path units (systemd.path(5)): a unit is started when a file is there, or changes. The kernel
//! tells of changes (inotify(7)); nothing is looked at again and again.
//!
//! * [`watch`]: waiting for one of the paths of a unit.
//!
//! What the manager does with it is `manager::paths`'.

pub(crate) mod watch;

use serde::{Deserialize, Serialize};
use units::job::Activity;
use units::time::Span;
use units::unit::Unit;
use units::value::Value;

use super::steps::Outcome;

/// `TriggerLimitIntervalSec=`, in microseconds.
const TRIGGER_INTERVAL: u64 = 2_000_000;
/// `TriggerLimitBurst=`.
const TRIGGER_BURST: u32 = 200;

/// How far it is: `SubState=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sub {
    #[default]
    Dead,
    Waiting,
    Running,
    Failed,
}

impl Sub {
    /// As `systemctl` prints it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Failed => "failed",
        }
    }

    pub(crate) const fn activity(self) -> Activity {
        match self {
            Self::Dead => Activity::Inactive,
            Self::Waiting | Self::Running => Activity::Active,
            Self::Failed => Activity::Failed,
        }
    }
}

/// All that is remembered of a path unit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) sub: Sub,
    pub(crate) result: Outcome,
    /// When it was triggered within the limit's time: `CLOCK_BOOTTIME`.
    pub(crate) triggers: Vec<u64>,
    /// Which of the paths were there when they were looked at last.
    pub(crate) existed: Vec<bool>,
}

/// What is waited for at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Exists,
    Glob,
    Changed,
    Modified,
    NotEmpty,
}

/// What the settings of a path unit say, with systemd's defaults.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    pub(crate) watches: Vec<(Kind, String)>,
    /// `MakeDirectory=`, with the mode.
    pub(crate) makes: Option<u32>,
    pub(crate) trigger_interval: Span,
    pub(crate) trigger_burst: u32,
}

impl Rules {
    pub(crate) fn of(unit: &Unit) -> Rules {
        let settings = &unit.settings;
        let of = |directive: &str| match directive {
            "PathExists" => Kind::Exists,
            "PathExistsGlob" => Kind::Glob,
            "PathChanged" => Kind::Changed,
            "PathModified" => Kind::Modified,
            _ => Kind::NotEmpty,
        };
        let watches = match settings.get("Watches") {
            Some(Value::Watches(watches)) => watches
                .iter()
                .map(|(directive, path)| (of(directive), path.clone()))
                .collect(),
            _ => Vec::new(),
        };
        let mode = match settings.get("DirectoryMode") {
            Some(Value::Mode(mode)) => *mode,
            _ => 0o755,
        };
        let burst = settings.number("TriggerLimitBurst");
        Rules {
            watches,
            makes: (settings.flag("MakeDirectory") == Some(true)).then_some(mode),
            trigger_interval: settings
                .span("TriggerLimitIntervalSec")
                .unwrap_or(Span::from_micros(TRIGGER_INTERVAL)),
            trigger_burst: burst
                .and_then(|it| u32::try_from(it).ok())
                .unwrap_or(TRIGGER_BURST),
        }
    }

    /// Makes the folders that are watched (`MakeDirectory=`); one that can't be is told.
    pub(crate) fn make(&self, unit: &str) {
        use std::os::unix::fs::DirBuilderExt;
        let Some(mode) = self.makes else {
            return;
        };
        for (kind, path) in &self.watches {
            if matches!(kind, Kind::Exists | Kind::Glob) {
                continue;
            }
            let made = std::fs::DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(path);
            if let Err(error) = made {
                tracing::warn!(unit, path, %error, "MakeDirectory=");
            }
        }
    }
}
