// SPDX-License-Identifier: Apache-2.0
//! Policies: the built-in ones and those of grants, evaluated by Cedar. Pure: users and grants come
//! in, a decision goes out; `authorize` calls it and records the decision.
//!
//! Cedar's time is linear in policies, so each user has a *slice*: the built-in policies and that
//! user's own grants, compiled once and dropped when either changes. The tenant, path and reach of
//! a request are in its context, so the entities of a slice (the actions with their groups, and the
//! user) never change with requests.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;

use cedar_policy::{
    Authorizer, Context, Decision, Effect as CedarEffect, Entities, Entity, EntityId,
    EntityTypeName, EntityUid, Policy, PolicyId, PolicySet, Request, RestrictedExpression, Schema,
    ValidationMode, Validator,
};
use model::name::{ObjectPath, Tenant};

use super::actions::{Actions, Audience};
use super::target::{Effect, Reach};
use crate::authn::spiffe::UserKey;
use store::{GrantEffect, Role};

/// The tenant in a request that is about every tenant's objects. No tenant can be called so.
const EVERY_TENANT: &str = "*";
/// The group of the actions that members may do on their own; not a subsystem's name.
const MEMBER_GROUP: &str = "builtin.member";
/// The ids of the built-in policies.
pub(crate) const ADMINISTRATOR_POLICY: &str = "builtin.administrator";
const MEMBER_POLICY: &str = "builtin.tenant";

/// A policy, or the schema, that Cedar doesn't take. With checked parts this is a defect.
#[derive(Debug, thiserror::Error)]
#[error("policies can't be used: {0}")]
pub struct PolicyError(String);

fn defect(error: impl ToString) -> PolicyError {
    PolicyError(error.to_string())
}

/// An action that a user is allowed or denied, on some objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The id of the grant, which is the policy's name in Cedar.
    pub id: String,
    /// The user or tenant it is for.
    pub user: UserKey,
    /// Whether it permits or forbids.
    pub effect: GrantEffect,
    /// A known action, or a group.
    pub action: String,
    /// The tenant whose objects it is about.
    pub target: Tenant,
    /// Only objects at or below this path; `None`: all of the tenant's.
    pub path: Option<ObjectPath>,
    /// When it was given, `CLOCK_REALTIME` in nanoseconds.
    pub created_ns: i64,
}

/// The tenants whose objects a request is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Those of the caller's own tenant.
    Own,
    /// The objects of one tenant.
    Tenant(Tenant),
    /// Those of every tenant; only administrators may.
    Every,
}

/// Cedar's decision about one effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    /// Whether the call may go on.
    pub allowed: bool,
    /// The policies that decided; none, where nothing permits it.
    pub policies: Vec<String>,
}

/// A user's compiled policies.
#[derive(Debug)]
pub(crate) struct Slice {
    policies: PolicySet,
    entities: Entities,
    principal: EntityUid,
}

/// Compiles policies and decides requests.
pub(crate) struct Engine {
    authorizer: Authorizer,
    schema: Schema,
    builtin: PolicySet,
    actions: Vec<EntityUid>,
    user_type: EntityTypeName,
    object: EntityUid,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("actions", &self.actions.len())
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new(actions: &Actions) -> Result<Self, PolicyError> {
        let (schema, warnings) =
            Schema::from_cedarschema_str(&schema_text(actions)).map_err(defect)?;
        if let Some(warning) = warnings.into_iter().next() {
            return Err(defect(warning));
        }
        let engine = Self {
            authorizer: Authorizer::new(),
            builtin: builtin_policies()?,
            actions: actions
                .iter()
                .map(|a| uid("Aurae::Action", a.name))
                .collect::<Result<_, _>>()?,
            user_type: EntityTypeName::from_str("Aurae::User").map_err(defect)?,
            object: uid("Aurae::Object", "object")?,
            schema,
        };
        engine.validate(&engine.builtin)?;
        Ok(engine)
    }

    fn validate(&self, policies: &PolicySet) -> Result<(), PolicyError> {
        let result = Validator::new(self.schema.clone()).validate(policies, ValidationMode::Strict);
        match result.validation_errors().next() {
            None => Ok(()),
            Some(error) => Err(defect(error)),
        }
    }

    /// Checks a grant against the schema, as the slice would have it.
    pub(crate) fn check(&self, grant: &Grant) -> Result<(), PolicyError> {
        let policies = PolicySet::from_policies([policy_of(grant)?]).map_err(defect)?;
        self.validate(&policies)
    }

    /// The policies of one user.
    pub(crate) fn slice(
        &self,
        user: &UserKey,
        role: Option<Role>,
        grants: &[Grant],
    ) -> Result<Slice, PolicyError> {
        let mut policies = self.builtin.clone();
        for grant in grants {
            policies.add(policy_of(grant)?).map_err(defect)?;
        }
        let id = EntityId::new(user.to_string());
        let principal = EntityUid::from_type_name_and_id(self.user_type.clone(), id);
        let text = |s: &str| RestrictedExpression::new_string(s.to_owned());
        let administrator = role == Some(Role::Administrator);
        let attributes = HashMap::from([
            ("tenant".to_owned(), text(user.tenant.as_str())),
            (
                "administrator".to_owned(),
                RestrictedExpression::new_bool(administrator),
            ),
        ]);
        let entity = Entity::new(principal.clone(), attributes, HashSet::new()).map_err(defect)?;
        // With the schema: without it the entities would lose the actions' groups.
        let entities = Entities::from_entities([entity], Some(&self.schema)).map_err(defect)?;
        Ok(Slice {
            policies,
            entities,
            principal,
        })
    }

