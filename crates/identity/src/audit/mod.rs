// SPDX-License-Identifier: Apache-2.0
//! The audit: an append-only, hash-chained record of every decision, as JSON lines under
//! `STATE_DIR/audit`: a chain for each tenant's users (`tenants/NAME/`), and the node's own with
//! its administrators'. Each is bounded by itself (`bounds`), so that no tenant's calls take
//! another tenant's lines.
//!
//! A line is in the kernel before the call that it is about goes on, so `kill -9` of the daemon
//! loses none; it is on disk within 5 ms, and for calls whose effect outlives a power loss before
//! they go on (`docs/adr/0010-audit-commit.md`). The newest line's number, and a hash that stands
//! for the newest lines of all chains, go to [`AuditHeadSink`] (node-init holds them), so that a
//! tail that was cut while no daemon ran shows.
//!
//! It doesn't decide anything. How lines are written is in `writer`, reading them in `reader`,
//! verifying in `verify`.

mod bounds;
mod chain;
mod disk;
mod entry;
mod fold;
mod pages;
mod reader;
mod resume;
mod segment;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use model::name::Tenant;
use model::quota::ADMINISTRATORS;
use store::Health;
use tokio::sync::watch;

pub use bounds::AuditLimits;
use chain::Chain;
pub use entry::{Entry, Hash, hex};
pub use pages::AuditPage;
pub use reader::{Filter, Reader};
pub use verify::Verdict;
use writer::Shared;

/// Notes of the audit itself.
const NOTE_CUT: &str = "audit.TailCut";
const NOTE_TORN: &str = "audit.TornLine";
const NOTE_GAP: &str = "audit.Gap";
const NOTE_RETIRED: &str = "audit.Retired";

/// Who holds the newest line's number and hash outside the daemon.
pub trait AuditHeadSink: Send + Sync {
    /// Called under the audit's lock: after each commit, and before lines newer than the last
    /// head are retired; must not wait.
    fn put(&self, sequence: u64, hash: Hash);
}

/// The audit can't be opened or written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the audit {place} can't be used: {problem}")]
pub struct AuditError {
    /// The folder or file.
    pub place: String,
    /// Why, and what to do.
    pub problem: String,
}

impl AuditError {
    fn new(place: &Path, problem: impl ToString) -> Self {
        Self {
            place: place.display().to_string(),
            problem: problem.to_string(),
        }
    }
}

/// How far the audit goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The newest line's number; 0: none yet.
    pub sequence: u64,
    /// What stands for the newest lines of all chains; zeros: none yet.
    pub hash: Hash,
}

/// The audit; shared by all requests.
pub struct Audit {
    shared: Arc<Shared>,
    synced: watch::Receiver<u64>,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit")
            .field("dir", &self.shared.dir)
            .finish_non_exhaustive()
    }
}

impl Audit {
    /// Opens or begins `STATE_DIR/audit`. `held` is what the sink was given last, if it still
    /// knows; files that end before it, or differ there, get a line saying so, which
    /// [`Reader::verify`] reports.
    ///
    /// # Errors
    /// A folder can't be used, or its newest file doesn't end in a line of the chain.
    pub fn open(
        state_dir: &Path,
        limits: AuditLimits,
        held: Option<Head>,
        sink: Box<dyn AuditHeadSink>,
    ) -> Result<Self, AuditError> {
        let dir = state_dir.join("audit");
        let fail = |e: io::Error| AuditError::new(&dir, e);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(fail)?;
        let (mut state, notes) = resume::resume(&dir, held)?;
        let (synced_tx, synced) = watch::channel(state.sequence);
        state.dirty = true;
        let shared = Arc::new(Shared {
            dir,
            limits,
            health: Health::new("audit"),
            state: Mutex::new(state),
            wake: Condvar::new(),
            sink,
        });
        for note in notes {
            let written = shared.append(&mut shared.lock(), note);
            written.map_err(|e| AuditError::new(&shared.dir, e))?;
        }
        let syncer = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("audit-sync".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || syncer.sync_forever(&synced_tx))
            .map_err(|e| AuditError::new(&shared.dir, e))?;
        Ok(Self { shared, synced })
    }

