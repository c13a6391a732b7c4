// SPDX-License-Identifier: Apache-2.0
//! Whose pipe is read next: one of each tenant that has any, in turn. A tenant with a thousand busy
//! pipes has as many turns as one with a single busy pipe, while both are ready; within a tenant
//! each pipe that is ready has one before any has a second. Pure.

use std::collections::{HashMap, VecDeque};

/// Turns of a tenant that is alone, before the mover looks who else is ready.
const ALONE: usize = 8;

/// The turns that are left; `T` is a tenant, `P` a pipe.
#[derive(Debug)]
pub(super) struct Turns<T, P> {
    /// Those that have a pipe left, the next one first.
    order: VecDeque<T>,
    ready: HashMap<T, VecDeque<P>>,
}

impl<T: Copy + Eq + std::hash::Hash, P> Turns<T, P> {
    pub(super) fn new() -> Self {
        Self {
            order: VecDeque::new(),
            ready: HashMap::new(),
        }
    }

    /// Nothing is left of what was ready.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether a tenant has had all of its pipes: then what is ready now has turns again.
    pub(super) fn is_done(&self, tenant: T) -> bool {
        !self.ready.contains_key(&tenant)
    }

    /// A tenant that is done has these pipes ready, in this order.
    pub(super) fn offer(&mut self, tenant: T, pipes: impl IntoIterator<Item = P>) {
        let pipes: VecDeque<P> = pipes.into_iter().collect();
        if !pipes.is_empty() && self.is_done(tenant) {
            self.order.push_back(tenant);
            self.ready.insert(tenant, pipes);
        }
    }

    /// How many turns there are until one looks again who is ready.
    pub(super) fn in_a_round(&self) -> usize {
        match self.order.len() {
            1 => ALONE,
            tenants => tenants,
        }
    }

    /// The next pipe.
    pub(super) fn next(&mut self) -> Option<P> {
        let tenant = self.order.pop_front()?;
        let pipes = self.ready.get_mut(&tenant)?;
        let pipe = pipes.pop_front();
        match pipes.is_empty() {
            true => drop(self.ready.remove(&tenant)),
            false => self.order.push_back(tenant),
        }
        pipe
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Tenants of which every pipe is ready again as soon as it was read.
        #[test]
        fn while_both_are_ready_no_tenant_has_more_turns_than_another(
            pipes in prop::collection::vec(1usize..1000, 2..8),
            rounds in 1usize..500,
        ) {
            let mut turns = Turns::new();
            let mut had = vec![0usize; pipes.len()];
            for _ in 0..rounds {
                for (tenant, count) in pipes.iter().enumerate() {
                    if turns.is_done(tenant) {
                        turns.offer(tenant, (0..*count).map(|pipe| (tenant, pipe)));
                    }
                }
                for _ in 0..turns.in_a_round() {
                    let (tenant, _) = turns.next().unwrap();
                    had[tenant] += 1;
                }
            }
            prop_assert_eq!(&had, &vec![rounds; pipes.len()]);
        }
    }

    #[test]
    fn each_pipe_of_a_tenant_has_a_turn_before_any_has_two() {
        let mut turns = Turns::new();
        turns.offer('a', [1, 2, 3]);
        turns.offer('a', [9]);
        turns.offer('b', [7]);
        assert!(!turns.is_done('a'));
        let order: Vec<i32> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(order, [1, 7, 2, 3]);
        assert!(turns.is_empty() && turns.is_done('a'));
    }
}
