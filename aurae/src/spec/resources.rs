// SPDX-License-Identifier: Apache-2.0
//! Limits and shares, for cells and executables alike; and which of them were given, for `cell
//! update`.

use std::time::Duration;

use api::runtime::v0::{Cpu, Hugetlb, Io, IoMax, Memory, Resources};

use super::wire_duration;
use crate::quantity::{Limit, parse_bytes, parse_cpus, parse_duration, parse_limit};

/// The node's own default: `cpu.max` in 100 ms.
const DEFAULT_PERIOD: Duration = Duration::from_millis(100);

/// Limits and shares, as of cgroup v2.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Limits and shares")]
pub(crate) struct ResourceFlags {
    /// The most memory, as in 64M or 1Gi, or max
    #[arg(short, long, value_name = "BYTES", value_parser = parse_limit)]
    pub(crate) memory: Option<Limit>,
    /// Above this, memory is taken back hard
    #[arg(long, value_name = "BYTES", value_parser = parse_limit)]
    pub(crate) memory_high: Option<Limit>,
    /// Below this, memory is taken last
    #[arg(long, value_name = "BYTES", value_parser = parse_limit)]
    pub(crate) memory_low: Option<Limit>,
    /// Below this, memory is never taken
    #[arg(long, value_name = "BYTES", value_parser = parse_limit)]
    pub(crate) memory_min: Option<Limit>,
    /// The most swap beside memory (64M, max)
    #[arg(long, value_name = "BYTES", value_parser = parse_limit)]
    pub(crate) memory_swap_max: Option<Limit>,
    /// The most CPU time, in CPUs: 0.5, 500m, 50% or max
    #[arg(long, value_name = "CPUS", value_parser = parse_cpus)]
    pub(crate) cpus: Option<Limit>,
    /// Over which period --cpus is counted (1ms to 1s)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) cpu_period: Option<Duration>,
    /// The share of CPU time beside others, 1 to 10000 (100)
    #[arg(long, visible_alias = "cpu-shares", value_name = "WEIGHT")]
    pub(crate) cpu_weight: Option<u64>,
    /// Which CPUs, as in 0-1,4
    #[arg(long, value_name = "CPUS")]
    pub(crate) cpuset_cpus: Option<String>,
    /// Memory nodes, as in 0-1
    #[arg(long, value_name = "NODES")]
    pub(crate) cpuset_mems: Option<String>,
    /// The most processes and threads, or max
    #[arg(long, value_name = "NUMBER", value_parser = parse_limit)]
    pub(crate) pids_limit: Option<Limit>,
    /// The share of disk time beside others, 1 to 10000 (100)
    #[arg(long, value_name = "WEIGHT")]
    pub(crate) io_weight: Option<u64>,
    /// The most disk traffic: DEVICE,rbps=BYTES,wbps=BYTES,riops=N,wiops=N
    #[arg(long, value_name = "LIMIT", value_parser = parse_io_max)]
    pub(crate) io_max: Vec<IoMax>,
    /// The most huge pages: SIZE=BYTES, as in 2MB=64M
    #[arg(long, value_name = "LIMIT", value_parser = parse_hugetlb)]
    pub(crate) hugetlb: Vec<Hugetlb>,
    /// A file of cgroup v2 without a flag of its own, as in memory.oom.group=1
    #[arg(long, value_name = "FILE=VALUE", value_parser = super::parse_pair)]
    pub(crate) cgroup_conf: Vec<(String, String)>,
}

impl ResourceFlags {
    /// `None`: nothing was asked for.
    pub(crate) fn build(&self) -> Option<Resources> {
        let resources = Resources {
            cpu: some_unless_default(self.cpu()),
            memory: some_unless_default(self.memory()),
            pids_max: number(self.pids_limit),
            io: some_unless_default(Io {
                weight: self.io_weight,
                max: self.io_max.clone(),
            }),
            hugetlb: self.hugetlb.clone(),
            unified: self.cgroup_conf.iter().cloned().collect(),
        };
        some_unless_default(resources)
    }

    fn cpu(&self) -> Cpu {
        Cpu {
            quota: number(self.cpus).map(|milli| wire_duration(self.quota(milli))),
            period: self.cpu_period.map(wire_duration),
            weight: self.cpu_weight,
            cpus: self.cpuset_cpus.clone().unwrap_or_default(),
            mems: self.cpuset_mems.clone().unwrap_or_default(),
        }
    }

