// SPDX-License-Identifier: Apache-2.0
//! How lines come into their chains: whose line it is, when a file is full, what goes to keep the
//! bounds, and the thread that forces lines to the disk.
//!
//! ```text
//!  record ── whose? ── room (rotate, retire) ── seal ── write(2) ──> CHAIN/audit-N.jsonl
//!                                                                        ^ fdatasync of each chain
//!                                                  syncer thread ────────┴──> AuditHeadSink
//! ```
//!
//! A tenant has one file that is written to, so it costs the others one `fdatasync` at most.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::quota::ADMINISTRATORS;
use store::Health;
use tokio::sync::watch;

use super::bounds::{self, AuditLimits};
use super::chain::{self, Chain, Owner};
use super::disk::{Disk, Standing};
use super::entry::{self, Entry};
use super::fold::{self, Folds};
use super::{AuditHeadSink, Head, NOTE_GAP, NOTE_RETIRED, note};

/// How long a line may wait for its way to the disk.
const COMMIT_WITHIN: Duration = Duration::from_millis(4);
/// How often the syncer looks for counts to write.
const FOLD_CHECK: Duration = Duration::from_secs(1);
/// Files that are kept open. A chain beyond these is opened for each of its lines.
const MAX_OPEN: usize = 64;

pub(super) struct Shared {
    pub(super) dir: PathBuf,
    pub(super) limits: AuditLimits,
    pub(super) health: Health,
    pub(super) state: Mutex<State>,
    /// Wakes the syncer: lines to sync, a caller that waits, or the end.
    pub(super) wake: Condvar,
    pub(super) sink: Box<dyn AuditHeadSink>,
}

pub(super) struct State {
    /// Always has the node's.
    pub(super) chains: BTreeMap<Owner, Chain>,
    /// Of the newest line of all chains.
    pub(super) sequence: u64,
    pub(super) disk: Disk,
    /// The head that the sink was given last.
    pub(super) told: u64,
    /// Whether lines were written since the last sync began.
    pub(super) dirty: bool,
    /// A caller waits for the disk: no pause to gather.
    pub(super) urgent: bool,
    /// Decisions that could not be written.
    pub(super) lost: u64,
    pub(super) folds: Folds,
    pub(super) closing: bool,
}

impl State {
    /// The newest line, with what stands for all chains.
    pub(super) fn head(&self) -> Head {
        let hashes = self.chains.iter().map(|(owner, c)| (owner, c.hash));
        Head {
            sequence: self.sequence,
            hash: chain::root(hashes),
        }
    }

    /// Whether the syncer sleeps without an end: no line waits for the disk, and none was counted.
    fn is_idle(&self) -> bool {
        !self.dirty && self.folds.is_empty()
    }

    fn chain(&mut self, owner: &Owner) -> io::Result<&mut Chain> {
        let chain = self.chains.get_mut(owner);
        chain.ok_or_else(|| io::Error::other("the chain was not opened"))
    }
}

