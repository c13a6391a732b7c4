// SPDX-License-Identifier: Apache-2.0
//! Who is next, where several tenants wait for the same thing: a deficit round robin. Pure: no
//! clock, no task, no lock.
//!
//! In a *round* each waiting key may spend a quantum for its weight. What an item costs is known
//! once it was served, so a key may spend more than it has; then it is passed over until later
//! rounds have paid for that. So however many items a key has waiting, and however much they cost,
//! another key waits for one of them and for the share of each key that is before it.
//!
//! [`super::time`] serves polls by it, which cost time, and [`super::turns`] places, which cost one
//! each.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// The weight that a quantum is for.
pub(crate) const WEIGHT: u64 = 100;

/// A debt is bounded by so many quanta, so that a key that was served at great cost once has a turn
/// again after so many rounds.
const MOST_DEBT: i64 = 1000;

/// Items in line, by key; within a key in the order in which they came.
#[derive(Debug)]
pub(crate) struct Line<K, T> {
    quantum: i64,
    keys: HashMap<K, Waiting<T>>,
    /// The keys that have something waiting; the first is served as long as it has credit.
    round: VecDeque<K>,
    next_id: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    items: BTreeMap<u64, T>,
    /// What the key may still spend in this round; negative: a debt.
    credit: i64,
    /// What each round gives it.
    gain: i64,
}

impl<T> Waiting<T> {
    /// Rounds until it may be served.
    fn rounds(&self) -> i64 {
        match self.credit {
            1.. => 0,
            owed => owed.unsigned_abs().cast_signed() / self.gain + 1,
        }
    }
}

impl<K: Clone + Eq + Hash, T> Line<K, T> {
    /// An empty line whose rounds give `quantum` to a key of weight [`WEIGHT`].
    pub(crate) fn new(quantum: u64) -> Self {
        Self {
            quantum: i64::try_from(quantum).unwrap_or(i64::MAX).max(1),
            keys: HashMap::new(),
            round: VecDeque::new(),
            next_id: 0,
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.round.is_empty()
    }

    /// Puts an item behind the others of its key; answers its id.
    pub(crate) fn push(&mut self, key: &K, weight: u64, item: T) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let gain = self.gain(weight);
        let waiting = self.keys.entry(key.clone()).or_insert_with(|| Waiting {
            items: BTreeMap::new(),
            credit: gain,
            gain,
        });
        waiting.gain = gain;
        if waiting.items.is_empty() {
            self.round.push_back(key.clone());
        }
        waiting.items.insert(id, item);
        id
    }

    /// An item that waits.
    pub(crate) fn get_mut(&mut self, key: &K, id: u64) -> Option<&mut T> {
        self.keys.get_mut(key)?.items.get_mut(&id)
    }

    /// Takes an item out of the line; `None` where it doesn't wait.
    pub(crate) fn remove(&mut self, key: &K, id: u64) -> Option<T> {
        let waiting = self.keys.get_mut(key)?;
        let item = waiting.items.remove(&id)?;
        if waiting.items.is_empty() {
            self.round.retain(|other| other != key);
            self.forget_if_idle();
        }
        Some(item)
    }

    /// The next item, and whose it is. Its cost is told to [`Self::charge`] before the next call.
    pub(crate) fn next(&mut self) -> Option<(K, u64, T)> {
        self.begin_rounds();
        let has_credit = |key: &K| self.keys.get(key).is_some_and(|w| w.credit > 0);
        let at = self.round.iter().position(has_credit)?;
        self.round.rotate_left(at);
        let key = self.round.front()?.clone();
        let waiting = self.keys.get_mut(&key)?;
        let (id, item) = waiting.items.pop_first()?;
        if waiting.items.is_empty() {
            self.round.pop_front();
        }
        Some((key, id, item))
    }

    /// What a key was served has cost so much.
    pub(crate) fn charge(&mut self, key: &K, weight: u64, cost: u64) {
        if self.round.is_empty() {
            // There is no other key that it could owe it to.
            self.keys.clear();
            return;
        }
        let gain = self.gain(weight);
        let waiting = self.keys.entry(key.clone()).or_insert_with(|| Waiting {
            items: BTreeMap::new(),
            credit: 0,
            gain,
        });
        let most = waiting.gain.saturating_mul(MOST_DEBT);
        let cost = i64::try_from(cost).unwrap_or(i64::MAX).min(most);
        waiting.credit = waiting.credit.saturating_sub(cost).max(-most);
    }

    fn gain(&self, weight: u64) -> i64 {
        let weight = i64::try_from(weight).unwrap_or(i64::MAX);
        let whole = self.quantum.saturating_mul(weight);
        (whole / WEIGHT.cast_signed()).max(1)
    }

