// SPDX-License-Identifier: Apache-2.0
//! The daemon's own time, shared by tenants. The async runtime runs tasks in the order in which
//! they are woken, whichever tenant they work for: without this a tenant with a thousand busy calls
//! has the daemon, and another one's call waits for each of them, at each of its steps.
//!
//! What works for a tenant (a connection, a call, the body of its answer, the owner of a cell) is
//! polled through a [`Turn`]. Its time is counted in the tenant's [`Account`]:
//!
//! ```text
//!   a poll ──> in credit, or alone ──────────────────────> polled at once
//!         └──> beyond its share ──> the lane is free ────> polled at once, in the lane
//!                              └──> the lane is taken ───> in line (DRR by tenant), woken in turn
//! ```
//!
//! A tenant's share is that of its weight among those that the daemon works for now, of one thread
//! ([`account`]). Those beyond their share have one poll at a time between them, the *lane*; so of
//! the two threads of the runtime one is always left to who is within its share, and to the node's
//! own tasks, which have no turn to wait for. While one tenant alone calls, or none is beyond its
//! share, nothing waits: a poll costs two looks at the clock, no lock and no other task.
//!
//! Not here: how many calls a tenant may have (`Pool`), and what a refused one costs its tenant
//! (`refusals`). A poll isn't interrupted, so work that computes for long has threads of its own.

mod account;
mod lane;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use model::name::Tenant;
use model::quota::{ADMINISTRATORS, Quota};

use self::account::{Account, Accounts};
use self::lane::Lane;
use super::Tenants;
use super::line::WEIGHT;

/// Administrators have so many times the weight of a tenant, as the daemon's own group has.
const OF_ADMINISTRATORS: u64 = 10;

/// Whose time it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Payer {
    /// Of a caller that is known.
    Tenant(Tenant),
    /// Of a local user whose handshake isn't done.
    User(u32),
    /// Of an address whose handshake isn't done.
    Address(IpAddr),
    /// Of a client of which the kernel says nothing, whose handshake isn't done.
    Unknown,
}

/// The daemon's time; clones share it.
#[derive(Clone, Debug)]
pub struct Time {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Clock,
    accounts: Accounts,
    lane: Lane,
    /// Polls that had to wait in line, for tests and for who looks why a call was slow.
    waited: AtomicU64,
}

/// Counts nanoseconds.
#[derive(Debug)]
enum Clock {
    Since(Instant),
    /// Set by a test, which is then the same however late it runs.
    #[cfg(test)]
    Hand(AtomicU64),
}

impl Default for Time {
    fn default() -> Self {
        Self {
            inner: Arc::new(Inner {
                clock: Clock::Since(Instant::now()),
                accounts: Accounts::default(),
                lane: Lane::default(),
                waited: AtomicU64::new(0),
            }),
        }
    }
}

impl Time {
    /// A payer's share. `weight` is beside that of others; [`Tenants::share`] knows a tenant's. It
    /// takes no more from the shares of others than [`WEIGHT`] would, if `reserved`.
    fn of(&self, payer: Payer, weight: u64, reserved: bool) -> Share {
        let account = self.inner.accounts.of(payer, weight.max(1), reserved);
        Share {
            time: self.inner.clone(),
            account,
        }
    }

    /// How many polls had to wait in line so far.
    pub fn waited(&self) -> u64 {
        self.inner.waited.load(Ordering::Relaxed)
    }
}

impl Tenants {
    /// A tenant's share of the daemon's time, by its quota `cpu_weight`.
    pub fn share(&self, tenant: &Tenant) -> Share {
        let weight = self.limits().limit(tenant, Quota::CpuWeight);
        let reserved = tenant.as_str() == ADMINISTRATORS;
        let weight = match reserved {
            true => weight.saturating_mul(OF_ADMINISTRATORS),
            false => weight,
        };
        let payer = Payer::Tenant(tenant.clone());
        self.time().of(payer, weight, reserved)
    }

    /// The share of a client whose handshake isn't done.
    pub fn share_of_stranger(&self, payer: Payer) -> Share {
        self.time().of(payer, WEIGHT, false)
    }
}

/// A payer's share of the daemon's time; cheap to clone.
#[derive(Clone, Debug)]
pub struct Share {
    time: Arc<Inner>,
    account: Arc<Account>,
}

impl Share {
    /// The turns of one future or stream.
    pub fn turn(&self) -> Turn {
        Turn {
            share: self.clone(),
            ticket: None,
        }
    }

    /// `work`, polled in the payer's turns. Never inside another turn: it would wait for that one.
    pub fn run<F: Future>(&self, work: F) -> Timed<F> {
        Timed {
            turn: self.turn(),
            work: Box::pin(work),
        }
    }

    /// Does something that can't wait for a turn; it is counted.
    pub fn count<T>(&self, work: impl FnOnce() -> T) -> T {
        let _counting = Counting::begin(self, false);
        work()
    }

    /// Time that was spent for the payer elsewhere.
    pub fn add(&self, spent: std::time::Duration) {
        let cost = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        let (now, accounts) = (self.time.now(), &self.time.accounts);
        self.account.charge(now, cost, accounts.weights());
    }
}

/// Where one future stands. Dropped, it leaves the line, and what it was granted goes to the next.
#[derive(Debug)]
pub struct Turn {
    share: Share,
    /// Its place in line.
    ticket: Option<u64>,
}

impl Turn {
    /// Polls `work` if it is the payer's turn; otherwise it is pending, and woken when it is.
    pub fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let (time, account) = (&self.share.time, &self.share.account);
        let now = time.now();
        time.accounts.look(account, now);
        let straight =
            self.ticket.is_none() && (time.accounts.is_alone() || account.is_in_credit(now));
        let in_lane = !straight;
        if in_lane && !time.lane.enter(account, &mut self.ticket, cx.waker()) {
            time.waited.fetch_add(1, Ordering::Relaxed);
            Lane::watch(time);
            return Poll::Pending;
        }
        let _counting = Counting::begin(&self.share, in_lane);
        work(cx)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.share.time.lane.leave_line(&self.share.account, ticket);
        }
    }
}

/// While this is there, a payer's time is counted; it ends as well where the work panics.
struct Counting<'a> {
    share: &'a Share,
    began: u64,
    in_lane: bool,
}

impl<'a> Counting<'a> {
    fn begin(share: &'a Share, in_lane: bool) -> Self {
        Self {
            share,
            began: share.time.now(),
            in_lane,
        }
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let Share { time, account } = self.share;
        let now = time.now();
        let cost = now.saturating_sub(self.began).max(1);
        account.charge(now, cost, time.accounts.weights());
        if self.in_lane {
            time.lane.done(account, cost);
        }
    }
}

/// A future that is polled in its payer's turns.
#[derive(Debug)]
pub struct Timed<F> {
    turn: Turn,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { turn, work } = &mut *self;
        turn.poll(cx, |cx| work.as_mut().poll(cx))
    }
}

impl Inner {
    fn now(&self) -> u64 {
        match &self.clock {
            Clock::Since(began) => u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            #[cfg(test)]
            Clock::Hand(now) => now.load(Ordering::Relaxed),
        }
    }
}
