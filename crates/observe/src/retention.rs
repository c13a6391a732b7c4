// SPDX-License-Identifier: Apache-2.0
//! Retention: what goes when logs are too old or too many. [`plan`] is pure and decides; the thread
//! looks at the disk, which is the only account of what is used, and unlinks. It never touches the
//! segment that is written.
//!
//! A tenant that keeps more than its quota `log_bytes` loses its own oldest first. Where the node
//! as a whole keeps too much, the tenant that has most does: no tenant pushes out another's logs by
//! printing. Where only segments that are written are left, the mover is asked to begin others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use model::name::{Tenant, Uid};
use model::quota::Quota;
use tenants::{Meter, Tenants};

use super::config::{LogsConfig, RetentionLimits};
use super::folder::{self, Folder, LogKey, SegmentFiles};
use super::format::{Entry, HEADER, Header, Record, recover};
use super::live::Registry;
use super::mover::Rotator;
use super::plan::{Bounds, Found, Going, plan};

/// Events that may wait; one more is left to the next periodic look.
const WAITING: usize = 256;

/// From one look at everything to the next, at least: a full disk makes every log complain.
const CALM: Duration = Duration::from_millis(200);

/// Tells the thread what happened; the thread ends with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Retention {
    events: SyncSender<Event>,
    shared: Arc<Shared>,
}

/// What the thread and its callers share.
#[derive(Debug)]
struct Shared {
    /// Bytes on disk by tenant, as last counted, and what was printed since.
    used: Mutex<BTreeMap<Tenant, u64>>,
    config: Mutex<LogsConfig>,
    /// Until it is set, the node's bounds alone hold.
    quotas: OnceLock<Tenants>,
    rotator: OnceLock<Rotator>,
}

impl Shared {
    fn new(config: LogsConfig) -> Self {
        Self {
            used: Mutex::default(),
            config: Mutex::new(config),
            quotas: OnceLock::new(),
            rotator: OnceLock::new(),
        }
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<Tenant, u64>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn config(&self) -> LogsConfig {
        let config = self.config.lock();
        config.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The most bytes of a tenant's logs.
    fn limit(&self, tenant: &Tenant) -> u64 {
        self.quotas
            .get()
            .map_or(u64::MAX, |q| q.limits().limit(tenant, Quota::LogBytes))
    }
}

#[derive(Debug)]
enum Event {
    SegmentFull(LogKey, RetentionLimits),
    Grown(Tenant, u64),
    Rotated(Tenant),
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
        let shared = Arc::new(Shared::new(config));
        let thread = Thread {
            root,
            shared: Arc::clone(&shared),
            registry,
            policies: HashMap::new(),
        };
        std::thread::Builder::new()
            .name("log-keep".to_owned())
            .spawn(move || thread.run(&queue))?;
        Ok(Self { events, shared })
    }

    /// Each tenant's quota holds from now on, and its use is shown; the first time alone.
    pub(super) fn hold_quotas(&self, tenants: &Tenants) {
        if self.shared.quotas.set(tenants.clone()).is_ok() {
            tenants.register(Arc::new(Usage(Arc::downgrade(&self.shared))));
        }
    }

    /// How the mover is asked to begin other segments.
    pub(super) fn set_rotator(&self, rotator: Rotator) {
        drop(self.shared.rotator.set(rotator));
    }

    /// A tenant has so much more on disk; whether that could be said.
    pub(super) fn grown(&self, tenant: &Tenant, bytes: u64) -> bool {
        let event = Event::Grown(tenant.clone(), bytes);
        self.events.try_send(event).is_ok()
    }

    /// A log that was asked for has begun another segment.
    pub(super) fn rotated(&self, tenant: &Tenant) {
        drop(self.events.try_send(Event::Rotated(tenant.clone())));
    }

    pub(super) fn segment_full(&self, key: &LogKey, limits: RetentionLimits) {
        drop(
            self.events
                .try_send(Event::SegmentFull(key.clone(), limits)),
        );
    }

    pub(super) fn disk_full(&self) {
        drop(self.events.try_send(Event::DiskFull));
    }

    /// Looks at everything now; the first time, when what goes on from an earlier daemon is known.
    pub(super) fn look(&self) {
        drop(self.events.try_send(Event::Look));
    }

    pub(super) fn configure(&self, config: LogsConfig) {
        let current = self.shared.config.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = config;
        self.look();
    }

    /// Bytes on disk of all logs, as last counted.
    pub(super) fn used_bytes(&self) -> u64 {
        self.shared.used().values().sum()
    }
}

/// What `Tenant.Get` asks.
struct Usage(Weak<Shared>);

impl Meter for Usage {
    fn used(&self, tenant: &Tenant) -> Vec<(Quota, u64)> {
        let shared = self.0.upgrade();
        let used = shared.map(|shared| shared.used().get(tenant).copied().unwrap_or(0));
        used.map(|bytes| (Quota::LogBytes, bytes))
            .into_iter()
            .collect()
    }

