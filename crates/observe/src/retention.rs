// SPDX-License-Identifier: Apache-2.0
//! Retention: what goes when logs are too old or too many. [`plan`] is pure and decides; the thread
//! looks at the disk, which is the only account of what is used, and unlinks. It never touches the
//! segment that is written.
//!
//! Where the node as a whole keeps too much, the tenant that has most loses its oldest first:
//! nobody can push out another's logs by printing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::name::{Tenant, Uid};

use super::config::{Keep, LogsConfig};
use super::folder::{self, Folder, LogKey, SegmentFiles};
use super::format::{Entry, HEADER, Header, Record, recover};
use super::live::Registry;

/// Events that may wait; one more is left to the next periodic look.
const WAITING: usize = 256;

/// From one look at everything to the next, at least: a full disk makes every log complain.
const CALM: Duration = Duration::from_millis(200);

/// Tells the thread what happened; the thread ends with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Retention {
    events: SyncSender<Event>,
    used: Arc<AtomicU64>,
    config: Arc<Mutex<LogsConfig>>,
}

#[derive(Debug)]
enum Event {
    SegmentFull(LogKey, Keep),
    DiskFull,
    Look,
}

impl Retention {
    /// # Errors
    /// The kernel gives no thread.
    pub(super) fn start(
        root: PathBuf,
        config: LogsConfig,
        registry: Arc<Registry>,
    ) -> io::Result<Self> {
        let (events, queue) = sync_channel(WAITING);
        let used = Arc::new(AtomicU64::new(0));
        let config = Arc::new(Mutex::new(config));
        let thread = Thread {
            root,
            config: Arc::clone(&config),
            registry,
            used: Arc::clone(&used),
            policies: HashMap::new(),
        };
        std::thread::Builder::new()
            .name("log-keep".to_owned())
            .spawn(move || thread.run(&queue))?;
        Ok(Self {
            events,
            used,
            config,
        })
    }

    pub(super) fn segment_full(&self, key: &LogKey, keep: Keep) {
        drop(self.events.try_send(Event::SegmentFull(key.clone(), keep)));
    }

    pub(super) fn disk_full(&self) {
        drop(self.events.try_send(Event::DiskFull));
    }

    /// Looks at everything now; the first time, when what goes on from an earlier daemon is known.
    pub(super) fn look(&self) {
        drop(self.events.try_send(Event::Look));
    }

    pub(super) fn configure(&self, config: LogsConfig) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        self.look();
    }

    /// Bytes on disk of all logs, as last counted.
    pub(super) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// One log as the thread found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) key: LogKey,
    pub(super) keep: Keep,
    /// Ascending.
    pub(super) segments: Vec<SegmentFiles>,
    /// The last segment is being written.
    pub(super) live: bool,
}

impl Found {
    /// The segments that may go: not the one that is written, and not what tells that something was
    /// there.
    fn droppable(&self) -> &[SegmentFiles] {
        match self.segments.split_last() {
            Some((last, rest)) if self.live || last.data_bytes == 0 => rest,
            _ => &self.segments,
        }
    }

    fn going(&self, segment: &SegmentFiles) -> Going {
        Going {
            key: self.key.clone(),
            base: segment.base,
            is_last: self.segments.last() == Some(segment),
        }
    }
}

/// A segment to drop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Going {
    pub(super) key: LogKey,
    pub(super) base: u64,
    /// Nothing of the log is left then; a marker takes its place.
    pub(super) is_last: bool,
}

/// What the node as a whole may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    pub(super) total_bytes: u64,
    pub(super) now_s: u64,
}

