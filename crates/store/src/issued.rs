// SPDX-License-Identifier: Apache-2.0
//! Certificates that this node has signed for users, each with the one that proved the request for
//! it: their lineage. Revoking one revokes what descends from it, so an ended certificate stays
//! while one that descends from it is there, within a bound per user.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Durability, Store, StoreError};

/// The most certificates of a user that are kept, ended ancestors of living ones included.
pub const MAX_CERTIFICATES: usize = 256;

/// A certificate that this node has signed for a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IssuedRow {
    /// Lower-case hexadecimal.
    pub serial: String,
    /// The user's tenant.
    pub tenant: String,
    /// The user that it was issued to.
    pub user: String,
    /// The serial of the certificate that proved the request, where that was the same user's.
    pub parent: Option<String>,
    /// `CLOCK_REALTIME`, nanoseconds; 0: not known.
    pub issued_ns: i64,
    /// Its end: `CLOCK_REALTIME`, nanoseconds.
    pub until_ns: i64,
}

const COLUMNS: &str = "serial, tenant, user, parent, issued_ns, until_ns";

impl Store {
    /// Remembers an issued certificate; `false` where its user has [`MAX_CERTIFICATES`] that
    /// haven't ended. Forgets ended ones from which none descends.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn add_issued(&self, issued: IssuedRow, now_ns: i64) -> Result<bool, StoreError> {
        self.write(Durability::Disk, move |c| {
            forget_ended(c, now_ns)?;
            let fits = make_room(c, &issued, now_ns)?;
            if fits {
                insert(c, &issued)?;
            }
            Ok(fits)
        })
        .await
    }

    /// Puts rows back that are missing, as they were.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn restore_issued(&self, rows: Vec<IssuedRow>) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            rows.iter().try_for_each(|row| insert(c, row))
        })
        .await
    }

    /// Whose certificate it is, if this node knows it.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn issued(&self, serial: String) -> Result<Option<IssuedRow>, StoreError> {
        self.read(move |c| {
            c.prepare_cached(&format!("SELECT {COLUMNS} FROM issued WHERE serial = ?1"))?
                .query_row([serial], from_row)
                .optional()
        })
        .await
    }

    /// The certificates of a user, or (`None`) of all, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn certificates(
        &self,
        of: Option<(String, String)>,
    ) -> Result<Vec<IssuedRow>, StoreError> {
        let (tenant, user) = of.unzip();
        self.read(move |c| {
            c.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM issued
                 WHERE (?1 IS NULL OR (tenant = ?1 AND user = ?2)) ORDER BY issued_ns, serial"
            ))?
            .query_map([tenant, user], from_row)?
            .collect()
        })
        .await
    }
}

fn insert(c: &Connection, row: &IssuedRow) -> rusqlite::Result<()> {
    c.prepare_cached(
        "INSERT OR IGNORE INTO issued (serial, tenant, user, parent, issued_ns, until_ns)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        row.serial,
        row.tenant,
        row.user,
        row.parent,
        row.issued_ns,
        row.until_ns
    ])
    .map(drop)
}

fn forget_ended(c: &Connection, now_ns: i64) -> rusqlite::Result<()> {
    c.prepare_cached(
        "DELETE FROM issued WHERE until_ns < ?1
         AND NOT EXISTS (SELECT 1 FROM issued AS child WHERE child.parent = issued.serial)",
    )?
    .execute([now_ns])
    .map(drop)
}

/// Takes out the user's oldest ended ancestor, where there are too many; what descends from it then
/// descends from its parent.
fn make_room(c: &Connection, row: &IssuedRow, now_ns: i64) -> rusqlite::Result<bool> {
    let count: i64 = c
        .prepare_cached("SELECT count(*) FROM issued WHERE tenant = ?1 AND user = ?2")?
        .query_row([&row.tenant, &row.user], |row| row.get(0))?;
    if usize::try_from(count).is_ok_and(|count| count < MAX_CERTIFICATES) {
        return Ok(true);
    }
    let oldest: Option<(String, Option<String>)> = c
        .prepare_cached(
            "SELECT serial, parent FROM issued
             WHERE tenant = ?1 AND user = ?2 AND until_ns < ?3 AND serial IS NOT ?4
             ORDER BY issued_ns LIMIT 1",
        )?
        .query_row(params![row.tenant, row.user, now_ns, row.parent], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((serial, parent)) = oldest else {
        return Ok(false);
    };
    c.prepare_cached("UPDATE issued SET parent = ?2 WHERE parent = ?1")?
        .execute(params![serial, parent])?;
    c.prepare_cached("DELETE FROM issued WHERE serial = ?1")?
        .execute([serial])?;
    Ok(true)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<IssuedRow> {
    Ok(IssuedRow {
        serial: row.get(0)?,
        tenant: row.get(1)?,
        user: row.get(2)?,
        parent: row.get(3)?,
        issued_ns: row.get(4)?,
        until_ns: row.get(5)?,
    })
}
