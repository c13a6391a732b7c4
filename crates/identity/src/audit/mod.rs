// SPDX-License-Identifier: Apache-2.0
//! The audit: an append-only, hash-chained record of every decision, as JSON lines under
//! `STATE_DIR/audit`.
//!
//! A line is in the kernel before the call that it is about goes on, so `kill -9` of the daemon
//! loses none; it is on disk within 5 ms, and for calls whose effect outlives a power loss before
//! they go on (`docs/adr/0010-audit-commit.md`). The newest line's number and hash go to
//! [`AuditHeadSink`] (node-init holds them), so that a tail that was cut while no daemon ran shows.
//!
//! ```text
//!  authorize ── lock, fold, seal, write(2) ──> audit-N.jsonl
//!                                                   ^ fdatasync, at most 5 ms later
//!                                              syncer thread ──> AuditHeadSink
//! ```
//!
//! It doesn't decide anything. Reading and verifying are in `reader`.

mod disk;
mod entry;
mod fold;
mod pages;
mod reader;
mod resume;
mod segment;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use disk::{Disk, Standing};
pub use entry::{Entry, Hash, hex};
use fold::Folds;
pub use pages::AuditPage;
pub use reader::{Filter, Reader, Verdict};

use store::Health;

/// How long a line may wait for its way to the disk.
const COMMIT_WITHIN: Duration = Duration::from_millis(4);
/// How often the syncer looks for counts to write.
const FOLD_CHECK: Duration = Duration::from_secs(1);
/// Notes of the audit itself.
const NOTE_CUT: &str = "audit.TailCut";
const NOTE_TORN: &str = "audit.TornLine";
const NOTE_GAP: &str = "audit.Gap";
const NOTE_RETIRED: &str = "audit.Retired";

/// How large the audit may become.
#[derive(Clone, Copy, Debug)]
pub struct AuditLimits {
    /// A file is closed and the next begun beyond this, in bytes.
    pub segment_bytes: u64,
    /// Files kept; the oldest is removed, which is a line of its own.
    pub segments: usize,
}

impl Default for AuditLimits {
    fn default() -> Self {
        Self {
            segment_bytes: 16 * 1024 * 1024,
            segments: 16,
        }
    }
}

/// Who holds the newest line's number and hash outside the daemon.
pub trait AuditHeadSink: Send + Sync {
    /// Called after each commit, from the audit's own thread; must not wait.
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

/// The place of a line in the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The line's number; 0: none yet.
    pub sequence: u64,
    /// Its hash; zeros: none yet.
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

struct Shared {
    dir: PathBuf,
    limits: AuditLimits,
    health: Health,
    state: Mutex<State>,
    /// Wakes the syncer: lines to sync, somebody waits, or the end.
    wake: Condvar,
    sink: Box<dyn AuditHeadSink>,
}

struct State {
    file: Arc<File>,
    /// Length of the file's whole lines.
    length: u64,
    head: Head,
    disk: Disk,
    /// Whether lines were written since the last sync began.
    dirty: bool,
    /// Somebody waits for the disk: no pause to gather.
    urgent: bool,
    /// Decisions that could not be written.
    lost: u64,
    folds: Folds,
    closing: bool,
}

impl Audit {
    /// Opens or begins `STATE_DIR/audit`. `held` is what the sink was given last, if it still
    /// knows; a file that ends before it, or differs there, gets a line saying so, which
    /// [`Reader::verify`] reports.
    ///
    /// # Errors
    /// The folder can't be used, or its newest file doesn't end in a line of the chain.
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
        let (synced_tx, synced) = watch::channel(state.head.sequence);
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
        self.shared.lock().head
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
        let mut state = self.shared.lock();
        if foldable && !state.folds.admits(&entry, Instant::now()) {
            return Ok(None);
        }
        let written = self.shared.append(&mut state, entry);
        let sequence = written.map_err(|e| AuditError::new(&self.shared.dir, e))?;
        drop(state);
        self.shared.wake.notify_one();
        Ok(Some(sequence))
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
        let file = File::options().append(true).open(file);
        self.shared.lock().file = Arc::new(file.unwrap());
    }