/// Whose chain a line belongs to: its caller's tenant's, whosever objects it was about.
fn owner(entry: &Entry) -> Owner {
    let tenant = fold::tenant_of(&entry.actor)?;
    (tenant != ADMINISTRATORS).then(|| tenant.parse().ok())?
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the state as whole as a crash would: the file is the truth.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what may write lines, and wakes the syncer where it has something to do since then.
    /// It is awake while there is: woken for each line that it gathers, it would only look at the
    /// clock.
    pub(super) fn writing<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let idle = state.is_idle();
        let done = work(&mut state);
        let begun = idle && !state.is_idle();
        drop(state);
        if begun {
            self.wake.notify_one();
        }
        done
    }

    /// Appends one line, after a note about those that could not be.
    pub(super) fn append(&self, state: &mut State, entry: Entry) -> io::Result<u64> {
        let result = self.append_noted(state, entry);
        match &result {
            Ok(_) if state.disk.standing() == Standing::Sound => self.health.recover(),
            // Whether this line will be there tomorrow is for the next sync to say.
            Ok(_) => {}
            Err(e) => {
                state.lost += 1;
                self.health.fail(&format!("{}: {e}", self.dir.display()));
            }
        }
        result
    }

    fn append_noted(&self, state: &mut State, entry: Entry) -> io::Result<u64> {
        if state.disk.standing() == Standing::Failed {
            let first = state.sequence + 1;
            for chain in state.chains.values_mut().filter(|c| c.broken) {
                chain.begin_file(first)?;
            }
            state.disk.begun_anew();
        }
        if let Some(doubt) = state.disk.unsaid() {
            self.write(state, &None, doubt)?;
            state.disk.said();
        }
        if state.lost > 0 {
            let mut gap = note(NOTE_GAP, "decisions that could not be written".to_owned());
            gap.count = state.lost;
            self.write(state, &None, gap)?;
            state.lost = 0;
        }
        self.write(state, &owner(&entry), entry)
    }

    /// Writes a line, and makes room for it before.
    fn write(&self, state: &mut State, owner: &Owner, mut entry: Entry) -> io::Result<u64> {
        if !state.chains.contains_key(owner) {
            let (chain, _) = Chain::resume(&self.dir, owner)?;
            state.chains.insert(owner.clone(), chain);
        }
        entry.time = jiff::Timestamp::now().to_string();
        entry.count = entry.count.max(1);
        let longest = entry::longest(&entry).ok_or_else(unwritable)?;
        let bytes = u64::try_from(longest).unwrap_or(u64::MAX);
        self.make_room(state, owner, bytes)?;
        self.write_there(state, owner, entry)
    }

    fn write_there(&self, state: &mut State, owner: &Owner, mut entry: Entry) -> io::Result<u64> {
        let sequence = state.sequence + 1;
        let open = state.chains.values().filter(|c| c.is_open()).count();
        let chain = state.chain(owner)?;
        entry.sequence = sequence;
        let (line, hash) = entry::seal(&entry, &chain.hash).ok_or_else(unwritable)?;
        let opened = !chain.is_open();
        chain.write(sequence, &line, hash)?;
        state.sequence = sequence;
        state.dirty = true;
        if opened && open >= MAX_OPEN {
            let idle = state.chains.values_mut();
            let idle = idle.filter(|c| c.is_open() && !c.dirty && !c.broken);
            idle.min_by_key(|c| c.newest)
                .into_iter()
                .for_each(Chain::close);
        }
        Ok(sequence)
    }

    /// Sees to it that the chain has a file with room, and that so many bytes more keep its
    /// tenant's bound and the node's.
    fn make_room(&self, state: &mut State, owner: &Owner, bytes: u64) -> io::Result<()> {
        let limits = (self.limits.limits)();
        let limit = bounds::limit(&limits, owner);
        let full = self.limits.segment_bytes(limit);
        match state.chain(owner)?.newest_bytes() {
            Some(length) if length.saturating_add(bytes) <= full => {}
            _ => self.begin_file(state, owner)?,
        }
        while state.chain(owner)?.bytes().saturating_add(bytes) > limit
            && state.chain(owner)?.count() > 1
        {
            self.retire(state, owner)?;
        }
        loop {
            let chains = state.chains.iter().map(|(other, chain)| {
                let more = if other == owner { bytes } else { 0 };
                (other, chain.bytes().saturating_add(more))
            });
            let Some(fullest) = bounds::fullest(&limits, chains).cloned() else {
                return Ok(());
            };
            let before = state.chain(&fullest)?.bytes();
            if state.chain(&fullest)?.count() < 2 {
                self.begin_file(state, &fullest)?;
            }
            self.retire(state, &fullest)?;
            if state.chain(&fullest)?.bytes() >= before {
                return Ok(());
            }
        }
    }

    /// Closes the chain's file and begins the next.
    fn begin_file(&self, state: &mut State, owner: &Owner) -> io::Result<()> {
        let (first, newest) = (state.sequence + 1, state.sequence);
        let chain = state.chain(owner)?;
        if chain.newest_bytes().is_some()
            && let Err(e) = chain.file()?.sync_data()
        {
            chain.broken = true;
            state.disk.failed(newest);
            return Err(e);
        }
        chain.begin_file(first)
    }

    /// Removes a chain's oldest file, and has said so before.
    fn retire(&self, state: &mut State, owner: &Owner) -> io::Result<()> {
        let Some(second) = state.chain(owner)?.second() else {
            return Ok(());
        };
        // The head that is held elsewhere is of lines that are kept: one of lines that are gone
        // can't be compared at the next start, which would take them for cut off. Who holds it
        // lives as long as the kernel does, so the disk isn't waited for.
        if second > state.told {
            let head = state.head();
            self.tell(state, head);
        }
        let words = format!("lines before {second} were retired");
        let mut retired = note(NOTE_RETIRED, words);
        retired.count = second;
        retired.tenant = owner.as_ref().map_or_else(String::new, ToString::to_string);
        retired.time = jiff::Timestamp::now().to_string();
        self.write_there(state, owner, retired)?;
        state.chain(owner)?.retire_oldest()
    }

    /// Gives the sink a head, unless it has a newer one.
    fn tell(&self, state: &mut State, head: Head) {
        if head.sequence > state.told {
            state.told = head.sequence;
            self.sink.put(head.sequence, head.hash);
        }
    }

    pub(super) fn flush_folded(&self, state: &mut State, all: bool) {
        for entry in state.folds.due(Instant::now(), all) {
            // A failure has set the health and counts as lost.
            let _degraded = self.append(state, entry);
        }
    }

    /// The syncer's loop: gathers for a moment, unless a caller waits, then syncs.
    pub(super) fn sync_forever(&self, synced: &watch::Sender<u64>) {
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
        let head = state.head();
        let standing = state.disk.standing();
        state.dirty = false;
        state.urgent = false;
        let mut files: Vec<(Owner, Arc<File>)> = Vec::new();
        let mut failures = Vec::new();
        for (owner, chain) in state.chains.iter_mut().filter(|(_, c)| c.dirty) {
            chain.dirty = false;
            match chain.file() {
                Ok(file) => files.push((owner.clone(), file)),
                Err(e) => failures.push((owner.clone(), None, e)),
            }
        }
        drop(state);
        for (owner, file) in files {
            if let Err(e) = file.sync_data() {
                failures.push((owner, Some(file), e));
            }
        }
        let mut state = self.lock();
        if let Some((_, _, error)) = failures.first() {
            self.health
                .fail(&format!("{}: {error}", self.dir.display()));
            let newest = state.sequence;
            state.disk.failed(newest);
            for (owner, file, _) in failures {
                if let Some(chain) = state.chains.get_mut(&owner) {
                    // One that was begun meanwhile is none of the failure.
                    let same = file.is_none_or(|f| chain.file().is_ok_and(|n| Arc::ptr_eq(&f, &n)));
                    chain.broken |= same;
                }
            }
        } else if state.disk.confirm(standing, head.sequence) {
            self.tell(&mut state, head);
            if standing == Standing::Mending && state.lost == 0 {
                self.health.recover();
            }
            drop(state);
            synced.send_replace(head.sequence);
        }
    }
}

fn unwritable() -> io::Error {
    io::Error::other("an entry can't be written as JSON")
}
