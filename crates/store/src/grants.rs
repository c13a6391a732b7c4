// SPDX-License-Identifier: Apache-2.0
//! Grants: what a user may, or may not, do beyond the built-in policies. Each row becomes one Cedar
//! policy in `identity`, under the row's id.

use rusqlite::{Row, params};

use super::{Durability, Store, StoreError};

/// What a grant does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrantEffect {
    /// The grant permits its actions.
    Allow,
    /// Forbids; wins over every permission.
    Deny,
}

/// One grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantRow {
    /// Stable, never used again.
    pub id: String,
    /// The user's tenant.
    pub tenant: String,
    /// The user; must exist.
    pub user: String,
    /// Permit or forbid.
    pub effect: GrantEffect,
    /// `subsystem.Method`, or the group `subsystem`.
    pub action: String,
    /// Whose objects it is about.
    pub target_tenant: String,
    /// Only at or below this path; `None`: all.
    pub path: Option<String>,
    /// `CLOCK_REALTIME`, nanoseconds.
    pub created_ns: i64,
}

impl Store {
    /// Adds a grant.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work, [`StoreError::Statement`] where the
    /// user doesn't exist or the id does.
    pub async fn add_grant(&self, grant: GrantRow) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            let effect = match grant.effect {
                GrantEffect::Allow => "allow",
                GrantEffect::Deny => "deny",
            };
            c.prepare_cached(
                "INSERT INTO grants
                     (id, tenant, user, effect, action, target_tenant, path, created_ns)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                grant.id,
                grant.tenant,
                grant.user,
                effect,
                grant.action,
                grant.target_tenant,
                grant.path,
                grant.created_ns
            ])
            .map(drop)
        })
        .await
    }

    /// Takes a grant back; `false` where there is none of that id.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn remove_grant(&self, id: String) -> Result<bool, StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached("DELETE FROM grants WHERE id = ?1")?
                .execute([id])
                .map(|changed| changed == 1)
        })
        .await
    }

    /// All grants, by user and age.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn grants(&self) -> Result<Vec<GrantRow>, StoreError> {
        self.read(|c| {
            c.prepare_cached(
                "SELECT id, tenant, user, effect, action, target_tenant, path, created_ns
                 FROM grants ORDER BY tenant, user, created_ns, id",
            )?
            .query_map([], grant)?
            .collect()
        })
        .await
    }
}

fn grant(row: &Row<'_>) -> rusqlite::Result<GrantRow> {
    let effect: String = row.get(3)?;
    Ok(GrantRow {
        id: row.get(0)?,
        tenant: row.get(1)?,
        user: row.get(2)?,
        // The table's CHECK admits only two; anything else is safest as a refusal.
        effect: if effect == "allow" {
            GrantEffect::Allow
        } else {
            GrantEffect::Deny
        },
        action: row.get(4)?,
        target_tenant: row.get(5)?,
        path: row.get(6)?,
        created_ns: row.get(7)?,
    })
}
