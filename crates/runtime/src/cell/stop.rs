// SPDX-License-Identifier: Apache-2.0
//! Asking an executable to end, and signalling it. The intent is in the record before any signal is
//! sent, so that a stop goes on under the next daemon; the deadline runs from the moment it was
//! asked for.
//!
//! ```text
//!  stop ─► intent written (the owner's) ─► stop_signal, sent (the owner's) ─► its end, or the kill
//! ```

use std::sync::Arc;
use std::time::Duration;

use kernel::cgroup::Cgroup;
use model::error::Error;
use model::lifecycle::Event as Life;
use model::signal::Signal;
use model::status::Object;
use tokio::time::Instant;

use super::executable::Executable;
use super::state::Cell;
use super::{Reply, leaf};
use crate::record::{self, StopIntent};

impl Executable {
    /// Asks it to end. A second stop can only shorten the first one's grace. Returns the record
    /// with the intent, which is to be written before [`Self::stop_signal`]: of the first stop
    /// alone.
    pub(super) fn stop(
        &mut self,
        grace: Option<Duration>,
        reply: Option<Reply<Arc<Object>>>,
        cell: &Cell,
    ) -> Option<Result<Vec<u8>, Error>> {
        let allowed = grace.unwrap_or(self.effective.stop_grace);
        let first = self.record.stop.is_none() && self.exit.is_none();
        self.waiting.extend(reply);
        let intent = first.then(|| {
            self.record.stop = Some(StopIntent {
                at: crate::now(),
                grace: Some(allowed),
            });
            let _ = self.step(Life::Stop);
            self.publish(cell);
            record::encode(&self.record)
        });
        self.kill_by(Instant::now() + allowed, cell);
        intent
    }

    /// The signal that asks it to end, which it can handle from here on; none where it has ended.
    pub(super) fn stop_signal(&self) -> Option<u8> {
        if self.exit.is_some() {
            return None;
        }
        thaw_leaf(&self.leaf);
        Some(self.effective.stop_signal.number())
    }

    /// A stop that an earlier daemon began: what is left of the grace. [`Self::stop_signal`] is to
    /// be sent again.
    pub(super) fn resume_stop(&mut self, intent: StopIntent, cell: &Cell) {
        let _ = self.step(Life::Stop);
        let allowed = intent.grace.unwrap_or(self.effective.stop_grace);
        let passed = crate::now().since(intent.at);
        self.kill_by(Instant::now() + allowed.saturating_sub(passed), cell);
    }

    /// Signals all of its processes.
    pub(super) fn signal_all(&self, signal: Signal) -> Result<(), Error> {
        if signal == Signal::KILL {
            leaf::kill(&self.leaf);
            return Ok(());
        }
        let number = i32::from(signal.number());
        let signal = kernel::signal::Signal::from_number(number)
            .ok_or_else(|| Error::invalid("signal", "is not a signal of this kernel"))?;
        leaf::signal_all(&self.leaf, signal)
            .map(drop)
            .map_err(|e| Error::internal(format!("not signalled: {e}")).errno(e.errno()))
    }
}

/// What is to be signalled has ended.
pub(super) fn ended(object: Result<Arc<Object>, Error>) -> Error {
    let name = object
        .map(|o| o.meta().path.to_string())
        .unwrap_or_default();
    Error::new(
        model::error::Reason::WrongState,
        format!("the executable {name} has ended"),
    )
    .about("executable", name)
}

/// A stopped process handles no signal: what is to end is let go on first, as systemd does.
pub(super) fn thaw_leaf(leaf: &Cgroup) {
    let frozen = leaf
        .read("cgroup.freeze")
        .is_ok_and(|text| text.trim() == "1");
    if frozen && let Err(error) = leaf.write("cgroup.freeze", "0") {
        tracing::warn!(%error, "a cgroup could not be thawed");
    }
}
