// SPDX-License-Identifier: Apache-2.0
//! How much of a log a reader may hold that its client hasn't taken yet. The readers of a tenant,
//! those of attached runs among them, share one bound: a thousand slow clients make the daemon hold
//! little more than ten. Called by [`super::LogReader`] before each look at the files.
//!
//! It counts readers and refuses none: that is what the quota of readers does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use model::name::Tenant;

/// The bytes and messages that the readers of a tenant hold together, unless they are so many that
/// each has the least.
const TOGETHER: Room = Room {
    bytes: 4 << 20,
    messages: 8192,
};
/// What one reader holds at the most …
const MOST: Room = Room {
    bytes: 256 << 10,
    messages: 512,
};
/// … and what it may always hold.
const LEAST: Room = Room {
    bytes: 4 << 10,
    messages: 8,
};

/// How much is read at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    /// Of output.
    pub(super) bytes: u64,
    pub(super) messages: usize,
}

impl Room {
    /// Of each of so many readers.
    fn among(readers: usize) -> Self {
        let readers = readers.max(1);
        let bytes = TOGETHER.bytes / u64::try_from(readers).unwrap_or(u64::MAX);
        let messages = TOGETHER.messages / readers;
        Self {
            bytes: bytes.clamp(LEAST.bytes, MOST.bytes),
            messages: messages.clamp(LEAST.messages, MOST.messages),
        }
    }
}

/// The readers of each tenant.
#[derive(Clone, Default, Debug)]
pub(crate) struct Rooms {
    tenants: Arc<Mutex<HashMap<Tenant, Weak<()>>>>,
}

impl Rooms {
    /// One more reader of this tenant, until the seat is dropped.
    pub(crate) fn enter(&self, tenant: &Tenant) -> Seat {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(readers) = tenants.get(tenant).and_then(Weak::upgrade) {
            return Seat(readers);
        }
        tenants.retain(|_, readers| readers.strong_count() > 0);
        let readers = Arc::new(());
        tenants.insert(tenant.clone(), Arc::downgrade(&readers));
        Seat(readers)
    }
}

/// A reader among those of its tenant.
#[derive(Debug)]
pub(crate) struct Seat(Arc<()>);

impl Seat {
    /// What it may read at once, as many as there are now.
    pub(super) fn room(&self) -> Room {
        Room::among(Arc::strong_count(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_readers_together_hold_no_more_than_a_few() {
        for readers in 1..5000 {
            let Room { bytes, messages } = Room::among(readers);
            let all = bytes * u64::try_from(readers).unwrap();
            let least = LEAST.bytes * u64::try_from(readers).unwrap();
            assert!(all <= TOGETHER.bytes.max(least), "{readers} hold {all}");
            assert!(messages * readers <= TOGETHER.messages.max(LEAST.messages * readers));
        }
        assert_eq!(Room::among(0), MOST);
        assert_eq!(Room::among(1), MOST);
    }

    #[test]
    fn a_tenant_s_readers_leave_another_s_room_alone() {
        let rooms = Rooms::default();
        let (blue, red) = ("blue".parse().unwrap(), "red".parse().unwrap());
        let one = rooms.enter(&red);
        let crowd: Vec<_> = (0..1000).map(|_| rooms.enter(&blue)).collect();
        assert_eq!(one.room(), MOST);
        assert_eq!(crowd.first().unwrap().room(), Room::among(1000));
        drop(crowd);
        assert_eq!(
            rooms.enter(&blue).room(),
            MOST,
            "who has gone counts no more"
        );
    }
}
