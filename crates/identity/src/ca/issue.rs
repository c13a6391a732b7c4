// SPDX-License-Identifier: Apache-2.0
//! Certificates for users: issued, renewed, revoked. Keys never come here; a signing request proves
//! that its sender holds the private half, and its public half is all that is used of it.

use std::time::{Duration, SystemTime};

use model::error::{Error, Reason};
use model::name::Label;

use super::authority::key_of_request;
use crate::authn::peer::now_ns;
use crate::authn::spiffe::{SpiffeId, Subject, parse_serial};
use crate::authz::directory::MAX_REVOCATIONS;
use crate::{Identity, Permit, UserKey};
use store::{IssuedRow, RevocationRow};

/// The shortest life of a certificate.
const SHORTEST: Duration = Duration::from_secs(1);
/// A certificate that this database hasn't seen (issued before it was lost, or offline) is refused
/// for as long as a CA lives.
const UNKNOWN_UNTIL_NS: i64 = 10 * 366 * 24 * 3600 * 1_000_000_000;
/// The longest reason of a revocation, in characters.
const MAX_REASON: usize = 256;

/// A new certificate.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// The trust domain's CA, PEM.
    pub ca_pem: String,
    /// Hexadecimal.
    pub serial: String,
    /// Whose.
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
        self.sign(user, csr_pem, lifetime).await
    }

    /// The same for the caller itself. Its present certificate stays valid until its own end.
    ///
    /// # Errors
    /// As [`Identity::issue`].
    pub async fn renew(
        &self,
        permit: Permit,
        csr_pem: &str,
        lifetime: Option<Duration>,
    ) -> Result<Issued, Error> {
        self.sign(permit.user().clone(), csr_pem, lifetime).await
    }

    async fn sign(
        &self,
        user: UserKey,
        csr_pem: &str,
        lifetime: Option<Duration>,
    ) -> Result<Issued, Error> {
        let account = self.account(&user)?;
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
            .sign(&subject, &key, SystemTime::now(), lifetime)
            .map_err(|e| Error::internal(e.to_string()))?;
        let row = IssuedRow {
            serial: signed.serial.clone(),
            tenant: user.tenant.to_string(),
            user: user.name.to_string(),
            until_ns: signed.not_after.saturating_mul(1_000_000_000),
        };
        self.store.add_issued(row, now_ns()).await?;
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

    /// Refuses a certificate from now on; its open streams end within a second. Who is no
    /// administrator can revoke certificates of the own tenant.
    ///
    /// # Errors
    /// `INVALID_FIELD` (`serial`, `reason`), `NOT_FOUND`, `LIMIT_EXCEEDED`, `DEGRADED`.
    pub async fn revoke(&self, permit: Permit, serial: &str, reason: &str) -> Result<(), Error> {
        let serial = parse_serial(serial).map_err(|e| Error::invalid("serial", e))?;
        if reason.chars().count() > MAX_REASON || reason.chars().any(char::is_control) {
            let words = "must be at most 256 characters, none of them a control character";
            return Err(Error::invalid("reason", words));
        }
        let issued = self.store.issued(serial.clone()).await?;
        let own = issued
            .as_ref()
            .is_some_and(|i| i.tenant == permit.tenant().as_str());
        if !own && !permit.is_administrator() {
            return Err(Error::not_found("certificate", serial));
        }
        let now = now_ns();
        let _one_at_a_time = self.changing.lock().await;
        let directory = self.directory.load_full();
        if directory.revoked.len() >= MAX_REVOCATIONS {
            let words = format!("{MAX_REVOCATIONS} certificates are revoked already");
            return Err(Error::new(Reason::LimitExceeded, words));
        }
        let row = RevocationRow {
            serial: serial.clone(),
            reason: reason.to_owned(),
            until_ns: issued.map_or(now.saturating_add(UNKNOWN_UNTIL_NS), |i| i.until_ns),
            created_ns: now,
        };
        self.revocation_log.revoked(&row).await?;
        self.publish(directory.with_revoked(serial.clone(), reason));
        // The next daemon puts it into the database.
        if let Err(error) = self.store.add_revocation(row).await {
            tracing::error!(%error, serial, "a revocation is in the revocation log alone");
        }
        Ok(())
    }
}

pub(crate) fn only_administrators(what: &str) -> Error {
    Error::new(
        Reason::PermissionDenied,
        format!("only an administrator may {what}"),
    )
}
