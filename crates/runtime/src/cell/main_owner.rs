// SPDX-License-Identifier: Apache-2.0
//! The owner's side of main processes ([`super::main_process`]): what the cell-init is told of
//! them, and what comes of it.

use std::sync::Arc;

use init::protocol::{CellRequest, ExitRecord, Failure};
use model::error::{Error, Reason};
use model::exit::Exit;
use model::lifecycle::executable::Event as End;
use model::name::Uid;
use model::signal::Signal;
use model::status::Object;
use tokio::time::Instant;

use super::executable::exit_of;
use super::main_process::{self, Found, Main};
use super::owner::{Call, Owner};
use super::{Reply, leaf};
use crate::record::{self, Written};

impl Owner {
    /// The first process of an executable has exited with 0, and isn't the main one.
    pub(super) fn forked(&mut self, uid: Uid, exit: &ExitRecord) {
        let init = self.ending.init_pid();
        match self.executables.get_mut(&uid) {
            Some(executable) if executable.main == Main::First => {
                executable.forked(exit_of(exit), init, &self.cell);
                if executable.record.stop.is_some() {
                    // The signal went to the first process, which had ended by then.
                    self.stop_written(uid);
                }
            }
            Some(_) => {}
            // Started, given up for lost and killed: only this acknowledges it.
            None => self.acknowledge(uid),
        }
    }

    /// The main process has ended. That is the executable's end, unless another has taken its
    /// place: by its PID file, or by what a subsystem has just said.
    pub(super) fn main_left(&mut self, uid: Uid, exit: Exit) {
        let (init, is_told) = (self.ending.init_pid(), self.is_told_main(uid));
        match self.executables.get_mut(&uid) {
            Some(executable) if is_told => executable.left = Some(exit),
            Some(executable) if executable.may_move() => {
                executable.look_for_successor(exit, init, &self.cell);
            }
            _ => self.main_ended(uid, exit),
        }
    }

    /// Whether the cell-init is being told which process is its main one.
    fn is_told_main(&self, uid: Uid) -> bool {
        let of = |call: &Call| matches!(call, Call::Main { uid: its, .. } if *its == uid);
        self.exchange.awaits(of)
    }

    /// It was looked for.
    pub(super) fn main_found(&mut self, uid: Uid, found: Option<Box<Found>>) {
        let is_told = self.is_told_main(uid);
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        let is_left = executable.left.is_some();
        match found {
            Some(found) if is_left => self.tell_main(uid, *found, None),
            None if is_left && !is_told => self.not_moved(uid),
            Some(found) if executable.main == Main::Seeking => {
                executable.main = Main::Asked;
                self.tell_main(uid, *found, None);
            }
            Some(_) => {}
            None if executable.main == Main::Seeking => executable.settled(None, &self.cell),
            None => {}
        }
    }

    /// A subsystem of the node says which one it is.
    pub(super) fn put_main(&mut self, uid: Uid, pid: i32, reply: Reply<Arc<Object>>) {
        let running = self.executables.get_mut(&uid);
        let Some(executable) = running.filter(|it| it.exit.is_none()) else {
            let _ = reply.send(Err(super::stop::ended(self.cell.object(uid))));
            return;
        };
        let init = self.ending.init_pid();
        match main_process::of_group(pid, &self.cell.group, init) {
            Some(found) => {
                if executable.main.is_headless() {
                    executable.main = Main::Asked;
                }
                self.tell_main(uid, found, Some(reply));
            }
            None => {
                let _ = reply.send(Err(main_process::refused(uid, pid)));
            }
        }
    }

    /// No other process has taken the place of the main one.
    fn not_moved(&mut self, uid: Uid) {
        let executable = self.executables.get_mut(&uid);
        if let Some(exit) = executable.and_then(|it| it.left.take()) {
            self.main_ended(uid, exit);
        }
    }

