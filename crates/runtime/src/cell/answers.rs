// SPDX-License-Identifier: Apache-2.0
//! What the owner asks its cell-init, and what it does with what the cell-init says. The numbers
//! and deadlines are [`super::exchange`]'s.

use init::protocol::{CellEvent, CellRequest, Failure};
use rustix::io::Errno;

use super::owner::{Call, Owner};
use crate::link::{LinkError, Received};

/// How many packets are heard before a call counts as not answered.
const HEARD_FIRST: usize = 64;

impl Owner {
    pub(super) fn said(&mut self, received: Received<CellEvent>) {
        match received.event {
            CellEvent::Started {
                request,
                started_ns,
                ..
            } => match self.exchange.answered(request) {
                Some(Call::Start(uid)) => self.started(uid, started_ns, received.fds),
                // Its leaf was killed; the end of it follows.
                None if self.exchange.was_given_up(request) => {}
                _ => self.protocol_error("it started what it was not asked for"),
            },
            CellEvent::Failed { request, failure } => {
                // None: an answer after our timeout ended; it was dealt with then.
                self.exchange.was_given_up(request);
                if let Some(call) = self.exchange.answered(request) {
                    self.refused(call, &failure);
                }
            }
            CellEvent::Done { request } => {
                if let Some(call) = self.exchange.answered(request) {
                    self.done(call);
                }
            }
            CellEvent::Exited { uid, exit } => self.exited(crate::record::unwire(uid), exit),
            CellEvent::Welcome { .. } | CellEvent::Refused { .. } | CellEvent::Workload(_) => {
                self.protocol_error("it repeats the handshake");
            }
        }
    }

    fn done(&mut self, call: Call) {
        match call {
            Call::StopIntent(uid) => self.stop_written(uid),
            Call::Signal { uid, reply } => {
                let status = self.object(uid);
                let _ = reply.send(status);
            }
            Call::Relabel { uid, reply, .. } => self.relabelled(uid, reply),
            Call::FreezeIntent { frozen, reply } => self.freeze_written(frozen, reply),
            Call::Start(_) => self.protocol_error("a start is answered without a process"),
            Call::Change => self.changed(Ok(())),
            Call::Exit | Call::Noted(_) => {}
        }
    }

    fn refused(&mut self, call: Call, failure: &Failure) {
        match call {
            Call::Start(uid) => self.start_failed(uid, failure),
            // The intent could not be written: the stop goes on all the same, by its deadline.
            Call::StopIntent(uid) => self.stop_written(uid),
            Call::Signal { uid, reply } => {
                let error = super::start::failure("the signal was not sent", failure);
                let name = self
                    .executables
                    .get(&uid)
                    .map(|e| e.record.meta.path.to_string());
                let _ = reply.send(Err(error.about("executable", name.unwrap_or_default())));
            }
            Call::Relabel { uid, old, reply } => {
                let error = super::start::failure("the labels were not written", failure);
                self.not_relabelled(uid, old, error, reply);
            }
            Call::FreezeIntent { reply, .. } => {
                let error = super::start::failure("the cell's record was not written", failure);
                let _ = reply.send(Err(error));
            }
            Call::Change => self.change_refused(failure),
            // It keeps what it was told to let go of, or knows of more than we do.
            Call::Exit => self.protocol_error("it doesn't end when it is told to"),
            Call::Noted(what) => {
                tracing::warn!(cell = %self.key.path, ?failure, "the cell's init refused: {what}");
            }
        }
    }

    /// The oldest call is due. What was said in time is heard first: it may be this daemon that was
    /// held up.
    pub(super) fn late(&mut self) {
        for _ in 0..HEARD_FIRST {
            match self.exchange.next_now() {
                Some(Ok(received)) => self.said(received),
                Some(Err(error)) => return self.silent(&error),
                None => break,
            }
        }
        if let Some((number, call)) = self.exchange.overdue() {
            self.not_answered(number, call);
        }
    }

    fn not_answered(&mut self, number: u64, call: Call) {
        let timeout = self.shared.settings.init_timeout;
        let failure = Failure {
            step: init::protocol::Step::Protocol,
            errno: Errno::TIMEDOUT.raw_os_error(),
            detail: format!("the cell's init did not answer within {timeout:?}"),
        };
        if let Call::Start(uid) = call {
            self.exchange.give_up(number);
            return self.start_failed(uid, &failure);
        }
        self.silent(&LinkError::Silent(timeout));
        // The caller is told why; nothing else is to be done without an init.
        if let Call::Signal { .. } | Call::Relabel { .. } | Call::FreezeIntent { .. } = call {
            self.refused(call, &failure);
        }
    }

    /// Asks the cell-init. The answer comes as an event; so does a link that is gone.
    pub(super) fn call(
        &mut self,
        call: Call,
        fds: Vec<std::os::fd::OwnedFd>,
        request: impl FnOnce(u64) -> CellRequest,
    ) {
        if let Err((call, error)) = self.exchange.ask(call, fds, request) {
            let failure = Failure {
                step: init::protocol::Step::Protocol,
                errno: Errno::PIPE.raw_os_error(),
                detail: error.to_string(),
            };
            self.refused(call, &failure);
            if !matches!(error, LinkError::TooLarge(_)) {
                self.silent(&error);
            }
        }
    }

    /// Tells the cell-init something that has no answer.
    pub(super) fn tell(&mut self, request: &CellRequest) {
        if let Err(error) = self.exchange.tell(request) {
            self.silent(&error);
        }
    }
}
