// SPDX-License-Identifier: Apache-2.0
//! What the owner does with a request: has the part that it concerns look at it and change what is
//! to be changed, and asks the cell-init where that has a share in it. What comes of asking is in
//! [`super::answers`].

use std::sync::Arc;
use std::time::Duration;

use init::protocol::CellRequest;
use model::error::{Error, Reason};
use model::lifecycle::cell::Event as End;
use model::name::Uid;
use model::request::UpdateExecutable;
use model::signal::Signal;
use model::status::{Annex, Object};

use super::owner::{Call, Owner};
use super::state::Cell;
use super::{Reply, Request, StartOrder, freeze, leaf, stop};
use crate::record::{self, StopIntent};

impl Owner {
    pub(super) fn requested(&mut self, request: Request) {
        match request {
            Request::Start(order) => self.start(*order),
            Request::Stop { uid, grace, reply } => self.stop(uid, grace, Some(reply)),
            Request::StopCell { grace, reply } => {
                self.ending.wait(reply);
                self.stop_cell(grace);
            }
            Request::SignalAll { signal, reply } => {
                let _ = reply.send(signal_all(&self.cell, signal));
            }
            Request::Main { uid, pid, reply } => self.put_main(uid, pid, reply),
            Request::Light {
                uid,
                record,
                listener,
                is_there,
                reply,
            } => match self.admits_light(is_there) {
                Ok(()) => self.serve_light(uid, record, listener, reply),
                Err(error) => _ = reply.send(Err(error)),
            },
            Request::Unlight { uid } => {
                let uid = record::wire(uid);
                let call = Call::Noted("to let go of a light cell");
                self.call(call, Vec::new(), |request| CellRequest::Unlight {
                    request,
                    uid,
                });
            }
            Request::Update { request, reply } => {
                self.updates.put(request, reply, &self.cell);
                self.go_on(None);
            }
            Request::Relabel {
                uid,
                request,
                reply,
            } => self.relabel(uid, *request, reply),
            Request::Signal {
                uid,
                signal,
                all,
                reply,
            } => self.signal(uid, signal, all, reply),
            Request::Freeze {
                frozen,
                by_parent,
                reply,
            } => self.freeze(frozen, by_parent, reply),
            Request::Annex { annex, reply } => self.annex(annex, reply),
            Request::TakeInput { uid, reply } => {
                let _ = reply.send(self.executables.input(uid));
            }
            Request::CloseInput { uid, reply } => self.close_input(uid, reply),
        }
    }

    fn start(&mut self, order: StartOrder) {
        if let Err(error) = self.admits_start() {
            let _ = order.reply.send(Err(error));
            return;
        }
        let uid = order.record.meta.uid;
        if let Some((launch, fds)) = self.executables.start(order, &self.cell) {
            self.call(Call::Start(uid), fds, |request| CellRequest::Start {
                request,
                launch,
            });
        }
    }

    fn admits_start(&self) -> Result<(), Error> {
        let refuse = |what: &str, hint: &str| {
            Err(Error::new(
                Reason::WrongState,
                format!("the cell {} {what}", self.cell.key.path),
            )
            .about("cell", self.cell.key.path.to_string())
            .hint(hint))
        };
        if self.ending.has_begun() || !self.exchange.is_open() {
            return refuse(
                "is stopping: nothing new can begin in it",
                "run the cell again",
            );
        }
        if self.cell.is_frozen() {
            return refuse("is frozen", "thaw it first");
        }
        Ok(())
    }

