// SPDX-License-Identifier: Apache-2.0
//! The one way to a [`Permit`]: is the caller still somebody, do the policies permit the action, is
//! the decision recorded. In this order, for every request.

use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant};

use super::actions::ActionDef;
use super::permit::Permit;
use super::policy::{Scope, Verdict};
use crate::Identity;
use crate::audit::{AuditError, Entry};
use crate::authn::peer::{Peer, Unauthenticated};

/// What a request is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Whose objects.
    pub scope: Scope,
    /// Which one, where one is named.
    pub path: Option<ObjectPath>,
    /// For the audit.
    pub request_id: Option<String>,
}

impl Target {
    /// The caller's own tenant, no object.
    pub fn own() -> Self {
        Self::of(None, None)
    }

    /// An object, of the tenant that was named or else the caller's own.
    pub fn of(tenant: Option<Tenant>, path: Option<ObjectPath>) -> Self {
        Self {
            scope: tenant.map_or(Scope::Own, Scope::Tenant),
            path,
            request_id: None,
        }
    }

    /// Everybody's objects.
    pub fn every_tenant() -> Self {
        Self {
            scope: Scope::Every,
            path: None,
            request_id: None,
        }
    }

    /// With the caller's id of the request.
    #[must_use]
    pub fn request(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }
}

/// Why there is no permit.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Denied {
    /// The caller is nobody any more.
    #[error(transparent)]
    Unauthenticated(#[from] Unauthenticated),
    /// It is about another tenant, of which the caller may not learn a thing.
    #[error("there is no such object")]
    Hidden {
        /// The tenant that was named.
        tenant: String,
        /// The object that was named.
        path: Option<String>,
    },
    /// The caller's own, but no policy permits it, or one forbids it.
    #[error("{user} may not do {action}: {explanation}")]
    Forbidden {
        /// Who.
        user: String,
        /// What.
        action: &'static str,
        /// Which policies decided, or that none permits.
        explanation: String,
    },
    /// Nothing may be changed now but by root.
    #[error("the node is degraded and changes nothing: {words}")]
    Degraded {
        /// What is broken.
        words: String,
    },
    /// A defect of the node.
    #[error("the decision failed: {0}")]
    Defect(String),
}

impl From<Denied> for Error {
    fn from(denied: Denied) -> Self {
        let text = denied.to_string();
        match denied {
            Denied::Unauthenticated(why) => why.into(),
            Denied::Hidden { tenant, path } => match path {
                Some(path) => Error::not_found("object", path),
                None => Error::not_found("tenant", tenant),
            },
            Denied::Forbidden { action, .. } => Error::new(Reason::PermissionDenied, text)
                .about("action", action)
                .hint("`aurae identity explain` tells which policies decide"),
            Denied::Degraded { .. } => Error::new(Reason::Degraded, text).hint(
                "root on the node may still change things, with an administrator's certificate",
            ),
            Denied::Defect(_) => Error::internal(text),
        }
    }
}

/// In words, which policies decided.
pub(crate) fn explain(verdict: &Verdict, action: &str, user: &str, whose: &str) -> String {
    let policies = verdict.policies.join(", ");
    match (verdict.allowed, verdict.policies.is_empty()) {
        (true, _) => format!("permitted by {policies}"),
        (false, true) => format!("no policy permits {action} on {whose} to {user}"),
        (false, false) => format!("forbidden by {policies}"),
    }
}

/// What a decision needs to know of a request, with its own scope resolved.
struct Question<'a> {
    peer: &'a Peer,
    action: &'static str,
    tenant: Option<&'a Tenant>,
    target: &'a Target,
}

/// What is kept of a caller's request id, in characters: a line of the audit has a bound.
const MAX_REQUEST_ID: usize = 128;

impl Question<'_> {
    fn request_id(&self) -> String {
        let id = self.target.request_id.as_deref().unwrap_or_default();
        id.chars().take(MAX_REQUEST_ID).collect()
    }
}

