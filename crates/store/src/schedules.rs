// SPDX-License-Identifier: Apache-2.0
//! Schedules: what users wish, what is known of each, and how their last runs ended. Rows are
//! opaque here (JSON of `model::schedule`); what they mean is the subsystem schedule's.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Durability, Store, StoreError};

/// One schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleRow {
    /// The tenant that it belongs to.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Another one for each time that it is made anew: 32 hexadecimal digits.
    pub uid: String,
    /// Counts the changes of the wish.
    pub generation: u64,
    /// The tenant of the user on whose behalf it acts.
    pub owner_tenant: String,
    /// That user's name.
    pub owner: String,
    /// When it was declared first: `CLOCK_REALTIME`, nanoseconds.
    pub created_ns: i64,
    /// When it was declared last.
    pub changed_ns: i64,
    /// The wish: JSON.
    pub spec: Vec<u8>,
    /// What is known of it: JSON.
    pub state: Vec<u8>,
}

/// One line of a schedule's history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleEntry {
    /// Grows by one with each line.
    pub number: u64,
    /// The entry as JSON.
    pub entry: Vec<u8>,
}

impl Store {
    /// Keeps a schedule, over the one of that name, with the work of a revision where it is a new
    /// one; of those, the ones in `revisions` stay.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn put_schedule(
        &self,
        row: ScheduleRow,
        work: Option<(u64, Vec<u8>)>,
        revisions: Vec<u64>,
    ) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            keep_revisions(c, &row, work.as_ref(), &revisions)?;
            c.prepare_cached(
                "INSERT INTO schedules (tenant, name, uid, generation, owner_tenant, owner,
                     created_ns, changed_ns, spec, state)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT (tenant, name) DO UPDATE SET uid = excluded.uid,
                     generation = excluded.generation, owner_tenant = excluded.owner_tenant,
                     owner = excluded.owner, created_ns = excluded.created_ns,
                     changed_ns = excluded.changed_ns, spec = excluded.spec,
                     state = excluded.state",
            )?
            .execute(params![
                row.tenant,
                row.name,
                row.uid,
                i64::try_from(row.generation).unwrap_or(i64::MAX),
                row.owner_tenant,
                row.owner,
                row.created_ns,
                row.changed_ns,
                row.spec,
                row.state
            ])
            .map(drop)
        })
        .await
    }

    /// Keeps what is known of a schedule, with new lines of its history, of which the newest `keep`
    /// stay. A schedule that isn't there any more stays away.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn keep_schedule(
        &self,
        tenant: String,
        name: String,
        state: Vec<u8>,
        entries: Vec<ScheduleEntry>,
        keep: u64,
    ) -> Result<(), StoreError> {
        self.write(Durability::Kernel, move |c| {
            let known = c
                .prepare_cached("UPDATE schedules SET state = ?3 WHERE tenant = ?1 AND name = ?2")?
                .execute(params![tenant, name, state])?;
            let newest = entries.iter().map(|entry| entry.number).max();
            if let (1.., Some(newest)) = (known, newest) {
                add(c, &tenant, &name, &entries)?;
                let oldest = newest.saturating_sub(keep);
                c.prepare_cached(
                    "DELETE FROM schedule_entries
                     WHERE tenant = ?1 AND name = ?2 AND number <= ?3",
                )?
                .execute(params![tenant, name, signed(oldest)])?;
            }
            Ok(())
        })
        .await
    }

    /// Forgets a schedule and its history.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn remove_schedule(&self, tenant: String, name: String) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached("DELETE FROM schedule_entries WHERE tenant = ?1 AND name = ?2")?
                .execute([&tenant, &name])?;
            c.prepare_cached("DELETE FROM schedule_revisions WHERE tenant = ?1 AND name = ?2")?
                .execute([&tenant, &name])?;
            c.prepare_cached("DELETE FROM schedules WHERE tenant = ?1 AND name = ?2")?
                .execute([&tenant, &name])
                .map(drop)
        })
        .await
    }

    /// All schedules, by tenant and name.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn schedules(&self) -> Result<Vec<ScheduleRow>, StoreError> {
        self.read(move |c| {
            c.prepare_cached(
                "SELECT tenant, name, uid, generation, owner_tenant, owner, created_ns, changed_ns,
                     spec, state
                 FROM schedules ORDER BY tenant, name",
            )?
            .query_map([], schedule)?
            .collect()
        })
        .await
    }

    /// The work of a revision of a schedule; `None`: it isn't kept.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn schedule_revision(
        &self,
        tenant: String,
        name: String,
        number: u64,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(move |c| {
            c.prepare_cached(
                "SELECT work FROM schedule_revisions
                 WHERE tenant = ?1 AND name = ?2 AND number = ?3",
            )?
            .query_row(params![tenant, name, signed(number)], |row| row.get(0))
            .optional()
        })
        .await
    }

    /// The history of one schedule, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn schedule_entries(
        &self,
        tenant: String,
        name: String,
    ) -> Result<Vec<ScheduleEntry>, StoreError> {
        self.read(move |c| {
            c.prepare_cached(
                "SELECT number, entry FROM schedule_entries
                 WHERE tenant = ?1 AND name = ?2 ORDER BY number",
            )?
            .query_map([tenant, name], |row| {
                Ok(ScheduleEntry {
                    number: row.get(0).map(unsigned)?,
                    entry: row.get(1)?,
                })
            })?
            .collect()
        })
        .await
    }
}

