// SPDX-License-Identifier: Apache-2.0
//! The only function that makes a [`Permit`]. It checks that the caller's certificate still counts,
//! then that the policies permit every effect of the request, and then records the decision. This
//! happens for every request, before its first effect
//! (`docs/adr/0019-every-effect-is-authorized-first.md`).

use model::error::{Error, Reason};
use model::name::Tenant;

use super::actions::ActionDef;
use super::permit::Permit;
use super::policy::{Grant, Scope, Verdict};
use super::target::{Effect, Reach, Target};
use crate::Identity;
use crate::audit::{AuditError, Entry};
use crate::authn::peer::{Peer, Unauthenticated};
use store::GrantEffect;

/// Why there is no permit.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Denied {
    /// The caller's certificate was revoked or has expired, or its user is disabled.
    #[error(transparent)]
    Unauthenticated(#[from] Unauthenticated),
    /// It is about another tenant, of whose objects the caller may learn nothing.
    #[error("there is no such object")]
    Hidden {
        /// The tenant that was named.
        tenant: String,
        /// The object that was named.
        path: Option<String>,
    },
    /// It is about the caller's own tenant, but no policy permits it, or one forbids it.
    #[error("{user} may not do {effect}: {explanation}")]
    Forbidden {
        /// The caller, as TENANT/USER.
        user: String,
        /// The action, and the object.
        effect: Effect,
        /// The policies that decided, in words, or that none permits.
        explanation: String,
    },
    /// An open stream lists objects of which some were denied meanwhile.
    #[error("some of what this stream shows was denied since it began")]
    Narrowed,
    /// Only root may change something now.
    #[error("the node is degraded and changes nothing: {words}")]
    Degraded {
        /// The broken part, in words: the store or the audit.
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
            Denied::Forbidden { effect, .. } => Error::new(Reason::PermissionDenied, text)
                .about("action", effect.action)
                .hint("`aurae identity explain` shows which policies decide"),
            Denied::Narrowed => Error::new(Reason::PermissionDenied, text)
                .hint("open it again: it then leaves out what is denied"),
            Denied::Degraded { .. } => Error::new(Reason::Degraded, text).hint(
                "root on the node may still change things, with an administrator's certificate",
            ),
            Denied::Defect(_) => Error::internal(text),
        }
    }
}

/// The policies that decided, in words.
pub(crate) fn explain(verdict: &Verdict, action: &str, user: &str, whose: &str) -> String {
    let policies = verdict.policies.join(", ");
    match (verdict.allowed, verdict.policies.is_empty()) {
        (true, _) => format!("permitted by {policies}"),
        (false, true) => format!("no policy permits {action} on {whose} to {user}"),
        (false, false) => format!("forbidden by {policies}"),
    }
}

/// The parts of a request that a decision needs, with its scope resolved.
pub(crate) struct Question<'a> {
    pub(crate) peer: &'a Peer,
    /// The tenant of the objects. `None`: every tenant.
    pub(crate) tenant: Option<&'a Tenant>,
    /// The request's own effect first.
    pub(crate) effects: &'a [Effect],
    pub(crate) request_id: &'a str,
    pub(crate) about: &'a str,
}

/// The decision of the policies about all effects of a request.
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    /// The first effect that is not allowed.
    pub(crate) denied: Option<Effect>,
    pub(crate) administrator: bool,
    pub(crate) hidden: Vec<Hidden>,
}

/// Objects that a listing leaves out: a tenant's objects at and below a path, or all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hidden {
    pub(crate) tenant: Tenant,
    pub(crate) path: Option<model::name::ObjectPath>,
}

/// A longer request id is cut for the audit, in characters: a line of it has a bound.
const MAX_REQUEST_ID: usize = 128;
/// The same for the user or certificate that a call is about.
const MAX_ABOUT: usize = 256;

impl Question<'_> {
    fn action(&self) -> &'static str {
        self.effects.first().map_or("", |effect| effect.action)
    }

    fn path(&self) -> Option<String> {
        let own = self.effects.first()?;
        own.path.as_ref().map(ToString::to_string)
    }
}

