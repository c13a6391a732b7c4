// SPDX-License-Identifier: Apache-2.0
//! Reads and denials that repeat are counted instead of written: the first of each caller, action
//! and target is a line at once, the others of the next seconds are one line with their count. So
//! the audit says which objects were tried, and a loop of reads is a few lines.
//!
//! Each tenant has a budget of such lines. Beyond it they are counted by action alone, so that a
//! tenant's reads don't push what its users changed out of its chain. What changes something is
//! never counted, only written. Pure: the audit calls it under its lock.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::quota::ADMINISTRATORS;

use super::entry::Entry;

/// For how long equal entries are counted.
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// The same for those that are counted by action alone.
const COARSE_WINDOW: Duration = Duration::from_secs(600);
/// Targets that are counted at once; administrators may have as many more.
const MAX_TARGETS: usize = 4096;
/// Lines of reads and denials that a tenant may write at once.
pub(super) const BURST: u32 = 256;
/// How long one more line takes after those.
const REFILL: Duration = Duration::from_secs(10);

/// What is counted together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Key {
    Target {
        actor: String,
        action: String,
        tenant: String,
        path: String,
        also: Vec<String>,
        about: String,
        allowed: bool,
    },
    /// Of a tenant that is past its budget.
    Action {
        of: String,
        action: String,
        allowed: bool,
    },
}

impl Key {
    fn window(&self) -> Duration {
        match self {
            Key::Target { .. } => WINDOW,
            Key::Action { .. } => COARSE_WINDOW,
        }
    }
}

#[derive(Debug)]
struct Counted {
    since: Instant,
    last: Entry,
    count: u64,
}

/// The lines that a tenant may still write.
#[derive(Debug)]
struct Budget {
    left: u32,
    since: Instant,
}

impl Budget {
    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        let more = u32::try_from(passed.as_secs() / REFILL.as_secs()).unwrap_or(BURST);
        if more > 0 {
            self.left = self.left.saturating_add(more).min(BURST);
            self.since = now;
        }
        let taken = self.left > 0;
        self.left = self.left.saturating_sub(1);
        taken
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Folds {
    counted: HashMap<Key, Counted>,
    budgets: HashMap<String, Budget>,
}

impl Folds {
    pub(super) fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// Whether the entry is to be written; otherwise it was counted.
    pub(super) fn admits(&mut self, entry: &Entry, now: Instant) -> bool {
        let target = Key::Target {
            actor: entry.actor.clone(),
            action: entry.action.clone(),
            tenant: entry.tenant.clone(),
            path: entry.path.clone(),
            also: entry.also.clone(),
            about: entry.about.clone(),
            allowed: entry.allowed,
        };
        if self.count(&target, entry) {
            return false;
        }
        let key = match self.affords(entry, now) {
            true => target,
            false => Key::Action {
                of: tenant_of(&entry.actor).unwrap_or_default().to_owned(),
                action: entry.action.clone(),
                allowed: entry.allowed,
            },
        };
        if self.count(&key, entry) {
            return false;
        }
        let counted = Counted {
            since: now,
            last: entry.clone(),
            count: 0,
        };
        self.counted.insert(key, counted);
        true
    }

    fn count(&mut self, key: &Key, entry: &Entry) -> bool {
        let Some(counted) = self.counted.get_mut(key) else {
            return false;
        };
        counted.count += 1;
        counted.last = entry.clone();
        true
    }

    fn affords(&mut self, entry: &Entry, now: Instant) -> bool {
        // Half of the targets is kept for administrators. Who has no name (a handshake that
        // failed) has a budget as a tenant does.
        let of = tenant_of(&entry.actor).unwrap_or_default();
        if of == ADMINISTRATORS {
            return self.counted.len() < 2 * MAX_TARGETS;
        }
        if self.counted.len() >= MAX_TARGETS {
            return false;
        }
        let budget = self.budgets.entry(of.to_owned()).or_insert(Budget {
            left: BURST,
            since: now,
        });
        budget.take(now)
    }

    /// The counts that are due, as lines; with `all`, every one.
    pub(super) fn due(&mut self, now: Instant, all: bool) -> Vec<Entry> {
        let mut lines = Vec::new();
        self.counted.retain(|key, counted| {
            let over = now.saturating_duration_since(counted.since) >= key.window();
            if !over && !all {
                return true;
            }
            if counted.count > 0 {
                let mut line = counted.last.clone();
                line.count = counted.count;
                if matches!(key, Key::Action { .. }) {
                    line.note = "counted by action: the tenant is past its budget of lines; the \
                                 last one is shown"
                        .to_owned();
                }
                lines.push(line);
            }
            false
        });
        let full = BURST.saturating_mul(u32::try_from(REFILL.as_secs()).unwrap_or(u32::MAX));
        let full = Duration::from_secs(u64::from(full));
        self.budgets
            .retain(|_, budget| now.saturating_duration_since(budget.since) < full);
        lines
    }
}

/// The tenant of a caller, by its SPIFFE ID; `None`: the node itself.
pub(super) fn tenant_of(actor: &str) -> Option<&str> {
    let (_, rest) = actor.split_once("/tenant/")?;
    let (tenant, _) = rest.split_once("/user/")?;
    Some(tenant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tenant: &str, path: &str) -> Entry {
        Entry {
            actor: format!("spiffe://d/tenant/{tenant}/user/u"),
            action: "runtime.Get".to_owned(),
            tenant: tenant.to_owned(),
            path: path.to_owned(),
            allowed: true,
            ..Entry::default()
        }
    }

    #[test]
    fn each_target_is_a_line_and_its_repetitions_a_count() {
        let (mut folds, now) = (Folds::default(), Instant::now());
        for path in ["a", "b", "c"] {
            assert!(folds.admits(&read("t", path), now));
            for _ in 0..9 {
                assert!(!folds.admits(&read("t", path), now));
            }
        }
        let mut denied = read("t", "a");
        denied.allowed = false;
        assert!(folds.admits(&denied, now), "another decision");
        let mut lines = folds.due(now, true);
        lines.sort_by(|a, b| a.path.cmp(&b.path));
        let counts: Vec<_> = lines.iter().map(|l| (l.path.as_str(), l.count)).collect();
        assert_eq!(counts, [("a", 9), ("b", 9), ("c", 9)]);
        assert!(folds.is_empty());
    }

    #[test]
    fn a_tenant_past_its_budget_writes_a_line_per_action_and_others_are_not_touched() {
        let (mut folds, now) = (Folds::default(), Instant::now());
        let tried = 100_000;
        let written = (0..tried).filter(|n| folds.admits(&read("loud", &format!("p{n}")), now));
        let written = written.count();
        assert_eq!(written, usize::try_from(BURST).unwrap() + 1);
        assert!(folds.admits(&read("quiet", "web"), now));
        assert!(folds.admits(&read("system", "web"), now));
        // Nothing is lost: it is counted.
        let counts: u64 = folds.due(now, true).iter().map(|line| line.count).sum();
        assert_eq!(counts, u64::try_from(tried - written).unwrap());
        // And the budget comes back.
        let later = now + REFILL * 3;
        let written = (0..10).filter(|n| folds.admits(&read("loud", &format!("q{n}")), later));
        assert_eq!(written.count(), 3 + 1);
    }
}
