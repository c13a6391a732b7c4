// SPDX-License-Identifier: Apache-2.0
//! Limits as asked for, turned into cgroup files. A limit whose controller the node lacks is an
//! error that names the controller and says how to get it; nothing is ever silently not limited.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

use kernel::cgroup::{Bound, Cgroup, CpuMax, IoMax, Limits};
use model::error::{Error, Reason};
use model::resources::{IoMax as WantedIo, Resources};
use rustix::io::Errno;

/// The default period of `cpu.max`.
const PERIOD: Duration = Duration::from_millis(100);

/// What the kernel is to be told. Absent limits are not touched: a new group has none.
pub(crate) fn of(resources: &Resources) -> Result<Limits, Error> {
    let bound = |value: Option<u64>| value.map(Bound::At);
    let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
    let cpu = &resources.cpu;
    let memory = &resources.memory;
    Ok(Limits {
        cpu_max: cpu.quota.map(|quota| CpuMax {
            quota_us: Bound::At(micros(quota)),
            period_us: micros(cpu.period.unwrap_or(PERIOD)),
        }),
        cpu_weight: cpu.weight,
        cpuset_cpus: text(&cpu.cpus),
        cpuset_mems: text(&cpu.mems),
        memory_min: bound(memory.min),
        memory_low: bound(memory.low),
        memory_high: bound(memory.high),
        memory_max: bound(memory.max),
        memory_swap_max: bound(memory.swap_max),
        memory_oom_group: None,
        pids_max: bound(resources.pids_max),
        io_weight: resources.io.weight,
        io_max: resources.io.max.iter().map(io).collect::<Result<_, _>>()?,
        hugetlb_max: resources
            .hugetlb
            .iter()
            .map(|h| (h.page_size.clone(), Bound::At(h.max_bytes)))
            .collect(),
        first: Vec::new(),
        others: others(&resources.unified),
    })
}

fn others(unified: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let each = unified.iter();
    each.map(|(file, value)| (file.clone(), value.clone()))
        .collect()
}

/// Every limit, those that are absent explicitly lifted: for a group that had others.
pub(crate) fn exactly(resources: &Resources, before: &Resources) -> Result<Limits, Error> {
    let mut limits = of(resources)?;
    let lift = |now: &mut Option<Bound>, had: bool, none: Bound| {
        if now.is_none() && had {
            *now = Some(none);
        }
    };
    let memory = &before.memory;
    lift(&mut limits.memory_min, memory.min.is_some(), Bound::At(0));
    lift(&mut limits.memory_low, memory.low.is_some(), Bound::At(0));
    lift(&mut limits.memory_high, memory.high.is_some(), Bound::Max);
    lift(&mut limits.memory_max, memory.max.is_some(), Bound::Max);
    lift(
        &mut limits.memory_swap_max,
        memory.swap_max.is_some(),
        Bound::Max,
    );
    lift(&mut limits.pids_max, before.pids_max.is_some(), Bound::Max);
    if limits.cpu_max.is_none() && before.cpu.quota.is_some() {
        limits.cpu_max = Some(CpuMax {
            quota_us: Bound::Max,
            period_us: micros(PERIOD),
        });
    }
    if limits.cpu_weight.is_none() && before.cpu.weight.is_some() {
        limits.cpu_weight = Some(100);
    }
    if limits.io_weight.is_none() && before.io.weight.is_some() {
        limits.io_weight = Some(100);
    }
    if limits.cpuset_cpus.is_none() && !before.cpu.cpus.is_empty() {
        limits.cpuset_cpus = Some(String::new());
    }
    if limits.cpuset_mems.is_none() && !before.cpu.mems.is_empty() {
        limits.cpuset_mems = Some(String::new());
    }
    lift_devices(&mut limits, resources, before)?;
    for file in before.unified.keys() {
        let Some(none) = model::unified::default_of(file) else {
            continue;
        };
        let lifted = (file.clone(), none.to_owned());
        if model::unified::stands_in_the_way(file) {
            limits.first.push(lifted);
        } else if !resources.unified.contains_key(file) {
            limits.others.push(lifted);
        }
    }
    Ok(limits)
}

