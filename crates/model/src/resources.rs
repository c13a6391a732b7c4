// SPDX-License-Identifier: Apache-2.0
//! Limits and shares as of cgroup v2, from a client's spec, each checked by itself and against the
//! others. Whether the node has the controllers is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, Within};
use crate::text::check_count;
use crate::unified;

/// The highest CPU or memory node number, plus one.
pub const MAX_CPUS: u32 = 8192;
/// The period of `cpu.max` where the spec has none.
pub const DEFAULT_PERIOD: Duration = Duration::from_millis(100);

/// Limits and shares. Absent: unlimited, or the kernel's default.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// CPU time, and the CPUs and memory nodes to use.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cpu: Cpu,
    /// Memory, in bytes.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub memory: Memory,
    /// The most processes and threads. `None`: no limit.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub pids_max: Option<u64>,
    /// Weight and bounds of block devices.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub io: Io,
    /// Huge pages, per size.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub hugetlb: Vec<Hugetlb>,
    /// Files of cgroup v2 that have no field here, and what is written to them
    /// ([`crate::unified`]).
    #[serde(skip_serializing_if = "crate::is_default")]
    pub unified: BTreeMap<String, String>,
}

/// CPU time, and the CPUs and memory nodes to use.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// `cpu.max`: CPU time per period.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub quota: Option<Duration>,
    /// 1 ms to 1 s.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub period: Option<Duration>,
    /// `cpu.weight`, 1 to 10,000.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub weight: Option<u64>,
    /// `cpuset.cpus`, e.g. `0-1,4`. Empty: all.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cpus: String,
    /// `cpuset.mems`, a list as `0-1`. Empty: all.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub mems: String,
}

/// The least `memory.max`, in bytes. With less, the kernel can't even create the group, or kills
/// every program before its first instruction.
pub const MIN_MEMORY: u64 = 1 << 20;

/// Bytes, as of `memory.*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// `memory.min`: this much is never reclaimed.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub min: Option<u64>,
    /// `memory.low`: this much is reclaimed only when nothing else can be.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub low: Option<u64>,
    /// `memory.high`: processes are throttled above this.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub high: Option<u64>,
    /// `memory.max`: the OOM killer above this, in bytes.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub max: Option<u64>,
    /// `memory.swap.max`: bytes of swap beside memory.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub swap_max: Option<u64>,
}

/// Weight and bounds of block devices (`io.*`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Io {
    /// `io.weight`, 1 to 10,000.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub weight: Option<u64>,
    /// At most one bound per device.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub max: Vec<IoMax>,
}

/// `io.max` of one device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IoMax {
    /// A device such as `/dev/vda`, or `major:minor`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub device: String,
    /// Bytes read a second.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub read_bytes_per_second: Option<u64>,
    /// Bytes written a second.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub write_bytes_per_second: Option<u64>,
    /// Read operations a second, at least 1.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub reads_per_second: Option<u64>,
    /// Write operations a second, at least 1.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub writes_per_second: Option<u64>,
}

/// A bound of huge pages of one size, `hugetlb.SIZE.max`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hugetlb {
    /// The size as the kernel writes it: `2MB`, `1GB`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub page_size: String,
    /// The most bytes in pages of this size.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub max_bytes: u64,
}

