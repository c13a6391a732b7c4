// SPDX-License-Identifier: Apache-2.0
//! Names of images: which tenant has which reference, and the manifest that it stands for. The
//! bytes are in the image store's folder, by digest; a lost database loses these names alone.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Durability, Store, StoreError};

/// The most names of one tenant.
pub const MAX_IMAGES_PER_TENANT: u64 = 10_000;

/// One name of one tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageRow {
    /// Whose.
    pub tenant: String,
    /// In full: `docker.io/library/nginx:1.25`.
    pub reference: String,
    /// Of the manifest.
    pub digest: String,
    /// Of the index that named the manifest; empty: none did.
    pub index_digest: String,
    /// `linux/amd64`.
    pub platform: String,
    /// Of manifest, configuration and layers, in bytes.
    pub size: u64,
    /// The last pull or import: `CLOCK_REALTIME`, nanoseconds.
    pub pulled_ns: i64,
    /// The last pull, import or start of a cell with it, likewise.
    pub used_ns: i64,
    /// Kept from pruning.
    pub pinned: bool,
}

impl Store {
    /// Writes names, all or none. A name that is there keeps its pin. Answers `false` where the
    /// tenant would have more than [`MAX_IMAGES_PER_TENANT`].
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn put_images(&self, rows: Vec<ImageRow>) -> Result<bool, StoreError> {
        self.write(Durability::Disk, move |c| {
            for tenant in rows.iter().map(|row| &row.tenant).collect::<BTreeSet<_>>() {
                let mut new = 0;
                for row in rows.iter().filter(|row| row.tenant == *tenant) {
                    new += u64::from(image(c, tenant, &row.reference)?.is_none());
                }
                if new > 0 && count(c, tenant)?.saturating_add(new) > MAX_IMAGES_PER_TENANT {
                    return Ok(false);
                }
            }
            for row in &rows {
                put(c, row)?;
            }
            Ok(true)
        })
        .await
    }

    /// Forgets a name; `false` where there is none.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn remove_image(
        &self,
        tenant: String,
        reference: String,
    ) -> Result<bool, StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached("DELETE FROM images WHERE tenant = ?1 AND reference = ?2")?
                .execute([tenant, reference])
                .map(|changed| changed == 1)
        })
        .await
    }

    /// Pins a name, or unpins it; `false` where there is none.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn pin_image(
        &self,
        tenant: String,
        reference: String,
        pinned: bool,
    ) -> Result<bool, StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached("UPDATE images SET pinned = ?3 WHERE tenant = ?1 AND reference = ?2")?
                .execute(params![tenant, reference, pinned])
                .map(|changed| changed == 1)
        })
        .await
    }

    /// Notes that a name was used.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn use_image(
        &self,
        tenant: String,
        reference: String,
        used_ns: i64,
    ) -> Result<(), StoreError> {
        self.write_later(Durability::Kernel, move |c| {
            c.prepare_cached(
                "UPDATE images SET used_ns = max(used_ns, ?3)
                 WHERE tenant = ?1 AND reference = ?2",
            )?
            .execute(params![tenant, reference, used_ns])
            .map(drop)
        })
        .await
    }

    /// One name.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn image(
        &self,
        tenant: String,
        reference: String,
    ) -> Result<Option<ImageRow>, StoreError> {
        self.read(move |c| image(c, &tenant, &reference)).await
    }

    /// The names of a tenant, or of all, by tenant and reference.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn images(&self, tenant: Option<String>) -> Result<Vec<ImageRow>, StoreError> {
        self.read(move |c| {
            c.prepare_cached(
                "SELECT tenant, reference, digest, index_digest, platform, size, pulled_ns,
                     used_ns, pinned FROM images
                 WHERE ?1 IS NULL OR tenant = ?1 ORDER BY tenant, reference",
            )?
            .query_map([tenant], row)?
            .collect()
        })
        .await
    }
}

