// SPDX-License-Identifier: Apache-2.0
//! What the kernel says of memory and processes, from /proc.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Memory that the machine could still give, in bytes.
pub(crate) fn memory_available() -> Result<f64> {
    kibibytes(&fs::read_to_string("/proc/meminfo")?, "MemAvailable:").context("/proc/meminfo")
}

/// Fields of /proc/meminfo (proc(5)) that what runs adds to, and none to another.
pub(crate) const PARTS: [&str; 5] = [
    "AnonPages:",
    "Slab:",
    "Percpu:",
    "KernelStack:",
    "PageTables:",
];

/// [`PARTS`], in bytes.
pub(crate) fn memory_parts() -> Result<[f64; PARTS.len()]> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let mut parts = [0.0; PARTS.len()];
    for (part, field) in parts.iter_mut().zip(PARTS) {
        *part = kibibytes(&text, field).with_context(|| format!("/proc/meminfo: {field}"))?;
    }
    Ok(parts)
}

/// [`memory_available`] once it stays where it is: the kernel takes namespaces apart in its own
/// time.
pub(crate) async fn settled_memory() -> Result<f64> {
    settled(Duration::from_millis(500), 2e6, memory_available).await
}

/// What is read once two readings, that long apart, differ by less than so many bytes.
async fn settled(apart: Duration, by: f64, read: impl Fn() -> Result<f64>) -> Result<f64> {
    let mut again = tokio::time::interval(apart);
    again.tick().await;
    let mut last = read()?;
    loop {
        again.tick().await;
        let now = read()?;
        if (now - last).abs() < by {
            return Ok(now);
        }
        last = now;
    }
}

/// The process's proportional share of memory, in bytes.
pub(crate) fn pss(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .with_context(|| format!("memory of process {pid}"))?;
    kibibytes(&text, "Pss:").with_context(|| format!("memory of process {pid}"))
}

/// [`pss`] once it stays where it is: a daemon gives back what its start and its calls took, every
/// five seconds.
pub(crate) async fn settled_pss(pid: u32) -> Result<f64> {
    settled(Duration::from_secs(7), 64.0 * 1024.0, || pss(pid)).await
}

/// CPU time of all its threads so far, in seconds.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let mut nanoseconds = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let first = text
            .split_whitespace()
            .next()
            .context("an empty schedstat")?;
        nanoseconds += first.parse::<f64>()?;
    }
    Ok(nanoseconds / 1e9)
}

/// Its parent.
pub(crate) fn parent(pid: u32) -> Result<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:"));
    Ok(line.context("no PPid")?.trim().parse()?)
}

fn kibibytes(text: &str, field: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? * 1024.0)
}

/// A process and its children, such as an init with its daemon and the inits of its cells.
pub(crate) fn with_children(pid: u32) -> Result<Vec<u32>> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let mut all = vec![pid];
    for word in text.split_whitespace() {
        all.push(word.parse()?);
    }
    Ok(all)
}

/// Processors that processes may run on.
pub(crate) struct Processors(CpuSet);

impl Processors {
    /// Those of this process.
    pub(crate) fn all() -> Result<Self> {
        Ok(Self(sched_getaffinity(None)?))
    }

    /// The first half of them; one of one.
    pub(crate) fn half(&self) -> Self {
        let mut left = self.0.count().div_ceil(2);
        let mut half = CpuSet::new();
        for number in (0..CpuSet::MAX_CPU).filter(|number| self.0.is_set(*number)) {
            if left == 0 {
                break;
            }
            half.set(number);
            left -= 1;
        }
        Self(half)
    }

    /// Lets every thread of these processes run on them alone. One that has ended meanwhile is left
    /// out.
    pub(crate) fn allow(&self, pids: &[u32]) -> Result<()> {
        for pid in pids {
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
                continue;
            };
            for task in tasks.flatten() {
                let number = task.file_name().to_string_lossy().parse()?;
                match sched_setaffinity(Pid::from_raw(number), &self.0) {
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(error) => return Err(error).context("sched_setaffinity"),
                }
            }
        }
        Ok(())
    }
}
