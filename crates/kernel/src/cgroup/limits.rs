// SPDX-License-Identifier: Apache-2.0
//! The limits of a group: turned into files and values, and written.

use super::Cgroup;
use crate::Result;

/// A bound that can be lifted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// No bound: the kernel's `max`.
    Max,
    /// This bound, in the unit of the field that has it.
    At(u64),
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Max => f.write_str("max"),
            Bound::At(value) => write!(f, "{value}"),
        }
    }
}

/// `cpu.max`: this much CPU time per period, both in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuMax {
    /// CPU time in a period, in microseconds; at least 1,000.
    pub quota_us: Bound,
    /// 1,000 to 1,000,000; a long one stalls what has used up its quota for that long.
    pub period_us: u64,
}

/// `io.max` of one block device; `None` leaves a bound as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoMax {
    /// Device numbers of the whole disk.
    pub device: (u32, u32),
    /// Bytes read per second.
    pub read_bytes: Option<Bound>,
    /// Bytes written per second.
    pub write_bytes: Option<Bound>,
    /// Read operations per second.
    pub read_ops: Option<Bound>,
    /// Write operations per second.
    pub write_ops: Option<Bound>,
}

/// Limits of one group; `None` leaves a limit as it is. Memory in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// `cpu.max`: CPU time per period.
    pub cpu_max: Option<CpuMax>,
    /// `cpu.weight`, 1 to 10,000.
    pub cpu_weight: Option<u64>,
    /// `cpuset.cpus`, a list as `0-3,8`; empty: the parent's.
    pub cpuset_cpus: Option<String>,
    /// `cpuset.mems`: memory nodes, a list as in `cpuset_cpus`; empty: the parent's.
    pub cpuset_mems: Option<String>,
    /// `memory.min`: this much is never reclaimed.
    pub memory_min: Option<Bound>,
    /// `memory.low`: this much is reclaimed only when nothing else can be.
    pub memory_low: Option<Bound>,
    /// `memory.high`: throttled and reclaimed beyond.
    pub memory_high: Option<Bound>,
    /// `memory.max`: the OOM killer beyond.
    pub memory_max: Option<Bound>,
    /// `memory.swap.max`: bytes in swap.
    pub memory_swap_max: Option<Bound>,
    /// `memory.oom.group`: the OOM killer ends the whole group.
    pub memory_oom_group: Option<bool>,
    /// `pids.max`: processes and threads.
    pub pids_max: Option<Bound>,
    /// `io.weight`, 1 to 10,000 (needs an I/O scheduler or cost model that has weights).
    pub io_weight: Option<u64>,
    /// `io.max`, a line per device.
    pub io_max: Vec<IoMax>,
    /// `hugetlb.SIZE.max`: the size as the kernel writes it (`2MB`, `1GB`), and bytes.
    pub hugetlb_max: Vec<(String, Bound)>,
    /// Other files and what is written to them before all of the above: what would stand in its
    /// way. The kernel takes no `cpu.weight` while `cpu.idle` is 1, and no quota below
    /// `cpu.max.burst`.
    pub first: Vec<(String, String)>,
    /// Other files and what is written to them, after all of the above.
    pub others: Vec<(String, String)>,
}