impl Resources {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The cgroup controllers that these limits need, in a fixed order.
    pub fn controllers(&self) -> Vec<&'static str> {
        let cpu = &self.cpu;
        let needs = [
            (
                cpu.quota.is_some() || cpu.period.is_some() || cpu.weight.is_some(),
                "cpu",
            ),
            (!cpu.cpus.is_empty() || !cpu.mems.is_empty(), "cpuset"),
            (self.memory != Memory::default(), "memory"),
            (self.pids_max.is_some(), "pids"),
            (self.io != Io::default(), "io"),
            (!self.hugetlb.is_empty(), "hugetlb"),
        ];
        let has_file = |name: &str| {
            let mut files = self.unified.keys();
            files.any(|file| file.split('.').next() == Some(name))
        };
        needs
            .into_iter()
            .filter_map(|(needed, name)| (needed || has_file(name)).then_some(name))
            .collect()
    }

    /// Checks every bound by itself and against the others.
    ///
    /// # Errors
    /// `INVALID_FIELD`, naming the first field that is out of its range, twice in a list, or
    /// without meaning beside the others (a period without a quota).
    pub fn check(&self) -> Result<()> {
        self.cpu.check().within("cpu")?;
        self.memory.check().within("memory")?;
        if self.pids_max == Some(0) {
            return Err(Error::invalid("pids_max", "must be at least 1"));
        }
        self.io.check().within("io")?;
        self.check_hugetlb()?;
        unified::check(&self.unified)?;
        let idle = self.unified.get("cpu.idle").is_some_and(|idle| idle == "1");
        if idle && self.cpu.weight.is_some() {
            let problem = "is 1, and a group that is idle has no weight: the kernel refuses both";
            return Err(Error::invalid("unified[\"cpu.idle\"]", problem)
                .hint("leave one of cpu.weight and cpu.idle out"));
        }
        Ok(())
    }

    /// What its files take in a record, in bytes.
    pub(crate) fn unified_weight(&self) -> usize {
        unified::size(&self.unified)
    }

    fn check_hugetlb(&self) -> Result<()> {
        check_count("hugetlb", self.hugetlb.len(), 8)?;
        let mut seen = BTreeSet::new();
        for (i, one) in self.hugetlb.iter().enumerate() {
            let field = format!("hugetlb[{i}].page_size");
            let digits = one.page_size.trim_end_matches(['K', 'M', 'G', 'B']);
            let unit = one.page_size.strip_prefix(digits).unwrap_or_default();
            let number = digits.len() <= 5 && digits.parse::<u32>().is_ok_and(|n| n > 0);
            if !number || !["KB", "MB", "GB"].contains(&unit) {
                return Err(Error::invalid(field, "must be a size such as 2MB or 1GB"));
            }
            if !seen.insert(&one.page_size) {
                return Err(Error::invalid(field, "is given twice"));
            }
        }
        Ok(())
    }
}

impl Cpu {
    fn check(&self) -> Result<()> {
        if let Some(period) = self.period
            && !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&period)
        {
            return Err(Error::invalid("period", "must be from 1 ms to 1 s"));
        }
        if self.period.is_some() && self.quota.is_none() {
            return Err(Error::invalid("period", "has a meaning only with a quota"));
        }
        if let Some(quota) = self.quota {
            let most = Duration::from_secs(u64::from(MAX_CPUS));
            if !(Duration::from_millis(1)..=most).contains(&quota) {
                return Err(Error::invalid("quota", "must be from 1 ms to 8192 s"));
            }
        }
        check_weight("weight", self.weight)?;
        parse_list(&self.cpus).within("cpus")?;
        parse_list(&self.mems).within("mems")?;
        Ok(())
    }
}

impl Memory {
    fn check(&self) -> Result<()> {
        let ordered = [
            ("min", self.min),
            ("low", self.low),
            ("high", self.high),
            ("max", self.max),
        ];
        for (name, value) in ordered.into_iter().chain([("swap_max", self.swap_max)]) {
            // The kernel counts pages in a signed long.
            if value.is_some_and(|v| i64::try_from(v).is_err()) {
                return Err(Error::invalid(name, "is greater than 2^63 - 1 bytes"));
            }
        }
        if let Some(max) = self.max
            && max < MIN_MEMORY
        {
            let problem = format!("is {max} bytes: too small for a cell (at least 1M)");
            return Err(Error::invalid("max", problem));
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            return Err(Error::invalid("min", "is greater than max"));
        }
        Ok(())
    }
}

impl Io {
    fn check(&self) -> Result<()> {
        check_weight("weight", self.weight)?;
        check_count("max", self.max.len(), 16)?;
        let mut seen = BTreeSet::new();
        for (i, one) in self.max.iter().enumerate() {
            let at = format!("max[{i}]");
            one.check().within(&at)?;
            if !seen.insert(&one.device) {
                return Err(Error::invalid(format!("{at}.device"), "is given twice"));
            }
        }
        Ok(())
    }
}