    /// Where no waiting key has credit, begins as many rounds as it takes until one has.
    fn begin_rounds(&mut self) {
        let waiting = self.round.iter().filter_map(|key| self.keys.get(key));
        let rounds = waiting.map(Waiting::rounds).min().unwrap_or(0);
        if rounds == 0 {
            return;
        }
        for waiting in self.keys.values_mut() {
            let more = waiting.gain.saturating_mul(rounds);
            // What isn't spent in a round is not kept for later ones.
            waiting.credit = waiting.credit.saturating_add(more).min(waiting.gain);
        }
        let is_needed = |w: &Waiting<T>| !w.items.is_empty() || w.credit < 0;
        self.keys.retain(|_, waiting| is_needed(waiting));
    }

    fn forget_if_idle(&mut self) {
        if self.round.is_empty() {
            self.keys.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Serves `count` items, each at the cost of its key; answers whose they were.
    fn serve(
        line: &mut Line<usize, ()>,
        costs: &[u64],
        weights: &[u64],
        count: usize,
    ) -> Vec<usize> {
        let one = |line: &mut Line<usize, ()>| {
            let (key, ..) = line.next().unwrap();
            // It is in line again before the cost is known, as a busy tenant is.
            line.push(&key, weights[key], ());
            line.charge(&key, weights[key], costs[key]);
            key
        };
        (0..count).map(|_| one(line)).collect()
    }

    proptest! {
        #[test]
        fn while_all_wait_each_gets_its_share_whatever_its_items_cost(
            costs in prop::collection::vec(1u64..500, 2..5),
            weights in prop::collection::vec(prop::sample::select(vec![50u64, 100, 200, 1000]), 6),
            deep in prop::collection::vec(1usize..40, 6),
        ) {
            let mut line = Line::new(100);
            for key in 0..costs.len() {
                for _ in 0..deep[key] {
                    line.push(&key, weights[key], ());
                }
            }
            let mut spent = vec![0u64; costs.len()];
            for key in serve(&mut line, &costs, &weights, 1000) {
                spent[key] += costs[key];
            }
            let share = |key: usize| spent[key] * WEIGHT / weights[key];
            let shares: Vec<u64> = (0..costs.len()).map(share).collect();
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            // Two quanta, and two items of the lightest weight.
            prop_assert!(most - least <= 2 * 100 + 2 * 2 * 500, "{shares:?}");
        }

        #[test]
        fn a_newcomer_waits_for_one_share_of_the_others_however_many_items_they_have(
            floods in 1usize..5,
            deep in 1usize..300,
            cost in 1u64..1000,
            before in 0usize..200,
        ) {
            let mut line = Line::new(100);
            for key in 0..floods {
                for _ in 0..deep {
                    line.push(&key, WEIGHT, ());
                }
            }
            let costs = vec![cost; floods + 1];
            let weights = vec![WEIGHT; floods + 1];
            serve(&mut line, &costs, &weights, before);
            line.push(&floods, WEIGHT, ());
            let served = serve(&mut line, &costs, &weights, 1 + floods * 101);
            let position = served.iter().position(|key| *key == floods).unwrap();
            let a_share = usize::try_from(100u64.div_ceil(cost)).unwrap();
            prop_assert!(position <= floods * a_share, "{position} before it");
        }

        #[test]
        fn nothing_is_lost_or_served_twice(
            actions in prop::collection::vec((0usize..4, 0u8..4, 1u64..300), 1..300),
        ) {
            let mut line: Line<usize, u64> = Line::new(100);
            let mut there: Vec<(usize, u64)> = Vec::new();
            let (mut pushed, mut gone) = (0, 0);
            for (key, action, cost) in actions {
                match action {
                    0 | 1 => {
                        there.push((key, line.push(&key, WEIGHT, 7)));
                        pushed += 1;
                    }
                    2 => if let Some((key, id)) = there.pop() {
                        prop_assert_eq!(line.remove(&key, id), Some(7));
                        prop_assert_eq!(line.remove(&key, id), None);
                        gone += 1;
                    },
                    _ => if let Some((key, id, _)) = line.next() {
                        let first = there.iter().position(|(k, _)| *k == key).unwrap();
                        prop_assert_eq!(there.remove(first), (key, id));
                        line.charge(&key, WEIGHT, cost);
                        gone += 1;
                    },
                }
                prop_assert_eq!(line.is_empty(), there.is_empty());
            }
            while let Some((key, ..)) = line.next() {
                line.charge(&key, WEIGHT, 1);
                gone += 1;
            }
            prop_assert_eq!(pushed, gone);
        }
    }
}
