// SPDX-License-Identifier: Apache-2.0
//! The handle to the log store: what the runtime calls. It owns no state; the mover, the retention
//! and the files do.
//!
//! ```text
//! attach ----> (output is stored) ----> drained ----> (kept) ----> remove
//!    ^                                     |
//!    +-- the next daemon, same key --------+-- as well: both may be repeated
//! ```

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::error::{Error, Reason};
use model::executable::LogPolicy;
use model::name::{Tenant, Uid};
use model::observe::Stream;
use tenants::{Tenants, Turns};
use tokio::sync::Semaphore;

use super::config::LogsConfig;
use super::folder::{self, Folder, LogKey};
use super::journal::PastLog;
use super::live::Registry;
use super::mover::{self, Attach, Command, Drained, Sender};
use super::read::{self, LogReader, ReadOptions};
use super::retention::Retention;
use super::sync::Syncer;

/// The node's logs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Logs {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    config: std::sync::RwLock<LogsConfig>,
    mover: Sender,
    retention: Retention,
    registry: Arc<Registry>,
    boot: [u8; 16],
    readers: Places,
    attached: Places,
    /// Of readers of both kinds.
    rooms: read::Rooms,
    /// Held by who takes runs into a log of the past.
    keeping: tokio::sync::Mutex<()>,
}

/// Who may read, and how many of them look at files at the same time.
#[derive(Debug)]
struct Places {
    most: usize,
    places: Arc<Semaphore>,
    turns: Turns,
}

impl Places {
    fn new(most: usize) -> Self {
        Self {
            most,
            places: Arc::new(Semaphore::new(most)),
            turns: Turns::new(AT_ONCE),
        }
    }
}

/// Reads of files that go on at the same time, in turns by tenant. The threads for what blocks are
/// everybody's: readers must leave most of them to others.
const AT_ONCE: usize = 4;
/// Logs that may be read at once; each costs three descriptors at most.
const READERS: usize = 2048;
/// Runs that may be attached at once: as many as there may be open calls. They never compete with
/// readers of logs.
const ATTACHED: usize = 4096;

impl Logs {
    /// Makes `root` (0700) where it isn't there and starts the threads. Looks at no log: one is
    /// opened when a workload prints or a client reads, so thousands cost nothing here.
    ///
    /// # Errors
    /// The folder can't be made, or the kernel gives no thread or descriptor.
    pub fn start(root: &Path, config: LogsConfig) -> Result<Self, Error> {
        let failed = |what: &str, e: std::io::Error| {
            let error = Error::internal(format!("{what} {}: {e}", root.display()));
            match e.raw_os_error() {
                Some(errno) => error.errno(errno),
                None => error,
            }
        };
        make_root(root).map_err(|e| failed("can't make the folder of logs", e))?;
        let boot = boot_id().map_err(|e| failed("can't read the boot id for logs in", e))?;
        let registry = Arc::<Registry>::default();
        let start = || -> std::io::Result<(Sender, Retention)> {
            let retention =
                Retention::start(root.to_owned(), config.clone(), Arc::clone(&registry))?;
            let mover = mover::start(mover::Surroundings {
                root: root.to_owned(),
                config: config.clone(),
                boot,
                registry: Arc::clone(&registry),
                retention: retention.clone(),
                syncer: Syncer::start()?,
            })?;
            retention.set_rotator(mover.rotator());
            Ok((mover, retention))
        };
        let (mover, retention) = start().map_err(|e| failed("can't start the threads for", e))?;
        Ok(Self {
            inner: Arc::new(Inner {
                root: root.to_owned(),
                config: std::sync::RwLock::new(config),
                mover,
                retention,
                registry,
                boot,
                readers: Places::new(READERS),
                attached: Places::new(ATTACHED),
                rooms: read::Rooms::default(),
                keeping: tokio::sync::Mutex::default(),
            }),
        })
    }

    /// Stores what comes out of `sources` from now on: read ends of pipes, or a terminal's master
    /// as [`Stream::Stdout`]. Goes on at the end of the log if there is one. Repeating it with the
    /// same key puts new descriptors in the place of the old; nothing is lost or doubled as long as
    /// they are of the same pipes.
    ///
    /// # Errors
    /// A descriptor can't be watched, or the mover has stopped.
    pub async fn attach(
        &self,
        key: LogKey,
        sources: Vec<(Stream, OwnedFd)>,
        policy: &LogPolicy,
    ) -> Result<(), Error> {
        let limits = self.config().retention(policy);
        let what = Attach {
            key,
            sources,
            limits,
        };
        self.inner.mover.attach(what).await
    }

