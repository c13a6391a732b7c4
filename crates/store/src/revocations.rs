// SPDX-License-Identifier: Apache-2.0
//! Certificates that were issued, and those that are refused before their end. A row is forgotten
//! when the certificate would have ended by itself: until then it must not be.

use rusqlite::{OptionalExtension, params};

use super::{Durability, Store, StoreError};

/// A certificate that this node has signed for a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IssuedRow {
    /// Lower-case hexadecimal.
    pub serial: String,
    /// Whose.
    pub tenant: String,
    /// Whose.
    pub user: String,
    /// Its end: `CLOCK_REALTIME`, nanoseconds.
    pub until_ns: i64,
}

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
    /// Remembers an issued certificate until its end, and forgets those that ended before `now_ns`.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn add_issued(&self, issued: IssuedRow, now_ns: i64) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached("DELETE FROM issued WHERE until_ns < ?1")?
                .execute([now_ns])?;
            c.prepare_cached(
                "INSERT OR REPLACE INTO issued (serial, tenant, user, until_ns)
                 VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![
                issued.serial,
                issued.tenant,
                issued.user,
                issued.until_ns
            ])
            .map(drop)
        })
        .await
    }

    /// Whose certificate it is, if this database has seen it.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn issued(&self, serial: String) -> Result<Option<IssuedRow>, StoreError> {
        self.read(move |c| {
            c.prepare_cached("SELECT serial, tenant, user, until_ns FROM issued WHERE serial = ?1")?
                .query_row([serial], |row| {
                    Ok(IssuedRow {
                        serial: row.get(0)?,
                        tenant: row.get(1)?,
                        user: row.get(2)?,
                        until_ns: row.get(3)?,
                    })
                })
                .optional()
        })
        .await
    }

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
}