    /// Whether lines can be written, and if not, why.
    pub fn health(&self) -> &Health {
        &self.shared.health
    }

    /// The newest line.
    pub fn head(&self) -> Head {
        self.shared.lock().head()
    }

    /// Bytes of the lines of a tenant's users, as the quota `audit_bytes` counts them; of the
    /// administrators' tenant those of the node's chain.
    pub fn bytes(&self, tenant: &Tenant) -> u64 {
        let owner = (tenant.as_str() != ADMINISTRATORS).then(|| tenant.clone());
        let state = self.shared.lock();
        state.chains.get(&owner).map_or(0, Chain::bytes)
    }

    /// Writes a decision into the kernel; answers its number, or `None` where it is a denial that
    /// was counted instead ([`fold`]). `sequence` and `time` of the entry are filled in.
    ///
    /// # Errors
    /// The line can't be written; the audit is degraded then, and counts what it has lost.
    pub fn record(&self, entry: Entry) -> Result<Option<u64>, AuditError> {
        let foldable = !entry.allowed;
        self.put(entry, foldable)
    }

    /// The same for what changes nothing: equal ones are counted.
    ///
    /// # Errors
    /// As [`Audit::record`].
    pub fn record_read(&self, entry: Entry) -> Result<Option<u64>, AuditError> {
        self.put(entry, true)
    }

    fn put(&self, entry: Entry, foldable: bool) -> Result<Option<u64>, AuditError> {
        let shared = &self.shared;
        let written = shared.writing(|state| {
            let admitted = !foldable || state.folds.admits(&entry, Instant::now());
            admitted.then(|| shared.append(state, entry)).transpose()
        });
        written.map_err(|e| AuditError::new(&shared.dir, e))
    }

    /// Waits until the line is on disk.
    ///
    /// # Errors
    /// It won't be: the disk fails.
    pub async fn settled(&self, sequence: u64) -> Result<(), AuditError> {
        self.shared.lock().urgent = true;
        self.shared.wake.notify_one();
        let mut synced = self.synced.clone();
        let mut broken = tokio::time::interval(Duration::from_millis(50));
        loop {
            tokio::select! {
                done = synced.wait_for(|s| *s >= sequence) => {
                    return self.on_disk(sequence, done.is_err());
                }
                _ = broken.tick() => if let Some(words) = self.shared.health.degraded() {
                    return Err(AuditError::new(&self.shared.dir, words));
                },
            }
        }
    }

    fn on_disk(&self, sequence: u64, closed: bool) -> Result<(), AuditError> {
        let problem = match (closed, self.shared.lock().disk.doubts(sequence)) {
            (true, _) => "the audit is closed",
            (false, true) => "the disk failed while this line was written back",
            (false, false) => return Ok(()),
        };
        Err(AuditError::new(&self.shared.dir, problem))
    }

    /// Reads and verifies; blocks, so use it on a thread that may.
    pub fn reader(&self) -> Reader {
        Reader::new(self.shared.dir.clone())
    }

    /// Changes whenever new lines are on disk.
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.synced.clone()
    }

    /// Lets every write fail from now on, as `/dev/full` does.
    #[cfg(test)]
    pub(crate) fn break_for_test(&self, file: &str) {
        let chains = &mut self.shared.lock().chains;
        chains.values_mut().for_each(|c| c.break_for_test(file));
    }

    /// Writes counted reads and denials now, without waiting for their windows.
    pub fn flush(&self) {
        let shared = &self.shared;
        shared.writing(|state| shared.flush_folded(state, true));
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.flush();
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
    }
}

fn note(action: &str, words: String) -> Entry {
    Entry {
        action: action.to_owned(),
        allowed: true,
        note: words,
        count: 1,
        ..Entry::default()
    }
}
