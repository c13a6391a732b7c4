// SPDX-License-Identifier: Apache-2.0
//! Gives, withdraws and explains grants. Each function takes the permit of its own action. Rules
//! that a permit can't express (a member gives nothing that members don't have) are checked here.

use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant};

use super::authorize::explain;
use super::directory::MAX_GRANTS;
use super::policy::Grant;
use super::target::{Effect, Reach};
use crate::ca::issue::only_administrators;
use crate::{Identity, Permit, UserKey};
use store::{GrantEffect, GrantRow, now_ns};

/// The parts of a new grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantRequest {
    /// The user that it is for.
    pub user: UserKey,
    /// Whether it permits or forbids.
    pub effect: GrantEffect,
    /// An action, `subsystem.Method`, or all of a group, `subsystem`.
    pub action: String,
    /// Only objects at or below this path. `None`: all of the tenant's.
    pub path: Option<ObjectPath>,
}

/// An answer to "would it be allowed?".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// Whether the policies allow it.
    pub allowed: bool,
    /// The policies that decide; none, where nothing permits it.
    pub policies: Vec<String>,
    /// The decision in words.
    pub explanation: String,
}

impl Identity {
    /// Gives a grant, which allows or denies. It is about the objects of the permit's tenant. A
    /// caller who is not an administrator can give it only to users of that tenant, and can allow
    /// nothing that members don't have by themselves.
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
        if effect == GrantEffect::Deny && UserKey::administrator().is_ok_and(|a| a == user) {
            // `auraed credentials` gives root this user, which must be able to repair the node.
            let words = format!("the administrator {user} can't be denied anything");
            return Err(Error::new(Reason::PermissionDenied, words).hint("disable it instead"));
        }
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

    /// Withdraws a grant. A caller who is not an administrator can withdraw grants on objects of
    /// the permit's tenant.
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

    /// Whether a user would be allowed to do something, and by which policies. A caller who is not
    /// an administrator can ask about users of the permit's tenant.
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
        let effect = Effect {
            action: known.name,
            path: path.cloned(),
            reach: Reach::Object,
        };
        let internal = |e: crate::PolicyError| Error::internal(e.to_string());
        let slice = account.slice(&self.engine).map_err(internal)?;
        let verdict = self
            .engine
            .decide(slice, number, Some(tenant), &effect)
            .map_err(internal)?;
        let whose = format!("tenant {tenant}");
        Ok(Explanation {
            explanation: explain(&verdict, known.name, &user.to_string(), &whose),
            allowed: verdict.allowed,
            policies: verdict.policies,
        })
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