fn lift_devices(
    limits: &mut Limits,
    resources: &Resources,
    before: &Resources,
) -> Result<(), Error> {
    for old in &before.io.max {
        let device = device(&old.device)?;
        let none = Some(Bound::Max);
        match limits.io_max.iter_mut().find(|now| now.device == device) {
            Some(now) => {
                now.read_bytes = now.read_bytes.or(none);
                now.write_bytes = now.write_bytes.or(none);
                now.read_ops = now.read_ops.or(none);
                now.write_ops = now.write_ops.or(none);
            }
            None => limits.io_max.push(IoMax {
                device,
                read_bytes: none,
                write_bytes: none,
                read_ops: none,
                write_ops: none,
            }),
        }
    }
    for old in &before.hugetlb {
        if !resources
            .hugetlb
            .iter()
            .any(|now| now.page_size == old.page_size)
        {
            limits.hugetlb_max.push((old.page_size.clone(), Bound::Max));
        }
    }
    Ok(())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn io(wanted: &WantedIo) -> Result<IoMax, Error> {
    let bound = |value: Option<u64>| value.map(Bound::At);
    Ok(IoMax {
        device: device(&wanted.device)?,
        read_bytes: bound(wanted.read_bytes_per_second),
        write_bytes: bound(wanted.write_bytes_per_second),
        read_ops: bound(wanted.reads_per_second),
        write_ops: bound(wanted.writes_per_second),
    })
}

/// `MAJOR:MINOR`, or a block device's file.
fn device(name: &str) -> Result<(u32, u32), Error> {
    if let Some((major, minor)) = name.split_once(':')
        && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
    {
        return Ok((major, minor));
    }
    let bad = |problem: String| {
        Error::invalid("resources.io.max.device", format!("{name} {problem}"))
            .hint("name a whole disk such as /dev/vda, or its MAJOR:MINOR")
    };
    let meta = std::fs::metadata(name).map_err(|e| bad(format!("can't be looked at: {e}")))?;
    if !meta.file_type().is_block_device() {
        return Err(bad("is not a block device".to_owned()));
    }
    let device = meta.rdev();
    Ok((rustix::fs::major(device), rustix::fs::minor(device)))
}

/// Hands the controllers that the limits of a group below need on to it.
///
/// # Errors
/// `CONTROLLER_UNAVAILABLE` naming the first that isn't there.
pub(crate) fn enable(parent: &Cgroup, resources: &Resources) -> Result<(), Error> {
    let needed = resources.controllers();
    if needed.is_empty() {
        return Ok(());
    }
    let available = parent.controllers().map_err(|e| unwritable(&e))?;
    if let Some(missing) = needed.iter().find(|c| !available.iter().any(|a| a == *c)) {
        return Err(unavailable(missing));
    }
    let enabled = parent.enabled().map_err(|e| unwritable(&e))?;
    let missing: Vec<_> = needed
        .iter()
        .filter(|c| !enabled.iter().any(|e| e == *c))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    parent.enable(&missing).map_err(|e| unwritable(&e))
}

/// Refuses a protection of memory that would do nothing: the kernel gives a group no more of it
/// than every group around it has. `around`: the group that the limited one is made in.
///
/// # Errors
/// `UNSUPPORTED` naming the group that has less, and how much.
pub(crate) fn check_protection(around: &Cgroup, resources: &Resources) -> Result<(), Error> {
    let memory = &resources.memory;
    let wanted = [("memory.min", memory.min), ("memory.low", memory.low)];
    let mount = kernel::cgroup::find::mount_point().map_err(|e| unwritable(&e))?;
    for (file, wanted) in wanted {
        let Some(wanted) = wanted.filter(|wanted| *wanted > 0) else {
            continue;
        };
        for path in around.path().ancestors().take_while(|path| **path != mount) {
            let group = Cgroup::open(path).map_err(|e| unwritable(&e))?;
            let has = group.read(file).map_err(|e| unwritable(&e))?;
            enough(file, wanted, path, &has)?;
        }
    }
    Ok(())
}

fn enough(file: &str, wanted: u64, around: &std::path::Path, has: &str) -> Result<(), Error> {
    let has = match has.trim() {
        "max" => u64::MAX,
        number => number.parse().unwrap_or(0),
    };
    match has < wanted {
        true => Err(ineffective(file, wanted, around, has)),
        false => Ok(()),
    }
}

fn ineffective(file: &str, wanted: u64, around: &std::path::Path, has: u64) -> Error {
    let around = around.display();
    let message = format!("{file} of {wanted} bytes would do nothing: {around} has {has}");
    let hint = match file {
        "memory.low" => {
            "no tenant has memory.low that a cell could have a part of: ask for memory.min instead \
             (--memory-min), within the tenant's quota memory_min"
        }
        _ => "give the tenant, and the cells around this one, at least as much of it first",
    };
    Error::new(Reason::Unsupported, message)
        .field(format!(
            "resources.{}",
            file.replace('.', "_").replacen('_', ".", 1)
        ))
        .hint(hint)
}

/// The controllers that make usage known and are enabled wherever they are.
pub(crate) const USUAL: [&str; 4] = ["cpu", "memory", "pids", "io"];

/// Hands the usual controllers on, as far as they are there.
pub(crate) fn enable_usual(group: &Cgroup, also: &[&str]) -> Result<(), kernel::Error> {
    let available = group.controllers()?;
    let enabled = group.enabled()?;
    let wanted: Vec<_> = USUAL
        .iter()
        .chain(also)
        .filter(|c| available.iter().any(|a| a == *c) && !enabled.iter().any(|e| e == *c))
        .collect();
    if wanted.is_empty() {
        Ok(())
    } else {
        group.enable(&wanted)
    }
}

/// Writes the limits of a group.
pub(crate) fn set(group: &Cgroup, limits: &Limits) -> Result<(), Error> {
    group.set_limits(limits).map_err(|e| unwritable(&e))
}

pub(crate) fn unavailable(controller: &str) -> Error {
    Error::new(
        Reason::ControllerUnavailable,
        format!("the node has no {controller} controller in its cgroup2 hierarchy"),
    )
    .about("controller", controller)
    .hint(format!(
        "boot with systemd.unified_cgroup_hierarchy=1 or cgroup_no_v1={controller}, and delegate \
         {controller} to auraed (Delegate=yes)"
    ))
}

fn unwritable(error: &kernel::Error) -> Error {
    let reason = match Errno::from_raw_os_error(error.errno()) {
        Errno::OPNOTSUPP => Reason::ControllerUnavailable,
        _ => Reason::Unsupported,
    };
    Error::new(
        reason,
        format!("a limit was refused by the kernel: {error}"),
    )
    .errno(error.errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_of_a_weight_or_a_quota_is_lifted_before_it() {
        let with = |files: &[(&str, &str)]| Resources {
            unified: files
                .iter()
                .map(|(f, v)| ((*f).into(), (*v).into()))
                .collect(),
            ..Resources::default()
        };
        let before = with(&[("cpu.idle", "1"), ("cpu.max.burst", "9000")]);
        let mut now = with(&[("cpu.max.burst", "500")]);
        now.cpu.weight = Some(200);
        now.cpu.quota = Some(Duration::from_millis(1));
        let settings = exactly(&now, &before).unwrap().settings();
        let text: Vec<_> = settings.iter().map(|(f, v)| format!("{f}={v}")).collect();
        assert_eq!(
            text,
            [
                "cpu.idle=0",
                "cpu.max.burst=0",
                "cpu.max=1000 100000",
                "cpu.weight=200",
                "cpu.max.burst=500",
            ]
        );
        // Back again: the weight goes before the kernel would refuse it.
        let settings = exactly(&before, &now).unwrap().settings();
        let at = |file: &str| settings.iter().rposition(|(f, _)| f == file).unwrap();
        assert!(at("cpu.weight") < at("cpu.idle"));
    }

    #[test]
    fn a_protection_that_would_do_nothing_is_refused() {
        let around = std::path::Path::new("/sys/fs/cgroup/aurae/acme");
        let check = |has| enough("memory.min", 4096, around, has);
        assert!(check("max\n").is_ok() && check("4096\n").is_ok());
        let error = check("0\n").unwrap_err();
        assert_eq!(error.reason, Reason::Unsupported);
        assert_eq!(error.field.as_deref(), Some("resources.memory.min"));
        assert!(error.message.contains("acme has 0"), "{error}");
        assert!(
            error
                .hint
                .as_deref()
                .is_some_and(|hint| hint.contains("give the tenant"))
        );
        // No tenant can be given that.
        let error = enough("memory.low", 4096, around, "0\n").unwrap_err();
        assert_eq!(error.field.as_deref(), Some("resources.memory.low"));
        assert!(
            error
                .hint
                .as_deref()
                .is_some_and(|hint| hint.contains("--memory-min"))
        );
    }
}
