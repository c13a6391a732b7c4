// SPDX-License-Identifier: Apache-2.0
//! The resources that a group has used, all groups below it included. `None`: the controller isn't
//! there.

use rustix::io::Errno;

use super::{Cgroup, parse};
use crate::Result;

/// `cpu.stat`, in microseconds. The first three are there without the controller too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuStat {
    /// CPU time of all processes, in user mode and in the kernel.
    pub usage_us: u64,
    /// The part of it in user mode.
    pub user_us: u64,
    /// The part of it in the kernel.
    pub system_us: u64,
    /// Periods of `cpu.max` in which a process of the group ran.
    pub periods: u64,
    /// Periods in which the group used up its quota.
    pub throttled_periods: u64,
    /// How long it was stopped for having used up its quota.
    pub throttled_us: u64,
}

/// `memory.*`, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUsage {
    /// `memory.current`: all of the group's memory, page cache included.
    pub current: u64,
    /// `memory.peak`; Linux 5.19 and later.
    pub peak: Option<u64>,
    /// `memory.swap.current`; with swap accounting.
    pub swap_current: Option<u64>,
    /// Anonymous memory: heaps, stacks and private mappings; not tmpfs.
    pub anon: u64,
    /// Page cache, tmpfs included.
    pub file: u64,
    /// Memory that the kernel uses for the group: page tables, stacks, slabs.
    pub kernel: u64,
    /// The part of `file` that is not in recent use: `current` less this is the working set.
    pub inactive_file: u64,
}

/// `memory.events`: how often each happened since the group was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryEvents {
    /// Memory was reclaimed although the group was below `memory.low`.
    pub low: u64,
    /// A process was throttled because the group was above `memory.high`.
    pub high: u64,
    /// About to pass `memory.max`.
    pub max: u64,
    /// The OOM killer was needed.
    pub oom: u64,
    /// Processes killed by it.
    pub oom_kill: u64,
    /// Groups killed by it.
    pub oom_group_kill: u64,
}

/// `pids.*`: processes and threads, and how many were refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PidsUsage {
    /// Processes and threads now.
    pub current: u64,
    /// The most there ever were; Linux 6.1 and later.
    pub peak: Option<u64>,
    /// Forks refused by the limit.
    pub refused: u64,
}

/// `io.stat` of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoStat {
    /// Major and minor number of the whole disk.
    pub device: (u32, u32),
    /// Bytes read since the group was made.
    pub read_bytes: u64,
    /// Bytes written since the group was made.
    pub written_bytes: u64,
    /// Read operations.
    pub reads: u64,
    /// Write operations.
    pub writes: u64,
    /// Bytes discarded (trimmed).
    pub discarded_bytes: u64,
}

impl Cgroup {
    /// CPU time used since the group was made.
    ///
    /// # Errors
    /// `ENOENT`: the group was removed.
    pub fn cpu_stat(&self) -> Result<CpuStat> {
        let text = self.read("cpu.stat")?;
        let value = |key| parse::flat(&text, key).unwrap_or(0);
        Ok(CpuStat {
            usage_us: value("usage_usec"),
            user_us: value("user_usec"),
            system_us: value("system_usec"),
            periods: value("nr_periods"),
            throttled_periods: value("nr_throttled"),
            throttled_us: value("throttled_usec"),
        })
    }

    /// Memory in use now; `None` without the memory controller.
    ///
    /// # Errors
    /// `ENOENT`: the group was removed.
    pub fn memory_usage(&self) -> Result<Option<MemoryUsage>> {
        let Some(current) = self.read_optional("memory.current")? else {
            return Ok(None);
        };
        let stat = self.read("memory.stat")?;
        let value = |key| parse::flat(&stat, key).unwrap_or(0);
        Ok(Some(MemoryUsage {
            current: parse::single(&current).unwrap_or(0),
            peak: self.memory_peak()?,
            swap_current: self.number("memory.swap.current")?,
            anon: value("anon"),
            file: value("file"),
            kernel: value("kernel"),
            inactive_file: value("inactive_file"),
        }))
    }

