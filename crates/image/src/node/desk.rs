// SPDX-License-Identifier: Apache-2.0
//! How much of a node one tenant's unpackers take: so many processes at once, and together no more
//! bytes than its quota has room for. Each gets a part of the room that is a good guess for its
//! layer; a layer that needs more is unpacked once more, alone, with all of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use model::name::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ImageError;

/// Unpackers of one tenant at once.
const PLACES: u32 = 4;
/// The least that a layer may unpack to, in bytes, where there is room.
const LEAST: u64 = 64 << 20;
/// How many times its blob's bytes it may.
const RATIO: u64 = 16;

/// The desks of all tenants that unpack something.
#[derive(Debug, Default)]
pub(super) struct Desks(Mutex<BTreeMap<Tenant, Weak<Desk>>>);

impl Desks {
    pub(super) fn of(&self, tenant: &Tenant) -> Arc<Desk> {
        let mut desks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        desks.retain(|_, desk| desk.strong_count() > 0);
        if let Some(desk) = desks.get(tenant).and_then(Weak::upgrade) {
            return desk;
        }
        let desk = Arc::new(Desk {
            places: Arc::new(Semaphore::new(PLACES as usize)),
            taken: Mutex::default(),
        });
        desks.insert(tenant.clone(), Arc::downgrade(&desk));
        desk
    }
}

/// One tenant's.
#[derive(Debug)]
pub(super) struct Desk {
    places: Arc<Semaphore>,
    /// Bytes of the shares that are out.
    taken: Mutex<u64>,
}

/// A place, with how many bytes may be unpacked there.
#[derive(Debug)]
pub(super) struct Share {
    desk: Arc<Desk>,
    pub(super) bytes: u64,
    _place: OwnedSemaphorePermit,
}

impl Desk {
    /// A place now, or none.
    pub(super) fn try_share(self: &Arc<Self>, room: u64, blob: u64) -> Option<Share> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(self.part(place, room, blob))
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// None in fact: the places are never closed.
    pub(super) async fn share(
        self: &Arc<Self>,
        room: impl FnOnce() -> u64,
        blob: u64,
    ) -> Result<Share, ImageError> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| closed())?;
        Ok(self.part(place, room(), blob))
    }

    /// Waits until no other one of the tenant's unpacks, and takes all of the room.
    ///
    /// # Errors
    /// As [`Desk::share`].
    pub(super) async fn all(
        self: &Arc<Self>,
        room: impl FnOnce() -> u64,
    ) -> Result<Share, ImageError> {
        let places = Arc::clone(&self.places).acquire_many_owned(PLACES).await;
        let places = places.map_err(|_| closed())?;
        Ok(self.part(places, room(), u64::MAX))
    }

    fn part(self: &Arc<Self>, place: OwnedSemaphorePermit, room: u64, blob: u64) -> Share {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = room.saturating_sub(*taken);
        let bytes = free.min(blob.saturating_mul(RATIO).max(LEAST));
        *taken = taken.saturating_add(bytes);
        Share {
            desk: Arc::clone(self),
            bytes,
            _place: place,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let taken = self.desk.taken.lock();
        let mut taken = taken.unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(self.bytes);
    }
}

fn closed() -> ImageError {
    ImageError::Busy {
        what: "the unpacker".to_owned(),
        by: "the node stops".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn shares_are_never_more_than_the_room() {
        let desk = Desks::default().of(&"ann".parse().unwrap());
        let room = LEAST * 3 / 2;
        let first = desk.try_share(room, 1).unwrap();
        let second = desk.try_share(room, 1).unwrap();
        assert_eq!(first.bytes, LEAST);
        assert_eq!(second.bytes, LEAST / 2);
        assert_eq!(desk.try_share(room, 1).unwrap().bytes, 0);
        let all = desk.all(|| room);
        assert!(futures_util::FutureExt::now_or_never(all).is_none());
        drop((first, second));
        let all = desk.all(|| room).await.unwrap();
        assert_eq!(all.bytes, room);
        assert!(desk.try_share(room, 1).is_none());
    }
}
