// SPDX-License-Identifier: Apache-2.0
//! Units: what is asked for from the wire, statuses back.

use model::error::{Error, Result};
use model::signal::Signal;
use model::unit::why::{Cause, UnitWhy};
use model::unit::{
    FileChange, JobDone, JobMode, PresetMode, UnitDetail, UnitManager, UnitStatus, UnitTimes, Whom,
};

use super::scalar::{enumeration, maybe_parse, to_timestamp};
use crate::schedule::v0 as wire;

/// How a job goes together with others.
///
/// # Errors
/// `INVALID_FIELD`: this node doesn't know the number.
pub fn mode(number: i32) -> Result<JobMode> {
    use wire::UnitJobMode as It;
    Ok(match enumeration::<It>("mode", number)? {
        It::Unspecified | It::Replace => JobMode::Replace,
        It::Fail => JobMode::Fail,
        It::Isolate => JobMode::Isolate,
        It::IgnoreDependencies => JobMode::IgnoreDependencies,
        It::IgnoreRequirements => JobMode::IgnoreRequirements,
        It::ReplaceIrreversibly => JobMode::ReplaceIrreversibly,
        It::Flush => JobMode::Flush,
    })
}

/// Which processes of a unit a signal is for.
///
/// # Errors
/// `INVALID_FIELD`: this node doesn't know the number, or both fields say something.
pub fn whom(number: i32, main_only: bool) -> Result<Whom> {
    use wire::UnitKillWhom as It;
    Ok(match (enumeration::<It>("whom", number)?, main_only) {
        (It::Unspecified, true) => Whom::MainAndControl,
        (_, true) => {
            let problem = "says which processes, and so does main_only";
            return Err(Error::invalid("whom", problem).hint("leave out main_only"));
        }
        (It::Unspecified | It::All, false) => Whom::All,
        (It::Main, false) => Whom::Main,
        (It::Control, false) => Whom::Control,
    })
}

/// What presetting does.
///
/// # Errors
/// `INVALID_FIELD`: this node doesn't know the number.
pub fn preset_mode(number: i32) -> Result<PresetMode> {
    use wire::UnitPresetMode as It;
    Ok(match enumeration::<It>("mode", number)? {
        It::Unspecified | It::Full => PresetMode::Full,
        It::EnableOnly => PresetMode::EnableOnly,
        It::DisableOnly => PresetMode::DisableOnly,
    })
}

/// The signal that a service gets; SIGTERM where none is named.
///
/// # Errors
/// `INVALID_FIELD`: it is none.
pub fn signal(text: &str) -> Result<Signal> {
    Ok(maybe_parse("signal", text)?.unwrap_or(Signal::TERM))
}

/// What came of a job.
pub fn to_job(done: JobDone) -> wire::UnitJob {
    wire::UnitJob {
        id: done.id,
        result: done.result.to_owned(),
        notes: done.notes,
        unit: Some(to_status(done.unit)),
    }
}

/// The links that enabling or disabling has changed.
pub fn to_changes(changes: Vec<FileChange>) -> wire::UnitFilesResponse {
    let change = |FileChange { path, target }| wire::UnitFileChange { path, target };
    wire::UnitFilesResponse {
        changes: changes.into_iter().map(change).collect(),
    }
}

/// A unit.
pub fn to_status(status: UnitStatus) -> wire::UnitStatus {
    let (exit_code, exit_status) = status.ended.unwrap_or_default();
    let (job_id, job_kind) = status.job.unwrap_or_default();
    wire::UnitStatus {
        name: status.name,
        aliases: status.aliases,
        description: status.description,
        load: status.load.to_owned(),
        load_error: status.load_error,
        active: status.active.to_owned(),
        sub: status.sub.to_owned(),
        result: status.result.to_owned(),
        file_state: status.file_state.to_owned(),
        fragment: status.fragment,
        dropins: status.dropins,
        main_pid: status.main_pid,
        path: status.path,
        activation: status.activation,
        restarts: status.restarts,
        active_since: status.active_since.map(to_timestamp),
        inactive_since: status.inactive_since.map(to_timestamp),
        exit_code,
        exit_status,
        condition: status.condition,
        message: status.words,
        findings: status.findings,
        job_id,
        job_kind,
        triggers: status.triggers,
        next: status.next.map(to_timestamp),
        last: status.last.map(to_timestamp),
        markers: status.markers.into_iter().map(str::to_owned).collect(),
    }
}

/// What callers have given the unit manager.
pub fn to_manager(manager: UnitManager) -> wire::UnitManager {
    wire::UnitManager {
        environment: manager.environment,
        service_watchdogs: manager.service_watchdogs,
    }
}

/// All of a unit.
pub fn to_detail(detail: UnitDetail) -> wire::UnitDetail {
    let file = |(path, text)| wire::UnitFile { path, text };
    let dependency = |(kind, units): (&'static str, Vec<String>)| wire::UnitDependency {
        kind: kind.to_owned(),
        units,
    };
    let setting = |(name, value)| wire::UnitSetting { name, value };
    wire::UnitDetail {
        status: Some(to_status(detail.status)),
        files: detail.files.into_iter().map(file).collect(),
        dependencies: detail.dependencies.into_iter().map(dependency).collect(),
        settings: detail.settings.into_iter().map(setting).collect(),
        why: Some(to_why(detail.why)),
        control_group: detail.control_group.unwrap_or_default(),
        times: Some(to_times(detail.times)),
        invocation: detail.invocation,
        control_pid: detail.control_pid,
    }
}

fn to_times(times: UnitTimes) -> wire::UnitTimes {
    wire::UnitTimes {
        changed: times.changed.map(to_timestamp),
        begun: times.begun.map(to_timestamp),
        left: times.left.map(to_timestamp),
        main_begun: times.main_begun.map(to_timestamp),
        main_ended: times.main_ended.map(to_timestamp),
    }
}

fn to_why(why: UnitWhy) -> wire::Reason {
    use wire::reason::Cause as Said;
    let cause = match why.cause {
        Cause::Running => Said::Running,
        Cause::Starting => Said::Starting,
        Cause::Dependency => Said::Dependency,
        Cause::BackOff => Said::BackOff,
        Cause::StartLimit => Said::StartLimit,
        Cause::Leaving => Said::Leaving,
        Cause::Masked => Said::Masked,
        Cause::NotFound => Said::NotFound,
        Cause::Condition => Said::Condition,
        Cause::Failed => Said::Failed,
        Cause::Succeeded => Said::Succeeded,
        Cause::Unwanted => Said::Unwanted,
    };
    wire::Reason {
        cause: cause.into(),
        message: why.words,
        unit: why.waits_for.unwrap_or_default(),
        ..Default::default()
    }
}
