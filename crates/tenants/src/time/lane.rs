// SPDX-License-Identifier: Apache-2.0
//! The lane of those that are beyond their share: one poll at a time, in the order of a
//! [`Line`] by payer.
//!
//! ```text
//!   Free ──enter──> Running ──done──> Free (the line is empty)
//!                      ▲         └──> Granted(ticket), woken ──enter──> Running
//!                      └── …                └──(not taken in GRANT)──> the next one is granted
//! ```
//!
//! A future that was woken may be polled late, or not at all: what is around it waits for something
//! else, such as a client that doesn't read. So a grant is good for [`GRANT`] only, and while
//! futures wait, a task looks after it. Who misses its grant is in line again at its next poll.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::account::Account;
use super::{Inner, Payer};
use crate::line::Line;

/// What a round of the line gives to a payer of the usual weight, in nanoseconds: a few polls.
const QUANTUM: u64 = 200_000;
/// How long a grant is good for.
const GRANT: Duration = Duration::from_millis(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    line: Line<Payer, Waker>,
    holder: Holder,
    /// Whether a task looks after the grants.
    watched: bool,
}

#[derive(Debug)]
enum Holder {
    Free,
    Granted(u64, Instant),
    Running,
}

impl Default for Lane {
    fn default() -> Self {
        let state = State {
            line: Line::new(QUANTUM),
            holder: Holder::Free,
            watched: false,
        };
        Self {
            state: Mutex::new(state),
        }
    }
}

impl Lane {
    /// Takes the lane, where it is free or was granted to `ticket`; otherwise the future is in line
    /// under its ticket afterwards.
    pub(super) fn enter(&self, account: &Account, ticket: &mut Option<u64>, waker: &Waker) -> bool {
        let mut state = self.lock();
        if let Some(mine) = *ticket {
            match state.holder {
                Holder::Granted(granted, _) if granted == mine => {
                    *ticket = None;
                    state.holder = Holder::Running;
                    return true;
                }
                _ => {}
            }
            if let Some(waiting) = state.line.get_mut(&account.payer, mine) {
                waiting.clone_from(waker);
                return false;
            }
            // It has missed its grant.
            *ticket = None;
        }
        if matches!(state.holder, Holder::Free) {
            state.holder = Holder::Running;
            return true;
        }
        let id = state
            .line
            .push(&account.payer, account.weight(), waker.clone());
        *ticket = Some(id);
        false
    }

    /// The poll in the lane is over; the next in line is woken.
    pub(super) fn done(&self, account: &Account, cost: u64) {
        let mut state = self.lock();
        state.line.charge(&account.payer, account.weight(), cost);
        let next = state.grant_next();
        drop(state);
        wake(next);
    }

    /// A future that was in line is gone.
    pub(super) fn leave_line(&self, account: &Account, ticket: u64) {
        let mut state = self.lock();
        // Dropped after the lock: a waker is its task's code.
        let gone = state.line.remove(&account.payer, ticket);
        let granted = matches!(state.holder, Holder::Granted(id, _) if id == ticket);
        let next = match granted {
            true => state.grant_next(),
            false => None,
        };
        drop(state);
        drop(gone);
        wake(next);
    }

    /// Has a task look after the grants for as long as there is a line.
    pub(super) fn watch(time: &Arc<Inner>) {
        let mut state = time.lane.lock();
        // Outside of a runtime (a test that polls by hand) there is nothing that sleeps.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if std::mem::replace(&mut state.watched, true) {
            return;
        }
        let time = time.clone();
        runtime.spawn(async move {
            let mut going_on = true;
            while going_on {
                tokio::time::sleep(GRANT).await;
                going_on = time.lane.revoke_late();
            }
        });
    }

    /// Hands a grant that was not taken on. Answers whether there is still a line.
    fn revoke_late(&self) -> bool {
        let mut state = self.lock();
        let next = match state.holder {
            Holder::Granted(_, since) if since.elapsed() >= GRANT => state.grant_next(),
            _ => None,
        };
        let going_on = !(state.line.is_empty() && matches!(state.holder, Holder::Free));
        state.watched = going_on;
        drop(state);
        wake(next);
        going_on
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next in line holds the lane; it is to be woken.
    fn grant_next(&mut self) -> Option<Waker> {
        let next = self.line.next();
        self.holder = match &next {
            Some((_, id, _)) => Holder::Granted(*id, Instant::now()),
            None => Holder::Free,
        };
        next.map(|(.., waker)| waker)
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
