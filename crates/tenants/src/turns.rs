// SPDX-License-Identifier: Apache-2.0
//! A few places that tenants have in turns: threads for what blocks, creations at the spawner. A
//! tenant that waits for many of them keeps no other waiting for more than one of its own. Nothing
//! is refused here: who waits is bounded where it was let in (a quota of readers, of creations).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::error::Error;
use model::name::Tenant;
use tokio::sync::oneshot;

use super::line::{Line, WEIGHT};

/// See the module. Clones share the places.
#[derive(Clone, Debug)]
pub struct Turns {
    inner: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    free: usize,
    line: Line<Tenant, oneshot::Sender<Place>>,
}

/// A place; the next one in line has it when this is dropped.
#[derive(Debug)]
pub struct Place {
    /// `None` once it was handed on.
    of: Option<Arc<Mutex<State>>>,
}

impl Turns {
    /// So many places, at least one.
    pub fn new(places: usize) -> Self {
        let state = State {
            free: places.max(1),
            line: Line::new(1),
        };
        Self {
            inner: Arc::new(Mutex::new(state)),
        }
    }

    /// Waits for a place. Who stops waiting leaves the line.
    pub async fn take(&self, tenant: &Tenant) -> Place {
        loop {
            let waiting = {
                let mut state = lock(&self.inner);
                if state.free > 0 {
                    state.free -= 1;
                    return self.place();
                }
                let (send, waiting) = oneshot::channel();
                state.line.push(tenant, WEIGHT, send);
                waiting
            };
            if let Ok(place) = waiting.await {
                return place;
            }
        }
    }

    /// Does `work` in a place, which it keeps until it is done, also where its caller is gone: what
    /// was handed on to another thread's queue can't be called back.
    ///
    /// # Errors
    /// `INTERNAL`: it broke off.
    pub async fn run<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        let place = self.take(tenant).await;
        let work = async move {
            let _place = place;
            work.await
        };
        let done = tokio::spawn(work).await;
        done.map_err(|e| Error::internal(format!("what was asked for broke off: {e}")))
    }

    fn place(&self) -> Place {
        Place {
            of: Some(self.inner.clone()),
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(of) = self.of.take() else {
            return;
        };
        let mut place = Place {
            of: Some(of.clone()),
        };
        loop {
            let mut state = lock(&of);
            let Some((tenant, _, waiting)) = state.line.next() else {
                state.free += 1;
                place.of = None;
                return;
            };
            if waiting.is_closed() {
                // It has stopped waiting: that costs its tenant nothing.
                continue;
            }
            state.line.charge(&tenant, WEIGHT, 1);
            drop(state);
            match waiting.send(place) {
                Ok(()) => return,
                Err(back) => place = back,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        name.parse().unwrap()
    }

    /// The order in which waiting tasks get the only place.
    async fn order(turns: &Turns, held: Place, who: &[&'static str]) -> Vec<&'static str> {
        let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
        for name in who.iter().copied() {
            let (turns, said) = (turns.clone(), said.clone());
            tokio::spawn(async move {
                let place = turns.take(&tenant(name)).await;
                said.send(name).unwrap();
                drop(place);
            });
            // One thread: the task waits in line when we go on.
            tokio::task::yield_now().await;
        }
        drop((held, said));
        let mut order = Vec::new();
        while let Some(name) = heard.recv().await {
            order.push(name);
        }
        order
    }

    #[tokio::test]
    async fn a_tenant_with_a_hundred_waiting_lets_another_have_the_second_place() {
        let turns = Turns::new(1);
        let held = turns.take(&tenant("eve")).await;
        let mut who = vec!["eve"; 100];
        who.push("bob");
        let order = order(&turns, held, &who).await;
        assert_eq!(order.len(), 101);
        let bob = order.iter().position(|name| *name == "bob").unwrap();
        assert!(bob <= 1, "{bob} before bob");
    }

    #[tokio::test]
    async fn work_whose_caller_is_gone_keeps_its_place_until_it_is_done() {
        let turns = Turns::new(1);
        let (done, doing) = oneshot::channel::<()>();
        let eve = tokio::spawn({
            let turns = turns.clone();
            async move { turns.run(&tenant("eve"), doing).await }
        });
        tokio::task::yield_now().await;
        eve.abort();
        assert!(eve.await.unwrap_err().is_cancelled());
        assert_eq!(lock(&turns.inner).free, 0);
        done.send(()).unwrap();
        assert_eq!(turns.run(&tenant("bob"), async { 7 }).await, Ok(7));
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_the_place_to_the_next() {
        let turns = Turns::new(1);
        let held = turns.take(&tenant("eve")).await;
        let waiting = tokio::spawn({
            let turns = turns.clone();
            async move { drop(turns.take(&tenant("eve")).await) }
        });
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        drop(held);
        drop(turns.take(&tenant("bob")).await);
        assert_eq!(lock(&turns.inner).free, 1);
    }
}