fn keep_revisions(
    c: &Connection,
    row: &ScheduleRow,
    work: Option<&(u64, Vec<u8>)>,
    revisions: &[u64],
) -> rusqlite::Result<()> {
    if let Some((number, work)) = work {
        c.prepare_cached(
            "INSERT OR REPLACE INTO schedule_revisions (tenant, name, number, work)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![row.tenant, row.name, signed(*number), work])?;
    }
    let mut known =
        c.prepare_cached("SELECT number FROM schedule_revisions WHERE tenant = ?1 AND name = ?2")?;
    let numbers = known
        .query_map([&row.tenant, &row.name], |it| it.get(0).map(unsigned))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut remove = c.prepare_cached(
        "DELETE FROM schedule_revisions WHERE tenant = ?1 AND name = ?2 AND number = ?3",
    )?;
    for number in numbers.iter().filter(|it| !revisions.contains(it)) {
        remove.execute(params![row.tenant, row.name, signed(*number)])?;
    }
    Ok(())
}

fn add(
    c: &Connection,
    tenant: &str,
    name: &str,
    entries: &[ScheduleEntry],
) -> rusqlite::Result<()> {
    let mut insert = c.prepare_cached(
        "INSERT OR REPLACE INTO schedule_entries (tenant, name, number, entry)
         VALUES (?1, ?2, ?3, ?4)",
    )?;
    for entry in entries {
        insert.execute(params![tenant, name, signed(entry.number), entry.entry])?;
    }
    Ok(())
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn schedule(row: &Row<'_>) -> rusqlite::Result<ScheduleRow> {
    Ok(ScheduleRow {
        tenant: row.get(0)?,
        name: row.get(1)?,
        uid: row.get(2)?,
        generation: row.get(3).map(unsigned)?,
        owner_tenant: row.get(4)?,
        owner: row.get(5)?,
        created_ns: row.get(6)?,
        changed_ns: row.get(7)?,
        spec: row.get(8)?,
        state: row.get(9)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> ScheduleRow {
        ScheduleRow {
            tenant: "acme".into(),
            name: name.into(),
            uid: "00".repeat(16),
            generation: 1,
            owner_tenant: "acme".into(),
            owner: "ann".into(),
            created_ns: 1,
            changed_ns: 1,
            spec: b"{}".to_vec(),
            state: b"{}".to_vec(),
        }
    }

    fn entries(numbers: std::ops::Range<u64>) -> Vec<ScheduleEntry> {
        let entry = |number| ScheduleEntry {
            number,
            entry: b"{}".to_vec(),
        };
        numbers.map(entry).collect()
    }

    #[tokio::test]
    async fn a_history_is_as_long_as_it_may_be_and_goes_with_its_schedule() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let work = |number| Some((number, b"{}".to_vec()));
        store
            .put_schedule(row("web"), work(1), vec![1])
            .await
            .unwrap();
        store
            .put_schedule(row("web"), work(2), vec![1, 2])
            .await
            .unwrap();
        store.put_schedule(row("web"), None, vec![2]).await.unwrap();
        let revision = async |number| {
            let found = store.schedule_revision("acme".into(), "web".into(), number);
            found.await.unwrap().is_some()
        };
        assert_eq!((revision(1).await, revision(2).await), (false, true));
        let key = || ("acme".to_owned(), "web".to_owned());
        let numbers = async || {
            let (tenant, name) = key();
            let kept = store.schedule_entries(tenant, name).await.unwrap();
            kept.iter().map(|entry| entry.number).collect::<Vec<_>>()
        };
        let keep = async |numbers, keep| {
            let (tenant, name) = key();
            let state = b"[]".to_vec();
            let kept = store.keep_schedule(tenant, name, state, entries(numbers), keep);
            kept.await.unwrap();
        };
        keep(1..4, 2).await;
        assert_eq!(numbers().await, [2, 3]);
        keep(4..6, 3).await;
        assert_eq!(numbers().await, [3, 4, 5]);
        assert_eq!(store.schedules().await.unwrap()[0].state, b"[]");
        let (tenant, name) = key();
        store.remove_schedule(tenant, name).await.unwrap();
        keep(6..7, 3).await;
        assert_eq!(numbers().await, [0; 0]);
        assert_eq!(store.schedules().await.unwrap(), []);
    }
}
