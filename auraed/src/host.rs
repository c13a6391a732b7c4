// SPDX-License-Identifier: Apache-2.0
//! Facts of the machine, read from the files where the kernel states them. Facts that change are
//! read at each call; nothing is cached. Called by the node service and at start.

use std::path::Path;
use std::time::{Duration, SystemTime};

/// The kernel's release, e.g. `6.1.0-18-cloud-amd64`.
pub(crate) fn kernel_release() -> String {
    line("/proc/sys/kernel/osrelease")
}

/// `/etc/machine-id`: 32 hexadecimal digits, or nothing before init has written it.
pub(crate) fn machine_id() -> String {
    line("/etc/machine-id")
}

/// Changes with every boot.
pub(crate) fn boot_id() -> String {
    line("/proc/sys/kernel/random/boot_id")
}

/// The first label of the host name, lower-case, as far as it is a DNS label; `node` otherwise.
pub(crate) fn default_name() -> String {
    name_of_host(&line("/proc/sys/kernel/hostname"))
}

fn name_of_host(host: &str) -> String {
    let label = host
        .split('.')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_label = (1..=63).contains(&label.len())
        && label.bytes().all(fits)
        && !label.starts_with('-')
        && !label.ends_with('-');
    if is_label { label } else { "node".to_owned() }
}

/// When the kernel started, by its own account (whole seconds).
pub(crate) fn booted() -> Option<SystemTime> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let seconds = field(&stat, "btime")?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Total and available memory, in bytes.
pub(crate) fn memory() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name| field(&text, name).map(|kib| kib * 1024);
    Some((kib("MemTotal:")?, kib("MemAvailable:")?))
}

/// Processes and threads that the kernel takes, at most: the lower of its two bounds.
pub(crate) fn most_processes() -> u64 {
    let bounds = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    let numbers = bounds.iter().filter_map(|file| line(file).parse().ok());
    numbers.min().unwrap_or(u64::MAX)
}

/// The lowest value of a limit, e.g. `memory.max`, in a cgroup and all around it up to the mount
/// point; of `cpu.max` thousandths of a CPU. `None`: there is no bound.
pub(crate) fn least_around(group: &Path, mount: &Path, file: &str) -> Option<u64> {
    let groups = group.ancestors().take_while(|it| it.starts_with(mount));
    let bounds = groups.filter_map(|it| std::fs::read_to_string(it.join(file)).ok());
    bounds.filter_map(|text| bound(&text)).min()
}

/// A limit as the kernel shows it: a number or `max`, and for `cpu.max` a period behind it, both in
/// microseconds.
fn bound(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let most: u64 = words.next()?.parse().ok()?;
    match words.next() {
        None => Some(most),
        Some(period) => most.saturating_mul(1000).checked_div(period.parse().ok()?),
    }
}

/// Whether a watchdog counts, as the kernel says of its device.
pub(crate) fn watchdog_counts(device: &Path) -> Result<(), String> {
    let name = device.file_name().and_then(|it| it.to_str());
    // The first one has two names.
    let name = match name {
        Some("watchdog") | None => "watchdog0",
        Some(name) => name,
    };
    match line(&format!("/sys/class/watchdog/{name}/state")).as_str() {
        "active" => Ok(()),
        "" => Err(format!("there is no {}", device.display())),
        state => Err(format!("{} is {state}", device.display())),
    }
}

/// CPUs that this process may use.
pub(crate) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn line(path: &str) -> String {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_after_its_host_where_that_is_a_label() {
        for (host, name) in [
            ("alice", "alice"),
            ("Alice.example.org", "alice"),
            ("", "node"),
            ("(none)", "node"),
            ("-x", "node"),
        ] {
            assert_eq!(name_of_host(host), name);
        }
    }

    #[test]
    fn the_kernel_tells_its_facts() {
        assert!(!kernel_release().is_empty());
        assert_eq!(boot_id().len(), 36);
        assert!(booted().unwrap() < SystemTime::now());
        let (total, available) = memory().unwrap();
        assert!(0 < available && available <= total);
    }

    #[test]
    fn the_lowest_limit_of_all_groups_around_counts() {
        let mount = tempfile::tempdir().unwrap();
        let slice = mount.path().join("machine.slice");
        let node = slice.join("aurae");
        std::fs::create_dir_all(&node).unwrap();
        let least = || least_around(&node, mount.path(), "pids.max");
        assert_eq!(least(), None);
        std::fs::write(node.join("pids.max"), "max\n").unwrap();
        assert_eq!(least(), None);
        std::fs::write(slice.join("pids.max"), "500\n").unwrap();
        assert_eq!(least(), Some(500));
        std::fs::write(node.join("pids.max"), "700\n").unwrap();
        assert_eq!(least(), Some(500));
        // A container's own group is where the hierarchy is mounted.
        std::fs::write(mount.path().join("pids.max"), "300\n").unwrap();
        assert_eq!(least(), Some(300));
        // Nothing beyond it is the hierarchy's.
        assert_eq!(least_around(&node, &slice, "pids.max"), Some(500));
        assert_eq!(least_around(mount.path(), &slice, "pids.max"), None);
    }

    #[test]
    fn a_bound_of_cpus_is_told_in_thousandths() {
        for (shown, expected) in [
            ("max 100000\n", None),
            ("150000 100000\n", Some(1500)),
            ("20000 50000\n", Some(400)),
            ("max\n", None),
            ("500\n", Some(500)),
            ("500 0\n", None),
            ("", None),
        ] {
            assert_eq!(bound(shown), expected, "{shown:?}");
        }
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        assert_eq!(
            field("MemTotalX: 1 kB\nMemTotal: 2 kB\n", "MemTotal:"),
            Some(2)
        );
        assert_eq!(field("MemTotal:\n", "MemTotal:"), None);
    }
}
