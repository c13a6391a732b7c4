// SPDX-License-Identifier: Apache-2.0
//! The FD stores of services: what a message of sd_notify(3) stores and removes, and what outlives
//! the daemon of it. Who hears the messages calls [`Manager::store_message`].

use std::os::fd::OwnedFd;

use units::job::World;
use units::name::UnitName;

use super::triggers::Happened;
use super::{Happened as Event, Manager};
use crate::unit::fdstore::{self, Checked, Message};
use crate::unit::kept::Use;

/// So many descriptors of a service wait to be looked at; more are closed.
const WAITING: usize = 64;

impl Manager {
    /// `FileDescriptorStoreMax=` of a service.
    fn most_stored(&self, unit: &UnitName) -> usize {
        let loaded = self.known.table.find(unit);
        let most = loaded.and_then(|it| it.unit.settings.number("FileDescriptorStoreMax"));
        most.and_then(|it| usize::try_from(it).ok()).unwrap_or(0)
    }

    /// Does what a message of a service says about its store. `fds` are those that came along, at
    /// most [`kernel::seqpacket::MAX_FDS`] of them.
    ///
    /// Descriptors that no message wanted are closed beside the manager: closing one may wait.
    pub(super) fn store_message(&mut self, unit: &UnitName, message: &Message, fds: Vec<OwnedFd>) {
        if message.removes {
            let name = message.name.clone().unwrap_or_default();
            let numbers = self.triggers.stores.remove(unit, &name);
            self.drop_kept(numbers);
        }
        let most = self.most_stored(unit);
        let room = match message.stores && !message.removes && self.known.activity(unit).is_up() {
            true => self.triggers.stores.room(unit, most),
            false => 0,
        };
        let waits = self.triggers.checking.get(unit).map_or(0, |it| it.len());
        let room = room.min(WAITING.saturating_sub(waits));
        let mut fds = fds;
        let too_many = fds.split_off(fds.len().min(room));
        if !too_many.is_empty() {
            let count = too_many.len();
            tracing::warn!(%unit, count, most, "descriptors are not stored: the store is full");
            drop(tokio::task::spawn_blocking(move || drop(too_many)));
        }
        if fds.is_empty() {
            return;
        }
        let idle = !self.triggers.checking.contains_key(unit);
        let queue = self.triggers.checking.entry(unit.clone()).or_default();
        queue.extend(
            fds.into_iter()
                .map(|fd| (message.name.clone(), message.polls, fd)),
        );
        if idle {
            self.check_next(unit);
        }
    }

    /// Looks at the next descriptor of a service: one after the other, so that a file that doesn't
    /// answer holds up that service's alone.
    fn check_next(&mut self, unit: &UnitName) {
        let most = self.most_stored(unit);
        let queue = self.triggers.checking.get_mut(unit);
        let Some((name, polls, fd)) = queue.and_then(std::collections::VecDeque::pop_front) else {
            self.triggers.checking.remove(unit);
            return;
        };
        let unit = unit.clone();
        self.jobs.spawn(async move {
            let checked = tokio::task::spawn_blocking(move || fdstore::check(fd)).await;
            let checked = checked.unwrap_or_else(|it| Err(it.to_string()));
            let most = u64::try_from(most).unwrap_or(u64::MAX);
            Event::Trigger(Happened::Checked(unit, most, (name, polls), checked))
        });
    }

    pub(super) fn store_checked(
        &mut self,
        unit: &UnitName,
        most: u64,
        (name, polls): (Option<String>, bool),
        checked: Result<Checked, String>,
    ) {
        match checked {
            Err(words) => tracing::warn!(%unit, words, "a descriptor is not stored"),
            // It went down meanwhile.
            Ok(_) if !self.known.activity(unit).is_up() => {}
            Ok(checked) => {
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let what = (name.as_deref(), polls);
                let stores = &mut self.triggers.stores;
                if let Some(id) = stores.put(unit, most, what, checked, None) {
                    self.keep_stored(unit, id, what);
                }
            }
        }
        self.check_next(unit);
    }

