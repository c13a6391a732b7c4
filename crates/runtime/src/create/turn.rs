// SPDX-License-Identifier: Apache-2.0
//! A tenant's turn at the spawner, for a cell that isn't nested.
//!
//! The answer to a creation comes when the new init has furnished its cell, and that init runs
//! within its tenant's `cpu_max`: it may take seconds. The spawner has gone on long before. So a
//! turn that is not over in [`TURN`] goes to the next in line. How many creations of a tenant are
//! under way nevertheless, its quota `creations` bounds.

use std::time::Duration;

use model::name::Tenant;
use tenants::{Place, Turns};

use crate::caller::Callers;

/// Cells that the spawner is asked for at the same time, in turns by tenant: it makes one after the
/// other, in the order in which it was asked. Nested ones are no part of these: each has a worker
/// of its own, which may be held up in its cell, and which no other waits for.
pub(crate) const AT_THE_SPAWNER: usize = 4;

/// How long a creation has its place: several times what the spawner needs for one, and a moment
/// for who waits for the next place.
const TURN: Duration = Duration::from_millis(100);

/// The tenant's next turn.
pub(super) async fn take(turns: &Turns, tenant: &Tenant, callers: &Callers) -> Option<Place> {
    tokio::select! {
        turn = turns.take(tenant) => Some(turn),
        // The node refuses it with the right words.
        () = callers.gone() => None,
    }
}

/// What the creation comes to. It has the place for as long as it takes, and no longer than
/// [`TURN`].
pub(super) async fn during<T>(turn: Option<Place>, creation: impl Future<Output = T>) -> T {
    let mut creation = std::pin::pin!(creation);
    let in_turn = tokio::time::timeout(TURN, &mut creation).await;
    drop(turn);
    match in_turn {
        Ok(created) => created,
        Err(_) => creation.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One tenant's inits get hardly any CPU: none of its cells is ever ready.
    #[tokio::test]
    async fn cells_that_are_slow_to_be_ready_leave_the_spawner_to_other_tenants() {
        let turns = Turns::new(AT_THE_SPAWNER);
        let (callers, _present) = Callers::new();
        let (eve, bob): (Tenant, Tenant) = ("eve".parse().unwrap(), "bob".parse().unwrap());
        let mut slow = tokio::task::JoinSet::new();
        for _ in 0..4 * AT_THE_SPAWNER {
            let (turns, eve, callers) = (turns.clone(), eve.clone(), callers.clone());
            slow.spawn(async move {
                let turn = take(&turns, &eve, &callers).await;
                during(turn, std::future::pending::<()>()).await;
            });
        }
        tokio::task::yield_now().await;
        let bobs = take(&turns, &bob, &callers);
        let turn = tokio::time::timeout(Duration::from_secs(10), bobs).await;
        let turn = turn.expect("bob waits for eve's cells");
        assert_eq!(during(turn, std::future::ready(7)).await, 7);
    }

    #[tokio::test]
    async fn a_place_is_given_back_with_the_answer() {
        let turns = Turns::new(1);
        let (callers, _present) = Callers::new();
        let eve: Tenant = "eve".parse().unwrap();
        for n in 0..50 {
            let turn = take(&turns, &eve, &callers).await;
            assert!(turn.is_some());
            assert_eq!(during(turn, std::future::ready(n)).await, n);
        }
    }
}