fn put(c: &Connection, row: &ImageRow) -> rusqlite::Result<()> {
    c.prepare_cached(
        "INSERT INTO images (tenant, reference, digest, index_digest, platform, size, pulled_ns,
             used_ns, pinned)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (tenant, reference) DO UPDATE SET digest = excluded.digest,
             index_digest = excluded.index_digest, platform = excluded.platform,
             size = excluded.size, pulled_ns = excluded.pulled_ns, used_ns = excluded.used_ns",
    )?
    .execute(params![
        row.tenant,
        row.reference,
        row.digest,
        row.index_digest,
        row.platform,
        i64::try_from(row.size).unwrap_or(i64::MAX),
        row.pulled_ns,
        row.used_ns,
        row.pinned
    ])
    .map(drop)
}

fn image(c: &Connection, tenant: &str, reference: &str) -> rusqlite::Result<Option<ImageRow>> {
    c.prepare_cached(
        "SELECT tenant, reference, digest, index_digest, platform, size, pulled_ns, used_ns,
             pinned FROM images WHERE tenant = ?1 AND reference = ?2",
    )?
    .query_row([tenant, reference], row)
    .optional()
}

fn count(c: &Connection, tenant: &str) -> rusqlite::Result<u64> {
    c.prepare_cached("SELECT count(*) FROM images WHERE tenant = ?1")?
        .query_row([tenant], |row| row.get(0).map(number))
}

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn row(row: &Row<'_>) -> rusqlite::Result<ImageRow> {
    Ok(ImageRow {
        tenant: row.get(0)?,
        reference: row.get(1)?,
        digest: row.get(2)?,
        index_digest: row.get(3)?,
        platform: row.get(4)?,
        size: row.get(5).map(number)?,
        pulled_ns: row.get(6)?,
        used_ns: row.get(7)?,
        pinned: row.get(8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(tenant: &str, reference: &str) -> ImageRow {
        ImageRow {
            tenant: tenant.into(),
            reference: reference.into(),
            digest: "sha256:aa".into(),
            index_digest: String::new(),
            platform: "linux/amd64".into(),
            size: 7,
            pulled_ns: 1,
            used_ns: 1,
            pinned: false,
        }
    }

    #[tokio::test]
    async fn a_tenant_sees_its_own_names_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let rows = vec![named("blue", "a"), named("blue", "b")];
        assert_eq!(store.put_images(rows).await, Ok(true));
        assert_eq!(store.put_images(vec![named("green", "a")]).await, Ok(true));
        let of = async |tenant: &str| store.images(Some(tenant.into())).await.unwrap().len();
        assert_eq!((of("blue").await, of("green").await, of("red").await), (2, 1, 0));
        assert_eq!(store.image("red".into(), "a".into()).await, Ok(None));
        assert_eq!(store.remove_image("green".into(), "b".into()).await, Ok(false));
        assert_eq!(store.remove_image("green".into(), "a".into()).await, Ok(true));
        assert_eq!(store.images(None).await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_newer_pull_keeps_the_pin_and_no_use_is_older_than_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        store.put_images(vec![named("blue", "a")]).await.unwrap();
        let (blue, a) = || -> (String, String) { ("blue".into(), "a".into()) }();
        assert_eq!(store.pin_image(blue.clone(), a.clone(), true).await, Ok(true));
        let newer = ImageRow {
            digest: "sha256:bb".into(),
            pulled_ns: 9,
            used_ns: 9,
            ..named("blue", "a")
        };
        store.put_images(vec![newer]).await.unwrap();
        store.use_image(blue.clone(), a.clone(), 5).await.unwrap();
        let kept = store.image(blue, a).await.unwrap().unwrap();
        assert_eq!((kept.digest.as_str(), kept.pinned, kept.used_ns), ("sha256:bb", true, 9));
    }

    #[tokio::test]
    async fn a_tenant_with_too_many_names_leaves_room_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let many = (0..MAX_IMAGES_PER_TENANT).map(|n| named("blue", &format!("n{n}")));
        assert_eq!(store.put_images(many.collect()).await, Ok(true));
        assert_eq!(store.put_images(vec![named("blue", "more")]).await, Ok(false));
        assert_eq!(store.put_images(vec![named("blue", "n7")]).await, Ok(true));
        assert_eq!(store.put_images(vec![named("green", "more")]).await, Ok(true));
    }
}
