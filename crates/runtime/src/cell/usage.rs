// SPDX-License-Identifier: Apache-2.0
//! What an object had used when it ended: read from its cgroup in the last moment that there is
//! one. What is used by what runs is `observe`'s to tell.

use kernel::cgroup::Cgroup;
use model::status::FinalUsage;

/// Reads it. `controllers`: those that the node hands on; the others are not looked for.
pub(crate) fn last(group: &Cgroup, controllers: &[String]) -> FinalUsage {
    let mut usage = FinalUsage::default();
    let has = |name: &str| controllers.iter().any(|c| c == name);
    match group.cpu_stat() {
        Ok(cpu) => {
            usage.cpu_usage_us = Some(cpu.usage_us);
            usage.cpu_user_us = Some(cpu.user_us);
            usage.cpu_system_us = Some(cpu.system_us);
            if has("cpu") {
                usage.cpu_throttled_us = Some(cpu.throttled_us);
            } else {
                lacks(&mut usage, "cpu", None);
            }
        }
        Err(error) => lacks(&mut usage, "cpu", Some(&error)),
    }
    match has("memory").then(|| group.memory_peak()).transpose() {
        Ok(Some(peak)) => usage.memory_peak_bytes = peak,
        other => lacks(&mut usage, "memory", other.err().as_ref()),
    }
    if has("memory")
        && let Ok(Some(events)) = group.memory_events()
    {
        usage.oom_kills = Some(events.oom_kill);
    }
    match has("pids").then(|| group.pids_peak()).transpose() {
        Ok(Some(peak)) => usage.pids_peak = peak,
        other => lacks(&mut usage, "pids", other.err().as_ref()),
    }
    match has("io").then(|| group.io_stat()).transpose() {
        Ok(Some(Some(devices))) => {
            usage.io_read_bytes = Some(devices.iter().map(|d| d.read_bytes).sum());
            usage.io_write_bytes = Some(devices.iter().map(|d| d.written_bytes).sum());
        }
        other => lacks(&mut usage, "io", other.err().as_ref()),
    }
    usage
}

fn lacks(usage: &mut FinalUsage, controller: &str, error: Option<&kernel::Error>) {
    usage.unavailable.push(match error {
        None => format!("{controller} controller not available"),
        Some(error) => format!("{controller}: {error}"),
    });
}
