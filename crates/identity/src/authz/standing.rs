// SPDX-License-Identifier: Apache-2.0
//! Open streams: each stream's request is decided again whenever users or grants change, so that a
//! stream ends when its permission is withdrawn. `peer` watches the certificate; this watches the
//! permission.

use model::name::Tenant;

use super::authorize::{Denied, Hidden, Question, refusal};
use super::target::Effect;
use crate::Identity;
use crate::authn::peer::Peer;

/// The permission of an open stream.
#[derive(Clone, Debug)]
pub struct Standing {
    pub(crate) tenant: Option<Tenant>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) hidden: Vec<Hidden>,
}

impl Identity {
    /// Waits until the caller's certificate no longer counts, or one of what it was permitted is
    /// allowed no longer, and says why. Answers within a second of that. A permission that was
    /// withdrawn is a line of the audit.
    pub async fn withdrawn(&self, peer: &Peer, standings: &[Standing]) -> Denied {
        let mut changes = self.changes.subscribe();
        let asked_again = async {
            loop {
                // Marked before asking, so that a change in between wakes us.
                changes.borrow_and_update();
                let denied = standings
                    .iter()
                    .find_map(|s| self.asks_again(peer, s).err());
                if let Some(denied) = denied {
                    return denied;
                }
                // The sender lives as long as `self`.
                let _never_closed = changes.changed().await;
            }
        };
        tokio::select! {
            biased;
            why = self.ended(peer) => why.into(),
            denied = asked_again => denied,
        }
    }

    fn asks_again(&self, peer: &Peer, standing: &Standing) -> Result<(), Denied> {
        let question = Question {
            peer,
            tenant: standing.tenant.as_ref(),
            effects: &standing.effects,
            request_id: "",
            about: "",
        };
        let decision = self.decide(&question)?;
        let Some(denied) = &decision.denied else {
            let more = decision.hidden.iter().any(|h| !standing.hidden.contains(h));
            return if more { Err(Denied::Narrowed) } else { Ok(()) };
        };
        if let Err(error) = self.record(&question, &decision) {
            tracing::warn!(actor = peer.id(), %error, "the end of a stream is not recorded");
        }
        Err(refusal(&question, denied, &decision.verdict))
    }
}
