// SPDX-License-Identifier: Apache-2.0
//! The limits of a unit's cell (systemd.resource-control(5)): those of all its commands together.

use std::collections::BTreeSet;
use std::time::Duration;

use model::resources::{IoMax, Resources};
use units::unit::Settings;
use units::value::{Limit, Value};

/// What a unit's cell may use. Absent: no limit of its own.
pub(crate) fn resources(settings: &Settings) -> Resources {
    let mut all = Resources::default();
    let of = |field: &str| match settings.limit(field) {
        Some(Limit::Of(amount)) => Some(amount),
        Some(Limit::Share(share)) => memory_share(share),
        Some(Limit::Infinity) | None => None,
    };
    // MemoryLimit= is the earlier name, and counts where the later one isn't set.
    all.memory.max = of("MemoryMax").or_else(|| match settings.get("MemoryMax") {
        None => of("MemoryLimit"),
        Some(_) => None,
    });
    all.memory.high = of("MemoryHigh");
    all.memory.min = of("MemoryMin");
    all.memory.low = of("MemoryLow");
    all.memory.swap_max = of("MemorySwapMax");
    all.pids_max = match settings.limit("TasksMax") {
        Some(Limit::Of(count)) => Some(count),
        Some(Limit::Share(share)) => tasks_share(share),
        _ => None,
    };
    all.cpu.weight = weight(settings, "CPUWeight");
    all.io.weight = weight(settings, "IOWeight");
    if let Some(Value::Quota(Some(share))) = settings.get("CPUQuota") {
        // Hundredths of a percent of one processor, in each 100 ms.
        all.cpu.quota = Some(Duration::from_micros(share.saturating_mul(10)));
    }
    all.cpu.cpus = list(settings, "AllowedCPUs");
    all.cpu.mems = list(settings, "AllowedMemoryNodes");
    all.io.max = rates(settings);
    if settings.word("OOMPolicy") == Some("kill") {
        // The kernel ends all of a group at once.
        let file = "memory.oom.group".to_owned();
        all.unified.insert(file, "1".to_owned());
    }
    all
}

fn weight(settings: &Settings, field: &str) -> Option<u64> {
    match settings.limit(field) {
        Some(Limit::Of(weight)) if weight > 0 => Some(weight),
        _ => None,
    }
}

fn list(settings: &Settings, field: &str) -> String {
    match settings.get(field) {
        Some(Value::Indices(numbers)) => ranges(numbers),
        _ => String::new(),
    }
}

/// As cpuset(7) has lists: `0-3,8`.
fn ranges(numbers: &BTreeSet<u32>) -> String {
    let mut all: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match all.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => all.push((*number, *number)),
        }
    }
    let words = all.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

/// `IOReadBandwidthMax=` and the like, of each device together.
fn rates(settings: &Settings) -> Vec<IoMax> {
    let mut all: Vec<IoMax> = Vec::new();
    type Put = fn(&mut IoMax, u64);
    let fields: [(&str, Put); 4] = [
        ("IOReadBandwidthMax", |it, n| {
            it.read_bytes_per_second = Some(n)
        }),
        ("IOWriteBandwidthMax", |it, n| {
            it.write_bytes_per_second = Some(n)
        }),
        ("IOReadIOPSMax", |it, n| it.reads_per_second = Some(n)),
        ("IOWriteIOPSMax", |it, n| it.writes_per_second = Some(n)),
    ];
    for (field, put) in fields {
        let Some(Value::PerDevice(devices)) = settings.get(field) else {
            continue;
        };
        for (device, number) in devices.iter().filter(|(_, it)| (1..u64::MAX).contains(it)) {
            let known = all.iter().position(|it| it.device == *device);
            if known.is_none() {
                all.push(IoMax {
                    device: device.clone(),
                    ..IoMax::default()
                });
            }
            let place = known.unwrap_or(all.len().saturating_sub(1));
            if let Some(of_device) = all.get_mut(place) {
                put(of_device, *number);
            }
        }
    }
    all
}

fn memory_share(share: u32) -> Option<u64> {
    use units::condition::Facts;
    let all = crate::unit::facts::Machine.number("memory")?;
    Some(all / 10_000 * u64::from(share))
}

fn tasks_share(share: u32) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok()?;
    let all: u64 = text.trim().parse().ok()?;
    Some(all * u64::from(share) / 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::calendar::zones::UtcOnly;
    use units::name::UnitName;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    fn of(text: &str) -> Resources {
        let name = UnitName::parse("a.service").unwrap();
        let text = format!("[Service]\nExecStart=/bin/x\n{text}\n");
        let unit = from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly);
        resources(&unit.settings)
    }

    #[test]
    fn limits_are_those_of_the_manual() {
        let all = of(
            "MemoryMax=1G\nMemoryHigh=infinity\nMemoryMin=4M\nMemoryLow=8M\n\
                      MemorySwapMax=0\nTasksMax=7\nCPUWeight=50\nCPUQuota=150%\nIOWeight=200\n\
                      AllowedCPUs=0 1 3\nIOReadBandwidthMax=/dev/vda 5M\n\
                      IOWriteIOPSMax=/dev/vda 9",
        );
        assert_eq!(
            (all.memory.max, all.memory.high, all.memory.swap_max),
            (Some(1 << 30), None, Some(0))
        );
        assert_eq!(
            (all.memory.min, all.memory.low),
            (Some(4 << 20), Some(8 << 20))
        );
        assert_eq!(
            (all.pids_max, all.cpu.weight, all.io.weight),
            (Some(7), Some(50), Some(200))
        );
        assert_eq!(all.cpu.quota, Some(Duration::from_millis(150)));
        assert_eq!(all.cpu.cpus, "0-1,3");
        let device = all.io.max.first().unwrap();
        assert_eq!(
            (
                all.io.max.len(),
                device.read_bytes_per_second,
                device.writes_per_second
            ),
            (1, Some(5_000_000), Some(9))
        );
        assert_eq!(of("MemoryLimit=2M").memory.max, Some(2 << 20));
        assert!(of("MemoryLimit=2M\nMemoryMax=infinity").is_empty());
    }
}
