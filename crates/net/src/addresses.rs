// SPDX-License-Identifier: Apache-2.0
//! Which addresses are whose: numbers out of a range, each at most once, bounded per tenant, with a
//! reserve for the node. Pure; [`crate::settings::Settings`] makes addresses of the numbers.
//!
//! A number that was given back is given out again as late as the range allows: who still sends to
//! an address that is gone should reach no cell, not the next tenant's. For the same reason it
//! rests for a while: another tenant gets it neither by its number nor, as long as any other is
//! free, by chance.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use model::name::Tenant;

/// Why no number was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The tenant has as many as it may have.
    Tenant {
        /// How many it has.
        used: u32,
        /// How many it may have.
        limit: u32,
    },
    /// What is left is the node's.
    Full {
        /// How many are given out.
        used: u32,
        /// How many may be, for this asker.
        limit: u32,
    },
    /// The number asked for is given out, or was another tenant's a short while ago.
    Taken,
    /// The number asked for isn't of the range.
    Outside,
}

/// Bounds of a [`Pool`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The numbers that are given out.
    pub range: RangeInclusive<u32>,
    /// How many at once, the reserve among them.
    pub capacity: u32,
    /// How many one tenant may have.
    pub per_tenant: u32,
    /// How many of the capacity are for the tenant `system` alone.
    pub reserve: u32,
}

/// The numbers of a range.
#[derive(Clone, Debug)]
pub struct Pool {
    bounds: Bounds,
    next: u32,
    given: BTreeMap<u32, Tenant>,
    used: HashMap<Tenant, u32>,
    /// Whose numbers were, that were given back, and when.
    left: BTreeMap<u32, (Tenant, Instant)>,
}

/// For how long no other tenant may ask for a number that was given back: longer than connections
/// are tried again.
const REST: Duration = Duration::from_secs(600);

/// How many numbers rest for one tenant at most, where it may not have fewer at once: who takes and
/// leaves one after the other must not keep the range from all others. Half of a bridge's ports,
/// which is what a tenant may have unless its quota says otherwise.
const RESTING: u32 = crate::settings::MAX_PORTS / 2;

/// The tenant that the reserve is for: the administrators'.
const SYSTEM: &str = "system";

