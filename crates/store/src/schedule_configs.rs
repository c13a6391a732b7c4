// SPDX-License-Identifier: Apache-2.0
//! Configs: texts that the pods of schedules are given. What a kind and the data mean is the
//! subsystem schedule's.

use rusqlite::{Row, params};

use super::{Durability, Store, StoreError};

/// One config.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigRow {
    /// The tenant that it belongs to.
    pub tenant: String,
    /// Of which kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Counts its changes.
    pub generation: u64,
    /// The tenant of the user who has put it last.
    pub owner_tenant: String,
    /// That user's name.
    pub owner: String,
    /// When: `CLOCK_REALTIME`, nanoseconds.
    pub changed_ns: i64,
    /// It can't be changed.
    pub immutable: bool,
    /// The config's texts as JSON.
    pub data: Vec<u8>,
}

impl Store {
    /// Keeps a config, over the one of that kind and name.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn put_config(&self, row: ConfigRow) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached(
                "INSERT OR REPLACE INTO schedule_configs
                     (tenant, kind, name, generation, owner_tenant, owner, changed_ns, immutable,
                      data)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                row.tenant,
                row.kind,
                row.name,
                i64::try_from(row.generation).unwrap_or(i64::MAX),
                row.owner_tenant,
                row.owner,
                row.changed_ns,
                row.immutable,
                row.data
            ])
            .map(drop)
        })
        .await
    }

    /// Forgets a config.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn remove_config(
        &self,
        tenant: String,
        kind: String,
        name: String,
    ) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached(
                "DELETE FROM schedule_configs WHERE tenant = ?1 AND kind = ?2 AND name = ?3",
            )?
            .execute([&tenant, &kind, &name])
            .map(drop)
        })
        .await
    }

    /// All configs.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn configs(&self) -> Result<Vec<ConfigRow>, StoreError> {
        self.read(move |c| {
            c.prepare_cached(
                "SELECT tenant, kind, name, generation, owner_tenant, owner, changed_ns, immutable,
                     data
                 FROM schedule_configs ORDER BY tenant, kind, name",
            )?
            .query_map([], config)?
            .collect()
        })
        .await
    }
}

fn config(row: &Row<'_>) -> rusqlite::Result<ConfigRow> {
    let generation: i64 = row.get(3)?;
    Ok(ConfigRow {
        tenant: row.get(0)?,
        kind: row.get(1)?,
        name: row.get(2)?,
        generation: u64::try_from(generation).unwrap_or(0),
        owner_tenant: row.get(4)?,
        owner: row.get(5)?,
        changed_ns: row.get(6)?,
        immutable: row.get(7)?,
        data: row.get(8)?,
    })
}
