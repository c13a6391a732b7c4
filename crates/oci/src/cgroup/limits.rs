// SPDX-License-Identifier: Apache-2.0
//! `linux.resources`, as files of cgroup v2 and what is written to each. Pure.
//!
//! The specification has the terms of version 1. What became of each is the same here as with runc
//! 1.3 and crun 1.23, so that a limit doesn't change with the runtime.

use crate::config::resources::{BlockIo, Cpu, Memory, Resources};
use crate::error::{Result, refuse};

/// The files in the order in which they are written, later ones last.
pub(crate) fn files(resources: &Resources) -> Result<Vec<(String, String)>> {
    let mut out = Vec::new();
    memory(&resources.memory, &mut out)?;
    cpu(&resources.cpu, &mut out)?;
    match resources.pids.limit {
        None => {}
        // No process at all can't be: what is meant is the container's own alone. So it is with
        // runc since 1.4; before, it was no limit.
        Some(0) => put(&mut out, "pids.max", "1".to_owned()),
        Some(limit) => put(&mut out, "pids.max", bound(limit)),
    }
    block_io(&resources.block_io, &mut out);
    for limit in &resources.hugepage_limits {
        let (size, value) = (&limit.page_size, limit.limit.to_string());
        if size.contains('/') || size.is_empty() {
            return refuse(format!(
                "linux.resources.hugepageLimits: {size:?} is no size"
            ));
        }
        put(&mut out, &format!("hugetlb.{size}.max"), value.clone());
        put(&mut out, &format!("hugetlb.{size}.rsvd.max"), value);
    }
    for (device, limit) in &resources.rdma {
        let part = |key: &str, value: Option<u32>| value.map(|value| format!(" {key}={value}"));
        let handles = part("hca_handle", limit.hca_handles).unwrap_or_default();
        let objects = part("hca_object", limit.hca_objects).unwrap_or_default();
        put(&mut out, "rdma.max", format!("{device}{handles}{objects}"));
    }
    for (file, value) in &resources.unified {
        if file.contains('/') || file.is_empty() {
            return refuse(format!(
                "linux.resources.unified: {file:?} must be a file name"
            ));
        }
        // Files of several devices take one of them at a time.
        match value.is_empty() {
            true => put(&mut out, file, value),
            false => value.lines().for_each(|line| put(&mut out, file, line)),
        }
    }
    Ok(out)
}

/// Whether a group may lack the file though its controller is there: a newer kernel's, or one of
/// another scheduler.
pub(crate) fn is_optional(file: &str) -> bool {
    file.ends_with(".rsvd.max") || file == "io.bfq.weight" || file == "io.weight"
}

fn put(out: &mut Vec<(String, String)>, file: &str, value: impl ToString) {
    out.push((file.to_owned(), value.to_string()));
}

/// Negative lifts a limit.
fn bound(value: i64) -> String {
    match value {
        ..0 => "max".to_owned(),
        value => value.to_string(),
    }
}

fn memory(memory: &Memory, out: &mut Vec<(String, String)>) -> Result<()> {
    let limit = memory.limit.filter(|limit| *limit != 0);
    let swap = match memory.swap.filter(|swap| *swap != 0) {
        None => None,
        Some(..0) => Some("max".to_owned()),
        // Of version 1 it is memory and swap together.
        Some(both) => match limit {
            Some(limit) if limit > 0 && both >= limit => Some((both - limit).to_string()),
            Some(limit) if limit > 0 => {
                return refuse(
                    "linux.resources.memory.swap: memory+swap limit should be >= memory limit",
                );
            }
            _ => {
                return refuse(
                    "linux.resources.memory.swap: unable to set swap limit without memory limit",
                );
            }
        },
    };
    // No limit of memory means none of swap either.
    let swap = swap.or_else(|| (limit == Some(-1)).then(|| "max".to_owned()));
    if let Some(swap) = swap {
        put(out, "memory.swap.max", swap);
    }
    if let Some(limit) = limit {
        put(out, "memory.max", bound(limit));
    }
    if let Some(reservation) = memory.reservation.filter(|value| *value != 0) {
        put(out, "memory.low", bound(reservation));
    }
    if memory.disable_oom_killer == Some(true) {
        return refuse("linux.resources.memory.disableOOMKiller: cgroup v2 can't");
    }
    Ok(())
}

fn cpu(cpu: &Cpu, out: &mut Vec<(String, String)>) -> Result<()> {
    if cpu.realtime_runtime.is_some_and(|v| v != 0) || cpu.realtime_period.is_some_and(|v| v != 0) {
        return refuse("linux.resources.cpu.realtimeRuntime, realtimePeriod: cgroup v2 can't");
    }
    if let Some(idle) = cpu.idle {
        put(out, "cpu.idle", idle);
    }
    // An idle group has no weight.
    if let (Some(shares), true) = (cpu.shares, cpu.idle.unwrap_or(0) == 0)
        && shares != 0
    {
        put(out, "cpu.weight", weight(shares));
    }
    let quota = cpu.quota.filter(|quota| *quota != 0);
    let period = cpu.period.filter(|period| *period != 0);
    if let Some(burst) = cpu.burst {
        put(out, "cpu.max.burst", burst);
    }
    if quota.is_some() || period.is_some() {
        let quota = quota.map_or_else(|| "max".to_owned(), bound);
        put(
            out,
            "cpu.max",
            format!("{quota} {}", period.unwrap_or(100_000)),
        );
    }
    if !cpu.cpus.is_empty() {
        put(out, "cpuset.cpus", &cpu.cpus);
    }
    if !cpu.mems.is_empty() {
        put(out, "cpuset.mems", &cpu.mems);
    }
    Ok(())
}

