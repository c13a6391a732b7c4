// SPDX-License-Identifier: Apache-2.0
//! The owner's side of every end: it tells an event to the machine of that end, and hands each
//! effect to [`super::finish`] (of an executable) or [`super::ending`] (of the cell). Here are done
//! the effects that concern more than one object: what the cell-init is told, the stop of the
//! executables, and the end of a cell that goes with an executable. So is the loss of a cell-init.

use std::time::Duration;

use init::protocol::{CellRequest, ExitRecord};
use model::error::Error;
use model::exit::Exit;
use model::lifecycle::Event as Life;
use model::lifecycle::cell::{self, Event as CellEnd};
use model::lifecycle::executable::{Effect, Event as End};
use model::name::Uid;

use super::executable::{Executable, condition, exit_of};
use super::owner::{Call, Owner};
use super::state::Cell;
use crate::link::LinkError;
use crate::record;

/// The ends of executables.
impl Owner {
    /// The cell-init says that a main process has ended.
    pub(super) fn exited(&mut self, uid: Uid, exit: ExitRecord) {
        match self.executables.get(&uid) {
            Some(executable) if executable.exit.is_none() => self.main_left(uid, exit_of(&exit)),
            Some(_) => {}
            // Started, given up for lost and killed: only this acknowledges it.
            None => self.acknowledge(uid),
        }
    }

    pub(super) fn main_ended(&mut self, uid: Uid, exit: Exit) {
        self.reports(uid, |executable, cell| {
            let event = executable.main_ended(exit);
            executable.tell_starter(cell);
            event
        });
    }

    /// Something happened to an executable, which says what that is to its end.
    pub(super) fn reports(&mut self, uid: Uid, report: impl FnOnce(&mut Executable, &Cell) -> End) {
        if let Some(executable) = self.executables.get_mut(&uid) {
            let event = report(executable, &self.cell);
            self.happened(uid, event);
        }
    }

    /// Something that the end of an executable depends on.
    pub(super) fn happened(&mut self, uid: Uid, event: End) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        let (effects, is_over) = executable.after(event);
        for effect in effects {
            match effect {
                Effect::Acknowledge => self.acknowledge(uid),
                effect => self.executables.carry_out(uid, effect, &self.cell),
            }
        }
        // Once: an effect may find the cell-init lost, which every executable here is told.
        if is_over {
            self.over(uid);
        } else if event == End::NotStored && self.ending.has_begun() {
            self.let_go(uid);
        }
    }

    /// The cell ends, which waits for no store.
    fn let_go(&mut self, uid: Uid) {
        let unstored = self.executables.get(&uid).filter(|it| it.is_unstored());
        if let Some(executable) = unstored {
            let path = &executable.record.meta.path;
            tracing::warn!(executable = %path, "its cell ends before its end could be stored");
        }
        self.happened(uid, End::LetGo);
    }

    pub(super) fn acknowledge(&mut self, uid: Uid) {
        let uid = record::wire(uid);
        self.tell(&CellRequest::Ack { uid });
    }

    /// Its end is dealt with.
    fn over(&mut self, uid: Uid) {
        self.executables.remove(&uid);
        if self.cell.goes_with(uid) {
            self.stop_cell(None);
        }
        self.cell.make_room();
    }
}

/// The end of the cell.
impl Owner {
    /// Says that nothing runs in it any more, where that is so. Called after every event.
    pub(super) fn advance(&mut self) {
        if self.ending.has_begun() && self.executables.are_idle() {
            self.ends(CellEnd::ExecutablesEnded);
        }
    }

    /// A stop that nothing of an executable outlives.
    pub(super) fn stop_with_cell(&mut self, uid: Uid, grace: Option<Duration>) {
        if let Some(executable) = self.executables.get_mut(&uid) {
            executable.end_with_cell();
        }
        self.stop(uid, grace, None);
    }

    /// Something that the end of the cell depends on.
    pub(super) fn ends(&mut self, event: CellEnd) {
        let began_before = self.ending.has_begun();
        let effects = self.ending.after(event, &self.cell);
        if !began_before && self.ending.has_begun() {
            for uid in self.executables.uids() {
                self.let_go(uid);
            }
        }
        for effect in effects {
            match effect {
                cell::Effect::StopExecutables { grace } => {
                    for uid in self.executables.uids() {
                        self.stop_with_cell(uid, grace);
                    }
                }
                cell::Effect::TellInit => self.call(Call::Exit, Vec::new(), |request| {
                    CellRequest::Exit { request }
                }),
                effect => {
                    if let Some(event) = self.ending.carry_out(effect, &mut self.cell) {
                        self.ends(event);
                    }
                }
            }
        }
    }
}

/// An init that is gone.
impl Owner {
    /// The cell-init broke an agreement.
    pub(super) fn protocol_error(&mut self, what: &str) {
        let error = LinkError::Malformed(what.to_owned());
        self.silent(&error);
    }

    /// The cell-init can't be talked to any more. One that has ended is waited for; one that hasn't
    /// is hostile or broken, and its cell is killed.
    pub(super) fn silent(&mut self, error: &LinkError) {
        if !self.exchange.is_linked() {
            return;
        }
        let expected = self.ending.expects_silence();
        if !expected && self.outlives(error) {
            return;
        }
        self.exchange.close();
        if !expected {
            tracing::warn!(cell = %self.cell.key.path, %error, "the cell's init is lost");
            self.lose(&error.to_string(), CellEnd::Lost);
        }
        self.ending.await_init(expected, &self.cell);
    }

    pub(super) fn init_ended(&mut self, pid: i32, exit: Option<ExitRecord>) {
        if pid != self.ending.init_pid() {
            // Another one has taken its place since.
            return;
        }
        let is_awaited = !self.ending.expects_silence() && exit.is_some();
        if self.exchange.is_suspended() || is_awaited && self.outlives(&LinkError::Closed) {
            if let Some(exit) = exit {
                self.init_died(&exit);
            }
            return;
        }
        self.exchange.close();
        self.cell.status.pid = None;
        if self.ending.expects_silence() {
            return self.ends(CellEnd::InitEnded);
        }
        tracing::warn!(cell = %self.cell.key.path, ?exit, "the cell's init has ended");
        self.lose("the cell's init has ended", CellEnd::InitEnded);
    }

    /// Everything here ends now; how is not known.
    pub(super) fn lose(&mut self, why: &str, event: CellEnd) {
        self.ends(event);
        self.cell.step(Life::Stop);
        let condition = condition("InitLost", "CellInitEnded", why.to_owned());
        self.cell.status.conditions.push(condition);
        for uid in self.executables.starting_uids() {
            let error = Error::internal(format!("the cell's init was lost: {why}"));
            self.executables.not_started(uid, error, &self.cell);
        }
        for uid in self.executables.uids() {
            self.reports(uid, |executable, _| executable.lost(why));
        }
        // The callers that wait for an answer of the cell-init are told so.
        self.exchange.forget();
        self.updates.forget();
    }
}
