// SPDX-License-Identifier: Apache-2.0
//! Ranges of user and group ids: which are taken, and where the next one fits.
//!
//! Pure. The runtime has one pool for top-level cells; every cell with a user namespace of its own
//! has one for the cells in it, made of its own range beyond the first [`OWN`]. Nothing is stored:
//! the ranges are read back from the cells when a daemon comes back.

use std::collections::BTreeMap;

use init::protocol::IdMap;

/// The ids that a cell keeps for itself: what every Linux program expects to be there.
pub(crate) const OWN: u32 = 65_536;
/// What a top-level cell gets where nothing is said: its own, and room for three cells in it.
pub(crate) const TOP_LEVEL_IDS: u32 = 4 * OWN;

/// Consecutive ids of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct IdRange {
    /// The node's id that is 0 inside.
    pub(crate) first: u32,
    /// At least 1.
    pub(crate) count: u32,
}

impl IdRange {
    /// The first id after it, without overflow.
    fn end(self) -> u64 {
        u64::from(self.first) + u64::from(self.count)
    }

    /// The id that the cell's init has, outside: the last of the cell's own. The cell itself
    /// doesn't have it, so that no user in it is the same.
    pub(crate) fn init_id(self) -> u32 {
        self.first
            .saturating_add(self.count.min(OWN))
            .saturating_sub(1)
    }

    /// What the cell's user namespace has: all but the init's.
    pub(crate) fn extents(self) -> Vec<IdMap> {
        let own = IdMap {
            inside: 0,
            outside: self.first,
            count: self.count.min(OWN).saturating_sub(1),
        };
        let nested = self.nested().map(|nested| IdMap {
            inside: OWN,
            outside: nested.first,
            count: nested.count,
        });
        std::iter::once(own).chain(nested).collect()
    }

    /// The range of a cell whose user namespace has these.
    pub(crate) fn of_extents(extents: &[IdMap]) -> Option<IdRange> {
        let (first, last) = (extents.first()?, extents.last()?);
        let count = match extents.len() {
            1 => first.count.checked_add(1)?,
            _ => OWN.checked_add(last.count)?,
        };
        let range = IdRange {
            first: first.outside,
            count,
        };
        (range.extents() == extents).then_some(range)
    }

    /// What is left for nested cells; empty where the range has no more than the cell's own.
    fn nested(self) -> Option<IdRange> {
        let count = self.count.checked_sub(OWN).filter(|c| *c > 0)?;
        Some(IdRange {
            first: self.first.checked_add(OWN)?,
            count,
        })
    }
}

/// Ids to give out.
#[derive(Debug)]
pub(crate) struct IdPool {
    whole: Option<IdRange>,
    taken: BTreeMap<u32, IdRange>,
}

impl IdPool {
    /// All of `whole`.
    pub(crate) fn new(whole: IdRange) -> Self {
        Self {
            whole: Some(whole),
            taken: BTreeMap::new(),
        }
    }

    /// What a cell with this range can give to the cells in it. Without a range (it shares its
    /// parent's user namespace) nothing.
    pub(crate) fn within(range: Option<IdRange>) -> Self {
        Self {
            whole: range.and_then(IdRange::nested),
            taken: BTreeMap::new(),
        }
    }

    /// The lowest free range of `count` ids.
    pub(crate) fn allocate(&mut self, count: u32) -> Option<IdRange> {
        let whole = self.whole?;
        let mut first = u64::from(whole.first);
        for range in self.taken.values() {
            if first + u64::from(count) <= u64::from(range.first) {
                break;
            }
            first = range.end();
        }
        if count == 0 || first + u64::from(count) > whole.end() {
            return None;
        }
        let range = IdRange {
            first: u32::try_from(first).ok()?,
            count,
        };
        self.taken.insert(range.first, range);
        Some(range)
    }

    /// The most ids that one allocation could have now.
    pub(crate) fn largest(&self) -> u32 {
        let Some(whole) = self.whole else { return 0 };
        let mut largest = 0;
        let mut first = u64::from(whole.first);
        for range in self.taken.values() {
            largest = largest.max(u64::from(range.first).saturating_sub(first));
            first = range.end();
        }
        let last = whole.end().saturating_sub(first);
        u32::try_from(largest.max(last)).unwrap_or(u32::MAX)
    }

