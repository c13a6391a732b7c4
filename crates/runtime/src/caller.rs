// SPDX-License-Identifier: Apache-2.0
//! Whether a client still waits for what a request makes. What a request changes is done by a task
//! of its own, which a caller that goes away leaves whole once it has begun; a creation that waits
//! for its turn leaves the queue instead, and is never made.
//!
//! A retry with the same request id waits for the first try, and counts as its caller, too.

use std::time::Duration;

use model::error::{Error, Reason};
use tokio::sync::watch;

/// The callers of one request, as the task that carries it out sees them.
#[derive(Clone, Debug)]
pub(crate) struct Callers(watch::Sender<()>);

/// One caller, until it is dropped with the call.
#[derive(Debug)]
pub(crate) struct Present {
    _counted: watch::Receiver<()>,
}

impl Callers {
    /// Of a new request, and the caller that makes it.
    pub(crate) fn new() -> (Self, Present) {
        let callers = Self(watch::Sender::new(()));
        let present = callers.join();
        (callers, present)
    }

    /// One more.
    pub(crate) fn join(&self) -> Present {
        let _counted = self.0.subscribe();
        Present { _counted }
    }

    /// Whether all have gone: the call was cancelled, or its deadline is over.
    pub(crate) fn have_gone(&self) -> bool {
        self.0.is_closed()
    }

    /// Resolves when all have gone.
    pub(crate) async fn gone(&self) {
        self.0.closed().await;
    }
}

/// The answer of a request that was given up: heard by a retry that came at that moment.
pub(crate) fn given_up() -> Error {
    let message = "the caller went away before the cell's turn came: it was not made";
    Error::new(Reason::Deadline, message)
        .hint("ask again")
        .retry_after(Duration::ZERO)
}
