// SPDX-License-Identifier: Apache-2.0
//! The spec of a schedule as a message: as it was sent, with what says nothing left out.

use model::cell::CellSpec;
use model::label::Labels;
use model::schedule::given::mentioned;
use model::schedule::spec::{
    Backoff, Draft, Lax, Missed, Need, NeedOf, Needed, Overlap, Program, Restart, Window,
};
use model::schedule::{When, Work};

use super::{config, many};
use crate::convert::pod::to_probe;
use crate::convert::scalar::{to_duration, to_timestamp};
use crate::convert::{cell, executable, pod};
use crate::runtime::v0 as runtime;
use crate::schedule::v0 as wire;

/// The message of the spec of the schedule of that name.
pub fn to_spec(name: &str, draft: &Draft) -> wire::ScheduleSpec {
    wire::ScheduleSpec {
        work: Some(to_work(name, &draft.work)),
        when: Some(to_when(&draft.when)),
        node: draft.node.clone(),
        restart: match draft.restart {
            Restart::No => wire::RestartPolicy::Unspecified,
            Restart::OnFailure => wire::RestartPolicy::OnFailure,
            Restart::Always => wire::RestartPolicy::Always,
        }
        .into(),
        backoff: to_backoff(&draft.backoff),
        start_limit: draft.start_limit.map(|limit| wire::StartLimit {
            starts: limit.starts,
            within: Some(to_duration(limit.within)),
        }),
        overlap: match draft.overlap {
            Overlap::Forbid => wire::Overlap::Unspecified,
            Overlap::Allow => wire::Overlap::Allow,
            Overlap::Replace => wire::Overlap::Replace,
        }
        .into(),
        missed: match draft.missed {
            None => wire::Missed::Unspecified,
            Some(Missed::Skip) => wire::Missed::Skip,
            Some(Missed::RunOnce) => wire::Missed::RunOnce,
        }
        .into(),
        history: draft.history,
        needs: draft.needs.iter().map(to_need).collect(),
        health: draft.health.as_ref().map(to_probe),
        replicas: draft.replicas.as_ref().map(many::to_replicas),
        job: draft.job.as_ref().map(many::to_job),
        suspended: draft.suspended,
        start_within: draft.start_within.map(to_duration),
        keep_succeeded: draft.keep_succeeded,
        keep_failed: draft.keep_failed,
        node_labels: draft.node_labels.clone(),
        kind: draft.kind.clone(),
    }
}

fn to_need(need: &Need) -> wire::Need {
    let state = match need.state {
        Needed::Running => wire::need::State::Running,
        Needed::Succeeded => wire::need::State::Succeeded,
    };
    let of = match &need.of {
        NeedOf::Schedule(name) => wire::need::Of::Schedule(name.to_string()),
        NeedOf::Unit(name) => wire::need::Of::Unit(name.clone()),
    };
    wire::Need {
        of: Some(of),
        state: state.into(),
    }
}

fn to_backoff(backoff: &Backoff) -> Option<wire::Backoff> {
    let message = wire::Backoff {
        first: backoff.first.map(to_duration),
        most: backoff.most.map(to_duration),
        stable: backoff.stable.map(to_duration),
    };
    (*backoff != Backoff::default()).then_some(message)
}

fn to_when(when: &When) -> wire::When {
    use wire::when::When as Said;
    let said = match when {
        When::Now => Said::Now(wire::Now {}),
        When::Cron { pattern, zone } => Said::Cron(wire::Cron {
            pattern: pattern.clone(),
            zone: zone.clone(),
        }),
        When::At(time) => Said::At(to_timestamp(*time)),
        When::After { schedule, success } => Said::After(wire::After {
            schedule: schedule.to_string(),
            success: *success,
        }),
        When::Lax(lax) => Said::Lax(to_lax(lax)),
        When::Boot => Said::Boot(wire::Boot {}),
    };
    wire::When { when: Some(said) }
}

fn to_lax(lax: &Lax) -> wire::Lax {
    wire::Lax {
        window: lax.window.as_ref().map(|window: &Window| wire::Window {
            from: clock(window.from),
            to: clock(window.to),
            zone: window.zone.clone(),
        }),
        cpu: lax.cpu.map(u32::from),
        memory: lax.memory.map(u32::from),
        io: lax.io.map(u32::from),
        quiet_for: lax.quiet_for.map(to_duration),
    }
}

fn clock(minute: u16) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

pub(super) fn to_work(name: &str, work: &Work) -> wire::Work {
    use wire::work::Run;
    let run = match work {
        Work::Executable { program, cell } => Run::Executable(runtime::RunExecutableRequest {
            own_cell: (**cell != CellSpec::default()).then(|| cell::to_spec(cell)),
            ..to_program(name, program)
        }),
        Work::Cell {
            labels,
            spec,
            programs,
        } => Run::Cell(wire::CellWork {
            cell: Some(runtime::RunCellRequest {
                cell: Some(runtime::Cell {
                    r#ref: at(name.to_owned()),
                    labels: to_labels(labels),
                    spec: Some(cell::to_spec(spec)),
                }),
                ..Default::default()
            }),
            executables: programs.iter().map(|it| to_program(name, it)).collect(),
        }),
        Work::Pod { labels, spec, .. } => Run::Pod(crate::pod::v0::RunRequest {
            pod: Some(crate::pod::v0::Pod {
                r#ref: at(name.to_owned()),
                labels: to_labels(labels),
                spec: Some(pod::to_spec(spec)),
            }),
            ..Default::default()
        }),
    };
    wire::Work {
        run: Some(run),
        given: mentioned(work).map(config::to_given).collect(),
    }
}

fn to_program(name: &str, program: &Program) -> runtime::RunExecutableRequest {
    runtime::RunExecutableRequest {
        executable: Some(runtime::Executable {
            r#ref: at(format!("{name}/{}", program.name)),
            labels: to_labels(&program.labels),
            spec: Some(executable::to_spec(&program.spec)),
        }),
        ..Default::default()
    }
}

fn at(path: String) -> Option<runtime::ObjectRef> {
    Some(runtime::ObjectRef {
        path,
        ..Default::default()
    })
}

fn to_labels(labels: &Labels) -> std::collections::BTreeMap<String, String> {
    labels.clone().into()
}
