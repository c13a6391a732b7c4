// SPDX-License-Identifier: Apache-2.0
//! What the audit knows of its way to the disk: how far lines are on it, and which ones a failed
//! `fdatasync` leaves in doubt.
//!
//! The kernel reports a failed write-back once and drops the pages: a later `fdatasync` of the same
//! file succeeds without having written them. So a failure is remembered here until lines of a file
//! begun after it are on disk, and what was in doubt stays so. Pure; the audit calls it under its
//! lock.

use super::entry::Entry;
use super::{NOTE_GAP, note};

/// Whether the newest file can be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// What is synced of it is on disk.
    Sound,
    /// A sync failed: nothing more is to be written to it.
    Failed,
    /// It was begun after a failure, and nothing of it is known to be on disk yet.
    Mending,
}

/// How far the lines are on disk.
#[derive(Debug)]
pub(super) struct Disk {
    standing: Standing,
    /// The newest line that is known to be on disk.
    synced: u64,
    /// First and last of the lines that may be lost; those between two failures count as well.
    doubtful: Option<(u64, u64)>,
    /// The doubt hasn't been written down yet.
    unsaid: bool,
}

impl Disk {
    /// Of a chain whose newest line is `synced`.
    pub(super) fn new(synced: u64) -> Self {
        Self {
            standing: Standing::Sound,
            synced,
            doubtful: None,
            unsaid: false,
        }
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    /// A sync failed while `newest` was the newest line.
    pub(super) fn failed(&mut self, newest: u64) {
        self.standing = Standing::Failed;
        let first = self.doubtful.map_or(self.synced + 1, |(first, _)| first);
        if newest >= first {
            self.doubtful = Some((first, newest));
            self.unsaid = true;
        }
    }

    /// A file was begun after a failure.
    pub(super) fn begun_anew(&mut self) {
        self.standing = Standing::Mending;
    }

    /// A sync that began in that standing succeeded, up to that line; `false` where an earlier
    /// failure makes that worth nothing.
    pub(super) fn confirm(&mut self, began: Standing, line: u64) -> bool {
        if self.standing != began || began == Standing::Failed || self.doubts(line) {
            return false;
        }
        self.standing = Standing::Sound;
        self.synced = self.synced.max(line);
        true
    }

    /// Whether that line may be lost though a later one is on disk.
    pub(super) fn doubts(&self, line: u64) -> bool {
        self.doubtful
            .is_some_and(|(first, last)| (first..=last).contains(&line))
    }

    /// The note that a file begun after a failure has to start with.
    pub(super) fn unsaid(&self) -> Option<Entry> {
        let (first, last) = self.doubtful.filter(|_| self.unsaid)?;
        let words = format!("lines {first} to {last} may not be on disk: writing them back failed");
        Some(note(NOTE_GAP, words))
    }

    pub(super) fn said(&mut self) {
        self.unsaid = false;
    }
}
