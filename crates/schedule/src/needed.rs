// SPDX-License-Identifier: Apache-2.0
//! Units as schedules need them: "after `postgresql.service`", "after the mount `srv.mount`". How a
//! unit is must be known without waiting where a schedule decides, so those that one has asked for
//! are kept here, and learnt anew when the unit manager says that one has changed. Nothing listens
//! to that manager before a schedule needs a unit.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::error::Reason;
use model::schedule::steps::UnitSeen;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};
use units::name::UnitName;

use crate::unit::{News, Units, View};

/// Units that are kept; more are those of schedules that are gone by now, and all are asked for
/// again.
const MOST: usize = 4096;

/// See the module.
#[derive(Default)]
pub(crate) struct NeededUnits {
    /// `None`: it isn't known yet.
    known: Mutex<BTreeMap<UnitName, Option<UnitSeen>>>,
    asked: Notify,
}

impl NeededUnits {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<UnitName, Option<UnitSeen>>> {
        // Nothing panics while it is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a unit is; `None`: it isn't known yet, and will be told of.
    pub(crate) fn look(&self, unit: &str) -> Option<UnitSeen> {
        let unit = UnitName::parse(unit).ok()?;
        let mut known = self.lock();
        if let Some(seen) = known.get(&unit) {
            return seen.clone();
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(unit, None);
        drop(known);
        self.asked.notify_one();
        None
    }

    /// Learns what is asked for, for as long as the unit manager lives. `tell`: one is another now.
    pub(crate) async fn keep(&self, units: &Units, tell: impl Fn()) {
        self.asked.notified().await;
        let Ok(mut news) = units.listen() else {
            return;
        };
        // What has changed before this listened is asked for, too.
        self.learn(units, |_| true, &tell).await;
        loop {
            tokio::select! {
                () = self.asked.notified() => self.learn(units, |seen| seen.is_none(), &tell).await,
                heard = news.recv() => match heard {
                    Ok(news) => self.hear(units, news, &tell).await,
                    Err(RecvError::Lagged(_)) => self.learn(units, |_| true, &tell).await,
                    Err(broadcast::error::RecvError::Closed) => return,
                },
            }
        }
    }

    async fn hear(&self, units: &Units, news: News, tell: &impl Fn()) {
        let unit = match news {
            News::Changed(unit) | News::UnitNew(unit) | News::UnitRemoved(unit) => unit,
            News::Reloading(false) => return self.learn(units, |_| true, tell).await,
            News::JobNew(..)
            | News::JobRemoved(..)
            | News::Reloading(true)
            | News::FilesChanged => {
                return;
            }
        };
        let is_known = self.lock().contains_key(&unit);
        if is_known {
            self.learn_one(units, unit, tell).await;
        }
    }

    async fn learn(
        &self,
        units: &Units,
        which: impl Fn(&Option<UnitSeen>) -> bool,
        tell: &impl Fn(),
    ) {
        for unit in self.those(which) {
            self.learn_one(units, unit, tell).await;
        }
    }

    fn those(&self, which: impl Fn(&Option<UnitSeen>) -> bool) -> Vec<UnitName> {
        let known = self.lock();
        let wanted = known.iter().filter(|(_, seen)| which(seen));
        wanted.map(|(unit, _)| unit.clone()).collect()
    }

    async fn learn_one(&self, units: &Units, unit: UnitName, tell: &impl Fn()) {
        let seen = match units.looked_at(unit.clone()).await {
            Ok(view) => seen(&view),
            Err(error) => UnitSeen {
                is: match error.reason {
                    Reason::NotFound => "isn't there".to_owned(),
                    _ => format!("can't be looked at: {error}"),
                },
                ..UnitSeen::default()
            },
        };
        let seen = Some(seen);
        let before = self.lock().insert(unit, seen.clone());
        if before != Some(seen) {
            tell();
        }
    }
}

fn seen(view: &View) -> UnitSeen {
    let status = &view.status;
    let (active, failed) = (status.active == "active", status.active == "failed");
    let was_up = status.activation > 0 && status.active == "inactive";
    let succeeded = match (status.result, failed) {
        _ if failed => Some(false),
        ("success", _) if was_up || (active && status.sub == "exited") => Some(true),
        _ => None,
    };
    let is = match status.load {
        "loaded" => format!("is {}", status.active),
        "not-found" => "isn't there".to_owned(),
        load => format!("is {load}"),
    };
    UnitSeen {
        active,
        succeeded,
        is,
    }
}
