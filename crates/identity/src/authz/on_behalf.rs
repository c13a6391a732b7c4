// SPDX-License-Identifier: Apache-2.0
//! Permits for what the node does by itself because a user has asked for it once (`schedule`). Each
//! act is decided anew, as a call of that user would be: a user that was disabled, or a grant that
//! was withdrawn, refuses it. No connection can get such a permit.

use std::sync::Arc;

use model::name::Tenant;

use super::authorize::{Denied, Question, refusal};
use super::target::Target;
use crate::authn::peer::Peer;
use crate::authn::spiffe::{SpiffeId, Subject, UserKey};
use crate::{Identity, Permit};

impl Identity {
    /// A permit for an act on behalf of a user, who isn't connected. `target.about` says for what
    /// the node acts; it stands in the audit, beside the user.
    ///
    /// A line that can't be written, or a store that can't, refuse nothing here: what was declared
    /// before the disk was full goes on. The audit counts the lines that it has lost.
    ///
    /// # Errors
    /// [`Denied`]: the user is disabled or gone, or no policy permits an effect.
    pub fn permit_on_behalf(
        &self,
        user: &UserKey,
        action: &'static str,
        tenant: &Tenant,
        target: &Target,
    ) -> Result<Permit, Denied> {
        let peer = self.absent(user);
        let effects = target.effects(action);
        self.kinds(&effects)?;
        let question = Question {
            peer: &peer,
            tenant: Some(tenant),
            effects: &effects,
            request_id: "",
            about: &target.about,
        };
        if let Err(why) = self.check(&peer) {
            self.note_refusal(&question, why.name());
            return Err(why.into());
        }
        let decision = self.decide(&question)?;
        if let Err(error) = self.record(&question, &decision) {
            tracing::warn!(actor = peer.id(), about = target.about, %error, "not recorded");
        }
        if let Some(denied) = &decision.denied {
            return Err(refusal(&question, denied, &decision.verdict));
        }
        Ok(Permit {
            actor: peer.id().to_owned(),
            user: user.clone(),
            peer: None,
            tenant: tenant.clone(),
            effects,
            hidden: decision.hidden,
            every_tenant: false,
            administrator: decision.administrator,
            unbounded: false,
        })
    }

    /// Counts the changes of users and grants: what was refused may be permitted now.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The user as a caller without a certificate: what counts is the account alone.
    fn absent(&self, user: &UserKey) -> Peer {
        let id = SpiffeId {
            domain: self.trust_domain().clone(),
            subject: Subject::User(user.clone()),
        };
        Peer {
            user: Arc::new(user.clone()),
            id: id.to_string().into(),
            serial: "".into(),
            issued: i64::MAX,
            not_after: i64::MAX,
            socket: None,
        }
    }
}