    /// Bytes of standard output and standard error stored so far, what retention has dropped since
    /// included; `None` where the log isn't attached. Blocks for microseconds where nothing was
    /// printed since this daemon began.
    pub fn stored(&self, uid: &Uid) -> Option<(u64, u64)> {
        let (key, stored) = self.inner.registry.stored(uid)?;
        if let Some(stored) = stored {
            return Some(stored);
        }
        match read::totals_of(&self.folder(&key)) {
            Ok(totals) => {
                self.inner.registry.found(uid, totals);
                Some(totals)
            }
            Err(error) => {
                tracing::warn!(%uid, %error, "a log can't be looked at");
                None
            }
        }
    }

    /// Whose log it is, and what this daemon has stored of it; looks at no file.
    pub(super) fn attached(&self, uid: &Uid) -> Option<(LogKey, Option<(u64, u64)>)> {
        self.inner.registry.stored(uid)
    }

    /// What is stored of a log that isn't attached any more; 0 where it can't be looked at.
    pub(super) fn last_totals(&self, (key, known): (LogKey, Option<(u64, u64)>)) -> (u64, u64) {
        let on_disk = || read::totals_of(&self.folder(&key)).unwrap_or_default();
        known.unwrap_or_else(on_disk)
    }

    /// Says that no process writes any more (the leaf cgroup is empty): takes what is left in the
    /// pipes, marks the end, closes them. When it answers, every byte is the kernel's: the daemon
    /// may be killed, the pipes may be closed. The disk has it some milliseconds later; no
    /// caller waits for that.
    ///
    /// # Errors
    /// `WRONG_STATE` where the log isn't attached; the end could not be marked; the mover has
    /// stopped.
    pub async fn drained(&self, uid: Uid) -> Result<Drained, Error> {
        self.inner.mover.drain(uid).await
    }

    /// The same for a log whose writer goes on later: it gets no end. Answers when it is on the
    /// disk, with the bytes of standard output stored over its whole life.
    pub(super) async fn put_aside(&self, uid: Uid) -> Result<u64, Error> {
        self.inner.mover.put_aside(uid).await
    }

    /// Held by who takes runs into a log of the past: one at a time.
    pub(super) fn keeping(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.keeping
    }

    /// The logs of the past that there are, in no order. Blocks.
    pub(super) fn of_the_past(&self) -> std::io::Result<Vec<PastLog>> {
        let keys = folder::of_tenant(&self.inner.root, &Tenant::system())?;
        Ok(keys.iter().filter_map(PastLog::at).collect())
    }

    /// Resolves when what the tenant's workloads have printed before is on the disk, or has been
    /// dropped and counted.
    ///
    /// # Errors
    /// The disk's refusal; the mover has stopped.
    pub(super) async fn settle(&self, tenant: Tenant) -> Result<(), Error> {
        let settle = |reply| Command::Settle { tenant, reply };
        self.inner.mover.ask(settle).await
    }

    /// Resolves when that log is being written. Of one that was written and has ended, or never is,
    /// it doesn't.
    pub async fn is_attached(&self, uid: Uid) {
        self.inner.registry.is_there(&uid).await;
    }