    /// Decides one request. `action` is the number that `Actions` gave.
    pub(crate) fn decide(
        &self,
        slice: &Slice,
        action: usize,
        tenant: Option<&Tenant>,
        effect: &Effect,
    ) -> Result<Verdict, PolicyError> {
        let path = effect.path.as_ref();
        let action = self
            .actions
            .get(action)
            .ok_or_else(|| defect("unknown action"))?;
        let text = RestrictedExpression::new_string;
        let tenant = tenant.map_or(EVERY_TENANT, Tenant::as_str);
        let context = Context::from_pairs([
            ("tenant".to_owned(), text(tenant.to_owned())),
            (
                "path".to_owned(),
                text(path.map(ToString::to_string).unwrap_or_default()),
            ),
            (
                "subtree".to_owned(),
                RestrictedExpression::new_bool(effect.reach == Reach::Subtree),
            ),
        ])
        .map_err(defect)?;
        let request = Request::new(
            slice.principal.clone(),
            action.clone(),
            self.object.clone(),
            context,
            None,
        )
        .map_err(defect)?;
        let response = self
            .authorizer
            .is_authorized(&request, &slice.policies, &slice.entities);
        if let Some(error) = response.diagnostics().errors().next() {
            // A policy that can't be evaluated must not silently drop out: it may be a forbid.
            return Err(defect(error));
        }
        let mut policies: Vec<String> = response
            .diagnostics()
            .reason()
            .map(|id| AsRef::<str>::as_ref(id).to_owned())
            .collect();
        policies.sort_unstable();
        Ok(Verdict {
            allowed: response.decision() == Decision::Allow,
            policies,
        })
    }
}

fn uid(kind: &str, id: &str) -> Result<EntityUid, PolicyError> {
    let kind = EntityTypeName::from_str(kind).map_err(defect)?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
}

fn schema_text(actions: &Actions) -> String {
    let mut text = String::from(
        "namespace Aurae {\n  entity User = { tenant: String, administrator: Bool };\n  \
         entity Object;\n",
    );
    let mut groups: Vec<&str> = actions
        .iter()
        .map(super::actions::ActionDef::group)
        .collect();
    groups.push(MEMBER_GROUP);
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        text.push_str(&format!("  action {group:?};\n"));
    }
    for action in actions.iter() {
        let member = match action.audience {
            Audience::Member => format!(", {MEMBER_GROUP:?}"),
            Audience::Administrator => String::new(),
        };
        text.push_str(&format!(
            "  action {:?} in [{:?}{member}] appliesTo {{ principal: [User], resource: [Object],
                 context: {{ tenant: String, path: String, subtree: Bool }} }};\n",
            action.name,
            action.group(),
        ));
    }
    text.push_str("}\n");
    text
}

fn builtin_policies() -> Result<PolicySet, PolicyError> {
    let member = format!(
        "permit (principal, action in Aurae::Action::{MEMBER_GROUP:?}, resource)
         when {{ context.tenant == principal.tenant }};"
    );
    let administrator = "permit (principal, action, resource)
         when { principal.tenant == \"system\" && principal.administrator };";
    PolicySet::from_policies([
        parse(ADMINISTRATOR_POLICY, administrator)?,
        parse(MEMBER_POLICY, &member)?,
    ])
    .map_err(defect)
}

fn parse(id: &str, text: &str) -> Result<Policy, PolicyError> {
    Policy::parse(Some(PolicyId::new(id)), text).map_err(defect)
}

/// One policy of typed parts. Labels have no character that means anything to Cedar, and the action
/// was looked up among the known ones, so the text can't say more than the parts.
fn policy_of(grant: &Grant) -> Result<Policy, PolicyError> {
    let effect = match grant.effect {
        GrantEffect::Allow => CedarEffect::Permit,
        GrantEffect::Deny => CedarEffect::Forbid,
    };
    let below = grant.path.as_ref().map_or_else(String::new, |path| {
        let around = match grant.effect {
            GrantEffect::Allow => String::new(),
            GrantEffect::Deny => around(path),
        };
        format!(" && (context.path == \"{path}\" || context.path like \"{path}/*\"{around})")
    });
    let text = format!(
        "{effect} (principal == Aurae::User::\"{}\", action in Aurae::Action::\"{}\", resource)
         when {{ context.tenant == \"{}\"{below} }};",
        grant.user, grant.action, grant.target
    );
    parse(&grant.id, &text)
}

/// A denial also binds what reaches its path from a cell around it.
fn around(path: &ObjectPath) -> String {
    let cells = std::iter::successors(path.parent(), ObjectPath::parent);
    let mut text = String::from(" || (context.subtree && (context.path == \"\"");
    for cell in cells {
        text.push_str(&format!(" || context.path == \"{cell}\""));
    }
    text + "))"
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
