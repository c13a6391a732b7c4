// SPDX-License-Identifier: Apache-2.0
//! What an owner and its cell-init have to say to each other: requests with their numbers, answers
//! that find them again, and when the oldest is due. What an answer means is the owner's to know.
//!
//! ```text
//!            suspend                   resume, release          all is sent
//!  linked ───────────▶ held, no link ─────────────────▶ held ───────────────▶ linked
//!     └── close ──▶ closed ◀── close ──┘
//! ```
//! While another init is made for the cell ([`super::renewal`]) what is asked is held, and goes to
//! that one behind what it is to know first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::time::Duration;

use futures_util::FutureExt;
use init::protocol::{CellEvent, CellRequest, MAX_WORKLOADS};
use tokio::time::Instant;

use super::owner::Call;
use crate::link::cell::{CellLink, ToCell};
use crate::link::{Conversation, LinkError, MAX_OUTBOX, Packed, Received};

/// The most that is held: each workload once, and as much as waits for an init that doesn't read.
const MOST_HELD: usize = MAX_WORKLOADS + MAX_OUTBOX;

/// What is said as soon as it can be, in its order.
pub(super) type Held = VecDeque<Packed>;

/// See the module. Once closed it stays so: nothing is sent, heard or due any more.
pub(super) struct Exchange {
    /// `None` once it is closed, and while there is no init.
    link: Option<CellLink>,
    /// `None` where everything goes at once.
    held: Option<Held>,
    /// By number, and so by deadline.
    waiting: BTreeMap<u64, (Instant, Call)>,
    next: u64,
    /// Starts that are not waited for any more, until they are answered.
    given_up: BTreeSet<u64>,
    /// How long an answer may take.
    timeout: Duration,
}

impl Exchange {
    pub(super) fn new(link: CellLink, timeout: Duration) -> Self {
        Self {
            link: Some(link),
            held: None,
            waiting: BTreeMap::new(),
            next: 1,
            given_up: BTreeSet::new(),
            timeout,
        }
    }

    /// Whether it goes on, now or when there is another init.
    pub(super) fn is_open(&self) -> bool {
        self.link.is_some() || self.held.is_some()
    }

    /// Whether there is an init to be heard.
    pub(super) fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// Whether it waits for another init.
    pub(super) fn is_suspended(&self) -> bool {
        self.link.is_none() && self.held.is_some()
    }

    /// Hears and says nothing more.
    pub(super) fn close(&mut self) {
        self.link = None;
        self.held = None;
    }

    /// There is no init, and there will be another one. What waits for an answer, and gets none.
    pub(super) fn suspend(&mut self) -> Vec<Call> {
        self.link = None;
        self.held = Some(Held::new());
        self.given_up.clear();
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_values().map(|(_, call)| call).collect()
    }

    /// There is one. What is asked from here on goes before what was held, which is answered: it
    /// is to be given back by [`Self::release`].
    pub(super) fn resume(&mut self, link: CellLink) -> Held {
        self.link = Some(link);
        let due = Instant::now() + self.timeout;
        for (at, _) in self.waiting.values_mut() {
            *at = due;
        }
        self.held.replace(Held::new()).unwrap_or_default()
    }

    pub(super) fn release(&mut self, later: Held) {
        self.held.get_or_insert_default().extend(later);
    }

    /// Drops what waits for an answer: the callers are told that the cell has ended.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// What the cell-init says next. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Received<CellEvent>, LinkError> {
        match &mut self.link {
            Some(link) => {
                send_held(link, &mut self.held)?;
                link.next().await
            }
            None => std::future::pending().await,
        }
    }

    /// What it has said already, if anything.
    pub(super) fn next_now(&mut self) -> Option<Result<Received<CellEvent>, LinkError>> {
        self.link.as_mut()?.next().now_or_never()
    }

    /// When the oldest answer is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let oldest = self.waiting.first_key_value();
        let oldest = oldest.filter(|_| self.is_linked());
        oldest.map(|(_, (due, _))| *due)
    }

    /// The oldest request, where its answer is overdue.
    pub(super) fn overdue(&mut self) -> Option<(u64, Call)> {
        let oldest = self.waiting.first_entry();
        let late = oldest.filter(|call| call.get().0 <= Instant::now())?;
        let (number, (_, call)) = late.remove_entry();
        Some((number, call))
    }

    /// Whether an answer to such a request is waited for.
    pub(super) fn awaits(&self, is_it: impl Fn(&Call) -> bool) -> bool {
        self.waiting.values().any(|(_, call)| is_it(call))
    }

    /// The request of that number is answered.
    pub(super) fn answered(&mut self, number: u64) -> Option<Call> {
        self.waiting.remove(&number).map(|(_, call)| call)
    }

    /// An answer to that request will come late, and is no fault then.
    pub(super) fn give_up(&mut self, number: u64) {
        self.given_up.insert(number);
    }

    /// Whether the answer is to a request that was given up.
    pub(super) fn was_given_up(&mut self, number: u64) -> bool {
        self.given_up.remove(&number)
    }

    /// Asks. The call comes back where it can't be sent.
    pub(super) fn ask(
        &mut self,
        call: Call,
        fds: Vec<OwnedFd>,
        request: impl FnOnce(u64) -> CellRequest,
    ) -> Result<(), (Call, LinkError)> {
        let number = self.next;
        self.next += 1;
        match self.say(request(number), fds) {
            Ok(()) => {
                let due = Instant::now() + self.timeout;
                self.waiting.insert(number, (due, call));
                Ok(())
            }
            Err(error) => Err((call, error)),
        }
    }

    /// Says what has no answer.
    pub(super) fn tell(&mut self, request: CellRequest) -> Result<(), LinkError> {
        match self.is_open() {
            true => self.say(request, Vec::new()),
            false => Ok(()),
        }
    }

    fn say(&mut self, request: CellRequest, fds: Vec<OwnedFd>) -> Result<(), LinkError> {
        match (&mut self.held, &mut self.link) {
            (Some(held), _) => hold(held, &request, fds),
            (None, Some(link)) => link.send(&request, fds),
            (None, None) => Err(LinkError::Closed),
        }
    }
}

/// Keeps it for later. One that no packet holds is refused now.
fn hold(held: &mut Held, request: &CellRequest, fds: Vec<OwnedFd>) -> Result<(), LinkError> {
    let packed = ToCell::pack(request, fds)?;
    if held.len() >= MOST_HELD {
        return Err(LinkError::Stuck);
    }
    held.push_back(packed);
    Ok(())
}

/// Sends what was held, as far as the link has room; each answer makes some.
fn send_held(link: &mut CellLink, held: &mut Option<Held>) -> Result<(), LinkError> {
    let Some(waiting) = held else { return Ok(()) };
    while link.has_room() {
        match waiting.pop_front() {
            Some(packed) => link.send_packed(packed)?,
            None => {
                *held = None;
                return Ok(());
            }
        }
    }
    Ok(())
}
