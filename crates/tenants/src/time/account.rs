// SPDX-License-Identifier: Apache-2.0
//! What each payer has used of the daemon's time, against its share. All times are nanoseconds of
//! [`super::Inner::now`]. Nothing here waits: accounts are numbers that are read and written
//! without a lock, but for the table of them.
//!
//! An account is *paid until* a moment: each cost moves it on by the cost divided by the payer's
//! share. A payer that uses less than its share is paid until now or earlier; who uses more is
//! ahead of the clock, and in credit as long as that is by no more than [`BURST`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Payer;
use crate::line::WEIGHT;

/// How far ahead of its share a payer may be: a short burst isn't a flood.
const BURST: u64 = 10_000_000;
/// A payer that was ahead by more has a flood behind it, and is in credit after so long.
const MOST_AHEAD: u64 = 200_000_000;
/// A payer that the daemon hasn't worked for so long has no share; others have it.
const IDLE: u64 = 200_000_000;
/// How often that is looked at, while there is work.
const LOOK: u64 = 50_000_000;

/// What one payer has used.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) payer: Payer,
    weight: AtomicU64,
    /// Whether its weight beyond the usual one is taken from no other's share.
    reserved: bool,
    paid_until: AtomicU64,
    /// When it was polled last.
    seen: AtomicU64,
    active: AtomicBool,
}

impl Account {
    fn new(payer: Payer, weight: u64, reserved: bool) -> Self {
        Self {
            payer,
            weight: AtomicU64::new(weight),
            reserved,
            paid_until: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            active: AtomicBool::new(false),
        }
    }

    pub(super) fn weight(&self) -> u64 {
        self.weight.load(Relaxed)
    }

    /// What it takes of others' shares.
    fn counted(&self) -> u64 {
        match self.reserved {
            true => self.weight().min(WEIGHT),
            false => self.weight(),
        }
    }

    /// Whether it has used no more than its share, and a burst.
    pub(super) fn is_in_credit(&self, now: u64) -> bool {
        self.paid_until.load(Relaxed) <= now.saturating_add(BURST)
    }

    /// `weights` is the sum of those that are active, this one's included.
    pub(super) fn charge(&self, now: u64, cost: u64, weights: u64) {
        let cost = shared(cost, self.weight(), weights);
        let after = |paid: u64| {
            let paid = paid.max(now).saturating_add(cost);
            Some(paid.min(now.saturating_add(MOST_AHEAD)))
        };
        // It never answers an error: `after` is always something.
        let _ = self.paid_until.fetch_update(Relaxed, Relaxed, after);
    }
}

/// How long the share of a weight takes for a cost.
fn shared(cost: u64, weight: u64, weights: u64) -> u64 {
    let (cost, weight) = (u128::from(cost), u128::from(weight.max(1)));
    let whole = u128::from(weights).max(weight);
    u64::try_from(cost * whole / weight).unwrap_or(u64::MAX)
}

/// The accounts of all payers, and which of them are active.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    of: Mutex<HashMap<Payer, Arc<Account>>>,
    /// Of the active ones: the sum of their weights, and how many they are.
    weights: AtomicU64,
    active: AtomicU64,
    next_look: AtomicU64,
}

impl Accounts {
    /// The account of a payer; its weight is this from now on.
    pub(super) fn of(&self, payer: Payer, weight: u64, reserved: bool) -> Arc<Account> {
        let mut all = self.lock();
        let new = || Arc::new(Account::new(payer.clone(), weight, reserved));
        let account = all.entry(payer.clone()).or_insert_with(new);
        account.weight.store(weight, Relaxed);
        account.clone()
    }

    /// Notes that an account is polled, and now and then which no longer are.
    pub(super) fn look(&self, account: &Account, now: u64) {
        account.seen.store(now, Relaxed);
        if !account.active.load(Relaxed) && !account.active.swap(true, Relaxed) {
            self.weights.fetch_add(account.counted(), Relaxed);
            self.active.fetch_add(1, Relaxed);
        }
        let due = self.next_look.load(Relaxed);
        let next = now.saturating_add(LOOK);
        let mine = || self.next_look.compare_exchange(due, next, Relaxed, Relaxed);
        if now >= due && mine().is_ok() {
            self.look_at_all(now);
        }
    }

