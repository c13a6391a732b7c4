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
use model::error::{Error, Reason};
use model::launch::KillMode;
use model::lifecycle::Event as Life;
use model::signal::Signal;
use model::status::Object;
use tokio::sync::watch;
use tokio::time::Instant;

use super::executable::Executable;
use super::owner::Event;
use super::state::Cell;
use super::{Reply, leaf};
use crate::record::{self, StopIntent, Written};

impl Executable {
    /// Asks it to end. A second stop can only shorten the first one's grace. Returns the record
    /// with the intent, which is to be written before [`Self::stop_signals`]: of the first stop
    /// alone.
    pub(super) fn stop(
        &mut self,
        grace: Option<Duration>,
        reply: Option<Reply<Arc<Object>>>,
        cell: &Cell,
    ) -> Option<Result<Written, Error>> {
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
        let alone = self.leaves_others() && !self.main.is_headless();
        if !alone {
            self.kill_by(at, cell);
        }
        if alone || !self.kills() {
            self.tell_grace(at, cell);
        }
    }

    /// Tells when the grace is over. One task does, however often a stop is asked for.
    pub(super) fn tell_grace(&mut self, at: Instant, cell: &Cell) {
        if let Some(due) = &self.grace {
            return due.send_modify(|due| *due = at.min(*due));
        }
        let (sender, due) = watch::channel(at);
        self.grace = Some(sender);
        let uid = self.uid();
        cell.beside(async move {
            passed(due).await;
            Event::GraceOver(uid)
        });
    }

    /// Its cell ends: all that there is of it gets the grace, and is killed then, whatever its kill
    /// mode. What was spared by an earlier stop is asked now.
    pub(super) fn end_with_cell(&mut self) {
        let spared = self.effective.ending.kill_mode.leaves() && !self.goes_with_cell;
        self.goes_with_cell = true;
        if spared && self.record.stop.is_some() {
            thaw_leaf(&self.leaf);
            self.ask_all();
        }
    }

    /// What its stop could not end, and may not kill: who waits is told so.
    pub(super) fn left_behind(&mut self) {
        let path = &self.record.meta.path;
        for reply in self.waiting.drain(..) {
            let message = format!(
                "processes of the executable {path} are left behind: the grace of its stop is over, \
                 and its ending forbids to kill them"
            );
            let error = Error::new(Reason::Deadline, message).about("executable", path.to_string());
            let hint = "send it a signal, or stop its cell, which kills what is in it";
            let _ = reply.send(Err(error.hint(hint)));
        }
    }

    /// The signals that ask its main process to end, in their order, which it can handle from here
    /// on; none where it has ended. What is for all of its processes is sent here.
    pub(super) fn stop_signals(&self) -> Vec<u8> {
        let mode = self.effective.ending.kill_mode;
        let spares_all = mode == KillMode::None && !self.goes_with_cell;
        if self.exit.is_some() || spares_all {
            return Vec::new();
        }
        thaw_leaf(&self.leaf);
        let is_for_all = matches!(mode, KillMode::ControlGroup | KillMode::None);
        match is_for_all || self.main.is_headless() {
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

    /// A stop that an earlier daemon began: what is left of the grace. [`Self::stop_signals`] are
    /// to be sent again.
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

/// Resolves at that moment, which may come nearer meanwhile.
async fn passed(mut due: watch::Receiver<Instant>) {
    loop {
        let at = *due.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep_until(at) => return,
            // Without a sender it stays as it is.
            Ok(()) = due.changed() => {}
        }
    }
}

/// What is to be signalled has ended.
pub(super) fn ended(object: Result<Arc<Object>, Error>) -> Error {
    let name = object
        .map(|o| o.meta().path.to_string())
        .unwrap_or_default();
    Error::new(
        Reason::WrongState,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_task_waits_for_a_grace_that_comes_nearer() {
        let begin = Instant::now();
        let (sender, due) = watch::channel(begin + Duration::from_secs(90));
        let waits = tokio::spawn(passed(due));
        sender.send_modify(|due| *due = begin + Duration::from_millis(20));
        waits.await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(60));
        // Without a sender the last word counts.
        let (sender, due) = watch::channel(Instant::now() + Duration::from_millis(10));
        drop(sender);
        passed(due).await;
    }

    fn of_mode(mode: KillMode, send_sigkill: Option<bool>) -> Box<Executable> {
        let folder = tempfile::tempdir().unwrap();
        let opened = kernel::fsutil::open_directory(folder.path()).unwrap();
        let leaf = Arc::new(Cgroup::from_fd(opened, folder.path()));
        let mut spec = model::executable::Draft {
            argv: vec!["true".to_owned()],
            ..Default::default()
        };
        spec.ending.kill_mode = mode;
        spec.ending.send_sigkill = send_sigkill;
        let record = record::ExecutableRecord {
            meta: model::status::Meta {
                tenant: "red".parse().unwrap(),
                path: "web/server".parse().unwrap(),
                uid: model::name::Uid([1; 16]),
                kind: model::object::Kind::Executable,
                labels: Default::default(),
                generation: 1,
                revision: 0,
                created: crate::now(),
            },
            spec: spec.try_into().unwrap(),
            idempotency_key: None,
            logs: Default::default(),
            stop: None,
            attach_follows: false,
            defaults: None,
        };
        let effective = record.effective().unwrap();
        Executable::new(record, effective, leaf)
    }

    #[test]
    fn nothing_outlives_its_cell_whatever_its_kill_mode() {
        for (mode, send_sigkill) in [
            (KillMode::None, None),
            (KillMode::Process, Some(false)),
            (KillMode::ControlGroup, Some(false)),
        ] {
            let mut executable = of_mode(mode, send_sigkill);
            assert!(!executable.kills(), "{mode:?}");
            assert_eq!(executable.leaves_others(), mode.leaves(), "{mode:?}");
            executable.end_with_cell();
            assert!(executable.kills(), "{mode:?}");
            assert!(!executable.leaves_others(), "{mode:?}");
        }
        assert!(of_mode(KillMode::Process, None).kills());
    }

    #[tokio::test]
    async fn who_waits_for_what_nothing_may_kill_is_told_so() {
        let mut executable = of_mode(KillMode::None, None);
        let (reply, answer) = tokio::sync::oneshot::channel();
        executable.waiting.push(reply);
        executable.left_behind();
        let error = answer.await.unwrap().unwrap_err();
        assert_eq!(error.reason, Reason::Deadline);
        assert!(error.message.contains("web/server"), "{error}");
    }
}
