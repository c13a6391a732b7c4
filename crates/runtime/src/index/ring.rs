// SPDX-License-Identifier: Apache-2.0
//! The newest changes, for watchers: a bounded ring with a number for each change, and the token by
//! which a watcher says where it was. Pure.
//!
//! A watcher that is slower than the ring, or comes from another daemon or boot, is told to forget
//! everything and gets a snapshot; so no queue per watcher exists, and none can grow.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use model::status::Object;

/// How many changes are kept.
pub(crate) const KEPT: usize = 4096;
/// And how many bytes of them, about.
const KEPT_BYTES: usize = 4 << 20;

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChangeKind {
    Added,
    Changed,
    Removed,
}

/// One change, with the object after it (before it, where removed).
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    pub(crate) object: Arc<Object>,
}

/// Which daemon of which boot numbered the changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Epoch {
    /// The kernel's boot id.
    pub(crate) boot: u128,
    /// Drawn by each daemon.
    pub(crate) instance: u64,
}

/// A place in the sequence of changes, as a client keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub(crate) epoch: Epoch,
    /// Of the last change seen.
    pub(crate) sequence: u64,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:032x}.{:016x}.{}",
            self.epoch.boot, self.epoch.instance, self.sequence
        )
    }
}

impl FromStr for Token {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next().ok_or(());
        let boot = u128::from_str_radix(part()?, 16).map_err(drop)?;
        let instance = u64::from_str_radix(part()?, 16).map_err(drop)?;
        let sequence = part()?.parse().map_err(drop)?;
        Ok(Self {
            epoch: Epoch { boot, instance },
            sequence,
        })
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ring {
    epoch: Epoch,
    changes: VecDeque<Change>,
    /// Of `changes`, about.
    bytes: usize,
    /// The number of the newest change; 0 before the first.
    newest: u64,
}

impl Ring {
    /// An empty one.
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            changes: VecDeque::new(),
            bytes: 0,
            newest: 0,
        }
    }

    /// The number of the newest change.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// The token of a place.
    pub(crate) fn token(&self, sequence: u64) -> Token {
        Token {
            epoch: self.epoch,
            sequence,
        }
    }

    /// Where a token points to, if it is one of ours and everything after it is still here.
    pub(crate) fn locate(&self, token: &str) -> Option<u64> {
        let token: Token = token.parse().ok()?;
        let known = token.epoch == self.epoch && token.sequence <= self.newest;
        (known && token.sequence >= self.oldest_seen()).then_some(token.sequence)
    }

    /// The least sequence after which nothing is missing.
    fn oldest_seen(&self) -> u64 {
        self.newest
            .saturating_sub(u64::try_from(self.changes.len()).unwrap_or(u64::MAX))
    }

    /// Adds a change; the oldest goes when there are too many.
    pub(crate) fn push(&mut self, change: Change) {
        self.bytes = self.bytes.saturating_add(weight(&change.object));
        self.changes.push_back(change);
        self.newest += 1;
        while self.changes.len() > KEPT || (self.bytes > KEPT_BYTES && self.changes.len() > 1) {
            let Some(oldest) = self.changes.pop_front() else {
                return;
            };
            self.bytes = self.bytes.saturating_sub(weight(&oldest.object));
        }
    }

    /// The change after `sequence`, and its number. `Err` where it is not kept any more.
    pub(crate) fn after(&self, sequence: u64) -> Result<Option<(u64, &Change)>, Missed> {
        let skip = sequence.checked_sub(self.oldest_seen()).ok_or(Missed)?;
        let index = usize::try_from(skip).map_err(|_| Missed)?;
        Ok(self.changes.get(index).map(|change| (sequence + 1, change)))
    }
}

/// How much memory an object takes, about: its texts, and the rest as if it were always the same.
fn weight(object: &Object) -> usize {
    const REST: usize = 1000;
    let texts = match object {
        Object::Cell(cell) => cell.spec.mounts.len() * 256,
        Object::Executable(executable) => texts(&executable.spec) + texts(&executable.effective),
    };
    REST + object.meta().labels.iter().count() * 128 + texts
}

fn texts(program: &model::executable::Draft) -> usize {
    let pair = |(name, value): (&String, &String)| name.len() + value.len() + 96;
    let argv: usize = program.argv.iter().map(|word| word.len() + 24).sum();
    argv + program.env.iter().map(pair).sum::<usize>()
}

/// Changes were forgotten that the watcher has not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Missed;
