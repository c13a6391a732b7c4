// SPDX-License-Identifier: Apache-2.0
//! The proof that a call was authorized. The layers below the RPCs take a [`Permit`] by value;
//! nothing outside `identity` can make one, so a call that forgets authorization does not compile.

use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant};
use model::request::Scope;

use super::authorize::Hidden;
use super::standing::Standing;
use super::target::Effect;
#[cfg(feature = "test-permits")]
use super::target::Reach;
use crate::authn::peer::Peer;
use crate::authn::spiffe::UserKey;

/// One authorized call: who, what, on whose objects. Not `Clone`: one decision, one call.
#[derive(Debug)]
pub struct Permit {
    pub(crate) actor: String,
    pub(crate) user: UserKey,
    /// The caller; `None`: the node itself.
    pub(crate) peer: Option<Peer>,
    pub(crate) tenant: Tenant,
    /// The effects that were permitted, the call's own first.
    pub(crate) effects: Vec<Effect>,
    pub(crate) hidden: Vec<Hidden>,
    pub(crate) every_tenant: bool,
    pub(crate) administrator: bool,
    /// Covers everything (tests of the layers below).
    pub(crate) unbounded: bool,
}

impl Permit {
    /// The caller's SPIFFE ID.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// The caller, by tenant and name.
    pub fn user(&self) -> &UserKey {
        &self.user
    }

    /// The action that was permitted, `subsystem.Method`.
    pub fn action(&self) -> &'static str {
        self.effects.first().map_or("", |effect| effect.action)
    }

    /// The tenant whose objects the call is about.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The object that was named, where one was.
    pub fn path(&self) -> Option<&ObjectPath> {
        self.effects.first()?.path.as_ref()
    }

    /// The caller may see the objects of every tenant (administrators listing `*`).
    pub fn every_tenant(&self) -> bool {
        self.every_tenant
    }

    /// Whether that effect on objects of that tenant was decided, and allowed.
    pub fn covers(&self, tenant: &Tenant, effect: &Effect) -> bool {
        let tenant = self.every_tenant || self.tenant == *tenant;
        let effect = self.effects.iter().any(|own| own.includes(effect));
        tenant && (effect || self.unbounded)
    }

    /// Demands that the permit covers an effect. What is missing was not known when the call was
    /// decided (an object began to run meanwhile), or is a defect above.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`.
    pub fn demand(&self, tenant: &Tenant, effect: &Effect) -> Result<(), Error> {
        if self.covers(tenant, effect) {
            return Ok(());
        }
        let words = format!("the permit for {} does not cover {effect}", self.action());
        Err(Error::new(Reason::PermissionDenied, words)
            .about("action", effect.action)
            .hint("the object has changed during the call: call again"))
    }

    /// A permit for a part of what this one covers: for one call of a longer work that was decided
    /// as a whole, such as keeping a pod's containers running.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`: an effect isn't covered.
    pub fn part(&self, effects: Vec<Effect>) -> Result<Permit, Error> {
        for effect in &effects {
            self.demand(&self.tenant, effect)?;
        }
        Ok(Permit {
            actor: self.actor.clone(),
            user: self.user.clone(),
            peer: self.peer.clone(),
            tenant: self.tenant.clone(),
            effects,
            hidden: self.hidden.clone(),
            every_tenant: false,
            administrator: self.administrator,
            unbounded: false,
        })
    }

    /// Demands that the permit is for objects of that tenant. That another one's arrives is a
    /// defect above, not a question of policy; it must still not get through.
    ///
    /// # Errors
    /// `INTERNAL`.
    pub fn demand_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        if self.every_tenant || self.tenant == *tenant {
            return Ok(());
        }
        let action = self.action();
        let message = format!("the permit for {action} does not cover this object");
        Err(Error::internal(message))
    }

    /// Demands that the permit is for the objects of all tenants that a listing asks about.
    ///
    /// # Errors
    /// `INTERNAL`, as of [`Permit::demand_tenant`].
    pub fn demand_scope(&self, scope: &Scope) -> Result<(), Error> {
        match scope {
            Scope::Tenant(tenant) => self.demand_tenant(tenant),
            Scope::Every if self.every_tenant => Ok(()),
            Scope::Every => Err(Error::internal("the permit does not cover every tenant")),
        }
    }

    /// Whether a listing may show that object: no denial is at its path or around it.
    pub fn shows(&self, tenant: &Tenant, path: &ObjectPath) -> bool {
        let hides = |hidden: &Hidden| {
            let within = hidden
                .path
                .as_ref()
                .is_none_or(|outer| path.is_within(outer));
            hidden.tenant == *tenant && within
        };
        !self.hidden.iter().any(hides)
    }

    /// Whether a listing may show what is of that tenant: no denial is of all of it.
    pub fn shows_tenant(&self, tenant: &Tenant) -> bool {
        let hides = |hidden: &Hidden| hidden.tenant == *tenant && hidden.path.is_none();
        !self.hidden.iter().any(hides)
    }

    /// The decision that an open stream asks for again with every change of users and grants.
    pub fn standing(&self) -> Standing {
        Standing {
            tenant: (!self.every_tenant).then(|| self.tenant.clone()),
            effects: self.effects.clone(),
            hidden: self.hidden.clone(),
        }
    }

    /// The caller has the administrator's role.
    pub fn is_administrator(&self) -> bool {
        self.administrator
    }

    /// The same for a caller that gives up being an administrator for this call: what is for
    /// administrators alone is refused then.
    #[must_use]
    pub fn as_a_member(self) -> Self {
        Self {
            administrator: false,
            ..self
        }
    }

    /// The node acts by itself.
    pub fn is_the_nodes(&self) -> bool {
        self.peer.is_none() && !self.unbounded
    }

    /// A permit without a decision, for tests of the layers below: an administrator's, for objects
    /// of `tenant`. The feature is only ever enabled by tests.
    ///
    /// # Errors
    /// Only if the built-in name `admin` were no label.
    #[cfg(feature = "test-permits")]
    pub fn for_tests(
        action: &'static str,
        tenant: Tenant,
    ) -> Result<Self, crate::authn::spiffe::InvalidIdentity> {
        Ok(Self {
            actor: "spiffe://test/tenant/system/user/admin".to_owned(),
            user: UserKey::administrator()?,
            peer: None,
            tenant,
            effects: vec![Effect {
                action,
                path: None,
                reach: Reach::Object,
            }],
            hidden: Vec::new(),
            every_tenant: true,
            administrator: true,
            unbounded: true,
        })
    }

    /// The same, asked for by this user.
    #[cfg(feature = "test-permits")]
    #[must_use]
    pub fn of_user(self, user: UserKey) -> Self {
        Self { user, ..self }
    }
}