    fn keep_stored(&mut self, unit: &UnitName, id: u64, (name, polls): (Option<&str>, bool)) {
        let Some(fd) = self.triggers.stores.duplicate(unit, id) else {
            return;
        };
        let mark = if polls { '+' } else { '-' };
        let name = format!("{mark}{}", name.unwrap_or(""));
        let (descriptors, unit) = (self.triggers.descriptors.clone(), unit.clone());
        self.jobs.spawn(async move {
            let kept = descriptors.keep(Use::Store, &unit, &name, fd).await;
            let kept = kept.map_err(|it| it.to_string());
            Event::Trigger(Happened::Stored(unit, id, kept))
        });
    }

    pub(super) fn store_kept(&mut self, unit: &UnitName, id: u64, kept: Result<u64, String>) {
        match kept {
            Ok(number) if self.triggers.stores.kept(unit, id, number) => {}
            // It was taken out meanwhile.
            Ok(number) => self.drop_kept(vec![number]),
            Err(words) => {
                tracing::warn!(%unit, words, "a descriptor is not stored");
                let numbers = self.triggers.stores.ended(id);
                self.drop_kept(numbers);
            }
        }
    }

    /// Ends of what is stored are waited for, once.
    pub(super) fn wait_for_ends(&mut self) {
        if self.triggers.waits_for_ends {
            return;
        }
        let Some(ends) = self.triggers.stores.ends() else {
            return;
        };
        self.triggers.waits_for_ends = true;
        self.jobs.spawn(async move {
            let ids = fdstore::wait_for_ends(ends).await;
            Event::Trigger(Happened::Ends(ids))
        });
    }

    pub(super) fn stores_ended(&mut self, ids: Vec<u64>) {
        self.triggers.waits_for_ends = false;
        for id in ids {
            let numbers = self.triggers.stores.ended(id);
            self.drop_kept(numbers);
        }
    }

    /// Nothing is left of what a service has stored.
    pub(super) fn empty_store(&mut self, unit: &UnitName) {
        let numbers = self.triggers.stores.clear(unit);
        self.drop_kept(numbers);
    }

    /// Node-init closes what it keeps under these numbers.
    pub(super) fn drop_kept(&mut self, numbers: Vec<u64>) {
        if numbers.is_empty() {
            return;
        }
        self.room_was_made();
        let descriptors = self.triggers.descriptors.clone();
        self.jobs.spawn(async move {
            for number in numbers {
                descriptors.forget(number).await;
            }
            Event::Nothing
        });
    }

    /// What services had stored with an earlier daemon is theirs again, of those that are up.
    pub(super) fn adopt_stores(&mut self) {
        let left = self.triggers.left.keys();
        let stored = left.filter(|(what, _)| *what == Use::Store);
        let units: Vec<UnitName> = stored.map(|(_, unit)| unit.clone()).collect();
        for unit in units {
            if !self.known.activity(&unit).is_up() {
                continue;
            }
            let all = self.triggers.left.remove(&(Use::Store, unit.clone()));
            for kept in all.into_iter().flatten() {
                let (polls, name) = match kept.name.split_at_checked(1) {
                    Some(("-", name)) => (false, name),
                    Some((_, name)) => (true, name),
                    None => (true, ""),
                };
                let name = (!name.is_empty()).then_some(name);
                // It was looked at when it was stored, and only node-init has had it since.
                let checked = match fdstore::check(kept.fd) {
                    Ok(checked) => checked,
                    Err(words) => {
                        tracing::warn!(%unit, words, "a stored descriptor is dropped");
                        self.drop_kept(vec![kept.number]);
                        continue;
                    }
                };
                let number = Some(kept.number);
                let stores = &mut self.triggers.stores;
                let put = stores.put(&unit, fdstore::MOST, (name, polls), checked, number);
                if put.is_none() {
                    self.drop_kept(vec![kept.number]);
                }
            }
        }
    }
}
