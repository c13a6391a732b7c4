// SPDX-License-Identifier: Apache-2.0
//! The most memory that a process and its descendants take at once: their proportional set sizes,
//! looked at again and again. Pages of files that no process maps don't count: they are the
//! kernel's to drop.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Looks until it is asked.
pub(super) struct Peak {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Peak {
    pub(super) fn watch(process: u32) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            let mut most = 0;
            while !seen.load(Ordering::Relaxed) {
                most = most.max(of_tree(process));
                // The kernel tells of no peak of a tree of processes.
                std::thread::sleep(LOOK);
            }
            most
        });
        Self { ended, thread }
    }

    /// In MiB.
    pub(super) fn mib(self) -> Result<f64> {
        self.ended.store(true, Ordering::Relaxed);
        let most = self
            .thread
            .join()
            .map_err(|_| anyhow!("no memory was seen"))?;
        #[expect(clippy::cast_precision_loss, reason = "a figure to be shown")]
        let kib = most as f64;
        Ok(kib / 1024.0)
    }
}

/// KiB of one process.
pub(in crate::bench) fn of(process: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"));
    let rollup = rollup.unwrap_or_default();
    let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = pss.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default()
}

/// KiB of a process and its descendants. One that has just ended counts as nothing.
fn of_tree(process: u32) -> u64 {
    let mut sum = 0;
    let mut left = vec![process];
    while let Some(process) = left.pop() {
        sum += of(process);
        let tasks = fs::read_dir(format!("/proc/{process}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children"));
            let children = children.unwrap_or_default();
            left.extend(
                children
                    .split_whitespace()
                    .filter_map(|it| it.parse::<u32>().ok()),
            );
        }
    }
    sum
}