impl Limits {
    /// The files to write and what, in an order that works: a soft bound before the hard one it is
    /// under.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let mut put = |file: &str, value: Option<String>| {
            if let Some(value) = value {
                out.push((file.to_owned(), value));
            }
        };
        for (file, value) in &self.first {
            put(file, Some(value.clone()));
        }
        put(
            "cpu.max",
            self.cpu_max
                .map(|c| format!("{} {}", c.quota_us, c.period_us)),
        );
        put("cpu.weight", self.cpu_weight.map(|w| w.to_string()));
        put("cpuset.cpus", self.cpuset_cpus.clone());
        put("cpuset.mems", self.cpuset_mems.clone());
        put("memory.min", self.memory_min.map(|b| b.to_string()));
        put("memory.low", self.memory_low.map(|b| b.to_string()));
        put("memory.high", self.memory_high.map(|b| b.to_string()));
        put("memory.max", self.memory_max.map(|b| b.to_string()));
        put(
            "memory.swap.max",
            self.memory_swap_max.map(|b| b.to_string()),
        );
        put(
            "memory.oom.group",
            self.memory_oom_group.map(|on| u8::from(on).to_string()),
        );
        put("pids.max", self.pids_max.map(|b| b.to_string()));
        put("io.weight", self.io_weight.map(|w| format!("default {w}")));
        for device in &self.io_max {
            put("io.max", device.line());
        }
        for (size, bound) in &self.hugetlb_max {
            put(&format!("hugetlb.{size}.max"), Some(bound.to_string()));
        }
        for (file, value) in &self.others {
            put(file, Some(value.clone()));
        }
        out
    }

    /// The controllers these limits need, each once.
    pub fn controllers(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (file, _) in self.settings() {
            let name = file.split('.').next().unwrap_or_default().to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

impl IoMax {
    fn line(&self) -> Option<String> {
        let bounds = [
            ("rbps", self.read_bytes),
            ("wbps", self.write_bytes),
            ("riops", self.read_ops),
            ("wiops", self.write_ops),
        ];
        let set: Vec<_> = bounds
            .iter()
            .filter_map(|(key, b)| b.map(|b| format!("{key}={b}")))
            .collect();
        let (major, minor) = self.device;
        (!set.is_empty()).then(|| format!("{major}:{minor} {}", set.join(" ")))
    }
}

impl Cgroup {
    /// Writes the limits, in the order of [`Limits::settings`].
    ///
    /// # Errors
    /// The first that fails, with its file and value; those before it stay. `EOPNOTSUPP`: a
    /// controller that the group hasn't got. `EINVAL`, `ERANGE`: the kernel refuses the value.
    /// `ENODEV`: no disk has the number in [`IoMax::device`]. `ENOENT`: the group was removed.
    pub fn set_limits(&self, limits: &Limits) -> Result<()> {
        for (file, value) in limits.settings() {
            self.write(&file, &value)?;
        }
        Ok(())
    }

    /// The disks that `io.max` has a line for, by major and minor number.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the group has no io controller. `ENOENT`: the kernel has no `io.max`
    /// (`CONFIG_BLK_DEV_THROTTLING`), or the group was removed.
    pub fn bounded_disks(&self) -> Result<Vec<(u32, u32)>> {
        Ok(devices(&self.read("io.max")?))
    }
}

/// The devices of the lines of `io.max`.
fn devices(text: &str) -> Vec<(u32, u32)> {
    super::parse::nested(text)
        .map(|(device, _)| device)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_asked_for_is_nothing_written() {
        assert!(Limits::default().settings().is_empty());
        assert!(Limits::default().controllers().is_empty());
    }

    #[test]
    fn the_disks_of_io_max_are_read() {
        let text = "254:0 rbps=1048576 wbps=max riops=max wiops=max\n\nx\n8:16 rbps=max\n";
        assert_eq!(devices(text), [(254, 0), (8, 16)]);
    }

    #[test]
    fn limits_are_written_as_the_kernel_reads_them() {
        let limits = Limits {
            cpu_max: Some(CpuMax {
                quota_us: Bound::At(50_000),
                period_us: 100_000,
            }),
            memory_max: Some(Bound::At(1 << 20)),
            memory_high: Some(Bound::Max),
            memory_oom_group: Some(true),
            io_max: vec![
                IoMax {
                    device: (8, 0),
                    write_bytes: Some(Bound::At(9)),
                    ..IoMax::default()
                },
                IoMax {
                    device: (8, 16),
                    ..IoMax::default()
                },
            ],
            hugetlb_max: vec![("2MB".into(), Bound::At(0))],
            first: vec![("cpu.idle".into(), "0".into())],
            others: vec![("cpu.idle".into(), "1".into())],
            ..Limits::default()
        };
        let settings = limits.settings();
        let text: Vec<_> = settings.iter().map(|(f, v)| format!("{f}={v}")).collect();
        assert_eq!(
            text,
            [
                "cpu.idle=0",
                "cpu.max=50000 100000",
                "memory.high=max",
                "memory.max=1048576",
                "memory.oom.group=1",
                "io.max=8:0 wbps=9",
                "hugetlb.2MB.max=0",
                "cpu.idle=1",
            ]
        );
        assert_eq!(limits.controllers(), ["cpu", "memory", "io", "hugetlb"]);
    }
}
