// SPDX-License-Identifier: Apache-2.0
//! Whether a cron runs on the node beside us: both would run each line of a crontab. What tenants
//! run counts for nothing: every user can name a process `cron`. Called by schedules from crontabs
//! before each start, which wait for nothing here, and by `declared` before it reads a crontab.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long it is believed what was seen.
const FRESH: Duration = Duration::from_secs(10);
/// When to ask again while one runs.
const AGAIN: Duration = Duration::from_secs(30);
/// When to ask again while it is looked.
const SOON: Duration = Duration::from_millis(200);
/// The tenant that is the node itself: what units run is below its cgroup.
const SYSTEM: &str = "system";

/// The cgroup below which tenants' are.
static TENANTS: OnceLock<PathBuf> = OnceLock::new();

/// What was seen last.
struct Seen {
    at: Option<Instant>,
    /// It is looked just now.
    looking: bool,
    words: Option<String>,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen {
    at: None,
    looking: false,
    words: None,
});

/// What is below that cgroup is tenants'.
pub(crate) fn leave_out(tenants: &Path) {
    // Said once, at start.
    let _ = TENANTS.set(tenants.to_owned());
}

/// What is in the way of lines of crontabs, in words, and when to ask again. Looks at `/proc`
/// beside the caller, at most each ten seconds.
pub(crate) fn in_the_way() -> Option<(String, Duration)> {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.at.is_some_and(|at| at.elapsed() < FRESH) {
        return seen.words.clone().map(|words| (words, AGAIN));
    }
    if !seen.looking {
        seen.looking = true;
        tokio::task::spawn_blocking(look);
    }
    let words = seen.words.clone();
    let looked = || "it is being looked whether another cron runs on this node".to_owned();
    Some((words.unwrap_or_else(looked), SOON))
}

/// Looks now; in words.
pub(crate) fn look() -> Option<String> {
    let words = find(Path::new("/proc"), is_of_node);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    *seen = Seen {
        at: Some(Instant::now()),
        looking: false,
        words: words.clone(),
    };
    words
}

fn find(proc: &Path, is_of_node: impl Fn(i32) -> bool) -> Option<String> {
    let processes = std::fs::read_dir(proc).ok()?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    for pid in processes.flatten().filter_map(number) {
        let name = std::fs::read_to_string(proc.join(format!("{pid}/comm")));
        let name = name.unwrap_or_default();
        let name = name.trim_end();
        if matches!(name, "cron" | "crond" | "bcron-sched" | "fcron") && is_of_node(pid) {
            return Some(format!(
                "{name} runs on this node (pid {pid}), and would run the same lines: stop and \
                 disable it"
            ));
        }
    }
    None
}

/// Root's, in the node's own namespaces, and no tenant's.
fn is_of_node(pid: i32) -> bool {
    let namespace = |of: &str, kind: &str| std::fs::read_link(format!("/proc/{of}/ns/{kind}")).ok();
    let of = pid.to_string();
    let own = |kind| namespace(&of, kind).is_some_and(|it| Some(it) == namespace("self", kind));
    let owner = std::fs::metadata(format!("/proc/{pid}")).map(|it| it.uid());
    let group = kernel::cgroup::find::path_of_process(pid).ok();
    let tenants = TENANTS.get().map(PathBuf::as_path);
    owner.is_ok_and(|uid| uid == 0) && own("pid") && own("user") && !is_of_tenant(group, tenants)
}

fn is_of_tenant(group: Option<PathBuf>, tenants: Option<&Path>) -> bool {
    let below = |group: &PathBuf| {
        let path = group.strip_prefix(tenants?).ok()?;
        path.components().next().map(|it| it.as_os_str() != SYSTEM)
    };
    group.as_ref().and_then(below).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tenant_calls_cron_is_none() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, name) in [(7, "bash"), (8, "cron")] {
            let of = proc.path().join(pid.to_string());
            std::fs::create_dir(&of).unwrap();
            std::fs::write(of.join("comm"), format!("{name}\n")).unwrap();
        }
        let found = find(proc.path(), |_| true);
        assert!(found.is_some_and(|it| it.contains("cron") && it.contains("pid 8")));
        assert_eq!(find(proc.path(), |pid| pid != 8), None);
        // This process is of the node, as far as root runs it; another one that isn't there not.
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(is_of_node(own), rustix::process::geteuid().is_root());
        assert!(!is_of_node(i32::MAX));
    }

    #[test]
    fn a_tenant_is_told_by_the_cgroup() {
        let tenants = Path::new("/sys/fs/cgroup/aurae/tenants");
        for (group, of_tenant) in [
            ("/sys/fs/cgroup/aurae/tenants/blue/web", true),
            ("/sys/fs/cgroup/aurae/tenants/system/units", false),
            ("/sys/fs/cgroup/aurae/tenants", false),
            ("/sys/fs/cgroup/system.slice/cron.service", false),
        ] {
            let found = is_of_tenant(Some(group.into()), Some(tenants));
            assert_eq!(found, of_tenant, "{group}");
        }
    }
}
