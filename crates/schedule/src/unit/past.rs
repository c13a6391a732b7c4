// SPDX-License-Identifier: Apache-2.0
//! What becomes of a unit's runs when they are long over. Each is a record and a log, which cost
//! memory, and there is no end to a unit that is started again and again, or to units that are
//! there once: connections, `systemd-run`. So records go; what was printed isn't lost with them but
//! goes to the log of the unit's past, by the port [`Past`], before its record does.
//!
//! *Which units are gone* the manager knows (`manager/gone.rs`); how a past is stored, what is
//! wired to the port does.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use identity::Effect;
use model::error::Error;
use model::name::{Tenant, Uid};
use model::request::Remove;
use model::status::{ExecutableStatus, Object};
use model::time::Timestamp;
use units::name::UnitName;

use super::name;
use super::runs::{CELL, Runs, UNIT, cell_of, parsed, target, there};
use crate::effects::{REMOVE, STOP};

/// Activations are put away together: each time costs a look at what is there, and a write that is
/// waited for.
const TOGETHER: u64 = 16;
/// Where their past can't be stored (a full disk), so many records of a unit wait for that.
const WAIT: usize = 1024;
/// What ended a shorter while ago stays: who has started it may still read.
pub(super) const GRACE: Duration = Duration::from_secs(30);
/// Of so many units at most.
const LATEST: usize = 1024;

/// Takes what runs have printed, before their records and logs go.
pub trait Past: Send + Sync {
    /// Stores the lines of runs that have ended: of a unit with a file, or of one that is gone. The
    /// runs are in order, those of an activation together. Answers when they are on the disk; may
    /// be asked again for what it has stored, and stores it once. For that, the run that it answers
    /// must be there as long as any other one of them.
    fn keep(
        &self,
        unit: &UnitName,
        is_gone: bool,
        runs: Vec<Vec<ExecutableStatus>>,
    ) -> BoxFuture<'static, Result<Option<Uid>, Error>>;
}

/// What has come of putting away what is of units that are gone.
#[derive(Debug, Default)]
pub(super) struct Removed {
    /// Units of which nothing is left.
    pub(super) units: Vec<UnitName>,
    /// There are others, which ended of late.
    pub(super) is_more: bool,
}

/// The ended objects of a unit, with the numbers of their activations.
type Ended = Vec<(u64, Arc<Object>)>;

impl Runs {
    /// Puts away the activations of a unit up to that one, once there are enough of them.
    ///
    /// # Errors
    /// Their past can't be stored, or they can't be removed.
    pub(super) async fn forget_old(&self, unit: &UnitName, last: u64) -> Result<(), Error> {
        match are_many(&self.ended(unit, last), last) {
            true => self.put_away(unit, false, last).await,
            false => Ok(()),
        }
    }

    /// What has ended of a unit's activations up to that one.
    fn ended(&self, unit: &UnitName, last: u64) -> Ended {
        let all = self.seen_of(unit).into_iter();
        all.filter(|(number, object)| object.state().is_final() && *number <= last)
            .collect()
    }

    async fn put_away(&self, unit: &UnitName, is_gone: bool, last: u64) -> Result<(), Error> {
        // Looked at under the lock: what another has stored and is removing would be stored again.
        let _one_at_a_time = self.putting_away.lock().await;
        let mut old = self.ended(unit, last);
        if !is_gone && !are_many(&old, last) {
            return Ok(());
        }
        let kept = self.past.keep(unit, is_gone, by_activation(&old)).await;
        let last = match kept {
            Err(error) if old.len() < WAIT => return Err(error),
            Err(error) => {
                let records = old.len();
                tracing::error!(%unit, %error, records, "what a unit has printed is lost");
                None
            }
            Ok(last) => last,
        };
        old.sort_by_key(|(_, object)| Some(object.meta().uid) == last);
        for (_, object) in old {
            self.remove(&object).await?;
        }
        Ok(())
    }

