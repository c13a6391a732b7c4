// SPDX-License-Identifier: Apache-2.0
//! What a group has used, as `events` shows it: runc's document, which engines read. What cgroup v2
//! doesn't know is zero there, as with runc.

use kernel::cgroup::Cgroup;
use serde_json::{Value, json};

use crate::error::Result;

/// The `data` of an event of type `stats`.
pub(crate) fn of(group: &Cgroup) -> Result<Value> {
    let cpu = group.cpu_stat()?;
    let pids = group.pids_usage()?.unwrap_or_default();
    Ok(json!({
        "cpu": {
            "usage": {
                "total": cpu.usage_us * 1000,
                "kernel": cpu.system_us * 1000,
                "user": cpu.user_us * 1000,
            },
            "throttling": {
                "periods": cpu.periods,
                "throttledPeriods": cpu.throttled_periods,
                "throttledTime": cpu.throttled_us * 1000,
            },
        },
        "cpuset": {},
        "memory": memory(group)?,
        "pids": { "current": pids.current, "limit": limit(group, "pids.max").unwrap_or(0) },
        "blkio": blocks(group)?,
        "hugetlb": {},
        "intel_rdt": {},
        "network_interfaces": null,
    }))
}

/// `None` for `max`, and where the controller isn't there.
fn limit(group: &Cgroup, file: &str) -> Option<u64> {
    group.read(file).ok()?.trim().parse().ok()
}

fn memory(group: &Cgroup) -> Result<Value> {
    let Some(used) = group.memory_usage()? else {
        return Ok(json!({}));
    };
    let events = group.memory_events()?.unwrap_or_default();
    let bounded = |file| limit(group, file).unwrap_or(u64::MAX);
    let stat = group.read("memory.stat")?;
    let raw: serde_json::Map<String, Value> = stat
        .lines()
        .filter_map(|line| {
            let (key, value) = line.split_once(' ')?;
            Some((key.to_owned(), json!(value.parse::<u64>().ok()?)))
        })
        .collect();
    Ok(json!({
        "cache": used.file,
        "usage": {
            "limit": bounded("memory.max"),
            "usage": used.current,
            "max": used.peak.unwrap_or(0),
            "failcnt": events.max,
        },
        "swap": {
            "limit": bounded("memory.swap.max"),
            "usage": used.swap_current.unwrap_or(0),
            "failcnt": 0,
        },
        "kernel": { "limit": 0, "usage": used.kernel, "failcnt": 0 },
        "kernelTCP": { "limit": 0, "failcnt": 0 },
        "raw": raw,
    }))
}

fn blocks(group: &Cgroup) -> Result<Value> {
    let rows = group.io_stat()?.unwrap_or_default();
    let row = |(major, minor): (u32, u32), op: &str, value: u64| json!({"major": major, "minor": minor, "op": op, "value": value});
    let bytes: Vec<Value> = rows
        .iter()
        .flat_map(|io| {
            [
                row(io.device, "Read", io.read_bytes),
                row(io.device, "Write", io.written_bytes),
            ]
        })
        .collect();
    let counts: Vec<Value> = rows
        .iter()
        .flat_map(|io| {
            [
                row(io.device, "Read", io.reads),
                row(io.device, "Write", io.writes),
            ]
        })
        .collect();
    Ok(json!({
        "ioServiceBytesRecursive": bytes,
        "ioServicedRecursive": counts,
    }))
}
