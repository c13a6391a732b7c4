// SPDX-License-Identifier: Apache-2.0
//! Certificates that are refused before their end. A row is forgotten when the certificate would
//! have ended by itself: until then it must not be. Those that were issued are in `issued`.

use rusqlite::params;

use super::{Durability, Store, StoreError};

/// A certificate that is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevocationRow {
    /// Lower-case hexadecimal.
    pub serial: String,
    /// For people.
    pub reason: String,
    /// When the row may be forgotten: `CLOCK_REALTIME`, nanoseconds.
    pub until_ns: i64,
    /// `CLOCK_REALTIME`, nanoseconds.
    pub created_ns: i64,
}

impl Store {
    /// Refuses a certificate from now on, and forgets refusals that ended before `row.created_ns`.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn add_revocation(&self, row: RevocationRow) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached("DELETE FROM revocations WHERE until_ns < ?1")?
                .execute([row.created_ns])?;
            c.prepare_cached(
                "INSERT OR REPLACE INTO revocations (serial, reason, until_ns, created_ns)
                 VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![
                row.serial,
                row.reason,
                row.until_ns,
                row.created_ns
            ])
            .map(drop)
        })
        .await
    }

    /// All refused certificates.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn revocations(&self) -> Result<Vec<RevocationRow>, StoreError> {
        self.read(|c| {
            c.prepare_cached("SELECT serial, reason, until_ns, created_ns FROM revocations")?
                .query_map([], |row| {
                    Ok(RevocationRow {
                        serial: row.get(0)?,
                        reason: row.get(1)?,
                        until_ns: row.get(2)?,
                        created_ns: row.get(3)?,
                    })
                })?
                .collect()
        })
        .await
    }

    /// Refuses every certificate of a user that was issued before a moment
    /// (`CLOCK_REALTIME`, nanoseconds), known or not. A later moment replaces an earlier one.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn set_valid_from(
        &self,
        tenant: String,
        user: String,
        from_ns: i64,
    ) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached(
                "INSERT INTO valid_from (tenant, user, from_ns) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET from_ns = max(from_ns, excluded.from_ns)",
            )?
            .execute(params![tenant, user, from_ns])
            .map(drop)
        })
        .await
    }

    /// All such moments: tenant, user, nanoseconds.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn valid_from(&self) -> Result<Vec<(String, String, i64)>, StoreError> {
        self.read(|c| {
            c.prepare_cached("SELECT tenant, user, from_ns FROM valid_from")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect()
        })
        .await
    }
}
