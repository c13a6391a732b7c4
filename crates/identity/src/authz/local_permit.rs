// SPDX-License-Identifier: Apache-2.0
//! Permits for who reaches the node by a socket that is the machine's own, without a certificate:
//! the system bus and `/run/systemd/private`. The kernel says which user it is (`SO_PEERCRED`; on
//! the bus, the bus says what the kernel has told it). Uid 0 is the node's administrator, as it is
//! everywhere on the node (`auraed credentials`); others may look, and change nothing.

use model::name::Tenant;

use super::authorize::Denied;
use super::permit::Permit;
use super::target::{Effect, Reach};
use crate::Identity;
use crate::audit::Entry;
use crate::authn::peer::SocketCredentials;
use crate::authn::spiffe::UserKey;

/// Names the reason in the audit, where a caller's line names policies.
const ROOT: &str = "local-root";
const READER: &str = "local-read";
/// A longer text about a call is cut for the audit, in characters.
const MAX_ABOUT: usize = 256;

impl Identity {
    /// Decides a call of a local process, and records it with the process' uid and pid. `about`
    /// says what the call is about, `how` by which socket it came.
    ///
    /// # Errors
    /// [`Denied::Forbidden`]: it changes something, and isn't uid 0's. [`Denied::Defect`]: the
    /// action isn't known. [`Denied::Degraded`]: the audit can't be written.
    pub async fn local_permit(
        &self,
        who: SocketCredentials,
        action: &'static str,
        about: &str,
        how: &str,
    ) -> Result<Permit, Denied> {
        let effect = Effect {
            action,
            path: None,
            reach: Reach::Object,
        };
        let effects = vec![effect.clone()];
        let kinds = self.kinds(&effects)?;
        let is_root = who.uid == 0;
        let allowed = is_root || !kinds.mutating;
        let actor = format!("uid:{}", who.uid);
        let policy = if is_root { ROOT } else { READER };
        let entry = Entry {
            actor: actor.clone(),
            uid: Some(who.uid),
            action: action.to_owned(),
            tenant: Tenant::system().to_string(),
            about: about.chars().take(MAX_ABOUT).collect(),
            allowed,
            policies: allowed.then(|| policy.to_owned()).into_iter().collect(),
            note: format!("pid {}, by {how}", who.pid),
            ..Entry::default()
        };
        if !allowed {
            // Folded with equal ones: who may do nothing doesn't fill the audit either.
            if let Err(error) = self.audit.record_read(entry) {
                tracing::warn!(actor, action, %error, "refused, and not recorded");
            }
            return Err(Denied::Forbidden {
                user: actor,
                effect,
                explanation: "of the machine's own users root alone changes units".to_owned(),
            });
        }
        let recorded = match kinds.mutating {
            true => self.audit.record(entry),
            false => self.audit.record_read(entry),
        };
        if let Err(error) = self.settle(recorded, kinds.durable).await {
            // Root repairs a node whose disk is full, as with a certificate.
            match is_root && kinds.mutating {
                true => tracing::warn!(actor, action, %error, "root changes a degraded node"),
                false => {
                    let words = error.to_string();
                    return Err(Denied::Degraded { words });
                }
            }
        }
        let user = UserKey::administrator().map_err(|e| Denied::Defect(e.to_string()))?;
        Ok(Permit {
            actor,
            user,
            peer: None,
            tenant: Tenant::system(),
            effects,
            hidden: Vec::new(),
            every_tenant: false,
            administrator: is_root,
            unbounded: false,
        })
    }
}
