// SPDX-License-Identifier: Apache-2.0
//! The newest changes, for watchers: a bounded ring with a number for each change, and the token by
//! which a watcher says where it was. Pure.
//!
//! A watcher that is slower than the ring, or comes from another daemon or boot, is told to forget
//! everything and gets a snapshot; so no queue per watcher exists, and none can grow.
//!
//! Tenants share the ring: where it is too large, the tenant with most of it loses its oldest
//! change. So what one tenant does makes no watcher of another begin anew. A watcher of every
//! tenant begins anew when any of them has lost a change that it hasn't seen.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;
use std::sync::Arc;

use model::name::Tenant;
use model::request::Scope;
use model::status::Object;

/// How many changes are kept.
pub(crate) const KEPT: usize = 1024;
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
    /// By number.
    changes: BTreeMap<u64, Change>,
    /// Those of each tenant that has any.
    tenants: HashMap<Tenant, Kept>,
    /// Of `changes`, about.
    bytes: usize,
    /// The number of the newest change; 0 before the first.
    newest: u64,
    /// The newest of all that are not kept any more.
    dropped: u64,
    /// The same, of tenants that have none left.
    dropped_of_others: u64,
}

/// What is kept of a tenant.
#[derive(Debug, Default)]
struct Kept {
    /// The numbers of its changes, the oldest first.
    numbers: VecDeque<u64>,
    /// Of its changes, about.
    bytes: usize,
    /// The newest of those that are not kept any more.
    dropped: u64,
}

impl Ring {
    /// An empty one.
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            changes: BTreeMap::new(),
            tenants: HashMap::new(),
            bytes: 0,
            newest: 0,
            dropped: 0,
            dropped_of_others: 0,
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

    /// Where a token points to, if it is one of ours and everything after it that is in the scope
    /// is still here.
    pub(crate) fn locate(&self, token: &str, scope: &Scope) -> Option<u64> {
        let token: Token = token.parse().ok()?;
        let known = token.epoch == self.epoch && token.sequence <= self.newest;
        (known && token.sequence >= self.dropped(scope)).then_some(token.sequence)
    }

    /// The least sequence after which nothing is missing of what is in the scope.
    fn dropped(&self, scope: &Scope) -> u64 {
        let Scope::Tenant(tenant) = scope else {
            return self.dropped;
        };
        let kept = self.tenants.get(tenant);
        kept.map_or(self.dropped_of_others, |kept| kept.dropped)
    }

    /// Adds a change; where there are too many, the oldest goes of the tenant that has most.
    pub(crate) fn push(&mut self, change: Change) {
        let (tenant, weight) = (&change.object.meta().tenant, weight(&change.object));
        self.newest += 1;
        let before = self.dropped_of_others;
        let kept = self.tenants.entry(tenant.clone());
        let kept = kept.or_insert_with(|| Kept {
            dropped: before,
            ..Kept::default()
        });
        kept.numbers.push_back(self.newest);
        kept.bytes = kept.bytes.saturating_add(weight);
        self.bytes = self.bytes.saturating_add(weight);
        self.changes.insert(self.newest, change);
        while self.changes.len() > KEPT || (self.bytes > KEPT_BYTES && self.changes.len() > 1) {
            if self.drop_one().is_none() {
                return;
            }
        }
    }

    /// Drops every change of a tenant that was removed: the next one of its name is told none.
    pub(crate) fn drop_tenant(&mut self, tenant: &Tenant) {
        let Some(kept) = self.tenants.remove(tenant) else {
            return;
        };
        self.bytes = self.bytes.saturating_sub(kept.bytes);
        let newest = kept.numbers.back().copied().unwrap_or(kept.dropped);
        for number in kept.numbers {
            self.changes.remove(&number);
        }
        self.dropped = self.dropped.max(newest);
        self.dropped_of_others = self.dropped_of_others.max(newest);
    }

    /// Drops the oldest change of the tenant whose changes take most. No more tenants are looked at
    /// than changes are kept.
    fn drop_one(&mut self) -> Option<()> {
        let fullest = self.tenants.iter().max_by_key(|(_, kept)| kept.bytes);
        let tenant = fullest?.0.clone();
        let kept = self.tenants.get_mut(&tenant)?;
        let number = kept.numbers.pop_front()?;
        let gone = self.changes.remove(&number)?;
        let weight = weight(&gone.object);
        kept.bytes = kept.bytes.saturating_sub(weight);
        kept.dropped = number;
        self.bytes = self.bytes.saturating_sub(weight);
        self.dropped = self.dropped.max(number);
        if kept.numbers.is_empty() {
            self.tenants.remove(&tenant);
            self.dropped_of_others = self.dropped_of_others.max(number);
        }
        Some(())
    }

    /// The next change of the scope after `sequence`, and its number. `Err` where one is not kept
    /// any more.
    pub(crate) fn after(
        &self,
        sequence: u64,
        scope: &Scope,
    ) -> Result<Option<(u64, &Change)>, Missed> {
        if sequence < self.dropped(scope) {
            return Err(Missed);
        }
        let Scope::Tenant(tenant) = scope else {
            let later = (Bound::Excluded(sequence), Bound::Unbounded);
            let next = self.changes.range(later).next();
            return Ok(next.map(|(number, change)| (*number, change)));
        };
        Ok(self.tenants.get(tenant).and_then(|kept| {
            let seen = kept.numbers.partition_point(|number| *number <= sequence);
            let number = kept.numbers.get(seen)?;
            Some((*number, self.changes.get(number)?))
        }))
    }
}

/// How much memory an object takes, about: itself, its texts, and the rest as if it were always the
/// same (names, paths, the lists of what is effective). Measured with programs of three words.
pub(super) fn weight(object: &Object) -> usize {
    const REST: usize = size_of::<Object>() + 1500;
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