    /// Writes counted reads and denials now, without waiting for their windows.
    pub fn flush(&self) {
        let mut state = self.shared.lock();
        self.shared.flush_folded(&mut state, true);
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.flush();
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the state as whole as a crash would: the file is the truth.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends one line, after a note about those that could not be.
    fn append(&self, state: &mut State, entry: Entry) -> io::Result<u64> {
        let before = state.lost;
        let result = self.append_noted(state, entry);
        match &result {
            Ok(_) if state.disk.standing() == Standing::Sound => self.health.recover(),
            // Whether this line will be there tomorrow is for the next sync to say.
            Ok(_) => {}
            Err(e) => {
                state.lost = before + 1;
                self.health.fail(&format!("{}: {e}", self.dir.display()));
            }
        }
        result
    }

    fn append_noted(&self, state: &mut State, entry: Entry) -> io::Result<u64> {
        if state.disk.standing() == Standing::Failed {
            self.begin_file(state)?;
            state.disk.begun_anew();
        } else if state.length >= self.limits.segment_bytes {
            self.rotate(state)?;
        }
        if let Some(doubt) = state.disk.unsaid() {
            self.write(state, doubt)?;
            state.disk.said();
        }
        if state.lost > 0 {
            let mut gap = note(NOTE_GAP, "decisions that could not be written".to_owned());
            gap.count = state.lost;
            self.write(state, gap)?;
            state.lost = 0;
        }
        self.write(state, entry)
    }

    fn write(&self, state: &mut State, mut entry: Entry) -> io::Result<u64> {
        entry.sequence = state.head.sequence + 1;
        entry.time = jiff::Timestamp::now().to_string();
        entry.count = entry.count.max(1);
        let (line, hash) = entry::seal(&entry, &state.head.hash)
            .ok_or_else(|| io::Error::other("an entry can't be written as JSON"))?;
        if let Err(e) = (&*state.file).write_all(line.as_bytes()) {
            // Half a line on a full disk: off with it, or the next one would continue it.
            state.file.set_len(state.length)?;
            return Err(e);
        }
        state.length += u64::try_from(line.len()).unwrap_or(0);
        state.head = Head {
            sequence: entry.sequence,
            hash,
        };
        state.dirty = true;
        Ok(entry.sequence)
    }

    /// Closes the file and begins the next; the chain goes on through its header.
    fn rotate(&self, state: &mut State) -> io::Result<()> {
        if let Err(e) = state.file.sync_data() {
            state.disk.failed(state.head.sequence);
            return Err(e);
        }
        self.begin_file(state)?;
        let segments = segment::list(&self.dir)?;
        let surplus = segments.len().saturating_sub(self.limits.segments.max(2));
        if let Some(oldest_kept) = segments.get(surplus).filter(|_| surplus > 0) {
            let words = format!("lines before {} were retired", oldest_kept.first);
            let mut retired = note(NOTE_RETIRED, words);
            retired.count = oldest_kept.first;
            self.write(state, retired)?;
        }
        for old in segments.iter().take(surplus) {
            fs::remove_file(&old.file)?;
        }
        Ok(())
    }

    fn begin_file(&self, state: &mut State) -> io::Result<()> {
        let (first, previous) = (state.head.sequence + 1, state.head.hash);
        let (file, length) = segment::create_again(&self.dir, first, &previous)?;
        state.file = Arc::new(file);
        state.length = length;
        Ok(())
    }

    fn flush_folded(&self, state: &mut State, all: bool) {
        for entry in state.folds.due(Instant::now(), all) {
            // A failure has set the health and counts as lost.
            let _degraded = self.append(state, entry);
        }
    }

    /// The syncer's loop: gathers for a moment, unless somebody waits, then syncs.
    fn sync_forever(&self, synced: &watch::Sender<u64>) {
        loop {
            let mut state = self.lock();
            while !state.dirty && !state.closing {
                let wait = if state.folds.is_empty() {
                    self.wake
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner)
                } else {
                    let waited = self.wake.wait_timeout(state, FOLD_CHECK);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                };
                state = wait;
                self.flush_folded(&mut state, false);
            }
            let begun = Instant::now();
            while !state.urgent && !state.closing && begun.elapsed() < COMMIT_WITHIN {
                let left = COMMIT_WITHIN.saturating_sub(begun.elapsed());
                let waited = self.wake.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            self.flush_folded(&mut state, false);
            if state.closing && !state.dirty {
                return;
            }
            self.sync(state, synced);
        }
    }

    fn sync(&self, mut state: MutexGuard<'_, State>, synced: &watch::Sender<u64>) {
        let (file, head) = (Arc::clone(&state.file), state.head);
        let standing = state.disk.standing();
        state.dirty = false;
        state.urgent = false;
        drop(state);
        let result = file.sync_data();
        let mut state = self.lock();
        match result {
            Ok(()) if state.disk.confirm(standing, head.sequence) => {
                if standing == Standing::Mending && state.lost == 0 {
                    self.health.recover();
                }
                drop(state);
                self.sink.put(head.sequence, head.hash);
                synced.send_replace(head.sequence);
            }
            Ok(()) => {}
            Err(e) => {
                let newest = state.head.sequence;
                state.disk.failed(newest);
                self.health.fail(&format!("{}: {e}", self.dir.display()));
            }
        }
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
