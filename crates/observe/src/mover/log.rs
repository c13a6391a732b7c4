// SPDX-License-Identifier: Apache-2.0
//! The log of one executable, as the mover writes it: which segment, what to do where the disk
//! refuses.
//!
//! ```text
//!            first byte            full                    refused
//! Unopened ------------> Writing ------> (next segment)   -------> Dropping --retry--> Writing
//! ```
//!
//! While *dropping*, bytes are read, counted and thrown away: a full disk never blocks a workload.
//! The count is in the index before the bytes are gone, where the index can still be written, which
//! it nearly always can: room for a gap and an end is reserved.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::observe::GapReason;
use rustix::io::Errno;

use super::segment::{Files, Segment};
use super::source::{Failed, Source};
use crate::config::RetentionLimits;
use crate::folder::Folder;
use crate::format::{Entry, Header, Record};

/// From a refusal to the next try, on a full disk.
const RETRY_FULL: Duration = Duration::from_millis(250);
/// The same for other failures: doubled up to the second.
const RETRY_IO: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Complete segments that wait for a slow sync. Beyond that the kernel's own write-back must do.
const MAX_UNSYNCED: usize = 16;

/// What happened to a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Batch {
    /// Bytes taken out of the source.
    pub(super) taken: u64,
    /// A segment is complete: retention may have work.
    pub(super) rotated: bool,
    /// The disk refused for the first time since it last worked.
    pub(super) refused: Option<Errno>,
}

/// The time of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    /// `CLOCK_REALTIME`, microseconds.
    pub(super) wall_us: u64,
}

#[derive(Debug)]
pub(super) struct Log {
    folder: Folder,
    boot: [u8; 16],
    pub(super) limits: RetentionLimits,
    /// Of its sources.
    pub(super) tokens: Vec<u64>,
    state: State,
    trouble: Option<Trouble>,
    /// Written since the last sync.
    dirty: bool,
    /// Complete segments that were not synced yet.
    full: Vec<Arc<Files>>,
}

#[derive(Debug)]
enum State {
    Unopened,
    Writing(Segment),
}

#[derive(Debug)]
struct Trouble {
    reason: GapReason,
    retry_at: Instant,
    pause: Duration,
    /// Dropped, and not in the index yet.
    unwritten: u64,
}

impl Log {
    pub(super) fn new(folder: Folder, boot: [u8; 16], limits: RetentionLimits) -> Self {
        Self {
            folder,
            boot,
            limits,
            tokens: Vec::new(),
            state: State::Unopened,
            trouble: None,
            dirty: false,
            full: Vec::new(),
        }
    }

    /// Moves what is in `source`, at most `limit` bytes, into the log; or drops it.
    pub(super) fn take(
        &mut self,
        source: &Source,
        limit: u64,
        now: Now,
        buffer: &mut [u8],
    ) -> Result<Batch, Errno> {
        let length = source.available()?.min(limit);
        let mut batch = Batch::default();
        if length == 0 {
            return Ok(batch);
        }
        let waiting = self
            .trouble
            .as_ref()
            .is_some_and(|t| now.instant < t.retry_at);
        if !waiting {
            match self.store(source, length, now, buffer, &mut batch) {
                Ok(()) => return Ok(batch),
                Err(failed) => {
                    batch.taken = failed.consumed;
                    batch.refused = self.refused(failed, now);
                }
            }
        }
        let left = length.saturating_sub(batch.taken);
        self.count_dropped(left, now);
        batch.taken += source.discard(left, buffer);
        Ok(batch)
    }