impl Pool {
    /// A pool that has given nothing yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            next: *bounds.range.start(),
            bounds,
            given: BTreeMap::new(),
            used: HashMap::new(),
            left: BTreeMap::new(),
        }
    }

    /// How many the tenant has.
    pub fn used_by(&self, tenant: &Tenant) -> u32 {
        self.used.get(tenant).copied().unwrap_or(0)
    }

    /// How many are given out.
    pub fn used(&self) -> u32 {
        u32::try_from(self.given.len()).unwrap_or(u32::MAX)
    }

    /// Takes the free number that has been free for the longest, as far as the range tells: one
    /// that rests for another tenant only where there is no other.
    ///
    /// # Errors
    /// The tenant, or the pool, has none left.
    pub fn take(&mut self, tenant: &Tenant, now: Instant) -> Result<u32, Refused> {
        self.admit(tenant)?;
        let number = self.first_free(tenant, now).ok_or(Refused::Full {
            used: self.used(),
            limit: self.bounds.capacity,
        })?;
        self.note(number, tenant);
        self.next = self.following(number);
        Ok(number)
    }

    /// Takes this number. It doesn't decide which is the next one to be given. One that rests is
    /// free for the administrators' tenant, whose cells are those that may meet others' traffic.
    ///
    /// # Errors
    /// It isn't free for the tenant, or there is none left for it at all.
    pub fn take_this(&mut self, number: u32, tenant: &Tenant, now: Instant) -> Result<(), Refused> {
        if !self.bounds.range.contains(&number) {
            return Err(Refused::Outside);
        }
        let rests = tenant.as_str() != SYSTEM && self.rests(number, tenant, now);
        if self.given.contains_key(&number) || rests {
            return Err(Refused::Taken);
        }
        self.admit(tenant)?;
        self.note(number, tenant);
        Ok(())
    }

    /// The numbers that are given out.
    pub fn range(&self) -> RangeInclusive<u32> {
        self.bounds.range.clone()
    }

    /// Takes a number that a living cell has. No bound is applied to what is there already. What
    /// the cell had `asked` for doesn't decide which is the next one to be given.
    ///
    /// # Errors
    /// Another has it, or it isn't of the range.
    pub fn claim(&mut self, number: u32, tenant: &Tenant, asked: bool) -> Result<(), Refused> {
        if !self.bounds.range.contains(&number) {
            return Err(Refused::Outside);
        }
        if self.given.contains_key(&number) {
            return Err(Refused::Taken);
        }
        self.note(number, tenant);
        // Behind the highest: what was free before the restart has been so for longer.
        if !asked && self.following(number) > self.next {
            self.next = self.following(number);
        }
        Ok(())
    }

    /// Gives a number back; false where it wasn't given out.
    pub fn give_back(&mut self, number: u32, now: Instant) -> bool {
        let Some(tenant) = self.given.remove(&number) else {
            return false;
        };
        self.left
            .retain(|_, (_, since)| now.saturating_duration_since(*since) < REST);
        self.left.insert(number, (tenant.clone(), now));
        self.bound_rest(&tenant);
        if let Some(used) = self.used.get_mut(&tenant) {
            *used -= 1;
            if *used == 0 {
                self.used.remove(&tenant);
            }
        }
        true
    }

    fn admit(&self, tenant: &Tenant) -> Result<(), Refused> {
        let system = tenant.as_str() == SYSTEM;
        let (mine, used) = (self.used_by(tenant), self.used());
        if !system && mine >= self.bounds.per_tenant {
            return Err(Refused::Tenant {
                used: mine,
                limit: self.bounds.per_tenant,
            });
        }
        let reserve = if system { 0 } else { self.bounds.reserve };
        let limit = self.bounds.capacity.saturating_sub(reserve);
        if used >= limit {
            return Err(Refused::Full { used, limit });
        }
        Ok(())
    }

    /// From `next` to the end of the range, then from its beginning; then the one that has rested
    /// for the longest.
    fn first_free(&self, tenant: &Tenant, now: Instant) -> Option<u32> {
        let (start, end) = (*self.bounds.range.start(), *self.bounds.range.end());
        let mut all = (self.next..=end).chain(start..self.next);
        all.find(|number| !self.given.contains_key(number) && !self.rests(*number, tenant, now))
            .or_else(|| {
                let oldest = self.left.iter().min_by_key(|(_, (_, since))| *since);
                oldest.map(|(number, _)| *number)
            })
    }

    /// Whether the number was another tenant's a short while ago.
    fn rests(&self, number: u32, tenant: &Tenant, now: Instant) -> bool {
        self.left.get(&number).is_some_and(|(whose, since)| {
            whose != tenant && now.saturating_duration_since(*since) < REST
        })
    }

    /// Wakes the oldest of a tenant's numbers where more rest than may.
    fn bound_rest(&mut self, tenant: &Tenant) {
        let of_it = |(_, (whose, _)): &(&u32, &(Tenant, Instant))| whose == tenant;
        let resting = self.left.iter().filter(of_it).count();
        if resting > self.bounds.per_tenant.min(RESTING) as usize {
            let oldest = self.left.iter().filter(of_it);
            let oldest = oldest.min_by_key(|(_, (_, since))| *since);
            if let Some(number) = oldest.map(|(number, _)| *number) {
                self.left.remove(&number);
            }
        }
    }

    fn following(&self, number: u32) -> u32 {
        if number >= *self.bounds.range.end() {
            *self.bounds.range.start()
        } else {
            number + 1
        }
    }

    fn note(&mut self, number: u32, tenant: &Tenant) {
        self.left.remove(&number);
        self.given.insert(number, tenant.clone());
        *self.used.entry(tenant.clone()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn tenant(name: &str) -> Tenant {
        name.parse().unwrap()
    }

    fn pool(range: RangeInclusive<u32>, capacity: u32, per_tenant: u32, reserve: u32) -> Pool {
        Pool::new(Bounds {
            range,
            capacity,
            per_tenant,
            reserve,
        })
    }

    #[test]
    fn a_number_given_back_is_the_last_to_be_given_again() {
        let mut pool = pool(2..=5, 4, 4, 0);
        let a = tenant("a");
        assert_eq!(pool.take(&a, Instant::now()), Ok(2));
        assert!(pool.give_back(2, Instant::now()) && !pool.give_back(2, Instant::now()));
        let rest: Vec<u32> = (0..4)
            .map(|_| pool.take(&a, Instant::now()).unwrap())
            .collect();
        assert_eq!(rest, [3, 4, 5, 2]);
    }

    #[test]
    fn a_tenant_can_t_take_all_and_the_reserve_is_the_node_s() {
        let mut pool = pool(1..=100, 10, 6, 2);
        let (a, b, system) = (tenant("a"), tenant("b"), tenant("system"));
        (0..6).for_each(|_| assert!(pool.take(&a, Instant::now()).is_ok()));
        assert_eq!(
            pool.take(&a, Instant::now()),
            Err(Refused::Tenant { used: 6, limit: 6 })
        );
        (0..2).for_each(|_| assert!(pool.take(&b, Instant::now()).is_ok()));
        assert_eq!(
            pool.take(&b, Instant::now()),
            Err(Refused::Full { used: 8, limit: 8 })
        );
        (0..2).for_each(|_| assert!(pool.take(&system, Instant::now()).is_ok()));
        assert_eq!(
            pool.take(&system, Instant::now()),
            Err(Refused::Full {
                used: 10,
                limit: 10
            })
        );
    }

    #[test]
    fn what_lives_is_claimed_once() {
        let mut pool = pool(2..=9, 8, 8, 0);
        let a = tenant("a");
        assert_eq!(pool.claim(7, &a, false), Ok(()));
        assert_eq!(pool.claim(7, &a, false), Err(Refused::Taken));
        assert_eq!(pool.claim(10, &a, false), Err(Refused::Outside));
        assert_eq!(pool.claim(9, &a, true), Ok(()));
        assert_eq!(pool.take(&a, Instant::now()), Ok(8));
    }

    #[test]
    fn a_number_rests_for_its_tenant_while_others_are_free() {
        let mut pool = pool(2..=4, 3, 3, 0);
        let (a, b, now) = (tenant("a"), tenant("b"), Instant::now());
        // The very one that is next.
        assert_eq!(pool.take_this(2, &a, now), Ok(()));
        assert!(pool.give_back(2, now));
        assert_eq!(pool.take(&b, now), Ok(3));
        assert!(pool.give_back(3, now));
        assert_eq!(pool.take(&a, now), Ok(4));
        // None else is left: the one that has rested for the longest.
        assert_eq!(pool.take(&tenant("c"), now), Ok(2));
        assert_eq!(pool.take(&tenant("c"), now), Ok(3));
    }

    #[test]
    fn no_tenant_keeps_the_range_by_what_it_left() {
        let mut pool = pool(2..=100, 90, 2, 0);
        let (a, b, now) = (tenant("a"), tenant("b"), Instant::now());
        for number in 2..=9 {
            let then = now + Duration::from_secs(u64::from(number));
            assert_eq!(pool.take_this(number, &a, then), Ok(()));
            assert!(pool.give_back(number, then));
        }
        let then = now + Duration::from_secs(20);
        let free: Vec<u32> = (2..=9).filter(|it| !pool.rests(*it, &b, then)).collect();
        assert_eq!(free, [2, 3, 4, 5, 6, 7]);
        assert_eq!(pool.take_this(9, &b, then), Err(Refused::Taken));
        assert_eq!(pool.take_this(9, &tenant("system"), then), Ok(()));
    }

    #[test]
    fn a_number_that_was_anothers_can_t_be_asked_for_at_once() {
        let mut pool = pool(2..=9, 8, 2, 0);
        let (a, b, now) = (tenant("a"), tenant("b"), Instant::now());
        assert_eq!(pool.take_this(7, &a, now), Ok(()));
        assert_eq!(pool.take_this(7, &b, now), Err(Refused::Taken));
        assert_eq!(pool.take_this(1, &b, now), Err(Refused::Outside));
        assert!(pool.give_back(7, now));
        assert_eq!(pool.take_this(7, &b, now), Err(Refused::Taken));
        assert_eq!(pool.take_this(7, &a, now), Ok(()));
        assert!(pool.give_back(7, now));
        assert_eq!(pool.take_this(7, &b, now + REST), Ok(()));
        assert_eq!(pool.take_this(8, &b, now), Ok(()));
        let limit = Refused::Tenant { used: 2, limit: 2 };
        assert_eq!(pool.take_this(9, &b, now), Err(limit));
    }

    proptest! {
        /// Steps: a tenant takes one, or asks for one, or the n-th that is out is given back.
        #[test]
        fn no_number_is_given_twice_and_no_bound_is_passed(
            steps in prop::collection::vec((0u8..8, 0u32..40), 0..400),
        ) {
            let names = ["system", "a", "b"].map(tenant);
            let mut pool = pool(3..=40, 30, 12, 5);
            let mut out: BTreeSet<u32> = BTreeSet::new();
            let now = Instant::now();
            for (who, which) in steps {
                let name = names.get(usize::from(who) % 4);
                if let Some(tenant) = name.filter(|_| who < 4) {
                    let resting = |it: &u32| pool.rests(*it, tenant, now);
                    let rested: BTreeSet<u32> = (3..=40).filter(resting).collect();
                    let others = (3..=40).any(|it| !rested.contains(&it) && !out.contains(&it));
                    if let Ok(number) = pool.take(tenant, now) {
                        prop_assert!(!others || !rested.contains(&number));
                        prop_assert!((3..=40).contains(&number) && out.insert(number));
                    }
                } else if let Some(tenant) = name {
                    if pool.take_this(which, tenant, now).is_ok() {
                        prop_assert!((3..=40).contains(&which) && out.insert(which));
                    }
                } else if let Some(number) = out.iter().nth(which as usize).copied() {
                    prop_assert!(pool.give_back(number, now) && out.remove(&number));
                }
                prop_assert_eq!(pool.used() as usize, out.len());
                let sum: u32 = names.iter().map(|name| pool.used_by(name)).sum();
                prop_assert_eq!(sum, pool.used());
                prop_assert!(pool.used() <= 30);
                prop_assert!(names[1..].iter().all(|name| pool.used_by(name) <= 12));
                for name in &names {
                    let resting = pool.left.values().filter(|(whose, _)| whose == name);
                    prop_assert!(resting.count() <= 12);
                }
            }
            for number in out {
                prop_assert!(pool.give_back(number, Instant::now()));
            }
            prop_assert_eq!(pool.used(), 0);
        }
    }
}