    /// Asks an executable to end. The intent is in its record before the signal is sent.
    pub(super) fn stop(
        &mut self,
        uid: Uid,
        grace: Option<Duration>,
        reply: Option<Reply<Arc<Object>>>,
    ) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            if let Some(reply) = reply {
                let _ = reply.send(self.cell.object(uid));
            }
            return;
        };
        match executable.stop(grace, reply, &self.cell) {
            Some(Ok(record)) => {
                self.put_record(Call::StopIntent(uid), uid, record);
            }
            // A full record has no room for the intent; the stop itself must still be carried out.
            Some(Err(error)) => {
                tracing::warn!(%error, "a stop is not in the record: it won't survive the daemon");
                self.stop_written(uid);
            }
            None => {}
        }
    }

    /// Asks everything in the cell to end, the nested cells too, and then the cell.
    pub(super) fn stop_cell(&mut self, grace: Option<Duration>) {
        if !self.ending.has_begun() && self.cell.record.stop.is_none() {
            self.cell.record.stop = Some(StopIntent {
                at: crate::now(),
                grace,
            });
            self.note_record("that the cell is to stop");
        }
        self.ends(End::Stop { grace });
    }

    /// Replaces the cell's own record; what depends on it is not waited for.
    fn note_record(&mut self, what: &'static str) {
        match record::encode(&self.cell.record) {
            Ok(record) => self.put_cell_record(Call::Noted(what), record),
            Err(error) => {
                tracing::warn!(cell = %self.cell.key.path, %error, "not in the record: {what}")
            }
        }
    }

    fn signal(&mut self, uid: Uid, signal: Signal, all: bool, reply: Reply<Arc<Object>>) {
        let running = self.executables.get(&uid);
        let Some(executable) = running.filter(|it| all || it.exit.is_none()) else {
            let _ = reply.send(Err(stop::ended(self.cell.object(uid))));
            return;
        };
        if all {
            let signalled = executable.signal_all(signal);
            let _ = reply.send(signalled.and_then(|()| self.cell.object(uid)));
            return;
        }
        let wire = record::wire(uid);
        self.call(Call::Signal { uid, reply }, Vec::new(), |request| {
            CellRequest::Signal {
                request,
                uid: wire,
                signal: signal.number(),
            }
        });
    }

    fn freeze(&mut self, frozen: bool, by_parent: bool, reply: Reply<Arc<Object>>) {
        if let Err(error) = freeze::admits(frozen, by_parent, &self.cell) {
            let _ = reply.send(Err(error));
            return;
        }
        if by_parent {
            self.cell.parent_frozen = frozen;
            return self.executables.freeze(frozen, reply, &self.cell);
        }
        match freeze::intent(frozen, &self.cell) {
            Ok(record) => {
                self.put_cell_record(Call::FreezeIntent { frozen, reply }, record);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Keeps another annex; answers when the record is written.
    fn annex(&mut self, annex: Annex, reply: Reply<Arc<Object>>) {
        let mut intended = self.cell.record.clone();
        intended.annex = Some(annex.clone());
        match record::encode(&intended) {
            Ok(record) => {
                // What is written meanwhile is written with it.
                self.cell.record = intended;
                self.put_cell_record(Call::Annex { annex, reply }, record);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Answers when the record is written.
    fn relabel(&mut self, uid: Uid, request: UpdateExecutable, reply: Reply<Arc<Object>>) {
        match self.executables.put_labels(uid, request) {
            Ok((record, old)) => {
                self.put_record(Call::Relabel { uid, old, reply }, uid, record);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    fn close_input(&mut self, uid: Uid, reply: Reply<()>) {
        self.executables.close_input(uid);
        let call = Call::Noted("closing standard input");
        let uid = record::wire(uid);
        self.call(call, Vec::new(), |request| CellRequest::CloseStdin {
            request,
            uid,
        });
        let _ = reply.send(Ok(()));
    }
}

/// Signals every process of the cell and of those in it; no init is among them.
fn signal_all(cell: &Cell, signal: Signal) -> Result<(), Error> {
    if signal == Signal::KILL {
        leaf::kill(&cell.group);
        return Ok(());
    }
    let number = i32::from(signal.number());
    let signal = kernel::signal::Signal::from_number(number)
        .ok_or_else(|| Error::invalid("signal", "is not a signal of this kernel"))?;
    leaf::signal_all(&cell.group, signal)
        .map(drop)
        .map_err(|e| Error::internal(format!("not signalled: {e}")).errno(e.errno()))
}
