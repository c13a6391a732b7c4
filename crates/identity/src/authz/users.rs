// SPDX-License-Identifier: Apache-2.0
//! Adds, lists, disables and enables users. Each function takes the permit of its own action. Rules
//! that a permit can't express (only administrators restrict an administrator) are checked here.

use std::sync::Arc;

use model::error::{Error, Reason};
use model::name::{Label, Tenant};

use super::directory::{Account, MAX_USERS};
use super::policy::Grant;
use crate::authn::peer::Peer;
use crate::authn::spiffe::{SpiffeId, Subject};
use crate::ca::issue::only_administrators;
use crate::ca::revocation_log::Line;
use crate::{Identity, Permit, UserKey};
use store::{Role, UserRow, now_ns};

/// A user, as the API shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserView {
    /// The user's tenant and name.
    pub user: UserKey,
    /// The SPIFFE ID that the user's certificates have.
    pub spiffe_id: String,
    /// Has the administrator's role.
    pub administrator: bool,
    /// Each of the user's requests is refused.
    pub disabled: bool,
    /// When it was added, `CLOCK_REALTIME` in nanoseconds.
    pub created_ns: i64,
    /// The grants of the user, oldest first.
    pub grants: Vec<Grant>,
}

/// The caller, as the node knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WhoAmI {
    /// The SPIFFE ID of the certificate.
    pub spiffe_id: String,
    /// The user of the certificate.
    pub user: UserKey,
    /// Has the administrator's role.
    pub administrator: bool,
    /// The certificate's serial number, hexadecimal.
    pub serial: String,
    /// The certificate's end, seconds since the epoch.
    pub not_after: i64,
    /// The name of the node that answers.
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
    /// `ALREADY_EXISTS`, `LIMIT_EXCEEDED`, `DEGRADED`; of an administrator also `INVALID_FIELD`
    /// (`administrator`, outside of the tenant `system`) and `PERMISSION_DENIED`.
    pub async fn create_user(
        &self,
        permit: Permit,
        name: Label,
        administrator: bool,
    ) -> Result<UserView, Error> {
        let key = UserKey {
            tenant: permit.tenant().clone(),
            name,
        };
        if administrator && !permit.is_administrator() {
            return Err(only_administrators("make an administrator"));
        }
        if administrator && key.tenant != Tenant::system() {
            let words = "is for users of the tenant system";
            return Err(Error::invalid("administrator", words));
        }
        let role = administrator.then_some(Role::Administrator);
        let _one_at_a_time = self.changing.lock().await;
        let directory = self.directory.load_full();
        if directory.accounts.len() >= MAX_USERS {
            let words = format!("the node has {MAX_USERS} users already");
            return Err(Error::new(Reason::LimitExceeded, words));
        }
        let row = UserRow {
            tenant: key.tenant.to_string(),
            name: key.name.to_string(),
            role,
            disabled: false,
            created_ns: now_ns(),
        };
        let account = Account::new(key.clone(), role, false, row.created_ns, Vec::new());
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
    /// `NOT_FOUND`; `PERMISSION_DENIED` for the last administrator, or for an administrator where
    /// the caller is none; `DEGRADED`.
    pub async fn disable_user(&self, permit: Permit, name: Label) -> Result<UserView, Error> {
        let key = UserKey {
            tenant: permit.tenant().clone(),
            name,
        };
        let _one_at_a_time = self.changing.lock().await;
        let account = self.account(&key)?;
        self.may_restrict(&permit, &account, "be disabled")?;
        let (tenant, user) = (key.tenant.to_string(), key.name.to_string());
        let line = Line::Disabled {
            tenant: tenant.clone(),
            user: user.clone(),
            created_ns: account.created_ns,
        };
        self.revocation_log.add(vec![line]).await?;
        // The next daemon puts it into the database.
        if let Err(error) = self.store.set_disabled(tenant, user, true).await {
            tracing::error!(%error, user = %key, "a disabled user is in the revocation log alone");
        }
        Ok(self.publish_disabled(&account, true))
    }

    /// Lets a disabled user in again, with the certificates that have not ended and were not
    /// revoked.
    ///
    /// # Errors
    /// `NOT_FOUND`; `PERMISSION_DENIED` for an administrator, where the caller is none; `DEGRADED`.
    pub async fn enable_user(&self, permit: Permit, name: Label) -> Result<UserView, Error> {
        let key = UserKey {
            tenant: permit.tenant().clone(),
            name,
        };
        let _one_at_a_time = self.changing.lock().await;
        let account = self.account(&key)?;
        if account.is_administrator() && !permit.is_administrator() {
            return Err(only_administrators("enable an administrator"));
        }
        let (tenant, user) = (key.tenant.to_string(), key.name.to_string());
        // The log last: until it is there, the next daemon refuses the user.
        let stored = self.store.set_disabled(tenant.clone(), user.clone(), false);
        stored.await?;
        self.revocation_log
            .add(vec![Line::Enabled { tenant, user }])
            .await?;
        Ok(self.publish_disabled(&account, false))
    }

    fn publish_disabled(&self, account: &Account, disabled: bool) -> UserView {
        let changed = account.changed(disabled, account.grants.clone());
        let view = self.view(&changed);
        self.publish(self.directory.load().with(changed));
        view
    }

    /// Only an administrator may restrict an administrator, and only while another administrator is
    /// left.
    pub(super) fn may_restrict(
        &self,
        permit: &Permit,
        account: &Account,
        what: &str,
    ) -> Result<(), Error> {
        if !account.is_administrator() {
            return Ok(());
        }
        if !permit.is_administrator() {
            return Err(only_administrators("restrict an administrator"));
        }
        if self.directory.load().another_administrator(&account.key) {
            return Ok(());
        }
        let words = format!(
            "{} is the last administrator without a denial, and can't {what}",
            account.key
        );
        Err(Error::new(Reason::PermissionDenied, words).hint(
            "make another one first (`aurae identity user create NAME --tenant system \
             --administrator`), or revoke a single certificate",
        ))
    }

    /// The caller of this request, as the node knows it.
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