impl Identity {
    /// Decides a request with all its effects and records the decision, in one line. For actions
    /// that change something, the line is in the kernel (for those whose effect outlives a power
    /// loss: on disk) before the permit is given.
    ///
    /// # Errors
    /// [`Denied`]; it becomes the answer as it is (`Error::from`).
    pub async fn authorize(
        &self,
        peer: &Peer,
        action: &str,
        target: Target,
    ) -> Result<Permit, Denied> {
        let (_, action) = self.known(action)?;
        let effects = target.effects(action.name);
        let tenant = match &target.scope {
            Scope::Own => Some(&peer.user.tenant),
            Scope::Tenant(tenant) => Some(tenant),
            Scope::Every => None,
        };
        let question = Question {
            peer,
            tenant,
            effects: &effects,
            request_id: target.request_id.as_deref().unwrap_or_default(),
            about: &target.about,
        };
        if let Err(why) = self.check(peer) {
            self.note_refusal(&question, why.name());
            return Err(why.into());
        }
        let decision = self.decide(&question)?;
        let recorded = self.record(&question, &decision);
        if let Some(denied) = &decision.denied {
            return Err(refusal(&question, denied, &decision.verdict));
        }
        let kinds = self.kinds(&effects)?;
        if kinds.mutating {
            let recorded = self.settle(recorded, kinds.durable).await;
            self.admit_change(peer, decision.administrator, recorded)?;
        }
        Ok(Permit {
            actor: peer.id.to_string(),
            user: (*peer.user).clone(),
            peer: Some(peer.clone()),
            tenant: tenant.unwrap_or(&peer.user.tenant).clone(),
            effects,
            hidden: decision.hidden,
            every_tenant: target.scope == Scope::Every,
            administrator: decision.administrator,
            unbounded: false,
        })
    }

    fn known(&self, action: &str) -> Result<(usize, ActionDef), Denied> {
        match self.actions.find(action) {
            Some((number, action)) => Ok((number, *action)),
            None => Err(Denied::Defect(format!("{action} is not a known action"))),
        }
    }

    /// Whether any of the effects changes something, and whether any outlives a power loss.
    pub(crate) fn kinds(&self, effects: &[Effect]) -> Result<Kinds, Denied> {
        let mut kinds = Kinds::default();
        for effect in effects {
            let (_, action) = self.known(effect.action)?;
            kinds.mutating |= action.mutating;
            kinds.durable |= action.durable;
        }
        Ok(kinds)
    }

    /// Asks the policies about each effect, up to the first that is not allowed.
    pub(crate) fn decide(&self, question: &Question<'_>) -> Result<Decision, Denied> {
        let defect = |e: super::policy::PolicyError| Denied::Defect(e.to_string());
        let directory = self.directory.load();
        let Some(account) = directory.accounts.get(&*question.peer.user) else {
            let user = question.peer.user.to_string();
            return Err(Unauthenticated::Unknown { user }.into());
        };
        let slice = account.slice(&self.engine).map_err(defect)?;
        let mut decision = Decision {
            verdict: Verdict {
                allowed: true,
                policies: Vec::new(),
            },
            denied: None,
            administrator: account.is_administrator(),
            hidden: hidden(&account.grants, question),
        };
        for effect in question.effects {
            let (number, _) = self.known(effect.action)?;
            let decided = self.engine.decide(slice, number, question.tenant, effect);
            let verdict = decided.map_err(defect)?;
            if !verdict.allowed {
                decision.verdict = verdict;
                decision.denied = Some(effect.clone());
                break;
            }
            decision.verdict.policies.extend(verdict.policies);
        }
        decision.verdict.policies.sort_unstable();
        decision.verdict.policies.dedup();
        Ok(decision)
    }