/// Shares, 2 to 262,144 with 1,024 as the usual, to a weight of 1 to 10,000 with 100 as the usual:
/// a curve through these three points.
fn weight(shares: u64) -> u64 {
    match shares {
        0..=2 => 1,
        262_144.. => 10_000,
        shares => {
            let l = (shares as f64).log2();
            let exponent = (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0;
            10f64.powf(exponent).ceil() as u64
        }
    }
}

fn block_io(block: &BlockIo, out: &mut Vec<(String, String)>) {
    // Of 10 to 1,000, to 1 to 10,000.
    let io_weight = |weight: u16| 1 + (u64::from(weight).saturating_sub(10)) * 9999 / 990;
    if let Some(weight) = block.weight.filter(|weight| *weight != 0) {
        put(out, "io.bfq.weight", weight);
        put(out, "io.weight", io_weight(weight));
    }
    for device in &block.weight_device {
        if let Some(weight) = device.weight {
            let (major, minor) = (device.major, device.minor);
            put(out, "io.bfq.weight", format!("{major}:{minor} {weight}"));
        }
    }
    for (key, list) in [
        ("rbps", &block.throttle_read_bps_device),
        ("wbps", &block.throttle_write_bps_device),
        ("riops", &block.throttle_read_iops_device),
        ("wiops", &block.throttle_write_iops_device),
    ] {
        for device in list {
            let (major, minor) = (device.major, device.minor);
            put(
                out,
                "io.max",
                format!("{major}:{minor} {key}={}", device.rate),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<(String, String)>> {
        files(&serde_json::from_str(text).unwrap())
    }

    fn check(text: &str, expected: &[(&str, &str)]) {
        let files = of(text).unwrap();
        let files: Vec<_> = files
            .iter()
            .map(|(f, v)| (f.as_str(), v.as_str()))
            .collect();
        assert_eq!(files, expected, "{text}");
    }

    #[test]
    fn limits_of_version_1_are_files_of_version_2() {
        check(
            r#"{"memory":{"limit":1000,"swap":1500,"reservation":500}}"#,
            &[
                ("memory.swap.max", "500"),
                ("memory.max", "1000"),
                ("memory.low", "500"),
            ],
        );
        check(
            r#"{"memory":{"limit":-1}}"#,
            &[("memory.swap.max", "max"), ("memory.max", "max")],
        );
        check(r#"{"cpu":{"quota":5000}}"#, &[("cpu.max", "5000 100000")]);
        check(
            r#"{"cpu":{"quota":-1,"period":1000}}"#,
            &[("cpu.max", "max 1000")],
        );
        check(
            r#"{"hugepageLimits":[{"pagesize":"2MB","limit":5}]}"#,
            &[("hugetlb.2MB.max", "5"), ("hugetlb.2MB.rsvd.max", "5")],
        );
        assert!(of(r#"{"hugepageLimits":[{"limit":5}]}"#).is_err());
        check(
            r#"{"unified":{"io.max":"7:0 riops=1\n7:1 riops=2\n"}}"#,
            &[("io.max", "7:0 riops=1"), ("io.max", "7:1 riops=2")],
        );
        check(r#"{"pids":{"limit":-1}}"#, &[("pids.max", "max")]);
        check(r#"{"pids":{"limit":0}}"#, &[("pids.max", "1")]);
        check(
            r#"{"unified":{"memory.high":"1"}}"#,
            &[("memory.high", "1")],
        );
        check(
            r#"{"blockIO":{"throttleReadIOPSDevice":[{"major":8,"minor":0,"rate":5}]}}"#,
            &[("io.max", "8:0 riops=5")],
        );
        check("{}", &[]);
    }

    #[test]
    fn the_usual_shares_are_the_usual_weight() {
        assert_eq!(weight(2), 1);
        assert_eq!(weight(1024), 100);
        assert_eq!(weight(262_144), 10_000);
        assert!(
            (3..262_144)
                .step_by(97)
                .all(|s| weight(s) <= weight(s + 97))
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for text in [
            r#"{"memory":{"swap":1000}}"#,
            r#"{"memory":{"limit":1000,"swap":500}}"#,
            r#"{"memory":{"disableOOMKiller":true}}"#,
            r#"{"cpu":{"realtimeRuntime":5}}"#,
            r#"{"unified":{"../x":"1"}}"#,
        ] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
