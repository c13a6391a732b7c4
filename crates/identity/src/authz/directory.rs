// SPDX-License-Identifier: Apache-2.0
//! Who is known and what is revoked, in memory: a snapshot of the store that requests read without
//! waiting. A change goes to the store first and is then published as a new snapshot, with only the
//! changed accounts (and their compiled slices) made anew.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::policy::{Engine, Grant, PolicyError, Slice};
use crate::authn::spiffe::UserKey;
use store::{GrantRow, Role, Store, StoreError, UserRow};

/// The most users of a node.
pub(crate) const MAX_USERS: usize = 10_000;
/// The most grants of one user: a decision's time grows with them.
pub(crate) const MAX_GRANTS: usize = 256;
/// The most certificates that are revoked and not yet past their end.
pub(crate) const MAX_REVOCATIONS: usize = 100_000;

/// One user with what was granted.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) key: UserKey,
    pub(crate) role: Option<Role>,
    pub(crate) disabled: bool,
    pub(crate) created_ns: i64,
    pub(crate) grants: Vec<Grant>,
    slice: OnceLock<Slice>,
}

impl Account {
    pub(crate) fn new(
        key: UserKey,
        role: Option<Role>,
        disabled: bool,
        created_ns: i64,
        grants: Vec<Grant>,
    ) -> Self {
        Self {
            key,
            role,
            disabled,
            created_ns,
            grants,
            slice: OnceLock::new(),
        }
    }

    /// The same with something changed; its slice is compiled anew when it is next needed.
    pub(crate) fn changed(&self, disabled: bool, grants: Vec<Grant>) -> Self {
        Self::new(
            self.key.clone(),
            self.role,
            disabled,
            self.created_ns,
            grants,
        )
    }

    /// Compiled at the first use.
    pub(crate) fn slice(&self, engine: &Engine) -> Result<&Slice, PolicyError> {
        if let Some(slice) = self.slice.get() {
            return Ok(slice);
        }
        let slice = engine.slice(&self.key, self.role, &self.grants)?;
        Ok(self.slice.get_or_init(|| slice))
    }

    /// The role counts only where roles are given: in the tenant `system`.
    pub(crate) fn is_administrator(&self) -> bool {
        self.role == Some(Role::Administrator) && self.key.tenant.as_str() == "system"
    }
}

/// A snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    pub(crate) accounts: HashMap<UserKey, Arc<Account>>,
    /// Serial to reason.
    pub(crate) revoked: HashMap<String, Arc<str>>,
}

impl Directory {
    /// Reads the store. Rows with names that don't parse were not written by us and are left out,
    /// with a line in the log.
    pub(crate) async fn load(store: &Store) -> Result<Self, StoreError> {
        let mut grants: HashMap<UserKey, Vec<Grant>> = HashMap::new();
        for row in store.grants().await? {
            let id = row.id.clone();
            match grant(row) {
                Some(grant) => grants.entry(grant.user.clone()).or_default().push(grant),
                None => tracing::error!("grant {id} in the store is malformed and left out"),
            }
        }
        let mut accounts = HashMap::new();
        for row in store.users().await? {
            let Some(key) = key_of(&row) else {
                let (tenant, name) = (row.tenant, row.name);
                tracing::error!("user {tenant}/{name} in the store is malformed and left out");
                continue;
            };
            let grants = grants.remove(&key).unwrap_or_default();
            let account = Account::new(key.clone(), row.role, row.disabled, row.created_ns, grants);
            accounts.insert(key, Arc::new(account));
        }
        let revoked = store.revocations().await?;
        let revoked = revoked
            .into_iter()
            .map(|r| (r.serial, r.reason.into()))
            .collect();
        Ok(Self { accounts, revoked })
    }

    /// With one account replaced or added.
    pub(crate) fn with(&self, account: Account) -> Self {
        let mut next = self.clone();
        next.accounts.insert(account.key.clone(), Arc::new(account));
        next
    }

    /// With one more certificate refused.
    pub(crate) fn with_revoked(&self, serial: String, reason: &str) -> Self {
        let mut next = self.clone();
        next.revoked.insert(serial, reason.into());
        next
    }
}

fn key_of(row: &UserRow) -> Option<UserKey> {
    Some(UserKey {
        tenant: row.tenant.parse().ok()?,
        name: row.name.parse().ok()?,
    })
}

fn grant(row: GrantRow) -> Option<Grant> {
    Some(Grant {
        user: UserKey {
            tenant: row.tenant.parse().ok()?,
            name: row.user.parse().ok()?,
        },
        id: row.id,
        effect: row.effect,
        action: row.action,
        target: row.target_tenant.parse().ok()?,
        path: row.path.map(|p| p.parse()).transpose().ok()?,
        created_ns: row.created_ns,
    })
}
