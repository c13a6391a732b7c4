// SPDX-License-Identifier: Apache-2.0
//! How many transfers go on at once: of one owner, and of all. A transfer waits for its owner's
//! place first, so that an owner who waits holds none of the common places.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::RegistryError;

/// The places of all owners.
#[derive(Debug)]
pub(crate) struct Shares {
    all: Arc<Semaphore>,
    per_owner: usize,
    owners: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A transfer's places, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _own: OwnedSemaphorePermit,
    _common: OwnedSemaphorePermit,
}

impl Shares {
    pub(crate) fn new(all: usize, per_owner: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            per_owner,
            owners: Mutex::default(),
        }
    }

    /// The owner's places; they exist while one of its pulls holds this.
    pub(crate) fn of(&self, owner: &str) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|_, places| places.strong_count() > 0);
        if let Some(places) = owners.get(owner).and_then(Weak::upgrade) {
            return places;
        }
        let places = Arc::new(Semaphore::new(self.per_owner));
        owners.insert(owner.to_owned(), Arc::downgrade(&places));
        places
    }

    /// Waits for a place of the owner's, then for one of the common ones.
    pub(crate) async fn take(&self, own: &Arc<Semaphore>) -> Result<Place, RegistryError> {
        let own = own.clone().acquire_owned().await;
        let own = own.map_err(|_| RegistryError::Stopped)?;
        let common = self.all.clone().acquire_owned().await;
        let common = common.map_err(|_| RegistryError::Stopped)?;
        Ok(Place {
            _own: own,
            _common: common,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_owner_never_takes_all_places() {
        let shares = Shares::new(3, 2);
        let greedy = shares.of("a");
        let _first = shares.take(&greedy).await.unwrap();
        let _second = shares.take(&shares.of("a")).await.unwrap();
        let waits = shares.take(&greedy);
        assert!(futures_util::FutureExt::now_or_never(waits).is_none());
        let other = shares.of("b");
        assert!(futures_util::FutureExt::now_or_never(shares.take(&other)).is_some());
    }

    #[test]
    fn owners_without_a_pull_are_forgotten() {
        let shares = Shares::new(1, 1);
        let kept = shares.of("kept");
        for number in 0..100 {
            shares.of(&number.to_string());
        }
        assert!(shares.owners.lock().unwrap().len() <= 2);
        assert!(Arc::ptr_eq(&kept, &shares.of("kept")));
    }
}