    fn store(
        &mut self,
        source: &Source,
        length: u64,
        now: Now,
        buffer: &mut [u8],
        batch: &mut Batch,
    ) -> Result<(), Failed> {
        batch.rotated = self.make_ready(source, now)?;
        let unwritten = self.trouble.as_ref().map(|t| (t.reason, t.unwritten));
        let State::Writing(segment) = &mut self.state else {
            return Err(Errno::IO.into());
        };
        if let Some((reason, unwritten)) = unwritten {
            if unwritten > 0 {
                segment.drop_bytes(reason, unwritten, now.wall_us)?;
                self.trouble.iter_mut().for_each(|t| t.unwritten = 0);
            }
            segment.probe(length)?;
        }
        let position = segment.walk().position();
        // A batch ends with its segment, so that a small limit is kept in spite of large pipes.
        let room = self.limits.segment_bytes().saturating_sub(position);
        let length = length.min(room.max(1));
        let record = Record {
            entry: Entry::Data {
                stream: source.stream,
                terminal: source.is_terminal(),
                position: u32::try_from(position).map_err(|_| Errno::FBIG)?,
                length: u32::try_from(length).map_err(|_| Errno::FBIG)?,
            },
            time_us: now.wall_us,
        };
        segment.announce(&record)?;
        let moved = source.move_to(&segment.files.data, position, length, buffer)?;
        self.dirty = true;
        batch.taken = moved;
        self.trouble = None;
        segment.moved(&record, moved);
        Ok(())
    }

    /// Sees to it that there is a segment with room. Whether another one was begun.
    fn make_ready(&mut self, source: &Source, now: Now) -> Result<bool, Errno> {
        if let State::Unopened = self.state {
            let in_terminal = match source.is_terminal() {
                true => source.available()?,
                false => u64::MAX,
            };
            self.open(in_terminal, now)?;
        }
        match &self.state {
            State::Writing(segment) if segment.is_full(self.limits.segment_bytes()) => {
                self.begin_next(now)
            }
            _ => Ok(false),
        }
    }

    /// Begins another segment where the one that is written has output in it. Whether it did.
    pub(super) fn rotate(&mut self, now: Now) -> Result<bool, Errno> {
        if let State::Unopened = self.state {
            self.open(u64::MAX, now)?;
        }
        match &self.state {
            State::Writing(segment) if segment.walk().position() > 0 => self.begin_next(now),
            _ => Ok(false),
        }
    }

    fn begin_next(&mut self, now: Now) -> Result<bool, Errno> {
        let State::Writing(segment) = &self.state else {
            return Ok(false);
        };
        let header = self.header(segment.walk().offset(), segment.walk().totals(), now);
        let next = Segment::create(&self.folder, &header)?;
        let full = Arc::clone(&segment.files);
        if self.full.len() < MAX_UNSYNCED {
            self.full.push(full);
        }
        self.state = State::Writing(next);
        Ok(true)
    }

    /// Goes on where an earlier mover ended, or begins. `in_terminal`: what is in the terminal's
    /// buffer.
    fn open(&mut self, in_terminal: u64, now: Now) -> Result<(), Errno> {
        let bases = self.folder.bases().map_err(super::segment::errno)?;
        for base in bases.into_iter().rev() {
            if let Some(segment) = self.reopen(base, in_terminal, now)? {
                self.state = State::Writing(segment);
                return Ok(());
            }
        }
        let first = Segment::create(&self.folder, &self.header(0, (0, 0), now))?;
        self.state = State::Writing(first);
        Ok(())
    }

    /// Goes on in the segment at `base`, or behind it. `None`: it was never begun.
    fn reopen(&self, base: u64, in_terminal: u64, now: Now) -> Result<Option<Segment>, Errno> {
        let behind = |after, totals| {
            Segment::create(&self.folder, &self.header(after, totals, now)).map(Some)
        };
        let Some(found) = Segment::resume(&self.folder, base, &self.boot)? else {
            let size = fs::metadata(self.folder.data(base)).map_or(0, |m| m.len());
            if size > 0 {
                return behind(base.saturating_add(size), (0, 0));
            }
            // The last mover died, or the disk was full, between making the file and writing its
            // header.
            self.folder
                .remove_segment(base)
                .map_err(super::segment::errno)?;
            return Ok(None);
        };
        let mut segment = found.segment;
        if let Some(lost) = found.closed {
            let walk = segment.walk();
            return behind(walk.offset().saturating_add(lost), walk.totals());
        }
        // Announced, and gone from the terminal: read by a mover that was killed before it wrote.
        let lost = found.terminal_length.saturating_sub(in_terminal);
        if lost > 0 {
            segment.drop_bytes(GapReason::IoError, lost, now.wall_us)?;
        }
        Ok(Some(segment))
    }

