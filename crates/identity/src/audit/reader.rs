// SPDX-License-Identifier: Apache-2.0
//! Reading the audit back: the lines of all chains merged in the order in which they were written,
//! and filtered. Blocks on files; callers use a thread that may. Between two reads no file is open.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use super::chain::{self, Owner};
use super::entry::{self, Entry, Hash};
use super::segment::{self, Line, Lines, Segment};

/// Lines that are read of a chain at once: with a thousand tenants a reader holds some megabytes.
const BATCH: usize = 32;

/// Which lines are wanted; the default: all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Not before: `CLOCK_REALTIME`, nanoseconds.
    pub since_ns: Option<i64>,
    /// Entries from before this time, in nanoseconds.
    pub until_ns: Option<i64>,
    /// The caller's whole SPIFFE ID, or its end after a `/` (`admin`, `tenant/a/user/ann`).
    pub actor: Option<String>,
    /// `subsystem.Method` or `subsystem`.
    pub action: Option<String>,
    /// Only what was not allowed.
    pub denied_only: bool,
}

impl Filter {
    fn admits(&self, entry: &Entry) -> bool {
        if self.denied_only && entry.allowed {
            return false;
        }
        if self.since_ns.is_some() || self.until_ns.is_some() {
            let time = entry.time.parse::<jiff::Timestamp>().ok();
            let ns = time.and_then(|t| i64::try_from(t.as_nanosecond()).ok());
            let Some(ns) = ns else { return false };
            let early = self.since_ns.is_some_and(|since| ns < since);
            if early || self.until_ns.is_some_and(|until| ns >= until) {
                return false;
            }
        }
        let of_actor = self.actor.as_ref().is_none_or(|wanted| {
            entry.actor == *wanted || entry.actor.ends_with(&format!("/{wanted}"))
        });
        let of_action = self.action.as_ref().is_none_or(|wanted| {
            entry.action == *wanted
                || entry
                    .action
                    .strip_prefix(wanted)
                    .is_some_and(|r| r.starts_with('.'))
        });
        of_actor && of_action
    }
}

/// Reads the audit's files, on from where it stopped; see the module.
#[derive(Debug)]
pub struct Reader {
    pub(super) dir: PathBuf,
    cursors: BTreeMap<Owner, Cursor>,
}

impl Reader {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            cursors: BTreeMap::new(),
        }
    }

    /// Up to `most` more lines that the filter admits, of those up to number `upto` (what is on
    /// disk). Fewer than `most`: there are no more for now.
    ///
    /// # Errors
    /// Files that can't be read. Lines that can't be parsed are skipped: `verify` is what names
    /// them.
    pub fn read(
        &mut self,
        filter: &Filter,
        upto: u64,
        most: usize,
    ) -> io::Result<Vec<(Entry, Hash)>> {
        for owner in chain::owners(&self.dir)? {
            let dir = chain::folder(&self.dir, &owner);
            let cursor = self.cursors.entry(owner);
            cursor.or_insert_with(|| Cursor::new(dir));
        }
        let mut cursors: Vec<&mut Cursor> = self.cursors.values_mut().collect();
        let mut next = BinaryHeap::new();
        for (n, cursor) in cursors.iter_mut().enumerate() {
            next.extend(cursor.peek()?.map(|sequence| Reverse((sequence, n))));
        }
        let mut found = Vec::new();
        while found.len() < most
            && let Some(Reverse((sequence, n))) = next.pop()
            && sequence <= upto
            && let Some(cursor) = cursors.get_mut(n)
        {
            let line = cursor.pending.pop_front();
            found.extend(line.filter(|(entry, _)| filter.admits(entry)));
            next.extend(cursor.peek()?.map(|sequence| Reverse((sequence, n))));
        }
        Ok(found)
    }
}

/// How far a chain is read.
#[derive(Debug)]
struct Cursor {
    dir: PathBuf,
    /// The file's first number.
    segment: u64,
    /// Where in it the next line begins.
    offset: u64,
    /// The number of the newest line that was read.
    newest: u64,
    /// Read, and not yet wanted.
    pending: VecDeque<(Entry, Hash)>,
}

impl Cursor {
    fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            segment: 0,
            offset: 0,
            newest: 0,
            pending: VecDeque::new(),
        }
    }

    /// The number of the next line; `None`: there is none for now.
    fn peek(&mut self) -> io::Result<Option<u64>> {
        if self.pending.is_empty() {
            self.refill()?;
        }
        Ok(self.pending.front().map(|(entry, _)| entry.sequence))
    }

    fn refill(&mut self) -> io::Result<()> {
        loop {
            // Listed before it is read: a file that is not the last is written to no more.
            let (segments, from) = (segment::list(&self.dir)?, self.segment);
            let mut left = segments.into_iter().filter(|s| s.first >= from);
            let Some(Segment { first, file }) = left.next() else {
                return Ok(());
            };
            if first != self.segment {
                (self.segment, self.offset) = (first, 0);
            }
            match self.read_some(&file) {
                // It was retired meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
                Ok(()) if !self.pending.is_empty() => return Ok(()),
                Ok(()) if left.next().is_none() => return Ok(()),
                Ok(()) => {}
            }
            (self.segment, self.offset) = (first.saturating_add(1), 0);
        }
    }

    fn read_some(&mut self, file: &Path) -> io::Result<()> {
        let mut lines = Lines::open_at(file, self.offset)?;
        while self.pending.len() < BATCH
            && let Line::Whole(line) = lines.next()?
        {
            self.offset = lines.offset();
            if let Some((entry, hash)) = entry::parse(&line)
                && entry.sequence > self.newest
            {
                self.newest = entry.sequence;
                self.pending.push_back((entry, hash));
            }
        }
        Ok(())
    }
}