    pub(crate) fn record(
        &self,
        question: &Question<'_>,
        decision: &Decision,
    ) -> Result<Option<u64>, AuditError> {
        let own = question.effects.first();
        let denied = decision
            .denied
            .as_ref()
            .filter(|denied| Some(*denied) != own);
        let entry = Entry {
            actor: question.peer.id.to_string(),
            uid: question.peer.socket.map(|s| s.uid),
            action: question.action().to_owned(),
            tenant: question.tenant.map_or("*", Tenant::as_str).to_owned(),
            path: question.path().unwrap_or_default(),
            also: named(question.effects),
            allowed: decision.verdict.allowed,
            policies: decision.verdict.policies.clone(),
            request_id: question.request_id.chars().take(MAX_REQUEST_ID).collect(),
            about: question.about.chars().take(MAX_ABOUT).collect(),
            note: denied.map_or_else(String::new, |denied| format!("not allowed: {denied}")),
            ..Entry::default()
        };
        match self.kinds(question.effects) {
            Ok(kinds) if !kinds.mutating => self.audit.record_read(entry),
            _ => self.audit.record(entry),
        }
    }

    pub(crate) fn note_refusal(&self, question: &Question<'_>, why: &'static str) {
        let refused = Decision {
            verdict: Verdict {
                allowed: false,
                policies: vec![why.to_owned()],
            },
            denied: None,
            administrator: false,
            hidden: Vec::new(),
        };
        if let Err(e) = self.record(question, &refused) {
            // The call is refused without its line; the audit counts lost lines.
            tracing::warn!(
                actor = question.peer.id(),
                why,
                "refused, and not recorded: {e}"
            );
        }
    }

    pub(super) async fn settle(
        &self,
        recorded: Result<Option<u64>, AuditError>,
        durable: bool,
    ) -> Result<(), AuditError> {
        match recorded? {
            Some(sequence) if durable => self.audit.settled(sequence).await,
            _ => Ok(()),
        }
    }

    /// With the audit or the store broken, only root may change something, over the Unix socket and
    /// with an administrator's certificate, so that the node can be repaired.
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

/// The effects beside a request's own, for a line of the audit, which has a bound.
pub(crate) fn named(effects: &[Effect]) -> Vec<String> {
    const MOST_BYTES: usize = 16 * 1024;
    let mut names = Vec::new();
    let mut bytes = 0;
    for (n, effect) in effects.iter().enumerate().skip(1) {
        let name = effect.to_string();
        bytes += name.len();
        if bytes > MOST_BYTES {
            names.push(format!("and {} more", effects.len() - n));
            break;
        }
        names.push(name);
    }
    names
}

/// Whether any effect of a request changes something, and whether any is durable.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kinds {
    pub(super) mutating: bool,
    pub(super) durable: bool,
}

/// The denials that lie inside what the request lists.
fn hidden(grants: &[Grant], question: &Question<'_>) -> Vec<Hidden> {
    let Some(own) = question.effects.first() else {
        return Vec::new();
    };
    if own.reach != Reach::Visible {
        return Vec::new();
    }
    let group = own
        .action
        .split_once('.')
        .map_or(own.action, |(group, _)| group);
    let binds = |grant: &&Grant| {
        grant.effect == GrantEffect::Deny
            && (grant.action == own.action || grant.action == group)
            && question.tenant.is_none_or(|tenant| *tenant == grant.target)
    };
    let denied = grants.iter().filter(binds);
    denied
        .map(|grant| Hidden {
            tenant: grant.target.clone(),
            path: grant.path.clone(),
        })
        .collect()
}

pub(crate) fn refusal(question: &Question<'_>, denied: &Effect, verdict: &Verdict) -> Denied {
    let user = question.peer.user.to_string();
    match question.tenant {
        Some(tenant) if *tenant != question.peer.user.tenant => Denied::Hidden {
            tenant: tenant.to_string(),
            path: question.path(),
        },
        tenant => {
            let whose = tenant.map_or_else(
                || "every tenant".to_owned(),
                |tenant| format!("tenant {tenant}"),
            );
            Denied::Forbidden {
                explanation: explain(verdict, denied.action, &user, &whose),
                user,
                effect: denied.clone(),
            }
        }
    }
}
