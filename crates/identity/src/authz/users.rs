// SPDX-License-Identifier: Apache-2.0
//! Users: added, listed, disabled. Each function takes the permit of its own action; what a permit
//! can't say (an administrator is restricted by administrators alone) is checked here.

use std::sync::Arc;

use model::error::{Error, Reason};
use model::name::Label;

use super::directory::{Account, MAX_USERS};
use super::policy::Grant;
use crate::authn::peer::{Peer, now_ns};
use crate::authn::spiffe::{SpiffeId, Subject};
use crate::ca::issue::only_administrators;
use crate::{Identity, Permit, UserKey};
use store::UserRow;

/// A user as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserView {
    /// Tenant and name.
    pub user: UserKey,
    /// As certificates have it.
    pub spiffe_id: String,
    /// Has the administrator's role.
    pub administrator: bool,
    /// Refused everywhere.
    pub disabled: bool,
    /// `CLOCK_REALTIME`, nanoseconds.
    pub created_ns: i64,
    /// What was granted, oldest first.
    pub grants: Vec<Grant>,
}

/// Who the caller is, to the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WhoAmI {
    /// The certificate's name.
    pub spiffe_id: String,
    /// Tenant and name.
    pub user: UserKey,
    /// Has the administrator's role.
    pub administrator: bool,
    /// The certificate's, hexadecimal.
    pub serial: String,
    /// The certificate's end, seconds since the epoch.
    pub not_after: i64,
    /// The node's name.
    pub node: String,
    /// The node's trust domain.
    pub trust_domain: String,
}

impl Identity {
    pub(crate) fn account(&self, user: &UserKey) -> Result<Arc<Account>, Error> {
        let found = self.directory.load().accounts.get(user).cloned();
        found.ok_or_else(|| Error::not_found("user", user.to_string()))
    }

    fn view(&self, account: &Account) -> UserView {
        let id = SpiffeId {
            domain: self.authority.domain().clone(),
            subject: Subject::User(account.key.clone()),
        };
        UserView {
            user: account.key.clone(),
            spiffe_id: id.to_string(),
            administrator: account.is_administrator(),
            disabled: account.disabled,
            created_ns: account.created_ns,
            grants: account.grants.clone(),
        }
    }

    /// Adds a user to the permit's tenant.
    ///
    /// # Errors
    /// `ALREADY_EXISTS`, `LIMIT_EXCEEDED`, `DEGRADED`.
    pub async fn create_user(&self, permit: Permit, name: Label) -> Result<UserView, Error> {
        let key = UserKey {
            tenant: permit.tenant().clone(),
            name,
        };
        let _one_at_a_time = self.changing.lock().await;
        let directory = self.directory.load_full();
        if directory.accounts.len() >= MAX_USERS {
            let words = format!("the node has {MAX_USERS} users already");
            return Err(Error::new(Reason::LimitExceeded, words));
        }
        let row = UserRow {
            tenant: key.tenant.to_string(),
            name: key.name.to_string(),
            role: None,
            disabled: false,
            created_ns: now_ns(),
        };
        let account = Account::new(key.clone(), None, false, row.created_ns, Vec::new());
        if directory.accounts.contains_key(&key) || !self.store.add_user(row).await? {
            let words = format!("there already is a user {key}");
            let error = Error::new(Reason::AlreadyExists, words).about("user", key.to_string());
            return Err(error);
        }
        let view = self.view(&account);
        self.publish(directory.with(account));
        Ok(view)
    }

    /// The users of the permit's tenant, or of all, by tenant and name.
    pub fn list_users(&self, permit: &Permit) -> Vec<UserView> {
        let directory = self.directory.load();
        let mut users: Vec<UserView> = directory
            .accounts
            .values()
            .filter(|a| permit.every_tenant() || a.key.tenant == *permit.tenant())
            .map(|a| self.view(a))
            .collect();
        users.sort_by(|a, b| a.user.cmp(&b.user));
        users
    }

    /// Refuses a user from now on; open streams end within a second.
    ///
    /// # Errors
    /// `NOT_FOUND`; `PERMISSION_DENIED` for `system/admin`, or for other administrators by who is
    /// none; `DEGRADED`.
    pub async fn disable_user(&self, permit: Permit, name: Label) -> Result<UserView, Error> {
        let key = UserKey {
            tenant: permit.tenant().clone(),
            name,
        };
        let _one_at_a_time = self.changing.lock().await;
        let account = self.account(&key)?;
        self.may_restrict(&permit, &account, "be disabled")?;
        let (tenant, name) = (key.tenant.to_string(), key.name.to_string());
        self.revocation_log
            .disabled(tenant.clone(), name.clone(), account.created_ns)
            .await?;
        // The next daemon puts it into the database.
        if let Err(error) = self.store.disable_user(tenant, name).await {
            tracing::error!(%error, user = %key, "that it is disabled is in the revocation log alone");
        }
        let disabled = account.changed(true, account.grants.clone());
        let view = self.view(&disabled);
        self.publish(self.directory.load().with(disabled));
        Ok(view)
    }

    /// `system/admin` stays as it is, or everybody could be locked out.
    pub(super) fn may_restrict(
        &self,
        permit: &Permit,
        account: &Account,
        what: &str,
    ) -> Result<(), Error> {
        if UserKey::administrator().is_ok_and(|admin| admin == account.key) {
            let words = format!("the administrator {} can't {what}", account.key);
            let error = Error::new(Reason::PermissionDenied, words);
            return Err(error.hint("revoke a single certificate of it instead"));
        }
        if account.is_administrator() && !permit.is_administrator() {
            return Err(only_administrators("restrict an administrator"));
        }
        Ok(())
    }

    /// Who the caller is.
    pub fn who_am_i(&self, permit: &Permit, peer: &Peer) -> WhoAmI {
        WhoAmI {
            spiffe_id: peer.id().to_owned(),
            user: peer.user().clone(),
            administrator: permit.is_administrator(),
            serial: peer.serial().to_owned(),
            not_after: peer.not_after(),
            node: self.node.to_string(),
            trust_domain: self.authority.domain().to_string(),
        }
    }
}