impl Identity {
    /// Decides a request and records the decision. For actions that change something, the line is
    /// in the kernel (for those whose effect outlives a power loss: on disk) before the permit is
    /// given.
    ///
    /// # Errors
    /// [`Denied`]; it becomes the answer as it is (`Error::from`).
    pub async fn authorize(
        &self,
        peer: &Peer,
        action: &str,
        target: Target,
    ) -> Result<Permit, Denied> {
        let Some((number, action)) = self.actions.find(action) else {
            return Err(Denied::Defect(format!("{action} is not a known action")));
        };
        let action = *action;
        let tenant = match &target.scope {
            Scope::Own => Some(&peer.user.tenant),
            Scope::Tenant(tenant) => Some(tenant),
            Scope::Every => None,
        };
        let question = Question {
            peer,
            action: action.name,
            tenant,
            target: &target,
        };
        if let Err(why) = self.check(peer) {
            self.note_refusal(&question, why.name());
            return Err(why.into());
        }
        let (verdict, administrator) = self.verdict(number, &question)?;
        let recorded = self.record(&question, &verdict);
        if !verdict.allowed {
            return Err(refusal(&question, &verdict));
        }
        if action.mutating {
            let recorded = self.settle(recorded, action).await;
            self.admit_change(peer, administrator, recorded)?;
        }
        Ok(Permit {
            actor: peer.id.to_string(),
            user: (*peer.user).clone(),
            action: action.name,
            tenant: tenant.unwrap_or(&peer.user.tenant).clone(),
            path: target.path,
            every_tenant: target.scope == Scope::Every,
            administrator,
        })
    }

    /// The policies' verdict, and whether the caller is an administrator.
    fn verdict(&self, action: usize, question: &Question<'_>) -> Result<(Verdict, bool), Denied> {
        let defect = |e: super::policy::PolicyError| Denied::Defect(e.to_string());
        let directory = self.directory.load();
        let Some(account) = directory.accounts.get(&*question.peer.user) else {
            let user = question.peer.user.to_string();
            return Err(Unauthenticated::Unknown { user }.into());
        };
        let slice = account.slice(&self.engine).map_err(defect)?;
        let path = question.target.path.as_ref();
        let verdict = self
            .engine
            .decide(slice, action, question.tenant, path)
            .map_err(defect)?;
        Ok((verdict, account.is_administrator()))
    }

    fn record(
        &self,
        question: &Question<'_>,
        verdict: &Verdict,
    ) -> Result<Option<u64>, AuditError> {
        self.audit.record(Entry {
            actor: question.peer.id.to_string(),
            uid: question.peer.socket.map(|s| s.uid),
            action: question.action.to_owned(),
            tenant: question.tenant.map_or("*", Tenant::as_str).to_owned(),
            path: question
                .target
                .path
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            allowed: verdict.allowed,
            policies: verdict.policies.clone(),
            request_id: question.request_id(),
            ..Entry::default()
        })
    }

    fn note_refusal(&self, question: &Question<'_>, why: &'static str) {
        let verdict = Verdict {
            allowed: false,
            policies: vec![why.to_owned()],
        };
        if let Err(e) = self.record(question, &verdict) {
            // The refusal stands without its line; the audit counts what it lost.
            tracing::warn!(
                actor = question.peer.id(),
                why,
                "refused, and not recorded: {e}"
            );
        }
    }

    async fn settle(
        &self,
        recorded: Result<Option<u64>, AuditError>,
        action: ActionDef,
    ) -> Result<(), AuditError> {
        match recorded? {
            Some(sequence) if action.durable => self.audit.settled(sequence).await,
            _ => Ok(()),
        }
    }

    /// With the audit or the store broken, only root may change something, over the Unix socket and
    /// with an administrator's certificate: somebody must be able to repair the node.
    fn admit_change(
        &self,
        peer: &Peer,
        administrator: bool,
        recorded: Result<(), AuditError>,
    ) -> Result<(), Denied> {
        let broken = match recorded {
            Err(e) => Some(e.to_string()),
            Ok(()) => self.store.health().degraded(),
        };
        match broken {
            None => Ok(()),
            Some(words) if administrator && peer.is_root() => {
                tracing::warn!(actor = peer.id(), "root changes a degraded node ({words})");
                Ok(())
            }
            Some(words) => Err(Denied::Degraded { words }),
        }
    }
}

fn refusal(question: &Question<'_>, verdict: &Verdict) -> Denied {
    let user = question.peer.user.to_string();
    match question.tenant {
        Some(tenant) if *tenant != question.peer.user.tenant => Denied::Hidden {
            tenant: tenant.to_string(),
            path: question.target.path.as_ref().map(ToString::to_string),
        },
        tenant => {
            let whose = tenant.map_or_else(
                || "every tenant".to_owned(),
                |tenant| format!("tenant {tenant}"),
            );
            Denied::Forbidden {
                explanation: explain(verdict, question.action, &user, &whose),
                user,
                action: question.action,
            }
        }
    }
}
