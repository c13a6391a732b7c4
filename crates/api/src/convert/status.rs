// SPDX-License-Identifier: Apache-2.0
//! Statuses and exits for the wire.

use model::error::{Error, Result};
use model::exit::{Exit, How, Rusage};
use model::lifecycle::State;
use model::status::{CellStatus, Condition, ExecutableStatus, FinalUsage, Meta, Object};

use super::object::to_object_ref;
use super::scalar::{maybe_duration, maybe_timestamp, to_duration, to_timestamp};
use super::{cell, executable, network};
use crate::runtime::v0 as wire;

/// An object of any kind.
pub fn to_object(object: &Object) -> wire::Object {
    let object = match object {
        Object::Cell(status) => wire::object::Object::Cell(to_cell(status)),
        Object::Executable(status) => wire::object::Object::Executable(to_executable(status)),
    };
    wire::Object {
        object: Some(object),
    }
}

/// The message of an executable's status.
pub fn to_executable(status: &ExecutableStatus) -> wire::ExecutableStatus {
    let mut effective = executable::to_spec(&status.effective);
    effective.env = executable::shown(&effective.env, &status.spec.secret_env);
    wire::ExecutableStatus {
        meta: Some(to_meta(&status.meta)),
        spec: Some(executable::to_spec(&status.spec)),
        effective: Some(effective),
        state: to_state(status.state).into(),
        conditions: status.conditions.iter().map(to_condition).collect(),
        pid: status.pid.unwrap_or(0),
        started: status.started.map(to_timestamp),
        exit: status.exit.as_ref().map(to_exit),
        stdout_bytes: status.stdout_bytes,
        stderr_bytes: status.stderr_bytes,
        final_usage: status.final_usage.as_ref().map(to_final_usage),
    }
}

/// The message of a cell's status.
pub fn to_cell(status: &CellStatus) -> wire::CellStatus {
    wire::CellStatus {
        meta: Some(to_meta(&status.meta)),
        spec: Some(cell::to_spec(&status.spec)),
        effective: Some(cell::to_spec(&status.effective)),
        state: to_state(status.state).into(),
        conditions: status.conditions.iter().map(to_condition).collect(),
        pid: status.pid.unwrap_or(0),
        first_uid: status.first_uid,
        started: status.started.map(to_timestamp),
        finished: status.finished.map(to_timestamp),
        running_children: status.running_children,
        cgroup: status.cgroup.clone(),
        final_usage: status.final_usage.as_ref().map(to_final_usage),
        image_digest: status.image_digest.clone(),
        network: status.network.as_ref().map(network::to_status),
    }
}

fn to_final_usage(usage: &FinalUsage) -> wire::FinalUsage {
    wire::FinalUsage {
        cpu_usage_usec: usage.cpu_usage_us,
        cpu_user_usec: usage.cpu_user_us,
        cpu_system_usec: usage.cpu_system_us,
        cpu_throttled_usec: usage.cpu_throttled_us,
        memory_peak_bytes: usage.memory_peak_bytes,
        oom_kills: usage.oom_kills,
        pids_peak: usage.pids_peak,
        io_read_bytes: usage.io_read_bytes,
        io_write_bytes: usage.io_write_bytes,
        unavailable: usage.unavailable.clone(),
    }
}

pub(super) fn to_meta(meta: &Meta) -> wire::Meta {
    let labels = meta.labels.iter();
    wire::Meta {
        r#ref: Some(to_object_ref(&meta.to_ref())),
        labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        generation: meta.generation,
        revision: meta.revision,
        created: Some(to_timestamp(meta.created)),
    }
}

fn to_state(state: State) -> wire::State {
    match state {
        State::Starting => wire::State::Starting,
        State::Running => wire::State::Running,
        State::Frozen => wire::State::Frozen,
        State::Stopping => wire::State::Stopping,
        State::Exited => wire::State::Exited,
        State::Failed => wire::State::Failed,
    }
}

fn to_condition(condition: &Condition) -> wire::Condition {
    wire::Condition {
        r#type: condition.kind.clone(),
        status: condition.status,
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        since: Some(to_timestamp(condition.since)),
    }
}

/// How a process ended.
pub fn to_exit(exit: &Exit) -> wire::Exit {
    let how = match exit.how {
        How::Code(code) => wire::exit::How::Code(code.into()),
        How::Signal(signal) => wire::exit::How::Signal(signal.into()),
        How::Unknown => wire::exit::How::Unknown(true),
    };
    wire::Exit {
        how: Some(how),
        oom_killed: exit.oom_killed,
        oom_kills: exit.oom_kills,
        core_dumped: exit.core_dumped,
        started: exit.started.map(to_timestamp),
        finished: exit.finished.map(to_timestamp),
        rusage: exit.rusage.as_ref().map(to_rusage),
    }
}

/// How a process ended on another node, as that one says.
pub(super) fn exit(message: wire::Exit) -> Result<Exit> {
    let number = |number: u32| {
        u8::try_from(number).map_err(|_| Error::invalid("exit", "must be from 0 to 255"))
    };
    let how = match message.how {
        Some(wire::exit::How::Code(code)) => How::Code(number(code)?),
        Some(wire::exit::How::Signal(signal)) => How::Signal(number(signal)?),
        Some(wire::exit::How::Unknown(_)) | None => How::Unknown,
    };
    Ok(Exit {
        how,
        oom_killed: message.oom_killed,
        oom_kills: message.oom_kills,
        core_dumped: message.core_dumped,
        started: maybe_timestamp("exit.started", message.started.as_ref())?,
        finished: maybe_timestamp("exit.finished", message.finished.as_ref())?,
        rusage: message.rusage.map(rusage).transpose()?,
    })
}

fn rusage(message: wire::Rusage) -> Result<Rusage> {
    let time = |field: &str, time: Option<&prost_types::Duration>| {
        maybe_duration(field, time).map(Option::unwrap_or_default)
    };
    Ok(Rusage {
        user_time: time("exit.rusage.user_time", message.user_time.as_ref())?,
        system_time: time("exit.rusage.system_time", message.system_time.as_ref())?,
        max_rss_bytes: message.max_rss_bytes,
        minor_faults: message.minor_faults,
        major_faults: message.major_faults,
        voluntary_switches: message.voluntary_switches,
        involuntary_switches: message.involuntary_switches,
    })
}

fn to_rusage(rusage: &Rusage) -> wire::Rusage {
    wire::Rusage {
        user_time: Some(to_duration(rusage.user_time)),
        system_time: Some(to_duration(rusage.system_time)),
        max_rss_bytes: rusage.max_rss_bytes,
        minor_faults: rusage.minor_faults,
        major_faults: rusage.major_faults,
        voluntary_switches: rusage.voluntary_switches,
        involuntary_switches: rusage.involuntary_switches,
    }
}
