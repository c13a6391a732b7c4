// SPDX-License-Identifier: Apache-2.0
//! What is known of units: a row each, opaque here (JSON). What they mean is the subsystem
//! schedule's.

use rusqlite::params;

use super::{Durability, Store, StoreError};

impl Store {
    /// Keeps what is known of units, each over what was known before; `None` forgets one.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work; nothing has changed then.
    pub async fn keep_units(&self, rows: Vec<(String, Option<Vec<u8>>)>) -> Result<(), StoreError> {
        self.write(Durability::Kernel, move |c| {
            let mut put = c.prepare_cached(
                "INSERT INTO units (name, state) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET state = excluded.state",
            )?;
            let mut forget = c.prepare_cached("DELETE FROM units WHERE name = ?1")?;
            for (name, state) in &rows {
                match state {
                    Some(state) => put.execute(params![name, state])?,
                    None => forget.execute([name])?,
                };
            }
            Ok(())
        })
        .await
    }

    /// What is known of all units, by name.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn units(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.read(move |c| {
            c.prepare_cached("SELECT name, state FROM units ORDER BY name")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
        .await
    }
}