    /// The CPU time per period that makes that many thousandths of a CPU.
    fn quota(&self, milli: u64) -> Duration {
        let period = self.cpu_period.unwrap_or(DEFAULT_PERIOD).as_micros();
        let micros = period.saturating_mul(milli.into()) / 1000;
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    fn memory(&self) -> Memory {
        Memory {
            min: number(self.memory_min),
            low: number(self.memory_low),
            high: number(self.memory_high),
            max: number(self.memory),
            swap_max: number(self.memory_swap_max),
        }
    }

    /// The update mask's paths of what was given; a limit given as `max` is in it, and absent in
    /// the message.
    pub(crate) fn mask(&self) -> Vec<String> {
        let given = [
            (self.memory.is_some(), "memory.max"),
            (self.memory_high.is_some(), "memory.high"),
            (self.memory_low.is_some(), "memory.low"),
            (self.memory_min.is_some(), "memory.min"),
            (self.memory_swap_max.is_some(), "memory.swap_max"),
            (self.cpus.is_some(), "cpu.quota"),
            (self.cpu_period.is_some(), "cpu.period"),
            (self.cpu_weight.is_some(), "cpu.weight"),
            (self.cpuset_cpus.is_some(), "cpu.cpus"),
            (self.cpuset_mems.is_some(), "cpu.mems"),
            (self.pids_limit.is_some(), "pids_max"),
            (self.io_weight.is_some(), "io.weight"),
            (!self.io_max.is_empty(), "io.max"),
            (!self.hugetlb.is_empty(), "hugetlb"),
            (!self.cgroup_conf.is_empty(), "unified"),
        ];
        let paths = given.iter().filter(|(is_given, _)| *is_given);
        paths
            .map(|(_, path)| format!("spec.resources.{path}"))
            .collect()
    }
}

fn number(limit: Option<Limit>) -> Option<u64> {
    limit.and_then(|Limit(number)| number)
}

fn some_unless_default<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// Parses a device's limits.
pub(crate) fn parse_io_max(text: &str) -> Result<IoMax, String> {
    let fail = || "write DEVICE,rbps=BYTES,wbps=BYTES,riops=N,wiops=N with at least one".to_owned();
    let mut parts = text.split(',');
    let mut limit = IoMax {
        device: parts.next().unwrap_or_default().to_owned(),
        ..Default::default()
    };
    if limit.device.is_empty() || !text.contains('=') {
        return Err(fail());
    }
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(fail)?;
        let value = Some(parse_bytes(value)?);
        match key {
            "rbps" => limit.read_bytes_per_second = value,
            "wbps" => limit.write_bytes_per_second = value,
            "riops" => limit.reads_per_second = value,
            "wiops" => limit.writes_per_second = value,
            _ => return Err(fail()),
        }
    }
    Ok(limit)
}

/// Parses a limit of huge pages.
pub(crate) fn parse_hugetlb(text: &str) -> Result<Hugetlb, String> {
    let (page_size, bytes) = text
        .split_once('=')
        .ok_or("write SIZE=BYTES, as in 2MB=64M")?;
    Ok(Hugetlb {
        page_size: page_size.to_owned(),
        max_bytes: parse_bytes(bytes)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_given_is_nothing_sent_and_nothing_changed() {
        let flags = ResourceFlags::default();
        assert!(flags.build().is_none() && flags.mask().is_empty());
    }

    #[test]
    fn cpus_become_a_quota_of_the_period() {
        let mut flags = ResourceFlags {
            cpus: Some(Limit(Some(1500))),
            ..Default::default()
        };
        let quota =
            |flags: &ResourceFlags| flags.build().unwrap().cpu.unwrap().quota.unwrap().nanos;
        assert_eq!(quota(&flags), 150_000_000);
        flags.cpu_period = Some(Duration::from_millis(10));
        assert_eq!(quota(&flags), 15_000_000);
    }

    #[test]
    fn taking_a_limit_away_is_in_the_mask_and_not_in_the_message() {
        let flags = ResourceFlags {
            memory: Some(Limit(None)),
            ..Default::default()
        };
        assert_eq!(flags.mask(), ["spec.resources.memory.max"]);
        assert!(flags.build().is_none());
    }

    #[test]
    fn disk_limits() {
        let limit = parse_io_max("/dev/vda,rbps=1M,wiops=100").unwrap();
        assert_eq!(
            (limit.read_bytes_per_second, limit.writes_per_second),
            (Some(1 << 20), Some(100))
        );
        for text in ["", "/dev/vda", "/dev/vda,x=1", ",rbps=1", "/dev/vda,rbps"] {
            assert!(parse_io_max(text).is_err(), "{text}");
        }
    }
}