    fn tell_main(&mut self, uid: Uid, found: Found, reply: Option<Reply<Arc<Object>>>) {
        let Found { pidfd, pid, inside } = found;
        let call = Call::Main { uid, pid, reply };
        self.call(call, vec![pidfd], |request| CellRequest::Main {
            request,
            uid: record::wire(uid),
            pid: inside,
        });
    }

    /// The cell-init knows it.
    pub(super) fn main_known(&mut self, uid: Uid, pid: i32, reply: Option<Reply<Arc<Object>>>) {
        let spare = self.cell.outlives_its_init();
        if let Some(executable) = self.executables.get_mut(&uid) {
            let found = spare.then(|| main_process::of_group(pid, &self.cell.group, pid));
            executable.spare.process = found.flatten().map(|found| found.pidfd);
            executable.left = None;
            executable.settled(Some(pid), &self.cell);
        }
        if let Some(reply) = reply {
            let _ = reply.send(self.cell.object(uid));
        }
    }

    /// The cell-init refuses it: the executable has ended meanwhile.
    pub(super) fn main_refused(
        &mut self,
        uid: Uid,
        failure: &Failure,
        reply: Option<Reply<Arc<Object>>>,
    ) {
        if let Some(executable) = self.executables.get_mut(&uid)
            && executable.main == Main::Asked
        {
            executable.settled(None, &self.cell);
        }
        if !self.is_told_main(uid) {
            self.not_moved(uid);
        }
        if let Some(reply) = reply {
            let error = super::start::failure("the main process was not changed", failure);
            let _ = reply.send(Err(error));
        }
    }

    /// Nothing lives in its leaf. Where no process is the main one, that is its end.
    pub(super) fn leaf_emptied(&mut self, uid: Uid) {
        let executable = self.executables.get(&uid);
        match executable.and_then(|it| it.headless_end()) {
            Some(exit) => self.main_ended(uid, exit),
            None => self.happened(uid, End::Emptied),
        }
    }

    /// It was asked to end, and had its time: where its main process alone is to be killed, that is
    /// done here, by its final signal and then by SIGKILL. Where nothing is, who waits is told.
    pub(super) fn grace_over(&mut self, uid: Uid) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        executable.grace = None;
        if !executable.kills() {
            return executable.left_behind();
        }
        // Where it goes with its cell the whole leaf is killed by itself.
        if executable.exit.is_some() || !executable.leaves_others() {
            return;
        }
        if executable.main.is_headless() {
            // What it forked has no main process: all of it is what is stopped.
            return executable.watch_leaf(Some(Instant::now()), &self.cell);
        }
        let last = executable.effective.final_signal;
        let signal = match executable.is_last_said {
            true => Signal::KILL,
            false => last,
        };
        executable.is_last_said = true;
        if signal != Signal::KILL {
            executable.tell_grace(Instant::now() + leaf::LAST_GRACE, &self.cell);
        }
        let signal = signal.number();
        let uid = record::wire(uid);
        self.call(Call::Noted("the final signal"), Vec::new(), |request| {
            CellRequest::Signal {
                request,
                uid,
                signal,
            }
        });
    }

    /// Whether a light cell can be served: a new one, or one that is there.
    pub(super) fn admits_light(&self, is_there: bool) -> Result<(), Error> {
        let is_closed = self.ending.has_begun() && !is_there;
        if !is_closed && self.exchange.is_open() {
            return Ok(());
        }
        let message = format!("the cell {} is stopping", self.cell.key.path);
        Err(Error::new(Reason::WrongState, message))
    }

    /// Has the cell-init serve a light cell.
    pub(super) fn serve_light(
        &mut self,
        uid: Uid,
        written: Written,
        listener: std::os::fd::OwnedFd,
        reply: Reply<()>,
    ) {
        let uid = record::wire(uid);
        let Written { record, file } = written;
        let fds = [listener].into_iter().chain(file).collect();
        self.call(Call::Light(reply), fds, |request| CellRequest::Light {
            request,
            uid,
            record,
        });
    }
}