/// Which segments go, in the order in which they should; a log's always oldest first.
pub(super) fn plan(logs: &[Found], bounds: Bounds) -> Vec<Going> {
    let mut going = Vec::new();
    let mut queues: BTreeMap<&Tenant, Vec<(u64, &Found, SegmentFiles)>> = BTreeMap::new();
    let mut used: BTreeMap<&Tenant, u64> = BTreeMap::new();
    for log in logs {
        let mut bytes: u64 = log.segments.iter().map(|s| s.disk_bytes).sum();
        let oldest = bounds.now_s.saturating_sub(log.keep.max_age.as_secs());
        let mut expendable = true;
        for segment in log.droppable() {
            expendable &= bytes > log.keep.max_bytes || segment.modified_s < oldest;
            if expendable {
                bytes = bytes.saturating_sub(segment.disk_bytes);
                going.push(log.going(segment));
            } else {
                let queue = queues.entry(&log.key.tenant).or_default();
                queue.push((segment.modified_s, log, *segment));
            }
        }
        *used.entry(&log.key.tenant).or_default() += bytes;
    }
    for queue in queues.values_mut() {
        // Newest first, so that the oldest is popped; within one log by offset.
        queue.sort_by_key(|(modified, log, s)| std::cmp::Reverse((*modified, log.key.uid, s.base)));
    }
    let mut total: u64 = used.values().sum();
    while total > bounds.total_bytes {
        let most = queues
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .max_by_key(|(tenant, _)| used.get(*tenant).copied().unwrap_or(0))
            .map(|(tenant, _)| *tenant);
        let Some(tenant) = most else { break };
        let popped = queues.get_mut(tenant).and_then(Vec::pop);
        let Some((_, log, segment)) = popped else {
            break;
        };
        total = total.saturating_sub(segment.disk_bytes);
        if let Some(used) = used.get_mut(tenant) {
            *used = used.saturating_sub(segment.disk_bytes);
        }
        going.push(log.going(&segment));
    }
    going
}

struct Thread {
    root: PathBuf,
    config: Arc<Mutex<LogsConfig>>,
    registry: Arc<Registry>,
    used: Arc<AtomicU64>,
    /// Of logs that were looked at: the policy is in the newest header, which doesn't change.
    policies: HashMap<Uid, Keep>,
}

impl Thread {
    fn run(mut self, events: &Receiver<Event>) {
        let mut next = Instant::now() + self.config().keep_every;
        let mut looked = None::<Instant>;
        loop {
            let config = self.config();
            let wait = next.saturating_duration_since(Instant::now());
            let outcome = match events.recv_timeout(wait) {
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(Event::SegmentFull(key, keep)) => self.trim_one(&key, keep, &config),
                Ok(Event::DiskFull) if looked.is_some_and(|at| at.elapsed() < CALM) => {
                    next = next.min(Instant::now() + CALM);
                    Ok(())
                }
                Err(RecvTimeoutError::Timeout) | Ok(Event::DiskFull | Event::Look) => {
                    let outcome = self.look_at_all(&config);
                    looked = Some(Instant::now());
                    next = Instant::now() + config.keep_every.max(CALM);
                    outcome
                }
            };
            if let Err(error) = outcome {
                tracing::warn!(%error, "retention of logs: some could not be looked at");
            }
        }
    }

