// SPDX-License-Identifier: Apache-2.0
//! `update`: new limits for a container that is there.

use std::io::Read;
use std::path::Path;

use kernel::cgroup::Cgroup;

use super::load;
use crate::args;
use crate::cgroup;
use crate::config::resources::{Cpu, Memory, Resources};
use crate::container::state::Status;
use crate::error::{Doing, Result, refuse};

pub(super) fn run(root: &Path, asked: &args::Update) -> Result<()> {
    let (folder, record) = load(root, &asked.id)?;
    if record.status(&folder) == Status::Stopped {
        return refuse("container not running");
    }
    let mut resources = match &asked.resources {
        Some(path) => read(path)?,
        None => from_flags(asked)?,
    };
    let group = record.group();
    // Zero is unset.
    resources.cpu.quota = resources.cpu.quota.filter(|quota| *quota != 0);
    resources.cpu.period = resources.cpu.period.filter(|period| *period != 0);
    if let Some(group) = &group
        && resources.cpu.quota.is_some() != resources.cpu.period.is_some()
    {
        keep_the_other(&mut resources.cpu, &group.read("cpu.max")?);
    }
    if let (Some(group), Some(true)) = (&group, resources.memory.check_before_update) {
        check_use(&resources.memory, group)?;
    }
    if let Some(unit) = &record.unit {
        cgroup::systemd::update(unit, &resources)?;
    }
    cgroup::limit(group.as_ref(), &resources)
}

/// `checkBeforeUpdate`: a limit below what is in use would kill.
fn check_use(memory: &Memory, group: &Cgroup) -> Result<()> {
    let used = group.memory_current()?.unwrap_or(0);
    // A group without that file has no swap.
    let swapped = group.read("memory.swap.current").ok();
    let swapped: u64 = swapped
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    let limits = [
        ("memory+swap", memory.swap, used.saturating_add(swapped)),
        ("memory", memory.limit, used),
    ];
    for (what, limit, used) in limits {
        if let Some(limit) = limit.filter(|limit| *limit > 0)
            && u64::try_from(limit).is_ok_and(|limit| limit < used)
        {
            return refuse(format!(
                "rejecting {what} limit {limit}: {used} bytes are in use, and \
                 linux.resources.memory.checkBeforeUpdate is set"
            ));
        }
    }
    Ok(())
}

/// One file has quota and period: the one that isn't named stays as `file` has it.
fn keep_the_other(cpu: &mut Cpu, file: &str) {
    let mut words = file.split_whitespace();
    let (quota, period) = (words.next(), words.next());
    // Not a number is `max`.
    let quota = quota.map(|word| word.parse().unwrap_or(-1));
    cpu.quota = cpu.quota.or(quota);
    cpu.period = cpu.period.or(period.and_then(|word| word.parse().ok()));
}

fn read(path: &Path) -> Result<Resources> {
    let mut bytes = Vec::new();
    match path.to_str() {
        Some("-") => {
            let read = std::io::stdin().read_to_end(&mut bytes);
            read.doing("--resources: read the standard input")?;
        }
        _ => bytes = std::fs::read(path).doing_on("--resources:", path)?,
    }
    serde_json::from_slice(&bytes).doing("--resources")
}

fn from_flags(asked: &args::Update) -> Result<Resources> {
    let mut resources = Resources::default();
    let bytes = |flag: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => match bytes(text) {
            Some(bytes) => Ok(Some(bytes)),
            None => refuse(format!("invalid value for {flag}: {text:?}")),
        },
    };
    resources.memory.limit = bytes("memory", &asked.memory)?;
    resources.memory.reservation = bytes("memory-reservation", &asked.memory_reservation)?;
    resources.memory.swap = bytes("memory-swap", &asked.memory_swap)?;
    resources.cpu.period = asked.cpu_period;
    resources.cpu.quota = asked.cpu_quota;
    resources.cpu.burst = asked.cpu_burst;
    resources.cpu.shares = asked.cpu_shares;
    resources.cpu.idle = asked.cpu_idle;
    resources.cpu.cpus = asked.cpuset_cpus.clone().unwrap_or_default();
    resources.cpu.mems = asked.cpuset_mems.clone().unwrap_or_default();
    resources.pids.limit = asked.pids_limit;
    resources.block_io.weight = asked.blkio_weight;
    Ok(resources)
}

/// Bytes, with k, m, g or t behind for powers of 1,024; -1 for none.
fn bytes(text: &str) -> Option<i64> {
    if text == "-1" {
        return Some(-1);
    }
    let lower = text.to_ascii_lowercase();
    let plain = lower.strip_suffix('b').unwrap_or(&lower);
    let plain = plain.strip_suffix('i').unwrap_or(plain);
    let (number, shift) = match plain.char_indices().next_back()? {
        (at, 'k') => (plain.get(..at)?, 10),
        (at, 'm') => (plain.get(..at)?, 20),
        (at, 'g') => (plain.get(..at)?, 30),
        (at, 't') => (plain.get(..at)?, 40),
        _ => (plain, 0),
    };
    let number: i64 = number.parse().ok().filter(|number| *number >= 0)?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::{Cpu, bytes, keep_the_other};

    #[test]
    fn what_an_update_does_not_name_stays() {
        let of = |quota, period, file: &str| {
            let mut cpu = Cpu {
                quota,
                period,
                ..Cpu::default()
            };
            keep_the_other(&mut cpu, file);
            (cpu.quota, cpu.period)
        };
        let file = "500000 1000000\n";
        assert_eq!(of(None, Some(900), file), (Some(500_000), Some(900)));
        assert_eq!(of(Some(-1), None, file), (Some(-1), Some(1_000_000)));
        assert_eq!(of(None, Some(900), "max 100000\n"), (Some(-1), Some(900)));
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("0", 0),
            ("67108864", 64 << 20),
            ("64m", 64 << 20),
            ("64MiB", 64 << 20),
            ("1G", 1 << 30),
            ("-1", -1),
        ] {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for wrong in ["", "m", "-5", "1x", "99999999999t"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
