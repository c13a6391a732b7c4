// SPDX-License-Identifier: Apache-2.0
//! What an owner and its cell-init have to say to each other: requests with their numbers, answers
//! that find them again, and when the oldest is due. What an answer means is the owner's to know.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::Duration;

use futures_util::FutureExt;
use init::protocol::{CellEvent, CellRequest};
use tokio::time::Instant;

use super::owner::Call;
use crate::link::cell::CellLink;
use crate::link::{LinkError, Received};

/// See the module. Once closed it stays so: nothing is sent, heard or due any more.
pub(super) struct Exchange {
    /// `None` once it is closed.
    link: Option<CellLink>,
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
            waiting: BTreeMap::new(),
            next: 1,
            given_up: BTreeSet::new(),
            timeout,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// Hears and says nothing more. Whether it was open.
    pub(super) fn close(&mut self) -> bool {
        self.link.take().is_some()
    }

    /// Drops what waits for an answer: the callers are told that the cell has ended.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// What the cell-init says next. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Received<CellEvent>, LinkError> {
        match &mut self.link {
            Some(link) => link.next().await,
            None => std::future::pending().await,
        }
    }

    /// What it has said already, if anything.
    pub(super) fn next_now(&mut self) -> Option<Result<Received<CellEvent>, LinkError>> {
        self.link.as_mut()?.next().now_or_never()
    }

    /// When the oldest answer is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(_, (due, _))| *due)
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
        let sent = match &mut self.link {
            Some(link) => link.send(&request(number), fds),
            None => Err(LinkError::Closed),
        };
        match sent {
            Ok(()) => {
                let due = Instant::now() + self.timeout;
                self.waiting.insert(number, (due, call));
                Ok(())
            }
            Err(error) => Err((call, error)),
        }
    }

    /// Says what has no answer.
    pub(super) fn tell(&mut self, request: &CellRequest) -> Result<(), LinkError> {
        match &mut self.link {
            Some(link) => link.send(request, Vec::new()),
            None => Ok(()),
        }
    }
}