    /// The sum of the weights of the active accounts. It may be off by one that begins or ends just
    /// now, until the next look.
    pub(super) fn weights(&self) -> u64 {
        self.weights.load(Relaxed)
    }

    /// Whether the daemon works for one payer only.
    pub(super) fn is_alone(&self) -> bool {
        self.active.load(Relaxed) <= 1
    }

    fn look_at_all(&self, now: u64) {
        let mut all = self.lock();
        let (mut weights, mut active) = (0u64, 0);
        all.retain(|_, account| {
            let lately = account.seen.load(Relaxed).saturating_add(IDLE) >= now;
            let busy = lately && account.active.load(Relaxed);
            account.active.store(busy, Relaxed);
            if busy {
                weights = weights.saturating_add(account.counted());
                active += 1;
            }
            // An account that is ahead is kept: a new one would have credit.
            let ahead = account.paid_until.load(Relaxed) > now;
            busy || ahead || Arc::strong_count(account) > 1
        });
        self.weights.store(weights, Relaxed);
        self.active.store(active, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Payer, Arc<Account>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(all: &Accounts, uid: u32, weight: u64) -> Arc<Account> {
        all.of(Payer::User(uid), weight, false)
    }

    #[test]
    fn who_uses_its_share_is_in_credit_and_who_uses_more_is_not() {
        let all = Accounts::default();
        let (fair, greedy) = (account(&all, 1, 100), account(&all, 2, 100));
        let mut now = 0;
        let mut refused = 0;
        for _ in 0..1000 {
            now += 1_000_000;
            all.look(&fair, now);
            all.look(&greedy, now);
            assert!(fair.is_in_credit(now));
            // Of each millisecond one uses 0.4 and the other one 0.8; a half is the share of each.
            fair.charge(now, 400_000, all.weights());
            refused += u32::from(!greedy.is_in_credit(now));
            greedy.charge(now, 800_000, all.weights());
        }
        assert!(refused > 900, "{refused}");
        // The flood is over: it pays for a while, not for ever.
        now += MOST_AHEAD;
        assert!(greedy.is_in_credit(now));
    }

    #[test]
    fn shares_are_by_weight_among_those_that_are_worked_for() {
        assert_eq!(shared(1000, 100, 100), 1000);
        assert_eq!(shared(1000, 100, 200), 2000);
        assert_eq!(shared(1000, 1000, 1100), 1100);
        // The sum is late: a share is never more than the whole.
        assert_eq!(shared(1000, 100, 0), 1000);

        let all = Accounts::default();
        let (one, other) = (account(&all, 1, 100), account(&all, 2, 300));
        all.look(&one, 1);
        assert!(all.is_alone());
        all.look(&other, 2);
        assert!(!all.is_alone());
        assert_eq!(all.weights(), 400);
        // Administrators have a larger one, and take no more than a tenant does.
        let system = all.of(Payer::Unknown, 1000, true);
        all.look(&system, 3);
        assert_eq!(all.weights(), 500);
        let later = 3 + IDLE + LOOK;
        all.look(&one, later);
        assert!(all.is_alone());
        assert_eq!(all.weights(), 100);
    }

    #[test]
    fn the_table_has_those_alone_that_are_in_use_or_owe() {
        let all = Accounts::default();
        for uid in 0..100 {
            let passing = account(&all, uid, 100);
            all.look(&passing, 1);
        }
        let busy = account(&all, 1000, 100);
        busy.charge(IDLE, u64::MAX, 100);
        let kept = account(&all, 1001, 100);
        drop(busy);
        all.look(&kept, IDLE + LOOK);
        assert_eq!(all.lock().len(), 2);
        all.look(&kept, IDLE + MOST_AHEAD + LOOK * 2);
        assert_eq!(all.lock().len(), 1);
    }
}
