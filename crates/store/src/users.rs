// SPDX-License-Identifier: Apache-2.0
//! Users and their roles. A certificate names a user; what the user may do is decided
//! by these rows and the grants.

use rusqlite::{Row, params};

use super::{Durability, Store, StoreError};

/// What a user is beyond a member of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// May do everything, on every tenant; only in the tenant `system`.
    Administrator,
}

/// One user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserRow {
    /// A DNS label.
    pub tenant: String,
    /// A DNS label.
    pub name: String,
    /// `None`: an ordinary member.
    pub role: Option<Role>,
    /// Refused everywhere.
    pub disabled: bool,
    /// `CLOCK_REALTIME`, nanoseconds.
    pub created_ns: i64,
}

impl Store {
    /// Adds a user; `false` where there already is one of that name, which stays as it is.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn add_user(&self, user: UserRow) -> Result<bool, StoreError> {
        self.write(Durability::Disk, move |c| {
            let role = user.role.map(|Role::Administrator| "admin");
            c.prepare_cached(
                "INSERT INTO users (tenant, name, role, disabled, created_ns)
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                user.tenant,
                user.name,
                role,
                user.disabled,
                user.created_ns
            ])
            .map(|changed| changed == 1)
        })
        .await
    }

    /// Refuses a user from now on, or takes that back; `false` where there is none.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn set_disabled(
        &self,
        tenant: String,
        name: String,
        disabled: bool,
    ) -> Result<bool, StoreError> {
        self.write(Durability::Disk, move |c| {
            c.prepare_cached("UPDATE users SET disabled = ?3 WHERE tenant = ?1 AND name = ?2")?
                .execute(params![tenant, name, disabled])
                .map(|changed| changed == 1)
        })
        .await
    }

    /// All users, by tenant and name.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn users(&self) -> Result<Vec<UserRow>, StoreError> {
        self.read(|c| {
            c.prepare_cached(
                "SELECT tenant, name, role, disabled, created_ns FROM users ORDER BY tenant, name",
            )?
            .query_map([], user)?
            .collect()
        })
        .await
    }
}

fn user(row: &Row<'_>) -> rusqlite::Result<UserRow> {
    let role: Option<String> = row.get(2)?;
    Ok(UserRow {
        tenant: row.get(0)?,
        name: row.get(1)?,
        // A role that this daemon doesn't know gives nothing.
        role: (role.as_deref() == Some("admin")).then_some(Role::Administrator),
        disabled: row.get(3)?,
        created_ns: row.get(4)?,
    })
}