    /// `memory.current` alone, in bytes; `None` without the memory controller.
    ///
    /// # Errors
    /// `ENOENT`: the group was removed.
    pub fn memory_current(&self) -> Result<Option<u64>> {
        self.number("memory.current")
    }

    /// The most memory that the group ever had, in bytes; `None` without the controller and before
    /// Linux 5.19.
    ///
    /// # Errors
    /// `ENOENT`: the group was removed.
    pub fn memory_peak(&self) -> Result<Option<u64>> {
        self.number("memory.peak")
    }

    /// The most processes and threads that the group ever had; `None` without the controller and
    /// before Linux 6.1.
    ///
    /// # Errors
    /// `ENOENT`: the group was removed.
    pub fn pids_peak(&self) -> Result<Option<u64>> {
        self.number("pids.peak")
    }

    /// How often the memory limits were met since the group was made; `None` without the
    /// controller.
    ///
    /// # Errors
    /// `ENOENT`: the group was removed.
    pub fn memory_events(&self) -> Result<Option<MemoryEvents>> {
        let Some(text) = self.read_optional("memory.events")? else {
            return Ok(None);
        };
        let value = |key| parse::flat(&text, key).unwrap_or(0);
        Ok(Some(MemoryEvents {
            low: value("low"),
            high: value("high"),
            max: value("max"),
            oom: value("oom"),
            oom_kill: value("oom_kill"),
            oom_group_kill: value("oom_group_kill"),
        }))
    }

    /// Processes and threads; `None` without the pids controller.
    ///
    /// # Errors
    /// `ENOENT`: the group was removed.
    pub fn pids_usage(&self) -> Result<Option<PidsUsage>> {
        let Some(current) = self.read_optional("pids.current")? else {
            return Ok(None);
        };
        let peak = self.read_optional("pids.peak")?;
        let events = self.read_optional("pids.events")?.unwrap_or_default();
        Ok(Some(PidsUsage {
            current: parse::single(&current).unwrap_or(0),
            peak: peak.and_then(|text| parse::single(&text)),
            refused: parse::flat(&events, "max").unwrap_or(0),
        }))
    }

    /// Bytes and operations since the group was made, a row per device that was used; `None`
    /// without the io controller.
    ///
    /// # Errors
    /// `ENOENT`: the group was removed.
    pub fn io_stat(&self) -> Result<Option<Vec<IoStat>>> {
        Ok(self.read_optional("io.stat")?.map(|text| read_io(&text)))
    }

    /// What a file of one number says; `None` as in `read_optional`.
    fn number(&self, file: &str) -> Result<Option<u64>> {
        let text = self.read_optional(file)?;
        Ok(text.and_then(|text| parse::single(&text)))
    }

    /// `None` where neither the file nor its controller is there; an error where the group is gone.
    fn read_optional(&self, file: &str) -> Result<Option<String>> {
        match self.read(file) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.is(Errno::OPNOTSUPP.raw_os_error()) => Ok(None),
            // With its controller, but not this kernel's: the group must still be there to say so.
            Err(e) if e.is_not_found() => self.events().map(|_| None),
            Err(e) => Err(e),
        }
    }
}

fn read_io(text: &str) -> Vec<IoStat> {
    let row = |(device, values): ((u32, u32), Vec<(&str, u64)>)| {
        let value = |key: &str| {
            values
                .iter()
                .find(|(k, _)| *k == key)
                .map_or(0, |(_, v)| *v)
        };
        IoStat {
            device,
            read_bytes: value("rbytes"),
            written_bytes: value("wbytes"),
            reads: value("rios"),
            writes: value("wios"),
            discarded_bytes: value("dbytes"),
        }
    };
    parse::nested(text).map(row).collect()
}
