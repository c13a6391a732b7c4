// SPDX-License-Identifier: Apache-2.0
//! A tenant's read ends: an `epoll` of their own within the mover's, so that a look at all tenants
//! costs what those that are ready cost, however many pipes one of them has.

use std::os::fd::OwnedFd;

use model::name::Tenant;
use rustix::event::epoll;
use rustix::io::Errno;

use super::{Mover, Source};

/// Rooms that are kept without a source. A tenant that runs one program after the other leaves its
/// room at each end, and making one anew costs more than finding it.
pub(super) const IDLE: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) tenant: Tenant,
    pub(super) epoll: OwnedFd,
    /// Read ends in it, those included that have ended and are not drained yet.
    sources: usize,
    /// Bytes on disk that retention was not told of.
    pub(super) untold: u64,
    #[cfg(test)]
    pub(super) turns: usize,
}

impl Room {
    #[cfg(not(test))]
    pub(super) fn count_turn(&mut self) {}

    #[cfg(test)]
    pub(super) fn count_turn(&mut self) {
        self.turns += 1;
    }
}

impl Mover {
    /// The tenant's token, for a read end that is added or given up by [`Mover::leave`].
    pub(super) fn room(&mut self, tenant: &Tenant) -> Result<u64, Errno> {
        if let Some(token) = self.room_of.get(tenant).copied() {
            self.idle.retain(|idle| *idle != token);
            return Ok(token);
        }
        let room = Room {
            tenant: tenant.clone(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sources: 0,
            untold: 0,
            #[cfg(test)]
            turns: 0,
        };
        let token = self.next_token;
        self.next_token += 1;
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.epoll, &room.epoll, data, epoll::EventFlags::IN)?;
        self.rooms.insert(token, room);
        self.room_of.insert(tenant.clone(), token);
        Ok(token)
    }

    /// Reads from a source from now on; answers its token.
    pub(super) fn watch(&mut self, mut source: Source) -> Result<u64, Errno> {
        let token = self.next_token;
        self.next_token += 1;
        let data = epoll::EventData::new_u64(token);
        // A source that takes another's place may have left the room empty for a moment.
        self.idle.retain(|idle| *idle != source.room);
        if let Some(room) = self.rooms.get_mut(&source.room) {
            epoll::add(&room.epoll, &source.fd, data, epoll::EventFlags::IN)?;
            source.watched = true;
            room.sources += 1;
        }
        self.sources.insert(token, source);
        Ok(token)
    }

    /// Reads from it no more.
    pub(super) fn unwatch(&mut self, token: u64) {
        let Some(source) = self.sources.remove(&token) else {
            return;
        };
        self.pipes_grown = self.pipes_grown.saturating_sub(source.grown());
        self.leave(source.room, Some(&source));
    }

    /// A room has a source less, or was made for one that could not be watched.
    pub(super) fn leave(&mut self, token: u64, source: Option<&Source>) {
        let Some(room) = self.rooms.get_mut(&token) else {
            return;
        };
        if let Some(source) = source {
            // Init holds the pipe too: closing alone would leave it in the set.
            if source.watched
                && let Err(errno) = epoll::delete(&room.epoll, &source.fd)
            {
                tracing::warn!(uid = %source.key.uid, %errno, "an output is still watched");
            }
            room.sources = room.sources.saturating_sub(1);
        }
        if room.sources > 0 {
            return;
        }
        if room.untold > 0 {
            // Where it can't be told, the next look at the disk finds it.
            self.with.retention.grown(&room.tenant, room.untold);
            room.untold = 0;
        }
        self.idle.push_back(token);
        if self.idle.len() > IDLE
            && let Some(oldest) = self.idle.pop_front()
            && let Some(room) = self.rooms.remove(&oldest)
        {
            self.room_of.remove(&room.tenant);
            // Its set of pipes is closed with it, which takes it out of the mover's: there is no
            // other descriptor of it.
        }
    }
}
