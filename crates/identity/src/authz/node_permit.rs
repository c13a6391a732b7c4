// SPDX-License-Identifier: Apache-2.0
//! Permits for what the node does by itself (`boot.run`, pods), decided and recorded like the
//! calls of users. The actor is the node; the objects belong to the administrators' tenant, or to
//! the pod's. `auraed/boot` and `pod` call it; no connection can get such a permit.

use model::name::Tenant;

use super::authorize::{Denied, named};
use super::target::Effect;
use crate::audit::Entry;
use crate::authn::spiffe::{SpiffeId, Subject, UserKey};
use crate::{Identity, Permit};

/// Names the reason in the audit, where a caller's line names policies.
const POLICY: &str = "configuration";

impl Identity {
    /// A permit for something that the node's own configuration asks for. A line of the audit that
    /// can't be written refuses nothing: on a full disk units are started again and stopped, and a
    /// machine goes down. The audit counts the lines that it has lost.
    ///
    /// # Errors
    /// [`Denied::Defect`]: an effect has an unknown action.
    pub fn node_permit(&self, effects: Vec<Effect>) -> Result<Permit, Denied> {
        self.node_permit_in(Tenant::system(), effects)
    }

    /// The same for objects of a tenant: for what the node was asked to keep running there.
    ///
    /// # Errors
    /// As [`Identity::node_permit`].
    pub fn node_permit_in(&self, tenant: Tenant, effects: Vec<Effect>) -> Result<Permit, Denied> {
        self.kinds(&effects)?;
        let user = UserKey::administrator().map_err(|e| Denied::Defect(e.to_string()))?;
        let subject = Subject::Node(self.node.clone());
        let actor = SpiffeId {
            domain: self.trust_domain().clone(),
            subject,
        }
        .to_string();
        let own = effects.first();
        let recorded = self.audit.record(Entry {
            actor: actor.clone(),
            action: own.map_or_else(String::new, |own| own.action.to_owned()),
            tenant: tenant.to_string(),
            path: own
                .and_then(|own| own.path.as_ref())
                .map(ToString::to_string)
                .unwrap_or_default(),
            also: named(&effects),
            allowed: true,
            policies: vec![POLICY.to_owned()],
            ..Entry::default()
        });
        if let Err(error) = recorded {
            tracing::debug!(actor, %error, "not recorded");
        }
        Ok(Permit {
            actor,
            user,
            peer: None,
            tenant,
            effects,
            hidden: Vec::new(),
            every_tenant: false,
            administrator: true,
            unbounded: false,
        })
    }
}