    fn tenants(&self) -> Vec<Tenant> {
        // Logs are of objects, which the runtime has.
        Vec::new()
    }
}

struct Thread {
    root: PathBuf,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    /// Of logs that were looked at: the policy is in the newest header, which doesn't change.
    policies: HashMap<Uid, RetentionLimits>,
}

impl Thread {
    fn run(mut self, events: &Receiver<Event>) {
        let mut next = Instant::now() + self.shared.config().keep_every;
        let mut looked = None::<Instant>;
        // Tenants to look at once the queue is empty, or was followed for long enough.
        let (mut due, mut followed) = (BTreeSet::new(), 0);
        loop {
            let config = self.shared.config();
            let wait = match due.is_empty() {
                true => next.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            let event = match followed < WAITING {
                true => events.recv_timeout(wait),
                false => Err(RecvTimeoutError::Timeout),
            };
            followed += usize::from(!due.is_empty());
            let outcome = match event {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if !due.is_empty() => {
                    followed = 0;
                    self.look_at_tenants(std::mem::take(&mut due), &config)
                }
                Ok(Event::SegmentFull(key, limits)) => self.trim_one(&key, limits),
                Ok(Event::Rotated(tenant)) => {
                    due.insert(tenant);
                    Ok(())
                }
                Ok(Event::Grown(tenant, bytes)) => {
                    let (of_tenant, together) = self.count(&tenant, bytes);
                    if together > config.node_max_bytes {
                        next = next.min(looked.map_or_else(Instant::now, |at| at + CALM));
                    } else if of_tenant > self.shared.limit(&tenant) {
                        due.insert(tenant);
                    }
                    Ok(())
                }
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

    /// A tenant has printed so much more; what it has then, and all together.
    fn count(&self, tenant: &Tenant, bytes: u64) -> (u64, u64) {
        let mut used = self.shared.used();
        let of_tenant = used.entry(tenant.clone()).or_default();
        *of_tenant = of_tenant.saturating_add(bytes);
        let of_tenant = *of_tenant;
        (of_tenant, used.values().sum())
    }

    /// A log has begun another segment: is it too long?
    fn trim_one(&mut self, key: &LogKey, limits: RetentionLimits) -> io::Result<()> {
        let found = Found {
            key: key.clone(),
            limits,
            segments: Folder::new(&self.root, key).segments()?,
            live: true,
        };
        self.carry_out(&plan(&[found], &Bounds::of_each_log(runtime::now().seconds())).going)
    }

    fn look_at_tenants(&mut self, due: BTreeSet<Tenant>, config: &LogsConfig) -> io::Result<()> {
        let mut outcome = Ok(());
        for tenant in due {
            outcome = outcome.and(self.look_at_tenant(&tenant, config));
        }
        outcome
    }

    fn look_at_tenant(&mut self, tenant: &Tenant, config: &LogsConfig) -> io::Result<()> {
        let logs = self.find(folder::of_tenant(&self.root, tenant)?, config)?;
        let bounds = Bounds {
            tenants: [(tenant.clone(), self.shared.limit(tenant))].into(),
            ..Bounds::of_each_log(runtime::now().seconds())
        };
        let used = self.hold(&logs, &bounds)?;
        let used = used.get(tenant).copied().unwrap_or(0);
        self.shared.used().insert(tenant.clone(), used);
        Ok(())
    }

    fn look_at_all(&mut self, config: &LogsConfig) -> io::Result<()> {
        let logs = self.find(folder::all(&self.root)?, config)?;
        let there: HashSet<Uid> = logs.iter().map(|l| l.key.uid).collect();
        self.policies.retain(|uid, _| there.contains(uid));
        let segments = logs.iter().flat_map(|l| &l.segments);
        let total: u64 = segments.map(|s| s.disk_bytes).sum();
        let tenants = logs.iter().map(|log| log.key.tenant.clone());
        let reserve = self.shared.quotas.get().map_or(0, |quotas| {
            let capacity = quotas.limits().capacity.clone();
            let whole = capacity.of(Quota::LogBytes);
            whole.saturating_sub(capacity.for_tenants(Quota::LogBytes))
        });
        let most = config.node_max_bytes.min(room(&self.root, total, config));
        let bounds = Bounds {
            // A little more goes, so that the next look isn't at the next line.
            total_bytes: if total > most { most - most / 32 } else { most },
            reserve,
            tenants: tenants
                .map(|tenant| {
                    let limit = self.shared.limit(&tenant);
                    (tenant, limit)
                })
                .collect(),
            now_s: runtime::now().seconds(),
        };
        let used = self.hold(&logs, &bounds)?;
        *self.shared.used() = used;
        Ok(())
    }

    fn find(&mut self, keys: Vec<LogKey>, config: &LogsConfig) -> io::Result<Vec<Found>> {
        let mut logs = Vec::with_capacity(keys.len());
        for key in keys {
            // Asked first: a log that ends meanwhile is then still taken for live.
            let live = self.registry.contains(&key.uid);
            let segments = Folder::new(&self.root, &key).segments()?;
            let limits = self.policy(&key, &segments, config);
            logs.push(Found {
                key,
                limits,
                segments,
                live,
            });
        }
        Ok(logs)
    }

    /// Lets go what is too much; answers what each tenant has then.
    fn hold(&mut self, logs: &[Found], bounds: &Bounds) -> io::Result<BTreeMap<Tenant, u64>> {
        let plan = plan(logs, bounds);
        if let Some(rotator) = self.shared.rotator.get() {
            plan.rotating.into_iter().for_each(|key| rotator.ask(key));
        }
        self.carry_out(&plan.going)?;
        Ok(plan.used)
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

    fn policy(
        &mut self,
        key: &LogKey,
        segments: &[SegmentFiles],
        config: &LogsConfig,
    ) -> RetentionLimits {
        if let Some(limits) = self.policies.get(&key.uid) {
            return *limits;
        }
        let newest = segments.last().map(|s| s.base);
        let header = newest.and_then(|base| read_header(&Folder::new(&self.root, key), base));
        let Some(header) = header else {
            return config.retention(&model::executable::LogPolicy::default());
        };
        let limits = RetentionLimits {
            max_bytes: header.keep_bytes,
            max_age: Duration::from_secs(header.keep_s),
        };
        self.policies.insert(key.uid, limits);
        limits
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
        time_us: runtime::now().seconds().saturating_mul(1_000_000),
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
    // Other users of the disk can't push out logs altogether.
    used.saturating_add(free)
        .saturating_sub(reserve)
        .max(reserve)
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
            shared: Arc::new(Shared::new(LogsConfig::default())),
            registry: Arc::clone(&registry),
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
