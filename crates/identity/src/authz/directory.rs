// SPDX-License-Identifier: Apache-2.0
//! Users, grants and revoked certificates in memory: a snapshot of the store that requests read
//! without waiting. A change goes to the store first and is then published as a new snapshot, in
//! which only the changed accounts (and their compiled slices) are new.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::policy::{Engine, Grant, PolicyError, Slice};
use crate::authn::spiffe::UserKey;
use store::{GrantEffect, GrantRow, RevocationRow, Role, Store, StoreError, UserRow};

/// The most users of a node.
pub(crate) const MAX_USERS: usize = 10_000;
/// The most grants of one user: a decision's time grows with them.
pub(crate) const MAX_GRANTS: usize = 256;
/// The most certificates that are revoked and not yet past their end.
pub(crate) const MAX_REVOCATIONS: usize = 100_000;

/// One user and the grants of that user.
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

    /// The account with these values; its slice is compiled again when it is next needed.
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

/// A snapshot of users, grants and refused certificates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    pub(crate) accounts: HashMap<UserKey, Arc<Account>>,
    /// Revoked certificates: serial number to reason.
    pub(crate) revoked: HashMap<String, Arc<str>>,
    /// Certificates of the user that were issued before are refused; nanoseconds since the epoch.
    pub(crate) valid_from: HashMap<UserKey, i64>,
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
        let valid_from = store.valid_from().await?.into_iter();
        let valid_from = valid_from.filter_map(|(tenant, name, from_ns)| {
            let key = UserKey {
                tenant: tenant.parse().ok()?,
                name: name.parse().ok()?,
            };
            Some((key, from_ns))
        });
        Ok(Self {
            accounts,
            revoked,
            valid_from: valid_from.collect(),
        })
    }

    /// The snapshot with one account replaced or added.
    pub(crate) fn with(&self, account: Account) -> Self {
        let mut next = self.clone();
        next.accounts.insert(account.key.clone(), Arc::new(account));
        next
    }

    /// The snapshot with more certificates refused.
    pub(crate) fn with_revoked(&self, rows: &[RevocationRow]) -> Self {
        let mut next = self.clone();
        let rows = rows.iter();
        next.revoked
            .extend(rows.map(|row| (row.serial.clone(), row.reason.as_str().into())));
        next
    }

    /// The snapshot in which a user's certificates from before a moment are refused.
    pub(crate) fn with_valid_from(mut self, user: UserKey, from_ns: i64) -> Self {
        let known = self.valid_from.entry(user).or_insert(from_ns);
        *known = from_ns.max(*known);
        self
    }

    /// Whether a certificate that was issued in that second is none of those.
    pub(crate) fn issued_in_time(&self, user: &UserKey, issued: i64) -> bool {
        let from = self.valid_from.get(user);
        from.is_none_or(|from| issued.saturating_mul(1_000_000_000) >= *from)
    }

    /// Whether an administrator is left that nothing is denied to, beside this user.
    pub(crate) fn another_administrator(&self, than: &UserKey) -> bool {
        let denied = |a: &Account| a.grants.iter().any(|g| g.effect == GrantEffect::Deny);
        let works = |a: &Account| a.is_administrator() && !a.disabled && !denied(a);
        let mut others = self.accounts.values().filter(|a| a.key != *than);
        others.any(|a| works(a))
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