    async fn remove(&self, object: &Object) -> Result<(), Error> {
        let meta = object.meta();
        let effects = vec![Effect::on(REMOVE, &meta.path), Effect::on(STOP, &meta.path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        let request = Remove {
            target: target(object),
            recursive: false,
            force: false,
        };
        there(self.runtime.remove(permit, request).await.map(drop))
    }

    /// Puts away what has run for units that aren't among those with these labels.
    pub(super) async fn put_gone_away(&self, there: &HashSet<String>) -> Removed {
        let mut removed = Removed::default();
        let now = runtime::now();
        let is_late = |ended: Timestamp| now.since(ended) < GRACE;
        for (at, (ended, unit)) in self.gone(there).into_iter().enumerate() {
            if at < LATEST && is_late(ended) {
                removed.is_more = true;
                continue;
            }
            match self.put_away(&unit, true, u64::MAX).await {
                Ok(()) => {
                    self.remove_cell(&unit).await;
                    self.forget_latest(&unit);
                    removed.units.push(unit);
                }
                Err(error) => {
                    tracing::warn!(%unit, %error, "records of units that are gone stay");
                    removed.is_more = true;
                    // What the disk refuses of one it refuses of all.
                    break;
                }
            }
        }
        removed
    }

    /// Removes the record of a unit's cell, the last of what there is of it.
    async fn remove_cell(&self, unit: &UnitName) {
        let path = cell_of(unit).ok();
        let seen = path.and_then(|path| self.runtime.seen(&Tenant::system(), &path));
        let Some(cell) = seen.filter(|it| it.state().is_final()) else {
            return;
        };
        if name::unit_of(&cell.meta().labels).as_ref() == Some(unit)
            && let Err(error) = self.remove(&cell).await
        {
            tracing::warn!(%unit, %error, "the record of a cell stays");
        }
    }

    /// Units that aren't among those, and of which nothing goes on, with the time of their last
    /// end; the last one first.
    fn gone(&self, there: &HashSet<String>) -> Vec<(Timestamp, UnitName)> {
        let (Ok(from), Ok(to)) = (parsed(CELL), parsed(&format!("{CELL}/{}", "z".repeat(60))))
        else {
            return Vec::new();
        };
        let all = self.runtime.seen_between(&Tenant::system(), &from, &to);
        let mut gone: BTreeMap<UnitName, Option<Timestamp>> = BTreeMap::new();
        for object in all {
            let labels = &object.meta().labels;
            let is_there = labels.get(UNIT).is_none_or(|it| there.contains(it));
            let unit = name::unit_of(labels).filter(|_| !is_there);
            let Some(unit) = unit else { continue };
            let ended = object.state().is_final().then(|| ended_at(&object));
            let known = gone.entry(unit).or_insert(Some(Timestamp(0)));
            *known = known.zip(ended).map(|(one, other)| one.max(other));
        }
        let ended = gone.into_iter();
        let mut gone: Vec<_> = ended.filter_map(|(unit, at)| Some((at?, unit))).collect();
        gone.sort_by_key(|(ended, _)| std::cmp::Reverse(*ended));
        gone
    }
}

/// Whether there are enough activations up to that one to be put away together.
fn are_many(old: &Ended, last: u64) -> bool {
    let first = old.iter().map(|(number, _)| *number).min();
    first.is_some_and(|first| first.saturating_add(TOGETHER) <= last)
}

/// When an object ended. An end whose time isn't known is old: of an earlier boot, or of an init
/// that died.
fn ended_at(object: &Object) -> Timestamp {
    let known = match object {
        Object::Executable(it) => it.exit.and_then(|exit| exit.finished),
        Object::Cell(_) => None,
    };
    known.unwrap_or(Timestamp(0))
}

/// The executables among these, those of an activation together.
fn by_activation(old: &Ended) -> Vec<Vec<ExecutableStatus>> {
    let mut all: BTreeMap<u64, Vec<ExecutableStatus>> = BTreeMap::new();
    for (number, object) in old {
        if let Object::Executable(status) = &**object {
            all.entry(*number).or_default().push(status.clone());
        }
    }
    all.into_values().collect()
}
