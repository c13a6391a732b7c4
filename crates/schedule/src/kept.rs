// SPDX-License-Identifier: Apache-2.0
//! A schedule as it is published, and as it is kept: rows of the store, JSON of the model's types.

use std::collections::VecDeque;
use std::sync::Arc;

use identity::UserKey;
use model::error::Error;
use model::name::Uid;
use model::schedule::request::Named;
use model::schedule::state::Entry;
use model::schedule::{Spec, State, Why};
use model::time::Timestamp;
use store::{ScheduleEntry, ScheduleRow, Store};

/// What is wished, by whom, and since when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Which schedule.
    pub named: Named,
    /// Of this time that it was made.
    pub uid: Uid,
    /// Counts the changes of the spec.
    pub generation: u64,
    /// On whose behalf.
    pub owner: UserKey,
    /// When it was declared first.
    pub created: Timestamp,
    /// When it was declared last.
    pub changed: Timestamp,
    /// What is asked for.
    pub spec: Arc<Spec>,
}

/// What is published of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// What is wished.
    pub wish: Wish,
    /// What is known.
    pub state: State,
    /// What is in its way.
    pub why: Why,
    /// Oldest first.
    pub history: Arc<VecDeque<Entry>>,
    /// A run goes on, and a pod is ready.
    pub ready: bool,
    /// What is known isn't on the disk yet.
    pub unwritten: bool,
    /// The number of the last line of the history.
    pub(crate) lines: u64,
}

/// A schedule as an earlier daemon has left it.
pub(crate) struct Kept {
    pub(crate) wish: Wish,
    pub(crate) state: State,
    pub(crate) history: VecDeque<Entry>,
    /// The number of the last line of the history.
    pub(crate) lines: u64,
}

impl Kept {
    /// What is published before anything was looked at.
    pub(crate) fn first(&self) -> Status {
        Status {
            wish: self.wish.clone(),
            state: self.state.clone(),
            why: Why::Starting,
            history: Arc::new(self.history.clone()),
            ready: false,
            unwritten: false,
            lines: self.lines,
        }
    }

    /// As a task that broke off has left it.
    pub(crate) fn of(status: &Status) -> Self {
        Self {
            wish: status.wish.clone(),
            state: status.state.clone(),
            history: VecDeque::clone(&status.history),
            lines: status.lines,
        }
    }
}

/// The works that are kept beside a wish: that of the current revision, and the numbers of all. Of
/// what has no replicas none is.
pub(crate) fn revisions(wish: &Wish, state: &State) -> Result<Works, Error> {
    if wish.spec.replicas.is_none() {
        return Ok((None, Vec::new()));
    }
    let numbers = state.revisions.iter().map(|it| it.number);
    Ok((
        Some((state.revision, json(&wish.spec.work)?)),
        numbers.collect(),
    ))
}

/// See [`revisions`].
pub(crate) type Works = (Option<(u64, Vec<u8>)>, Vec<u64>);

pub(crate) fn row(wish: &Wish, state: &State) -> Result<ScheduleRow, Error> {
    Ok(ScheduleRow {
        tenant: wish.named.tenant.to_string(),
        name: wish.named.name.to_string(),
        uid: wish.uid.to_string(),
        generation: wish.generation,
        owner_tenant: wish.owner.tenant.to_string(),
        owner: wish.owner.name.to_string(),
        created_ns: signed(wish.created),
        changed_ns: signed(wish.changed),
        spec: json(&*wish.spec)?,
        state: json(state)?,
    })
}

pub(crate) fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    let broken = |e| Error::internal(format!("a schedule can't be kept: {e}"));
    serde_json::to_vec(value).map_err(broken)
}

pub(crate) fn entry(number: u64, entry: &Entry) -> Result<ScheduleEntry, Error> {
    Ok(ScheduleEntry {
        number,
        entry: json(entry)?,
    })
}

/// All that is kept. What can't be read was not written by this program, or by a later one: it is
/// left out, with a line in the log, and stays in the database.
pub(crate) async fn all(store: &Store) -> Result<Vec<Kept>, Error> {
    let mut all = Vec::new();
    for row in store.schedules().await? {
        let (tenant, name) = (row.tenant.clone(), row.name.clone());
        let entries = store.schedule_entries(tenant.clone(), name.clone()).await?;
        match read(row, entries) {
            Ok(kept) => all.push(kept),
            Err(error) => tracing::error!(tenant, name, error, "a schedule can't be read"),
        }
    }
    Ok(all)
}

fn read(row: ScheduleRow, entries: Vec<ScheduleEntry>) -> Result<Kept, String> {
    let said = |e: &dyn std::fmt::Display| e.to_string();
    let time = |ns: i64| Timestamp(u64::try_from(ns).unwrap_or(0));
    let spec: Spec = serde_json::from_slice(&row.spec).map_err(|e| said(&e))?;
    let wish = Wish {
        named: Named {
            tenant: row.tenant.parse().map_err(|e| said(&e))?,
            name: row.name.parse().map_err(|e| said(&e))?,
        },
        uid: row.uid.parse().map_err(|e| said(&e))?,
        generation: row.generation,
        owner: UserKey {
            tenant: row.owner_tenant.parse().map_err(|e| said(&e))?,
            name: row.owner.parse().map_err(|e| said(&e))?,
        },
        created: time(row.created_ns),
        changed: time(row.changed_ns),
        spec: Arc::new(spec),
    };
    let lines = entries.last().map_or(0, |entry| entry.number);
    let entries = entries.iter();
    let history = entries.filter_map(|it| serde_json::from_slice(&it.entry).ok());
    Ok(Kept {
        state: serde_json::from_slice(&row.state).map_err(|e| said(&e))?,
        history: history.collect(),
        lines,
        wish,
    })
}

fn signed(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
