// SPDX-License-Identifier: Apache-2.0
//! Certificates for users: issued, renewed (`revoke` refuses them). Keys never come here; a signing
//! request proves that its sender holds the private half, and its public half is all that is used
//! of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::error::{Error, Reason};
use model::name::Label;

use super::authority::{Signed, key_of_request};
use super::revocation_log::Line;
use crate::authn::peer::Peer;
use crate::authn::spiffe::{SpiffeId, Subject};
use crate::{Identity, Permit, UserKey};
use store::{IssuedRow, MAX_CERTIFICATES, now_ns};

/// The shortest life of a certificate.
const SHORTEST: Duration = Duration::from_secs(1);
/// A certificate that was just signed, for its user.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate, as PEM.
    pub certificate_pem: String,
    /// The trust domain's CA, PEM.
    pub ca_pem: String,
    /// The certificate's serial number, hexadecimal.
    pub serial: String,
    /// The user's SPIFFE ID.
    pub spiffe_id: String,
    /// Seconds since the epoch.
    pub not_after: i64,
}

impl Identity {
    /// Signs a certificate for a user. Only administrators may for an administrator.
    ///
    /// # Errors
    /// `NOT_FOUND`, `USER_DISABLED`, `INVALID_FIELD` (`csr_pem`, `lifetime`), `PERMISSION_DENIED`,
    /// `DEGRADED`.
    pub async fn issue(
        &self,
        permit: Permit,
        name: Label,
        csr_pem: &str,
        lifetime: Option<Duration>,
    ) -> Result<Issued, Error> {
        let user = UserKey {
            tenant: permit.tenant().clone(),
            name,
        };
        if self.account(&user)?.is_administrator() && !permit.is_administrator() {
            return Err(only_administrators(
                "issue a certificate for an administrator",
            ));
        }
        let own = permit.peer.filter(|peer| *peer.user == user);
        self.sign(user, own, csr_pem, lifetime).await
    }

    /// Signs a certificate for the caller itself. The new certificate descends from its present
    /// one, which stays valid until its own end.
    ///
    /// # Errors
    /// Those of [`Identity::issue`].
    pub async fn renew(
        &self,
        permit: Permit,
        csr_pem: &str,
        lifetime: Option<Duration>,
    ) -> Result<Issued, Error> {
        self.sign(permit.user().clone(), permit.peer, csr_pem, lifetime)
            .await
    }

    /// `parent`: whose certificate proved the request, where it is the same user's.
    async fn sign(
        &self,
        user: UserKey,
        parent: Option<Peer>,
        csr_pem: &str,
        lifetime: Option<Duration>,
    ) -> Result<Issued, Error> {
        // A revocation that comes meanwhile must find what descends from the certificate.
        let _one_at_a_time = self.changing.lock().await;
        let account = self.account(&user)?;
        if let Some(parent) = &parent {
            self.check(parent)?;
        }
        if account.disabled {
            let words = format!("the user {user} was disabled");
            return Err(Error::new(Reason::UserDisabled, words).about("user", user.to_string()));
        }
        let key = key_of_request(csr_pem).map_err(|e| Error::invalid("csr_pem", e))?;
        let longest = if account.is_administrator() {
            self.lifetimes.load().administrator
        } else {
            self.lifetimes.load().user
        };
        let lifetime = lifetime.unwrap_or(longest.min(self.lifetimes.load().user));
        if lifetime < SHORTEST || lifetime > longest {
            let words = format!("must be from 1 s to {} s", longest.as_secs());
            return Err(Error::invalid("lifetime", words));
        }
        let subject = Subject::User(user.clone());
        let signed = self
            .authority
            .sign(&subject, &key, self.signing_time(&user), lifetime)
            .map_err(|e| Error::internal(e.to_string()))?;
        self.remember(&user, parent.as_ref(), &signed).await?;
        let id = SpiffeId {
            domain: self.authority.domain().clone(),
            subject,
        };
        Ok(Issued {
            certificate_pem: signed.pem,
            ca_pem: self.authority.pem().to_owned(),
            serial: signed.serial,
            spiffe_id: id.to_string(),
            not_after: signed.not_after,
        })
    }
}

impl Identity {
    /// Now, or the next second where now is in one whose certificates are refused.
    fn signing_time(&self, user: &UserKey) -> SystemTime {
        let now = SystemTime::now();
        let from = self.directory.load().valid_from.get(user).copied();
        let from = from.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
        now.max(UNIX_EPOCH + Duration::from_secs(from.div_ceil(1_000_000_000)))
    }

    /// Keeps the lineage of a certificate before it is handed out.
    async fn remember(
        &self,
        user: &UserKey,
        parent: Option<&Peer>,
        signed: &Signed,
    ) -> Result<(), Error> {
        let seconds = |s: i64| s.saturating_mul(1_000_000_000);
        let row = |serial: &str, issued_ns, until| IssuedRow {
            serial: serial.to_owned(),
            tenant: user.tenant.to_string(),
            user: user.name.to_string(),
            parent: None,
            issued_ns,
            until_ns: seconds(until),
        };
        let now = now_ns();
        let mut rows = Vec::new();
        // The parent may be unknown: signed offline, or before the database was lost.
        if let Some(parent) = parent
            && self
                .store
                .issued(parent.serial.to_string())
                .await?
                .is_none()
        {
            rows.push(row(
                &parent.serial,
                seconds(parent.issued),
                parent.not_after,
            ));
        }
        rows.push(IssuedRow {
            parent: parent.map(|parent| parent.serial.to_string()),
            ..row(&signed.serial, now, signed.not_after)
        });
        let lines = rows.iter().map(Line::issued).collect();
        for row in rows {
            if !self.store.add_issued(row, now).await? {
                let words = format!(
                    "the user {user} has {MAX_CERTIFICATES} certificates that have not ended"
                );
                return Err(Error::new(Reason::LimitExceeded, words)
                    .hint("revoke those that are not used, or ask for shorter lifetimes"));
            }
        }
        self.revocation_log.add(lines).await
    }
}

pub(crate) fn only_administrators(what: &str) -> Error {
    Error::new(
        Reason::PermissionDenied,
        format!("only an administrator may {what}"),
    )
}
