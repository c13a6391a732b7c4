// SPDX-License-Identifier: Apache-2.0
//! Users and grants, and the questions about them: who there is, who may do what and why, what was
//! decided. Each function takes the permit of its own action; what a permit can't say (nobody
//! grants more than he has) is checked here.

use std::sync::Arc;

use model::error::{Error, Reason};
use model::name::{Label, ObjectPath, Tenant};

use super::audit::{Entry, Filter, Hash, Reader, Verdict};
use super::authorize::explain;
use super::directory::{Account, MAX_GRANTS, MAX_USERS};
use super::issue::only_administrators;
use super::peer::{Peer, now_ns};
use super::policy::Grant;
use super::spiffe::{SpiffeId, Subject};
use super::{Identity, Permit, UserKey};
use store::{GrantEffect, GrantRow, UserRow};

/// Audit lines read at once.
const PAGE: usize = 256;

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

/// What is to be granted, by its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantRequest {
    /// Whom it is for.
    pub user: UserKey,
    /// Permit or forbid.
    pub effect: GrantEffect,
    /// `subsystem.Method`, or `subsystem`.
    pub action: String,
    /// Only at or below this path.
    pub path: Option<ObjectPath>,
}

/// An answer to "would it be allowed?".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// Whether.
    pub allowed: bool,
    /// The policies that decide; none, where nothing permits it.
    pub policies: Vec<String>,
    /// The same in words.
    pub explanation: String,
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

/// Lines of the audit, page by page; see [`Identity::read_audit`].
#[derive(Debug)]
pub struct AuditPage {
    reader: Reader,
    filter: Filter,
    /// Oldest first.
    pub lines: Vec<(Entry, Hash)>,
    /// There may be more by now.
    pub more: bool,
}