    fn config(&self) -> LogsConfig {
        let config = self.config.lock();
        config.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A log has begun another segment: is it too long, or are all of them together?
    fn trim_one(&mut self, key: &LogKey, keep: Keep, config: &LogsConfig) -> io::Result<()> {
        let used = self.used.load(Ordering::Relaxed) + keep.segment_bytes();
        self.used.store(used, Ordering::Relaxed);
        if used > config.node_max_bytes {
            return self.look_at_all(config);
        }
        let found = Found {
            key: key.clone(),
            keep,
            segments: Folder::new(&self.root, key).segments()?,
            live: true,
        };
        let bounds = Bounds {
            total_bytes: u64::MAX,
            now_s: now_s(),
        };
        self.carry_out(&plan(&[found], bounds))
    }

    fn look_at_all(&mut self, config: &LogsConfig) -> io::Result<()> {
        let keys = folder::all(&self.root)?;
        let mut logs = Vec::with_capacity(keys.len());
        for key in keys {
            // Asked first: a log that ends meanwhile is then still taken for live.
            let live = self.registry.contains(&key.uid);
            let segments = Folder::new(&self.root, &key).segments()?;
            let keep = self.policy(&key, &segments, config);
            logs.push(Found {
                key,
                keep,
                segments,
                live,
            });
        }
        let there: HashSet<Uid> = logs.iter().map(|l| l.key.uid).collect();
        self.policies.retain(|uid, _| there.contains(uid));
        let total: u64 = logs
            .iter()
            .flat_map(|l| &l.segments)
            .map(|s| s.disk_bytes)
            .sum();
        self.used.store(total, Ordering::Relaxed);
        let bounds = Bounds {
            total_bytes: config.node_max_bytes.min(room(&self.root, total, config)),
            now_s: now_s(),
        };
        self.carry_out(&plan(&logs, bounds))
    }

    fn carry_out(&self, going: &[Going]) -> io::Result<()> {
        for segment in going {
            let folder = Folder::new(&self.root, &segment.key);
            if !segment.is_last {
                folder.remove_segment(segment.base)?;
                continue;
            }
            // It may have become a live one since it was looked at: a cell-init that was slow to
            // answer a new daemon hands its pipes over late.
            let outcome = self.registry.unless_live(&segment.key.uid, || {
                leave_marker(&folder, segment.base)?;
                folder.remove_segment(segment.base)
            });
            outcome.transpose()?;
        }
        Ok(())
    }

    fn policy(&mut self, key: &LogKey, segments: &[SegmentFiles], config: &LogsConfig) -> Keep {
        if let Some(keep) = self.policies.get(&key.uid) {
            return *keep;
        }
        let newest = segments.last().map(|s| s.base);
        let header = newest.and_then(|base| read_header(&Folder::new(&self.root, key), base));
        let Some(header) = header else {
            return config.keep(&model::executable::LogPolicy::default());
        };
        let keep = Keep {
            max_bytes: header.keep_bytes,
            max_age: Duration::from_secs(header.keep_s),
        };
        self.policies.insert(key.uid, keep);
        keep
    }
}

/// Where the last segment at `base` was, an empty one that says how long the log had been.
fn leave_marker(folder: &Folder, base: u64) -> io::Result<()> {
    let index = std::fs::read(folder.index(base))?;
    let size = std::fs::metadata(folder.data(base)).map_or(0, |meta| meta.len());
    let Ok(found) = recover(&index, size) else {
        return Ok(());
    };
    let (stdout_before, stderr_before) = found.walk.totals();
    let header = Header {
        base: found.walk.offset().saturating_add(found.lost()),
        stdout_before,
        stderr_before,
        ..found.header
    };
    let end = Record {
        entry: Entry::End { size: 0 },
        time_us: now_s().saturating_mul(1_000_000),
    };
    let mut bytes = header.encode().to_vec();
    bytes.extend(end.encode());
    std::fs::write(folder.index(header.base), bytes)
}

fn read_header(folder: &Folder, base: u64) -> Option<Header> {
    use std::io::Read;
    let mut bytes = [0; HEADER];
    let mut file = std::fs::File::open(folder.index(base)).ok()?;
    file.read_exact(&mut bytes).ok()?;
    Header::decode(&bytes).ok()
}

/// How much logs may take so that the file system keeps its free share.
fn room(root: &Path, used: u64, config: &LogsConfig) -> u64 {
    let Ok(fs) = rustix::fs::statvfs(root) else {
        return u64::MAX;
    };
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    let whole = fs.f_blocks.saturating_mul(fs.f_frsize);
    let reserve = whole / 100 * u64::from(config.keep_free_percent.min(100));
    // Whoever else fills the disk can't push out logs altogether.
    used.saturating_add(free)
        .saturating_sub(reserve)
        .max(reserve)
}

fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| d.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_segment_stays_where_its_log_became_live_since_it_was_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let key = LogKey {
            tenant: "acme".parse().unwrap(),
            uid: Uid([7; 16]),
        };
        let folder = Folder::new(dir.path(), &key);
        let files = [folder.index(0), folder.data(0)];
        std::fs::create_dir_all(files[0].parent().unwrap()).unwrap();
        for file in &files {
            std::fs::write(file, "old").unwrap();
        }
        let registry = Arc::new(Registry::default());
        let thread = Thread {
            root: dir.path().to_owned(),
            config: Arc::default(),
            registry: Arc::clone(&registry),
            used: Arc::default(),
            policies: HashMap::new(),
        };
        let going = [Going {
            key: key.clone(),
            base: 0,
            is_last: true,
        }];
        registry.insert(&key);
        thread.carry_out(&going).unwrap();
        assert!(files.iter().all(|file| file.exists()));
        registry.finish(&key.uid);
        thread.carry_out(&going).unwrap();
        assert!(!files.iter().any(|file| file.exists()));
    }
}