    /// Marks a range as taken that was given out before. Whether it lies in the pool and is free.
    pub(crate) fn take(&mut self, range: IdRange) -> bool {
        let inside = self
            .whole
            .is_some_and(|w| w.first <= range.first && range.end() <= w.end());
        let before = self
            .taken
            .range(..=range.first)
            .next_back()
            .map(|(_, r)| *r);
        let after = self.taken.range(range.first..).next().map(|(_, r)| *r);
        let free = before.is_none_or(|b| b.end() <= u64::from(range.first))
            && after.is_none_or(|a| range.end() <= u64::from(a.first));
        if inside && free && range.count > 0 {
            self.taken.insert(range.first, range);
            return true;
        }
        false
    }

    /// Gives a range back.
    pub(crate) fn free(&mut self, range: IdRange) {
        self.taken.remove(&range.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cell_with_its_own_ids_alone_has_none_for_others() {
        let mut pool = IdPool::within(Some(IdRange {
            first: 100_000,
            count: OWN,
        }));
        assert_eq!(pool.largest(), 0);
        assert_eq!(pool.allocate(1), None);
        let mut pool = IdPool::within(Some(IdRange {
            first: 100_000,
            count: OWN + 10,
        }));
        assert_eq!(pool.largest(), 10);
        assert_eq!(
            pool.allocate(10),
            Some(IdRange {
                first: 165_536,
                count: 10
            })
        );
        assert_eq!(IdPool::within(None).allocate(1), None);
    }

    #[test]
    fn the_inits_id_is_of_the_range_and_not_the_cells() {
        for count in [2, 1000, OWN - 1, OWN, OWN + 1, TOP_LEVEL_IDS] {
            let range = IdRange {
                first: 2_000_000,
                count,
            };
            let extents = range.extents();
            let init = range.init_id();
            assert!(range.first < init && u64::from(init) < range.end());
            let has = |map: &IdMap| (map.outside..map.outside + map.count).contains(&init);
            assert!(!extents.iter().any(has), "{count}");
            assert_eq!(extents.iter().map(|map| map.count).sum::<u32>(), count - 1);
            assert_eq!(IdRange::of_extents(&extents), Some(range));
        }
        let all = IdMap {
            inside: 0,
            outside: 0,
            count: u32::MAX,
        };
        assert_eq!(IdRange::of_extents(&[all]), None);
    }

    #[test]
    fn the_last_ids_of_all_can_be_given_out() {
        let mut pool = IdPool::new(IdRange {
            first: u32::MAX - 10,
            count: 10,
        });
        assert_eq!(pool.allocate(11), None);
        assert_eq!(
            pool.allocate(10),
            Some(IdRange {
                first: u32::MAX - 10,
                count: 10
            })
        );
    }

    proptest! {
        #[test]
        fn ranges_never_overlap_and_come_back(
            steps in proptest::collection::vec((1u32..50, any::<bool>(), any::<usize>()), 1..60)
        ) {
            let whole = IdRange { first: 1_000, count: 500 };
            let mut pool = IdPool::new(whole);
            let mut held: Vec<IdRange> = Vec::new();
            for (count, give_back, which) in steps {
                if give_back && !held.is_empty() {
                    let range = held.swap_remove(which % held.len());
                    pool.free(range);
                } else {
                    let largest = pool.largest();
                    match pool.allocate(count) {
                        Some(range) => held.push(range),
                        None => prop_assert!(largest < count),
                    }
                }
                for (i, a) in held.iter().enumerate() {
                    prop_assert!(a.first >= whole.first && a.end() <= whole.end());
                    for b in held.iter().skip(i + 1) {
                        prop_assert!(a.end() <= u64::from(b.first) || b.end() <= u64::from(a.first));
                    }
                }
            }
            // A pool rebuilt from what is held refuses the same ranges and no others.
            let mut again = IdPool::new(whole);
            for range in &held {
                prop_assert!(again.take(*range));
                prop_assert!(!again.take(*range));
            }
            prop_assert_eq!(again.largest(), pool.largest());
        }
    }
}
