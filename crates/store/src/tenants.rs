// SPDX-License-Identifier: Apache-2.0
//! Tenants and what was set for them. What the settings mean is `tenants`' matter.

use rusqlite::{Row, params};

use super::{Durability, Store, StoreError};

/// One tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantRow {
    /// A DNS label.
    pub name: String,
    /// As `model::quota::Quotas` writes them.
    pub quotas: String,
    /// `CLOCK_REALTIME`, nanoseconds.
    pub created_ns: i64,
}

impl Store {
    /// Adds a tenant, or changes what was set for it.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn put_tenant(&self, tenant: TenantRow) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached(
                "INSERT INTO tenants (name, quotas, created_ns) VALUES (?1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET quotas = excluded.quotas",
            )?
            .execute(params![tenant.name, tenant.quotas, tenant.created_ns])
            .map(drop)
        })
        .await
    }

    /// Forgets a tenant; `false` where there is none.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn remove_tenant(&self, name: String) -> Result<bool, StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached("DELETE FROM tenants WHERE name = ?1")?
                .execute([name])
                .map(|changed| changed == 1)
        })
        .await
    }

    /// All tenants, by name.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn tenants(&self) -> Result<Vec<TenantRow>, StoreError> {
        self.read(|c| {
            c.prepare_cached("SELECT name, quotas, created_ns FROM tenants ORDER BY name")?
                .query_map([], tenant)?
                .collect()
        })
        .await
    }
}

fn tenant(row: &Row<'_>) -> rusqlite::Result<TenantRow> {
    Ok(TenantRow {
        name: row.get(0)?,
        quotas: row.get(1)?,
        created_ns: row.get(2)?,
    })
}