    fn header(&self, base: u64, (stdout, stderr): (u64, u64), now: Now) -> Header {
        Header {
            boot: self.boot,
            base,
            created_us: now.wall_us,
            stdout_before: stdout,
            stderr_before: stderr,
            keep_bytes: self.limits.max_bytes,
            keep_s: self.limits.max_age.as_secs(),
        }
    }

    /// Notes a refusal and when to try again; the error if it is news.
    fn refused(&mut self, failed: Failed, now: Now) -> Option<Errno> {
        let reason = match failed.errno {
            Errno::NOSPC | Errno::DQUOT => GapReason::DiskFull,
            _ => GapReason::IoError,
        };
        let first = self.trouble.is_none();
        let unwritten = self.trouble.as_ref().map_or(0, |t| t.unwritten);
        let pause = match (&self.trouble, reason) {
            (_, GapReason::DiskFull) => RETRY_FULL,
            (Some(t), _) if t.reason == reason => (t.pause * 2).min(RETRY_IO.1),
            _ => RETRY_IO.0,
        };
        self.trouble = Some(Trouble {
            reason,
            retry_at: now.instant + pause,
            pause,
            unwritten,
        });
        self.count_dropped(failed.consumed, now);
        first.then_some(failed.errno)
    }

    /// Writes down that `bytes` go, or remembers it until that can be written.
    fn count_dropped(&mut self, bytes: u64, now: Now) {
        let Some(trouble) = &mut self.trouble else {
            return;
        };
        trouble.unwritten = trouble.unwritten.saturating_add(bytes);
        let State::Writing(segment) = &mut self.state else {
            return;
        };
        let all = trouble.unwritten;
        if all > 0 && segment.drop_bytes(trouble.reason, all, now.wall_us).is_ok() {
            trouble.unwritten = 0;
            self.dirty = true;
        }
    }

    /// Whether nothing was ever printed, to an earlier daemon neither, and nothing dropped.
    pub(super) fn is_unused(&self) -> bool {
        matches!(self.state, State::Unopened)
            && self.trouble.is_none()
            && self.folder.bases().is_ok_and(|bases| bases.is_empty())
    }

    /// Writes the end marker, if anything was ever printed. What could not be written down is the
    /// answer.
    pub(super) fn end(&mut self, now: Now) -> Result<End, Errno> {
        if let State::Unopened = self.state
            && !self
                .folder
                .bases()
                .map_err(super::segment::errno)?
                .is_empty()
        {
            self.open(u64::MAX, now)?;
        }
        self.count_dropped(0, now);
        let unwritten = self.trouble.as_ref().map_or(0, |t| t.unwritten);
        let State::Writing(segment) = &mut self.state else {
            return Ok(End {
                unwritten,
                ..End::default()
            });
        };
        segment.end(now.wall_us)?;
        self.dirty = true;
        let walk = segment.walk();
        let (stdout_bytes, stderr_bytes) = walk.totals();
        Ok(End {
            stdout_bytes,
            stderr_bytes,
            offset: walk.offset(),
            unwritten,
        })
    }

    /// Notes what was dropped, and no end: it goes on with the next writer. Bytes of standard
    /// output stored over its whole life.
    pub(super) fn put_aside(&mut self, now: Now) -> u64 {
        self.count_dropped(0, now);
        self.stored().0
    }

    /// Bytes of standard output and standard error over its whole life; nothing before it was
    /// opened.
    pub(super) fn stored(&self) -> (u64, u64) {
        match &self.state {
            State::Writing(segment) => segment.walk().totals(),
            State::Unopened => (0, 0),
        }
    }

    /// The files to sync, once per change.
    pub(super) fn unsynced(&mut self) -> Vec<Arc<Files>> {
        let mut files = std::mem::take(&mut self.full);
        if let (true, State::Writing(segment)) = (self.dirty, &self.state) {
            files.push(Arc::clone(&segment.files));
        }
        self.dirty = false;
        files
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty
    }
}

/// A log's last word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct End {
    pub(super) stdout_bytes: u64,
    pub(super) stderr_bytes: u64,
    pub(super) offset: u64,
    pub(super) unwritten: u64,
}
