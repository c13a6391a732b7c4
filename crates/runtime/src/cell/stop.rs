// SPDX-License-Identifier: Apache-2.0
//! Asking to end, and signalling. The intent is in the record before any signal is sent, so that a
//! stop goes on under the next daemon; the deadline runs from the moment it was asked for.

use std::sync::Arc;
use std::time::Duration;

use init::protocol::CellRequest;
use kernel::cgroup::Cgroup;
use model::error::Error;
use model::lifecycle::Event as Life;
use model::lifecycle::cell::Event as End;
use model::name::Uid;
use model::signal::Signal;
use model::status::Object;
use tokio::time::Instant;

use super::executable::Executable;
use super::owner::{Call, Event, Owner};
use super::{Reply, Request, leaf};
use crate::record::{self, StopIntent};

impl Owner {
    /// Asks an executable to end. A second stop can only shorten the first one's grace.
    pub(super) fn stop(
        &mut self,
        uid: Uid,
        grace: Option<Duration>,
        reply: Option<Reply<Arc<Object>>>,
    ) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            if let Some(reply) = reply {
                let _ = reply.send(self.object(uid));
            }
            return;
        };
        let allowed = grace.unwrap_or(executable.effective.stop_grace);
        let first = executable.record.stop.is_none() && executable.exit.is_none();
        executable.waiting.extend(reply);
        if first {
            executable.record.stop = Some(StopIntent {
                at: crate::now(),
                grace: Some(allowed),
            });
            let _ = executable.step(Life::Stop);
            let bytes = record::encode(&executable.record);
            self.publish_executable(uid);
            self.write_intent(uid, bytes);
        }
        self.kill_by(uid, Instant::now() + allowed);
    }

    fn write_intent(&mut self, uid: Uid, bytes: Result<Vec<u8>, Error>) {
        match bytes {
            Ok(record) => {
                let wire = record::wire(uid);
                self.call(Call::StopIntent(uid), Vec::new(), |request| {
                    CellRequest::PutRecord {
                        request,
                        uid: wire,
                        record,
                    }
                });
            }
            // A full record has no room for the intent; the stop itself must still be carried out.
            Err(error) => {
                tracing::warn!(%error, "a stop is not in the record: it won't survive the daemon");
                self.stop_written(uid);
            }
        }
    }

    /// The intent is written: now the signal.
    pub(super) fn stop_written(&mut self, uid: Uid) {
        let Some(executable) = self.executables.get(&uid) else {
            return;
        };
        if executable.exit.is_some() {
            return;
        }
        let signal = executable.effective.stop_signal.number();
        thaw_leaf(&executable.leaf);
        let uid = record::wire(uid);
        self.call(Call::Noted("the stop signal"), Vec::new(), |request| {
            CellRequest::Signal {
                request,
                uid,
                signal,
            }
        });
    }

    /// A stop that an earlier daemon began: the signal again, and what is left of the grace.
    pub(super) fn resume_stop(&mut self, uid: Uid) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        let Some(intent) = executable.record.stop else {
            return;
        };
        let _ = executable.step(Life::Stop);
        let allowed = intent.grace.unwrap_or(executable.effective.stop_grace);
        let passed = crate::now().since(intent.at);
        let due = Instant::now() + allowed.saturating_sub(passed);
        self.kill_by(uid, due);
        self.stop_written(uid);
    }

    /// Asks everything in the cell to end, the nested cells too, and then the cell.
    pub(super) fn stop_cell(&mut self, grace: Option<Duration>) {
        if !self.ending.has_begun() && self.record.stop.is_none() {
            self.record.stop = Some(StopIntent {
                at: crate::now(),
                grace,
            });
            self.put_record("that the cell is to stop");
        }
        self.ends(End::Stop { grace });
    }

    /// No request for something new in the cell is taken any more; one for a new cell of its name
    /// waits for its end.
    pub(crate) fn close(&self) {
        // Never refused: that something lives in it doesn't matter here.
        let _ = self.shared.index.close(&self.key, false);
    }

    pub(super) fn stop_nested(&self, grace: Option<Duration>) {
        let nested = self.shared.index.nested(&self.key);
        self.beside(async move {
            let stops = nested.iter().map(|cell| async move {
                // A cell that has ended meanwhile can't be asked, and needn't.
                let _ = cell.ask(|reply| Request::StopCell { grace, reply }).await;
                cell.ended().await;
            });
            futures_util::future::join_all(stops).await;
            Event::NestedEnded
        });
    }

    /// Replaces the cell's own record; what depends on it is not waited for.
    pub(super) fn put_record(&mut self, what: &'static str) {
        match record::encode(&self.record) {
            Ok(record) => self.call(Call::Noted(what), Vec::new(), |request| {
                CellRequest::PutCellRecord { request, record }
            }),
            Err(error) => {
                tracing::warn!(cell = %self.key.path, %error, "not in the record: {what}")
            }
        }
    }

    pub(super) fn signal(
        &mut self,
        uid: Uid,
        signal: Signal,
        all: bool,
        reply: Reply<Arc<Object>>,
    ) {
        let Some(executable) = self.executables.get(&uid) else {
            let _ = reply.send(Err(ended(self.object(uid))));
            return;
        };
        if all {
            let _ =
                reply.send(signal_everybody(executable, signal).and_then(|()| self.object(uid)));
            return;
        }
        if executable.exit.is_some() {
            let _ = reply.send(Err(ended(self.object(uid))));
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
}

fn signal_everybody(executable: &Executable, signal: Signal) -> Result<(), Error> {
    if signal == Signal::KILL {
        leaf::kill(&executable.leaf);
        return Ok(());
    }
    let number = i32::from(signal.number());
    let signal = kernel::signal::Signal::from_number(number)
        .ok_or_else(|| Error::invalid("signal", "is not a signal of this kernel"))?;
    leaf::signal_all(&executable.leaf, signal)
        .map(drop)
        .map_err(|e| Error::internal(format!("not signalled: {e}")).errno(e.errno()))
}

fn ended(object: Result<Arc<Object>, Error>) -> Error {
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
