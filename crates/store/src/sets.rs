// SPDX-License-Identifier: Apache-2.0
//! Sets: what programs have declared on this node, a manifest each. Rows are opaque here (JSON of
//! `model::set`); what a manifest means is the clients'.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Durability, Store, StoreError};

/// The most sets of one tenant: a tenant can't fill the node's disk with them.
pub const MAX_SETS_PER_TENANT: u64 = 1000;

/// One set's manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetRow {
    /// The tenant that it belongs to.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Counts the writes.
    pub revision: u64,
    /// The last write: `CLOCK_REALTIME`, nanoseconds.
    pub changed_ns: i64,
    /// The SPIFFE ID of its writer.
    pub changed_by: String,
    /// The manifest as JSON.
    pub manifest: Vec<u8>,
}

/// How a write ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetWritten {
    /// It is kept, under this revision.
    At(u64),
    /// It has another revision than the caller has read; 0: there is no such set.
    Overtaken(u64),
    /// The tenant has as many sets as it may.
    Full,
}

impl Store {
    /// Writes a manifest, where the set has the revision that the row says; 0: where there is none.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn put_set(&self, row: SetRow) -> Result<SetWritten, StoreError> {
        self.write(Durability::Disk, move |c| {
            let found = revision(c, &row.tenant, &row.name)?;
            if found != row.revision {
                return Ok(SetWritten::Overtaken(found));
            }
            if found == 0 && count(c, &row.tenant)? >= MAX_SETS_PER_TENANT {
                return Ok(SetWritten::Full);
            }
            let next = found.saturating_add(1);
            c.prepare_cached(
                "INSERT INTO sets (tenant, name, revision, changed_ns, changed_by, manifest)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (tenant, name) DO UPDATE SET revision = excluded.revision,
                     changed_ns = excluded.changed_ns, changed_by = excluded.changed_by,
                     manifest = excluded.manifest",
            )?
            .execute(params![
                row.tenant,
                row.name,
                i64::try_from(next).unwrap_or(i64::MAX),
                row.changed_ns,
                row.changed_by,
                row.manifest
            ])?;
            Ok(SetWritten::At(next))
        })
        .await
    }

    /// Forgets a manifest, where it has this revision.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn remove_set(
        &self,
        tenant: String,
        name: String,
        read: u64,
    ) -> Result<SetWritten, StoreError> {
        self.write(Durability::Disk, move |c| {
            let found = revision(c, &tenant, &name)?;
            if found == 0 || found != read {
                return Ok(SetWritten::Overtaken(found));
            }
            c.prepare_cached("DELETE FROM sets WHERE tenant = ?1 AND name = ?2")?
                .execute([tenant, name])?;
            Ok(SetWritten::At(found))
        })
        .await
    }

    /// Forgets every manifest of a tenant.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn remove_sets(&self, tenant: String) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached("DELETE FROM sets WHERE tenant = ?1")?
                .execute([tenant])
                .map(drop)
        })
        .await
    }

    /// One set.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn set(&self, tenant: String, name: String) -> Result<Option<SetRow>, StoreError> {
        self.read(move |c| {
            c.prepare_cached(
                "SELECT tenant, name, revision, changed_ns, changed_by, manifest FROM sets
                 WHERE tenant = ?1 AND name = ?2",
            )?
            .query_row([tenant, name], set)
            .optional()
        })
        .await
    }

    /// The sets of a tenant, or of all, by tenant and name.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn sets(&self, tenant: Option<String>) -> Result<Vec<SetRow>, StoreError> {
        self.read(move |c| {
            c.prepare_cached(
                "SELECT tenant, name, revision, changed_ns, changed_by, manifest FROM sets
                 WHERE ?1 IS NULL OR tenant = ?1 ORDER BY tenant, name",
            )?
            .query_map([tenant], set)?
            .collect()
        })
        .await
    }
}

fn revision(c: &Connection, tenant: &str, name: &str) -> rusqlite::Result<u64> {
    let found: Option<i64> = c
        .prepare_cached("SELECT revision FROM sets WHERE tenant = ?1 AND name = ?2")?
        .query_row([tenant, name], |row| row.get(0))
        .optional()?;
    Ok(found.map_or(0, number))
}

fn count(c: &Connection, tenant: &str) -> rusqlite::Result<u64> {
    c.prepare_cached("SELECT count(*) FROM sets WHERE tenant = ?1")?
        .query_row([tenant], |row| row.get(0).map(number))
}

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn set(row: &Row<'_>) -> rusqlite::Result<SetRow> {
    Ok(SetRow {
        tenant: row.get(0)?,
        name: row.get(1)?,
        revision: row.get(2).map(number)?,
        changed_ns: row.get(3)?,
        changed_by: row.get(4)?,
        manifest: row.get(5)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, revision: u64) -> SetRow {
        SetRow {
            tenant: "blue".into(),
            name: name.into(),
            revision,
            changed_ns: 1,
            changed_by: "spiffe://x/tenant/blue/user/ann".into(),
            manifest: b"{}".to_vec(),
        }
    }

    #[tokio::test]
    async fn a_set_is_written_only_over_the_revision_that_was_read() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(store.put_set(row("a", 0)).await, Ok(SetWritten::At(1)));
        assert_eq!(
            store.put_set(row("a", 0)).await,
            Ok(SetWritten::Overtaken(1))
        );
        assert_eq!(store.put_set(row("a", 1)).await, Ok(SetWritten::At(2)));
        let kept = store.set("blue".into(), "a".into()).await.unwrap();
        assert_eq!(kept.map(|row| row.revision), Some(2));
        assert_eq!(store.set("green".into(), "a".into()).await, Ok(None));
        assert_eq!(store.sets(Some("green".into())).await.unwrap(), []);
        assert_eq!(store.sets(None).await.unwrap().len(), 1);
        let early = store.remove_set("blue".into(), "a".into(), 1).await;
        assert_eq!(early, Ok(SetWritten::Overtaken(2)));
        let gone = store.remove_set("blue".into(), "a".into(), 2).await;
        assert_eq!(gone, Ok(SetWritten::At(2)));
        assert_eq!(store.sets(None).await.unwrap(), []);
        let other = SetRow {
            tenant: "green".into(),
            ..row("a", 0)
        };
        for row in [row("a", 0), row("b", 0), other] {
            assert_eq!(store.put_set(row).await, Ok(SetWritten::At(1)));
        }
        store.remove_sets("blue".into()).await.unwrap();
        let left = store.sets(None).await.unwrap().into_iter();
        assert_eq!(left.map(|row| row.tenant).collect::<Vec<_>>(), ["green"]);
    }

    #[tokio::test]
    async fn a_tenant_has_a_bound_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let mut all = tokio::task::JoinSet::new();
        for n in 0..MAX_SETS_PER_TENANT {
            let store = store.clone();
            all.spawn(async move { store.put_set(row(&format!("s{n}"), 0)).await });
        }
        for written in all.join_all().await {
            assert_eq!(written, Ok(SetWritten::At(1)));
        }
        assert_eq!(store.put_set(row("more", 0)).await, Ok(SetWritten::Full));
        let other = SetRow {
            tenant: "green".into(),
            ..row("more", 0)
        };
        assert_eq!(store.put_set(other).await, Ok(SetWritten::At(1)));
        assert_eq!(store.put_set(row("s0", 1)).await, Ok(SetWritten::At(2)));
    }
}
