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
use model::launch::KillMode;
use model::lifecycle::Event as Life;
use model::signal::Signal;
use model::status::Object;
use tokio::time::Instant;

use super::executable::Executable;
use super::owner::Event;
use super::state::Cell;
use super::{Reply, leaf};
use crate::record::{self, StopIntent};

impl Executable {
    /// Asks it to end. A second stop can only shorten the first one's grace. Returns the record
    /// with the intent, which is to be written before [`Self::stop_signals`]: of the first stop
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
        self.end_by(Instant::now() + allowed, cell);
        intent
    }

    /// What happens when the grace of a stop is over.
    fn end_by(&mut self, at: Instant, cell: &Cell) {
        let ending = &self.effective.ending;
        let alone = self.leaves_others() && !self.main.is_headless();
        if !alone {
            return self.kill_by(at, cell);
        }
        let says_last = ending.kill_mode == KillMode::Process && ending.send_sigkill != Some(false);
        if says_last {
            let uid = self.uid();
            cell.beside(async move {
                tokio::time::sleep_until(at).await;
                Event::GraceOver(uid)
            });
        }
    }

    /// The signals that ask its main process to end, in their order, which it can handle from here
    /// on; none where it has ended. What is for all of its processes is sent here.
    pub(super) fn stop_signals(&self) -> Vec<u8> {
        let mode = self.effective.ending.kill_mode;
        if self.exit.is_some() || mode == KillMode::None {
            return Vec::new();
        }
        thaw_leaf(&self.leaf);
        match mode == KillMode::ControlGroup || self.main.is_headless() {
            true => {
                self.ask_all();
                Vec::new()
            }
            false => self.signals(),
        }
    }

    /// The signals of a stop. Who is stopped by job control gets to know of them as well.
    fn signals(&self) -> Vec<u8> {
        let ending = &self.effective.ending;
        let stop = self.effective.stop_signal;
        let hangup = ending.send_sighup.then_some(Signal::HUP);
        let go_on = (ending.kill_mode != KillMode::Descent).then_some(Signal::CONT);
        let all = [Some(stop), hangup, go_on].into_iter().flatten();
        all.map(Signal::number).collect()
    }

    /// Sends them to every process in its leaf.
    pub(super) fn ask_all(&self) {
        for number in self.signals() {
            let signal = kernel::signal::Signal::from_number(number.into());
            let sent = signal.map(|signal| leaf::signal_all(&self.leaf, signal));
            if let Some(Err(error)) = sent {
                tracing::warn!(%error, "not every process was asked to end");
            }
        }
    }

    /// A stop that an earlier daemon began: what is left of the grace. [`Self::stop_signals`] are to
    /// be sent again.
    pub(super) fn resume_stop(&mut self, intent: StopIntent, cell: &Cell) {
        let _ = self.step(Life::Stop);
        let allowed = intent.grace.unwrap_or(self.effective.stop_grace);
        let passed = crate::now().since(intent.at);
        self.end_by(Instant::now() + allowed.saturating_sub(passed), cell);
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
