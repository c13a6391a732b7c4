// SPDX-License-Identifier: Apache-2.0
//! What objects use, read from their cgroups when a client asks. What this node can't know is
//! absent, with the reason: never 0.

use kernel::cgroup::Cgroup;
use model::object::{Kind, ObjectRef};
use model::observe::{Usage, UsageSample};
use model::status::FinalUsage;

use super::folder::LogKey;
use super::logs::Logs;
use runtime::{Measured, Objects};

/// Reads them all. Blocks for some tens of microseconds per object.
pub(super) fn sample(logs: &Logs, objects: &dyn Objects, measured: Vec<Measured>) -> UsageSample {
    let rows = measured.into_iter().map(|one| {
        let mut usage = Usage::unknown(one.object);
        match &one.cgroup {
            None => of_ended(one.ended, &mut usage),
            Some(path) => match Cgroup::open(path) {
                Ok(group) => of_group(&group, &mut usage),
                Err(e) if e.is_not_found() => usage.unavailable.push("it has ended".to_owned()),
                Err(e) => usage.unavailable.push(format!("its cgroup: {e}")),
            },
        }
        usage.log_bytes = log_bytes(logs, objects, &usage.object);
        usage
    });
    UsageSample {
        usage: rows.collect(),
        time: runtime::now(),
    }
}

/// What it had used in the end; what it uses now is nothing that is measured.
fn of_ended(last: Option<FinalUsage>, usage: &mut Usage) {
    usage.unavailable.push("it has ended".to_owned());
    let Some(last) = last else { return };
    usage.cpu_usage_us = last.cpu_usage_us;
    usage.cpu_user_us = last.cpu_user_us;
    usage.cpu_system_us = last.cpu_system_us;
    usage.cpu_throttled_us = last.cpu_throttled_us;
    usage.memory_peak_bytes = last.memory_peak_bytes;
    usage.oom_kills = last.oom_kills;
    usage.pids_peak = last.pids_peak;
    usage.io_read_bytes = last.io_read_bytes;
    usage.io_write_bytes = last.io_write_bytes;
    usage.unavailable.extend(last.unavailable);
}

fn of_group(group: &Cgroup, usage: &mut Usage) {
    cpu(group, usage);
    match group.memory_usage() {
        Ok(Some(memory)) => {
            usage.memory_bytes = Some(memory.current);
            usage.memory_peak_bytes = memory.peak;
            usage.swap_bytes = memory.swap_current;
        }
        other => lacks(usage, "memory", other.err()),
    }
    if let Ok(Some(events)) = group.memory_events() {
        usage.oom_kills = Some(events.oom_kill);
    }
    match group.pids_usage() {
        Ok(Some(pids)) => {
            usage.pids = Some(pids.current);
            usage.pids_peak = pids.peak;
        }
        other => lacks(usage, "pids", other.err()),
    }
    match group.io_stat() {
        Ok(Some(devices)) => {
            usage.io_read_bytes = Some(devices.iter().map(|d| d.read_bytes).sum());
            usage.io_write_bytes = Some(devices.iter().map(|d| d.written_bytes).sum());
        }
        other => lacks(usage, "io", other.err()),
    }
}

/// CPU time is there without the controller; being throttled is the controller's doing.
fn cpu(group: &Cgroup, usage: &mut Usage) {
    match group.cpu_stat() {
        Err(e) => lacks(usage, "cpu", Some(e)),
        Ok(cpu) => {
            usage.cpu_usage_us = Some(cpu.usage_us);
            usage.cpu_user_us = Some(cpu.user_us);
            usage.cpu_system_us = Some(cpu.system_us);
            match group.controllers() {
                Ok(there) if there.iter().any(|c| c == "cpu") => {
                    usage.cpu_throttled_us = Some(cpu.throttled_us);
                }
                other => lacks(usage, "cpu", other.err()),
            }
        }
    }
}

fn lacks(usage: &mut Usage, controller: &str, error: Option<kernel::Error>) {
    usage.unavailable.push(match error {
        None => format!("{controller} controller not available"),
        Some(e) if e.is_not_found() => "it has ended".to_owned(),
        Some(e) => format!("{controller}: {e}"),
    });
    usage.unavailable.dedup();
}

/// Of an executable, or of all executables in a cell.
fn log_bytes(logs: &Logs, objects: &dyn Objects, object: &ObjectRef) -> Option<u64> {
    let bytes = |of: &ObjectRef| {
        let key = LogKey {
            tenant: of.tenant.clone(),
            uid: of.uid?,
        };
        logs.disk_bytes(&key).ok()
    };
    if object.kind == Some(Kind::Executable) {
        return bytes(object);
    }
    let all = objects.executables(object).ok()?;
    all.iter().map(bytes).sum()
}