impl Identity {
    pub(super) fn account(&self, user: &UserKey) -> Result<Arc<Account>, Error> {
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
    fn may_restrict(&self, permit: &Permit, account: &Account, what: &str) -> Result<(), Error> {
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

    /// Allows or denies. The permit's tenant is the one whose objects it is about. Who is no
    /// administrator can only give users of that same tenant, and nothing that members don't have
    /// by themselves.
    ///
    /// # Errors
    /// `NOT_FOUND` (the user), `INVALID_FIELD` (`action`), `PERMISSION_DENIED`, `LIMIT_EXCEEDED`,
    /// `DEGRADED`.
    pub async fn grant(&self, permit: Permit, request: GrantRequest) -> Result<Grant, Error> {
        let GrantRequest {
            user,
            effect,
            action,
            path,
        } = request;
        if self.actions.find(&action).is_none() && !self.actions.is_group(&action) {
            let words = format!("{action:?} is neither an action nor a subsystem of this node");
            return Err(Error::invalid("action", words));
        }
        if !permit.is_administrator() {
            if user.tenant != *permit.tenant() {
                return Err(Error::not_found("user", user.to_string()));
            }
            if self.actions.is_privileged(&action) {
                return Err(only_administrators(&format!("give or take {action}")));
            }
        }
        let _one_at_a_time = self.changing.lock().await;
        let account = self.account(&user)?;
        if effect == GrantEffect::Deny {
            self.may_restrict(&permit, &account, "be denied anything")?;
        }
        if account.grants.len() >= MAX_GRANTS {
            let words = format!("the user {user} has {MAX_GRANTS} grants already");
            return Err(Error::new(Reason::LimitExceeded, words));
        }
        let grant = Grant {
            id: new_id()?,
            user,
            effect,
            action,
            target: permit.tenant().clone(),
            path,
            created_ns: now_ns(),
        };
        self.engine
            .check(&grant)
            .map_err(|e| Error::internal(e.to_string()))?;
        self.store.add_grant(row_of(&grant)).await?;
        let mut grants = account.grants.clone();
        grants.push(grant.clone());
        self.publish(
            self.directory
                .load()
                .with(account.changed(account.disabled, grants)),
        );
        Ok(grant)
    }

    /// Takes a grant back. Who is no administrator can for grants on the own tenant's objects.
    ///
    /// # Errors
    /// `NOT_FOUND`, `DEGRADED`.
    pub async fn withdraw(&self, permit: Permit, id: &str) -> Result<(), Error> {
        let _one_at_a_time = self.changing.lock().await;
        let directory = self.directory.load_full();
        let may = |g: &Grant| permit.is_administrator() || g.target == *permit.tenant();
        let account = directory
            .accounts
            .values()
            .find(|a| a.grants.iter().any(|g| g.id == id && may(g)))
            .ok_or_else(|| Error::not_found("grant", id.chars().take(80).collect::<String>()))?;
        self.store.remove_grant(id.to_owned()).await?;
        let mut grants = account.grants.clone();
        grants.retain(|g| g.id != id);
        self.publish(directory.with(account.changed(account.disabled, grants)));
        Ok(())
    }

    /// Whether a user would be allowed to, and by which policies. Who is no administrator can ask
    /// about users of the permit's tenant.
    ///
    /// # Errors
    /// `NOT_FOUND` (the user), `INVALID_FIELD` (`action`).
    pub fn explain(
        &self,
        permit: &Permit,
        user: &UserKey,
        action: &str,
        target: Option<&Tenant>,
        path: Option<&ObjectPath>,
    ) -> Result<Explanation, Error> {
        let hidden = user.tenant != *permit.tenant() && !permit.is_administrator();
        let account = match self.account(user) {
            Ok(account) if !hidden => account,
            _ => return Err(Error::not_found("user", user.to_string())),
        };
        let Some((number, known)) = self.actions.find(action) else {
            let words = format!("{action:?} is not an action of this node");
            return Err(Error::invalid("action", words));
        };
        let tenant = target.unwrap_or(&user.tenant);
        if account.disabled {
            return Ok(Explanation {
                allowed: false,
                policies: Vec::new(),
                explanation: format!("the user {user} was disabled"),
            });
        }
        let internal = |e: super::PolicyError| Error::internal(e.to_string());
        let slice = account.slice(&self.engine).map_err(internal)?;
        let verdict = self
            .engine
            .decide(slice, number, Some(tenant), path)
            .map_err(internal)?;
        let whose = format!("tenant {tenant}");
        Ok(Explanation {
            explanation: explain(&verdict, known.name, &user.to_string(), &whose),
            allowed: verdict.allowed,
            policies: verdict.policies,
        })
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

    /// The first page of the audit's lines; go on with [`Identity::next_audit`]. Counted denials
    /// are written first, so that they show.
    ///
    /// # Errors
    /// `INTERNAL`: a file can't be read.
    pub async fn read_audit(&self, _permit: Permit, filter: Filter) -> Result<AuditPage, Error> {
        self.audit.flush();
        let page = AuditPage {
            reader: self.audit.reader(),
            filter,
            lines: Vec::new(),
            more: true,
        };
        self.next_audit(page).await
    }

    /// The page after this one. To follow, wait for `audit().commits()` between pages without
    /// `more`.
    ///
    /// # Errors
    /// `INTERNAL`: a file can't be read.
    pub async fn next_audit(&self, mut page: AuditPage) -> Result<AuditPage, Error> {
        let upto = self.audit.head().sequence;
        blocking(move || {
            page.lines = page.reader.read(&page.filter, upto, PAGE)?;
            page.more = page.lines.len() == PAGE;
            Ok(page)
        })
        .await
    }

    /// Verifies the whole audit against the newest line that was written, which node-init holds
    /// too.
    ///
    /// # Errors
    /// `INTERNAL`: a file can't be read.
    pub async fn verify_audit(&self, _permit: Permit) -> Result<Verdict, Error> {
        self.audit.flush();
        let head = self.audit.head();
        let reader = self.audit.reader();
        blocking(move || reader.verify(head)).await
    }
}

async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(job).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(e)) => Err(Error::internal(format!("the audit can't be read: {e}"))),
        Err(_) => Err(Error::internal("reading the audit ended early")),
    }
}

fn new_id() -> Result<String, Error> {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0u8; 8];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::internal("the kernel gives no random numbers"))?;
    Ok(format!("grant-{:016x}", u64::from_be_bytes(bytes)))
}

fn row_of(grant: &Grant) -> GrantRow {
    GrantRow {
        id: grant.id.clone(),
        tenant: grant.user.tenant.to_string(),
        user: grant.user.name.to_string(),
        effect: grant.effect,
        action: grant.action.clone(),
        target_tenant: grant.target.to_string(),
        path: grant.path.as_ref().map(ToString::to_string),
        created_ns: grant.created_ns,
    }
}