    /// Resolves when there is more in a log than there was when this was called, or when it has
    /// ended; `None`: it isn't being written. For who reads now and then, and holds no place
    /// meanwhile.
    pub fn more(&self, uid: &Uid) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.inner.registry.more(uid)
    }

    /// Reads a log, also while it is written. Nothing is read before the first item is asked for.
    /// Of a log that was never attached, or printed nothing, the end is the only item.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` where 2,048 logs are being read.
    pub fn read(&self, key: &LogKey, options: ReadOptions) -> Result<LogReader, Error> {
        self.reader(&self.inner.readers, key, options)
    }

    /// The same for a client that is attached to a run: it has a place whatever others read.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` where 4,096 are attached.
    pub fn read_attached(&self, key: &LogKey, options: ReadOptions) -> Result<LogReader, Error> {
        self.reader(&self.inner.attached, key, options)
    }

    fn reader(
        &self,
        places: &Places,
        key: &LogKey,
        options: ReadOptions,
    ) -> Result<LogReader, Error> {
        let permit = Arc::clone(&places.places).try_acquire_owned();
        let permit = permit.map_err(|_| {
            let message = format!("{} logs are being read already", places.most);
            Error::new(Reason::LimitExceeded, message)
                .retry_after(std::time::Duration::from_secs(1))
        })?;
        let registry = Arc::clone(&self.inner.registry);
        let folder = self.folder(key);
        let boot = self.inner.boot;
        let places = read::Places {
            tenant: key.tenant.clone(),
            turns: places.turns.clone(),
            seat: self.inner.rooms.enter(&key.tenant),
            _permit: permit,
        };
        Ok(LogReader::new(
            key.uid, folder, boot, registry, options, places,
        ))
    }

    /// The length of the whole output so far, as far as it is stored.
    ///
    /// # Errors
    /// The file system's refusal.
    pub async fn end_offset(&self, key: &LogKey) -> Result<u64, Error> {
        let folder = self.folder(key);
        read::blocking(folder.clone(), move || read::end_of(&folder)).await
    }

    /// Deletes a finished log. Of one that isn't there: nothing to do.
    ///
    /// # Errors
    /// `WRONG_STATE` while it is attached; the file system's refusal.
    pub async fn remove(&self, key: &LogKey) -> Result<(), Error> {
        if self.inner.registry.contains(&key.uid) {
            return Err(still_stored(&key.uid));
        }
        let folder = self.folder(key);
        // Most runs print nothing. This look takes microseconds, a thread for it a hand-over.
        if matches!(folder.path().try_exists(), Ok(false)) {
            return Ok(());
        }
        read::blocking(folder.clone(), move || folder.remove()).await
    }

    /// Deletes every log of a tenant that is being removed.
    ///
    /// # Errors
    /// `WRONG_STATE` while one of them is attached; the file system's refusal.
    pub async fn remove_all(&self, tenant: &Tenant) -> Result<(), Error> {
        let (root, registry) = (self.inner.root.clone(), Arc::clone(&self.inner.registry));
        let tenant = tenant.clone();
        let work = move || {
            let found = folder::of_tenant(&root, &tenant);
            let found = found.map_err(|e| disk(&Folder::at(&root), &e))?;
            for key in found {
                let folder = Folder::new(&root, &key);
                let removed = registry.unless_live(&key.uid, || folder.remove());
                let removed = removed.ok_or_else(|| still_stored(&key.uid))?;
                removed.map_err(|e| disk(&folder, &e))?;
            }
            Ok(())
        };
        let broken = |e| Error::internal(format!("removing logs broke off: {e}"));
        tokio::task::spawn_blocking(work).await.map_err(broken)?
    }

    /// Every log on the disk, so that one whose executable is forgotten can be removed. Blocks.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn known(&self) -> Result<Vec<LogKey>, Error> {
        folder::all(&self.inner.root).map_err(|e| disk(&Folder::at(&self.inner.root), &e))
    }

    /// Bytes on disk of one log. Blocks for microseconds.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn disk_bytes(&self, key: &LogKey) -> Result<u64, Error> {
        let folder = self.folder(key);
        let segments = folder.segments().map_err(|e| disk(&folder, &e))?;
        Ok(segments.iter().map(|s| s.disk_bytes).sum())
    }

    /// Begins to drop what is too old or too much. Until then the logs of workloads that go on from
    /// an earlier daemon aren't known as such.
    pub fn begin_retention(&self) {
        self.inner.retention.look();
    }

    /// Holds each tenant to its quota `log_bytes` from now on; `Tenant.Get` shows its use.
    pub fn hold_quotas(&self, tenants: &Tenants) {
        self.inner.retention.hold_quotas(tenants);
    }

    /// Bytes on disk of all logs, as counted at most [`LogsConfig::keep_every`] ago.
    pub fn used_bytes(&self) -> u64 {
        self.inner.retention.used_bytes()
    }

    /// Uses other settings from now on; attached logs keep the policy that they were attached with.
    ///
    /// # Errors
    /// The mover has stopped.
    pub async fn configure(&self, config: LogsConfig) -> Result<(), Error> {
        if let Ok(mut current) = self.inner.config.write() {
            *current = config.clone();
        }
        self.inner.retention.configure(config.clone());
        self.inner
            .mover
            .send(Command::Configure(Box::new(config)))
            .await
    }

    /// Ends the mover. What workloads print then waits in their pipes for the next daemon.
    ///
    /// # Errors
    /// It had stopped already.
    pub async fn stop(&self) -> Result<(), Error> {
        self.inner.mover.ask(|reply| Command::Stop { reply }).await
    }

    fn folder(&self, key: &LogKey) -> Folder {
        Folder::new(&self.inner.root, key)
    }

    fn config(&self) -> LogsConfig {
        let config = self.inner.config.read();
        config
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

fn still_stored(uid: &Uid) -> Error {
    let message = format!("the output of {uid} is still being stored");
    Error::new(Reason::WrongState, message)
}

/// A refusal of the file system as the API says it.
pub(super) fn disk(folder: &Folder, error: &std::io::Error) -> Error {
    let path = folder.path().display();
    let message = Error::internal(format!("the log at {path} can't be used: {error}"));
    match error.raw_os_error() {
        Some(errno) => message.errno(errno),
        None => message,
    }
}

fn make_root(root: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(root)
}

/// The kernel's name for this boot of the machine: another one means that the page cache is gone.
pub(super) fn boot_id() -> std::io::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16)
        .map(u128::to_be_bytes)
        .map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e))
}
