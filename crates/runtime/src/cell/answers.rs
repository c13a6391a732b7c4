// SPDX-License-Identifier: Apache-2.0
//! How the owner asks its cell-init, and what it does with what the cell-init says: has the part
//! that it concerns look at it, and asks what comes next. The numbers and deadlines are
//! [`super::exchange`]'s.

use std::os::fd::OwnedFd;

use init::protocol::{CellEvent, CellRequest, Failure};
use model::error::Error;
use model::name::Uid;
use rustix::io::Errno;

use super::change::Ask;
use super::executable::Executable;
use super::owner::{Call, Owner};
use crate::link::{LinkError, Received};
use crate::record::{self, Written};

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
                _ => self.protocol_error("it started an executable without a request"),
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
            CellEvent::Forked { uid, exit } => self.forked(record::unwire(uid), &exit),
            CellEvent::Exited { uid, exit } => self.exited(record::unwire(uid), exit),
            CellEvent::Welcome { .. } | CellEvent::Refused { .. } | CellEvent::Workload(_) => {
                self.protocol_error("it repeats the handshake");
            }
        }
    }

    /// The program of an executable was executed.
    fn started(&mut self, uid: Uid, started_ns: u64, given: Vec<OwnedFd>) {
        let started = self.executables.started(uid, started_ns, given, &self.cell);
        if let Err(error) = started {
            return self.silent(&error);
        }
        // What was asked of the cell while the executable was being started.
        if self.ending.has_begun() {
            let grace = self.cell.record.stop.and_then(|stop| stop.grace);
            self.stop_with_cell(uid, grace);
        } else if self.cell.is_frozen()
            && let Some(executable) = self.executables.get_mut(&uid)
        {
            executable.hold(true, &self.cell);
        }
    }

    /// The intent of a stop is written: now the signal.
    pub(super) fn stop_written(&mut self, uid: Uid) {
        let executable = self.executables.get(&uid);
        let signals = executable.map(Executable::stop_signals);
        let uid = record::wire(uid);
        for signal in signals.unwrap_or_default() {
            self.call(Call::Noted("the stop signal"), Vec::new(), |request| {
                CellRequest::Signal {
                    request,
                    uid,
                    signal,
                }
            });
        }
    }

    fn done(&mut self, call: Call) {
        match call {
            Call::StopIntent(uid) => self.stop_written(uid),
            Call::Signal { uid, reply } => {
                let status = self.cell.object(uid);
                let _ = reply.send(status);
            }
            Call::Main { uid, pid, reply } => self.main_known(uid, pid, reply),
            Call::Light(reply) => {
                let _ = reply.send(Ok(()));
            }
            Call::Relabel { uid, reply, .. } => {
                self.executables.relabelled(uid, reply, &self.cell);
            }
            // The record says so: now the kernel.
            Call::FreezeIntent { frozen, reply } => {
                self.cell.record.frozen = frozen;
                self.executables.freeze(frozen, reply, &self.cell);
            }
            Call::Annex { annex, reply } => {
                self.cell.status.annex = Some(annex);
                self.cell.publish();
                let _ = reply.send(self.cell.object(self.cell.record.meta.uid));
            }
            Call::Start(_) => self.protocol_error("a start is answered without a process"),
            Call::Change => self.changed(Ok(())),
            Call::Adopt(_) | Call::Exit | Call::Noted(_) => {}
        }
    }

    pub(super) fn refused(&mut self, call: Call, failure: &Failure) {
        match call {
            Call::Start(uid) => self.executables.start_failed(uid, failure, &self.cell),
            // The intent could not be written: the stop goes on all the same, by its deadline.
            Call::StopIntent(uid) => self.stop_written(uid),
            // The process ended meanwhile: the same answer as a moment later.
            Call::Signal { uid, reply } if failure.errno == Errno::SRCH.raw_os_error() => {
                let _ = reply.send(Err(super::stop::ended(self.cell.object(uid))));
            }
            Call::Signal { uid, reply } => {
                let error = super::start::failure("the signal was not sent", failure);
                let name = self
                    .executables
                    .get(&uid)
                    .map(|e| e.record.meta.path.to_string());
                let _ = reply.send(Err(error.about("executable", name.unwrap_or_default())));
            }
            Call::Main { uid, reply, .. } => self.main_refused(uid, failure, reply),
            Call::Light(reply) => {
                let error = super::start::failure("the light cell was not made", failure);
                let _ = reply.send(Err(error));
            }
            Call::Relabel { uid, old, reply } => {
                let error = super::start::failure("the labels were not written", failure);
                self.executables.not_relabelled(uid, old, error, reply);
            }
            Call::FreezeIntent { reply, .. } | Call::Annex { reply, .. } => {
                let error = super::start::failure("the cell's record was not written", failure);
                let _ = reply.send(Err(error));
            }
            Call::Change => {
                let outcome = self.updates.refused(failure, &self.cell);
                self.changed(outcome);
            }
            Call::Adopt(uid) => self.not_adopted(uid, &super::start::said(failure)),
            // It keeps what it was told to let go of, or knows of more than we do.
            Call::Exit => self.protocol_error("it doesn't end when it is told to"),
            Call::Noted(what) => {
                tracing::warn!(cell = %self.cell.key.path, ?failure, "the cell's init refused: {what}");
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
        let timeout = self.cell.shared.settings.init_timeout;
        let failure = Failure {
            step: init::protocol::Step::Protocol,
            errno: Errno::TIMEDOUT.raw_os_error(),
            detail: format!("the cell's init did not answer within {timeout:?}"),
        };
        if let Call::Start(uid) = call {
            self.exchange.give_up(number);
            return self.executables.start_failed(uid, &failure, &self.cell);
        }
        self.silent(&LinkError::Silent(timeout));
        // The caller is told why; nothing else is to be done without an init.
        if let Call::Signal { .. }
        | Call::Light(_)
        | Call::Main { .. }
        | Call::Relabel { .. }
        | Call::FreezeIntent { .. }
        | Call::Annex { .. } = call
        {
            self.refused(call, &failure);
        }
    }

    /// The step of the update that is being carried out is done, or refused.
    fn changed(&mut self, outcome: Result<(), Error>) {
        let ask = self.updates.after(outcome, &mut self.cell);
        self.go_on(ask);
    }

    /// Asks what the update needs that is being carried out; where that is finished, the next.
    pub(super) fn go_on(&mut self, ask: Option<Ask>) {
        let is_ending = self.ending.has_begun();
        let next = ask.or_else(|| self.updates.next(&mut self.cell, is_ending));
        let Some(ask) = next else { return };
        let (call, none) = (Call::Change, Vec::new());
        match ask {
            Ask::Record(record) => self.put_cell_record(call, record),
            Ask::Unmount(target) => self.call(call, none, |request| CellRequest::Unmount {
                request,
                target,
            }),
            Ask::Stage(slave) => {
                self.call(call, vec![slave], |request| CellRequest::Stage { request });
            }
            Ask::Mount(to) => self.call(call, none, |request| CellRequest::Mount {
                request,
                from: 0,
                to,
            }),
        }
    }

    /// Replaces the cell's own record.
    pub(super) fn put_cell_record(&mut self, call: Call, written: Written) {
        let Written { record, file } = written;
        self.call(call, file.into_iter().collect(), |request| {
            CellRequest::PutCellRecord { request, record }
        });
    }

    /// Replaces the record of an executable.
    pub(super) fn put_record(&mut self, call: Call, uid: Uid, written: Written) {
        let (uid, Written { record, file }) = (record::wire(uid), written);
        self.call(call, file.into_iter().collect(), |request| {
            CellRequest::PutRecord {
                request,
                uid,
                record,
            }
        });
    }

    /// Asks the cell-init. The answer comes as an event; so does a link that is gone.
    pub(super) fn call(
        &mut self,
        call: Call,
        fds: Vec<OwnedFd>,
        request: impl FnOnce(u64) -> CellRequest,
    ) {
        if let Err((call, error)) = self.exchange.ask(call, fds, request) {
            let failure = Failure {
                step: init::protocol::Step::Protocol,
                errno: Errno::PIPE.raw_os_error(),
                detail: error.to_string(),
            };
            self.refused(call, &failure);
            if !matches!(error, LinkError::TooLarge(_) | LinkError::Unpacked(_)) {
                self.silent(&error);
            }
        }
    }

    /// Tells the cell-init something that has no answer.
    pub(super) fn tell(&mut self, request: &CellRequest) {
        if let Err(error) = self.exchange.tell(request.clone()) {
            self.silent(&error);
        }
    }
}
