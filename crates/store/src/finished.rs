// SPDX-License-Identifier: Apache-2.0
//! Finished runs: what `Get` and `List` show of an executable after its end, until it is removed,
//! replaced or aged out. Keyed by uid; putting the same one twice is harmless, so a daemon may
//! store, die before it acknowledges to init, and store again.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Durability, Store, StoreError};

use model::name::Uid;

/// One finished run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Unique to the run.
    pub uid: Uid,
    /// Whose it was.
    pub tenant: String,
    /// Where it was.
    pub path: String,
    /// `cell` or `executable`.
    pub kind: String,
    /// `CLOCK_REALTIME`, nanoseconds.
    pub finished_ns: i64,
    /// The request that started it, where one was named.
    pub request_id: Option<String>,
    /// The status, as JSON; the store doesn't look into it.
    pub record: Vec<u8>,
}

const COLUMNS: &str = "uid, tenant, path, kind, finished_ns, request_id, record";

impl Store {
    /// Stores a finished run, replacing one of the same uid. Survives `kill -9` at once and a power
    /// loss within moments: after one, the workload itself is gone too.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work: don't acknowledge the exit then.
    pub async fn put_finished(&self, run: Finished) -> Result<(), StoreError> {
        self.write(Durability::Kernel, move |c| insert(c, &run))
            .await
    }

    /// One run, by uid.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn finished(&self, uid: Uid) -> Result<Option<Finished>, StoreError> {
        self.read(move |c| {
            c.prepare_cached(&format!("SELECT {COLUMNS} FROM finished WHERE uid = ?1"))?
                .query_row([uid.0], from_row)
                .optional()
        })
        .await
    }

    /// Those of these runs that are there, in no order.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn finished_of(&self, uids: Vec<Uid>) -> Result<Vec<Finished>, StoreError> {
        self.read(move |c| {
            let mut query =
                c.prepare_cached(&format!("SELECT {COLUMNS} FROM finished WHERE uid = ?1"))?;
            let mut found = Vec::new();
            for uid in uids {
                found.extend(query.query_row([uid.0], from_row).optional()?);
            }
            Ok(found)
        })
        .await
    }

    /// Finished runs of all tenants by uid, at most `limit`, beginning after the uid `after` where
    /// that is given.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn list_finished(
        &self,
        after: Option<Uid>,
        limit: u32,
    ) -> Result<Vec<Finished>, StoreError> {
        self.read(move |c| {
            let after = after.map(|uid| uid.0.to_vec()).unwrap_or_default();
            c.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM finished WHERE uid > ?1 ORDER BY uid LIMIT ?2"
            ))?
            .query_map(params![after, limit], from_row)?
            .collect()
        })
        .await
    }

    /// Forgets runs; those that aren't there are no error. Answers how many were.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn remove_finished(&self, uids: Vec<Uid>) -> Result<usize, StoreError> {
        self.write(Durability::Kernel, move |c| delete(c, &uids))
            .await
    }

    /// The same for runs whose removal no caller waits for: it costs no transaction of its own
    /// where another write comes within a second. Until then a daemon that dies leaves them there.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn remove_finished_later(&self, uids: Vec<Uid>) -> Result<usize, StoreError> {
        self.write_later(Durability::Kernel, move |c| delete(c, &uids))
            .await
    }
}

fn delete(c: &Connection, uids: &[Uid]) -> rusqlite::Result<usize> {
    let mut delete = c.prepare_cached("DELETE FROM finished WHERE uid = ?1")?;
    let mut removed = 0;
    for uid in uids {
        removed += delete.execute([uid.0])?;
    }
    Ok(removed)
}

fn insert(c: &Connection, run: &Finished) -> rusqlite::Result<()> {
    c.prepare_cached(
        "INSERT OR REPLACE INTO finished (uid, tenant, path, kind, finished_ns, request_id, record)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        run.uid.0,
        run.tenant,
        run.path,
        run.kind,
        run.finished_ns,
        run.request_id,
        run.record
    ])
    .map(drop)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Finished> {
    Ok(Finished {
        uid: Uid(row.get(0)?),
        tenant: row.get(1)?,
        path: row.get(2)?,
        kind: row.get(3)?,
        finished_ns: row.get(4)?,
        request_id: row.get(5)?,
        record: row.get(6)?,
    })
}
