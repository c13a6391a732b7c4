// SPDX-License-Identifier: Apache-2.0
//! Why a unit isn't running, or that it is: the typed answer for a unit that a schedule's `Why` is
//! for a schedule. Pure: from what is known of it and of the jobs around it.

use super::UnitStatus;

/// The first thing that is in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Nothing: it is active.
    Running,
    /// Nothing: it is being started, or begins anew.
    Starting,
    /// Its job waits for other units' jobs.
    Dependency,
    /// It ended, and is started again soon.
    BackOff,
    /// It was started as often as `StartLimitBurst=` allows.
    StartLimit,
    /// It is being stopped.
    Leaving,
    /// It is masked.
    Masked,
    /// There is no file of it, or none that can be used.
    NotFound,
    /// A condition or an assertion isn't met.
    Condition,
    /// It has failed.
    Failed,
    /// It has done what it was started for.
    Succeeded,
    /// Nothing has asked for it since the machine is up, or it was stopped.
    Unwanted,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitWhy {
    /// For programs.
    pub cause: Cause,
    /// For people.
    pub words: String,
    /// The unit that is waited for first.
    pub waits_for: Option<String>,
}

impl Default for UnitWhy {
    fn default() -> Self {
        Self::of(Cause::Unwanted, String::new())
    }
}

impl UnitWhy {
    fn of(cause: Cause, words: impl Into<String>) -> Self {
        Self {
            cause,
            words: words.into(),
            waits_for: None,
        }
    }

    /// Of a unit whose job, where it has one that waits, is held up by those.
    pub fn new(status: &UnitStatus, waits_for: &[String]) -> Self {
        let starts = status.job.as_ref().is_some_and(|(_, kind)| kind != "stop");
        if let Some(first) = waits_for.first().filter(|_| starts) {
            let all = waits_for.join(", ");
            return Self {
                waits_for: Some(first.clone()),
                ..Self::of(Cause::Dependency, format!("its start waits for {all}"))
            };
        }
        match (status.active, status.sub) {
            ("active", "exited") => {
                Self::of(Cause::Succeeded, "it has done what it was started for")
            }
            ("active" | "reloading", _) => Self::of(Cause::Running, "it runs"),
            ("activating", "auto-restart") => {
                let words = "it ended, and is started again after RestartSec=";
                Self::of(Cause::BackOff, and(words, &status.words))
            }
            ("activating", sub) => Self::of(Cause::Starting, format!("it is being started: {sub}")),
            ("deactivating", sub) => {
                Self::of(Cause::Leaving, format!("it is being stopped: {sub}"))
            }
            _ if starts => Self::of(Cause::Starting, "its start has begun"),
            _ => Self::down(status),
        }
    }

    /// Of one that is down, and isn't wanted.
    fn down(status: &UnitStatus) -> Self {
        let name = &status.name;
        match (status.load, status.result) {
            ("masked", _) => {
                let words = format!("it is masked: `systemctl unmask {name}`");
                Self::of(Cause::Masked, words)
            }
            ("not-found", _) => Self::of(Cause::NotFound, "there is no file of that name"),
            ("loaded", "start-limit-hit") => {
                let words = format!(
                    "it was started as often as StartLimitBurst= allows; \
                     `systemctl reset-failed {name}` and `systemctl start {name}` start it again"
                );
                Self::of(Cause::StartLimit, words)
            }
            _ if status.active == "failed" => {
                Self::of(Cause::Failed, and(&failed(status), &status.words))
            }
            ("loaded", _) if !status.condition.is_empty() => {
                Self::of(Cause::Condition, format!("{} isn't met", status.condition))
            }
            ("loaded", _) => Self::unwanted(status),
            (_, _) => Self::of(Cause::NotFound, status.load_error.clone()),
        }
    }

    fn unwanted(status: &UnitStatus) -> Self {
        let name = &status.name;
        if status.activation > 0 {
            return match status.result {
                "success" => Self::of(Cause::Succeeded, "it has ended, or was stopped"),
                other => Self::of(Cause::Unwanted, format!("it was stopped ({other})")),
            };
        }
        let words = match status.file_state {
            "disabled" => format!(
                "it is disabled, and nothing has asked for it: `systemctl enable --now {name}`"
            ),
            "enabled" => "it is enabled, but what wants it was not started".to_owned(),
            _ => "nothing that was started wants it".to_owned(),
        };
        Self::of(Cause::Unwanted, words)
    }
}

fn failed(status: &UnitStatus) -> String {
    match &status.ended {
        Some((how, with)) if status.result != "success" => {
            format!("it has failed ({}): {how}, {with}", status.result)
        }
        _ => format!("it has failed ({})", status.result),
    }
}

fn and(words: &str, more: &str) -> String {
    match more {
        "" => words.to_owned(),
        more => format!("{words}; {more}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(change: impl FnOnce(&mut UnitStatus)) -> UnitStatus {
        let mut status = UnitStatus {
            name: "web.service".to_owned(),
            load: "loaded",
            active: "inactive",
            sub: "dead",
            result: "success",
            file_state: "enabled",
            ..UnitStatus::default()
        };
        change(&mut status);
        status
    }

    fn cause(change: impl FnOnce(&mut UnitStatus)) -> Cause {
        UnitWhy::new(&unit(change), &[]).cause
    }

    #[test]
    fn each_state_has_its_cause() {
        assert_eq!(cause(|_| {}), Cause::Unwanted);
        assert_eq!(cause(|it| it.activation = 1), Cause::Succeeded);
        assert_eq!(cause(|it| it.active = "active"), Cause::Running);
        let exited = |it: &mut UnitStatus| (it.active, it.sub) = ("active", "exited");
        assert_eq!(cause(exited), Cause::Succeeded);
        assert_eq!(cause(|it| it.active = "activating"), Cause::Starting);
        let again = |it: &mut UnitStatus| (it.active, it.sub) = ("activating", "auto-restart");
        assert_eq!(cause(again), Cause::BackOff);
        assert_eq!(cause(|it| it.active = "deactivating"), Cause::Leaving);
        assert_eq!(cause(|it| it.load = "masked"), Cause::Masked);
        assert_eq!(cause(|it| it.load = "not-found"), Cause::NotFound);
        assert_eq!(cause(|it| it.load = "bad-setting"), Cause::NotFound);
        assert_eq!(cause(|it| it.active = "failed"), Cause::Failed);
        let often = |it: &mut UnitStatus| (it.active, it.result) = ("failed", "start-limit-hit");
        assert_eq!(cause(often), Cause::StartLimit);
        let unmet = |it: &mut UnitStatus| it.condition = "ConditionPathExists=/x".to_owned();
        assert_eq!(cause(unmet), Cause::Condition);
    }

    #[test]
    fn a_start_that_waits_names_what_it_waits_for() {
        let job = |kind: &str| unit(|it| it.job = Some((7, kind.to_owned())));
        let others = ["db.service".to_owned(), "srv.mount".to_owned()];
        let why = UnitWhy::new(&job("start"), &others);
        assert_eq!(why.cause, Cause::Dependency);
        assert_eq!(why.words, "its start waits for db.service, srv.mount");
        assert_eq!(why.waits_for.as_deref(), Some("db.service"));
        assert_eq!(UnitWhy::new(&job("start"), &[]).cause, Cause::Starting);
        assert_eq!(UnitWhy::new(&job("stop"), &others).cause, Cause::Unwanted);
    }
}
