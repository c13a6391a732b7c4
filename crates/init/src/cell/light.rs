// SPDX-License-Identifier: Apache-2.0
//! Light cells that a cell-init begins and ceases to serve, and the end of its own.

use std::os::fd::OwnedFd;

use kernel::Context;
use rustix::io::Errno;

use super::requests::{Outcome, failed, only, stopping};
use super::room::Room;
use super::{Cell, end};
use crate::failure::InStep;
use crate::protocol::{CellEvent, MAX_LIGHT, Record, Step, Uid};
use crate::record::KeptRecord;

impl Cell {
    /// Serves a light cell from now on.
    pub(super) fn serve_light(
        &mut self,
        asking: &Room,
        uid: Uid,
        record: Record,
        mut fds: Vec<OwnedFd>,
    ) -> Outcome {
        let record = KeptRecord::take(record, &mut fds)?;
        let listener = only(fds)?;
        if self.stop.is_some() {
            return Err(stopping());
        }
        let mut others = self.rooms.iter().flatten();
        if asking.uid == uid || others.any(|room| room.uid == uid) {
            return Err(failed(
                Step::Protocol,
                Errno::EXIST,
                "this uid is in use here",
            ));
        }
        let number = self.last_room.checked_add(1);
        let number = number.filter(|_| self.rooms.len() <= MAX_LIGHT);
        let Some(number) = number.filter(|_| self.rooms.try_reserve(1).is_ok()) else {
            return Err(failed(
                Step::Limit,
                Errno::NOMEM,
                "too many light cells in this cell",
            ));
        };
        rustix::io::ioctl_fionbio(&listener, true)
            .call("ioctl(FIONBIO)")
            .step(Step::Protocol)?;
        let room = Room::open(number, (uid, record), listener, &self.poll).step(Step::Limit)?;
        self.last_room = number;
        self.rooms.push(Some(Box::new(room)));
        Ok(())
    }

    /// Serves a light cell no more.
    pub(super) fn unlight(&mut self, uid: Uid) -> Outcome {
        let mut rooms = self.rooms.iter_mut().flatten();
        let Some(room) = rooms.find(|room| room.uid == uid && !room.is_own()) else {
            // The asking one is not among them: a cell doesn't end itself so.
            return Err(failed(
                Step::Protocol,
                Errno::SRCH,
                "no such light cell here",
            ));
        };
        if room.workloads.any_unended() {
            return Err(failed(Step::Protocol, Errno::BUSY, "workloads run in it"));
        }
        room.is_over = true;
        Ok(())
    }

    /// Ends a light cell, or the init with its own cell.
    pub(super) fn exit(&mut self, room: &mut Room, request: u64) -> Outcome {
        let is_busy = !room.workloads.0.is_empty();
        // One whose making came to nothing, or whose daemon is gone for good, holds up nothing.
        let is_used = |room: &Room| room.link.is_some() || room.workloads.any_unended();
        let mut others = self.rooms.iter().flatten();
        let serves_others = room.is_own() && others.any(|room| is_used(room));
        if is_busy || serves_others {
            let detail = "workloads run here, or have ended and are not acknowledged";
            return Err(failed(Step::Protocol, Errno::BUSY, detail));
        }
        if !room.is_own() {
            room.is_over = true;
            return Ok(());
        }
        room.post(&self.poll, &CellEvent::Done { request }, &[]);
        end()
    }
}