impl IoMax {
    fn check(&self) -> Result<()> {
        let numbers = self.device.split_once(':').is_some_and(|(major, minor)| {
            major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok()
        });
        if !numbers {
            crate::text::check_absolute_path("device", &self.device)
                .map_err(|e| e.hint("name a device such as /dev/vda, or MAJOR:MINOR"))?;
            if !self.device.starts_with("/dev/") {
                let problem = "must be below /dev, or MAJOR:MINOR";
                return Err(Error::invalid("device", problem));
            }
        }
        let limits = [
            ("read_bytes_per_second", self.read_bytes_per_second),
            ("write_bytes_per_second", self.write_bytes_per_second),
            ("reads_per_second", self.reads_per_second),
            ("writes_per_second", self.writes_per_second),
        ];
        if limits.iter().all(|(_, limit)| limit.is_none()) {
            return Err(Error::invalid("", "limits nothing; give at least one rate"));
        }
        match limits.into_iter().find(|(_, limit)| *limit == Some(0)) {
            Some((name, _)) => Err(Error::invalid(name, "must be at least 1")),
            None => Ok(()),
        }
    }
}

fn check_weight(field: &str, weight: Option<u64>) -> Result<()> {
    match weight {
        Some(w) if !(1..=10_000).contains(&w) => Err(Error::invalid(
            field,
            format!("is {w}; it must be from 1 to 10000"),
        )),
        _ => Ok(()),
    }
}

/// The numbers of a list such as `0-1,4`, in order; none of an empty text.
///
/// # Errors
/// `INVALID_FIELD`: the text is no such list, is longer than 1,024 bytes, or has a number of
/// [`MAX_CPUS`] or more.
pub fn parse_list(text: &str) -> Result<Vec<u32>> {
    let fail = || {
        Error::invalid(
            "",
            "must be a list of numbers and ranges such as 0-1,4, below 8192",
        )
    };
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if text.len() > 1024 {
        return Err(fail());
    }
    let mut numbers = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let parse = |t: &str| match t.bytes().all(|b| b.is_ascii_digit()) {
            true => t.parse::<u32>().ok().filter(|n| *n < MAX_CPUS),
            false => None,
        };
        let (Some(first), Some(last)) = (parse(first), parse(last)) else {
            return Err(fail());
        };
        if first > last {
            return Err(fail());
        }
        numbers.extend(first..=last);
    }
    Ok(numbers.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Spoil = fn(&mut Resources);

    #[test]
    fn bounds_are_named_by_their_field() {
        let cases: [(&str, Spoil); 10] = [
            ("unified[\"cpu.idle\"]", |r| {
                r.unified = [("cpu.idle".into(), "1".into())].into();
                r.cpu.weight = Some(5);
            }),
            ("cpu.weight", |r| r.cpu.weight = Some(0)),
            ("cpu.period", |r| {
                r.cpu.period = Some(Duration::from_secs(1))
            }),
            ("cpu.quota", |r| {
                r.cpu.quota = Some(Duration::from_micros(5))
            }),
            ("cpu.cpus", |r| r.cpu.cpus = "3-1".into()),
            ("memory.max", |r| r.memory.max = Some(u64::MAX)),
            ("memory.max", |r| r.memory.max = Some(MIN_MEMORY - 1)),
            ("pids_max", |r| r.pids_max = Some(0)),
            ("io.max[0].device", |r| {
                r.io.max = vec![device("/dev/../etc")]
            }),
            ("hugetlb[0].page_size", |r| {
                r.hugetlb = vec![Hugetlb::default()]
            }),
        ];
        for (field, spoil) in cases {
            let mut resources = Resources::default();
            spoil(&mut resources);
            let error = resources.check().unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field));
        }
    }

    fn device(name: &str) -> IoMax {
        IoMax {
            device: name.into(),
            reads_per_second: Some(1),
            ..Default::default()
        }
    }

    #[test]
    fn controllers_follow_from_the_limits() {
        let mut resources = Resources::default();
        assert!(resources.controllers().is_empty());
        resources.pids_max = Some(5);
        resources.cpu.weight = Some(5);
        assert_eq!(resources.controllers(), ["cpu", "pids"]);
    }

    #[test]
    fn lists_are_those_of_the_kernel() {
        assert_eq!(parse_list("0-2,4").unwrap(), [0, 1, 2, 4]);
        assert_eq!(parse_list("4,0").unwrap(), [0, 4]);
        for bad in [
            ",",
            "a",
            "1-",
            "-1",
            "1--2",
            "8192",
            "+1",
            "1,",
            "99999999999",
        ] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_list_is_ever_long(text in "[0-9,-]{0,40}") {
            if let Ok(list) = parse_list(&text) {
                prop_assert!(list.len() <= MAX_CPUS as usize);
                prop_assert!(list.windows(2).all(|w| w[0] < w[1]));
            }
        }
    }
}
