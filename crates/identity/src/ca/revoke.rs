// SPDX-License-Identifier: Apache-2.0
//! Certificates as administrators see them, and their end: one with all that descend from it, or
//! every one of a user up to a moment (`docs/adr/0026-certificates-have-a-lineage.md`).

use std::collections::{HashMap, HashSet};

use model::error::{Error, Reason};
use model::name::{Label, Tenant};

use super::revocation_log::Line;
use crate::audit::Entry;
use crate::authn::spiffe::parse_serial;
use crate::authz::directory::{Directory, MAX_REVOCATIONS};
use crate::{Identity, Permit, UserKey};
use store::{IssuedRow, RevocationRow, now_ns};

/// A second in nanoseconds.
const SECOND: i64 = 1_000_000_000;
/// The longest reason of a revocation, in characters.
const MAX_REASON: usize = 256;

/// A certificate that the node has signed for a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateView {
    /// The certificate's serial number, hexadecimal.
    pub serial: String,
    /// The one that proved the request for it.
    pub parent: Option<String>,
    /// `CLOCK_REALTIME`, nanoseconds; 0: not known.
    pub issued_ns: i64,
    /// Its end: `CLOCK_REALTIME`, nanoseconds.
    pub until_ns: i64,
    /// Refused before its end; the reason may be empty.
    pub revoked: Option<String>,
    /// Whether requests with it are served now.
    pub live: bool,
}

impl Identity {
    /// The certificates of a user of the permit's tenant, oldest first: those that have not ended,
    /// and those that they descend from.
    ///
    /// # Errors
    /// `NOT_FOUND`, or the database can't be read.
    pub async fn certificates(
        &self,
        permit: Permit,
        name: Label,
    ) -> Result<Vec<CertificateView>, Error> {
        let user = UserKey {
            tenant: permit.tenant().clone(),
            name,
        };
        let account = self.account(&user)?;
        let rows = self.certificates_of(&user).await?;
        let directory = self.directory.load();
        let now = now_ns();
        let view = |row: IssuedRow| {
            let revoked = revoked(&directory, &user, &row);
            CertificateView {
                live: revoked.is_none() && row.until_ns >= now && !account.disabled,
                revoked,
                serial: row.serial,
                parent: row.parent,
                issued_ns: row.issued_ns,
                until_ns: row.until_ns,
            }
        };
        Ok(rows.into_iter().map(view).collect())
    }

    async fn certificates_of(&self, user: &UserKey) -> Result<Vec<IssuedRow>, Error> {
        let of = (user.tenant.to_string(), user.name.to_string());
        Ok(self.store.certificates(Some(of)).await?)
    }

    /// The tenant of the user whose certificate it is, where the node knows it.
    ///
    /// # Errors
    /// `DEGRADED`, `INTERNAL`: the database or the administrator's file can't be read.
    /// `SHUTTING_DOWN`: the daemon stops.
    pub async fn tenant_of_certificate(&self, serial: &str) -> Result<Option<Tenant>, Error> {
        let Ok(serial) = parse_serial(serial) else {
            return Ok(None);
        };
        let known = self.known_certificate(&serial).await?;
        Ok(known.and_then(|row| row.tenant.parse().ok()))
    }

    /// The certificate of this serial, from the database or from the administrator's file, which
    /// root may have written.
    async fn known_certificate(&self, serial: &str) -> Result<Option<IssuedRow>, Error> {
        if let Some(row) = self.store.issued(serial.to_owned()).await? {
            return Ok(Some(row));
        }
        let file = self.pki.pair("admin");
        let file = file.map_err(|e| Error::internal(e.to_string()))?;
        let Some(facts) = file.map(|pair| pair.facts).filter(|f| f.serial == serial) else {
            return Ok(None);
        };
        let user = UserKey::administrator().map_err(|e| Error::internal(e.to_string()))?;
        Ok(Some(IssuedRow {
            serial: facts.serial,
            tenant: user.tenant.to_string(),
            user: user.name.to_string(),
            parent: None,
            issued_ns: facts.issued.saturating_mul(1_000_000_000),
            until_ns: facts.not_after.saturating_mul(1_000_000_000),
        }))
    }

    /// Refuses a certificate and all that descend from it from now on; their open streams end
    /// within a second. Answers their serials, its own first. A caller that is no administrator can
    /// revoke certificates of its own tenant.
    ///
    /// # Errors
    /// `INVALID_FIELD` (`serial`, `reason`), `NOT_FOUND`, `LIMIT_EXCEEDED`, `DEGRADED`.
    pub async fn revoke(
        &self,
        permit: Permit,
        serial: &str,
        reason: &str,
    ) -> Result<Vec<String>, Error> {
        let serial = parse_serial(serial).map_err(|e| Error::invalid("serial", e))?;
        check_reason(reason)?;
        let _one_at_a_time = self.changing.lock().await;
        let known = self.known_certificate(&serial).await?;
        let own =
            known.filter(|row| row.tenant == permit.tenant().as_str() || permit.is_administrator());
        let Some(first) = own else {
            return Err(Error::not_found("certificate", serial).hint(
                "the node knows no certificate of this serial; `aurae identity certificates USER` \
                 lists them, and `aurae identity revoke --user USER --before now` refuses those \
                 that it doesn't know, too",
            ));
        };
        let all = self
            .store
            .certificates(Some((first.tenant.clone(), first.user.clone())));
        let mut refused = vec![first.clone()];
        refused.extend(descendants(&all.await?, HashSet::from([first.serial])));
        let rows = self.rows(refused, &serial, reason);
        self.refuse(&permit, rows, None).await
    }

    /// Refuses every certificate of a user of the permit's tenant that was issued before a moment,
    /// known to the node or not, and all that descend from those. Answers the serials of those that
    /// it knows.
    ///
    /// # Errors
    /// `INVALID_FIELD` (`before`, in the future; `reason`), `NOT_FOUND`, `PERMISSION_DENIED` (an
    /// administrator's, by a caller that is none), `LIMIT_EXCEEDED`, `DEGRADED`.
    pub async fn revoke_before(
        &self,
        permit: Permit,
        name: Label,
        before_ns: i64,
        reason: &str,
    ) -> Result<Vec<String>, Error> {
        check_reason(reason)?;
        if before_ns > now_ns() {
            return Err(Error::invalid("before", "must not be in the future"));
        }
        let user = UserKey {
            tenant: permit.tenant().clone(),
            name,
        };
        let _one_at_a_time = self.changing.lock().await;
        if self.account(&user)?.is_administrator() && !permit.is_administrator() {
            let what = "revoke an administrator's certificates";
            return Err(super::issue::only_administrators(what));
        }
        let all = self.certificates_of(&user).await?;
        // Certificates count in seconds.
        let second = |row: &IssuedRow| row.issued_ns.div_euclid(SECOND).saturating_mul(SECOND);
        let (early, late): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|row| second(row) < before_ns);
        let serials = early.iter().map(|row| row.serial.clone()).collect();
        let mut refused = early;
        refused.extend(descendants(&late, serials));
        let rows = self.rows(refused, "", reason);
        self.refuse(&permit, rows, Some((user, before_ns))).await
    }

    /// The rows to be added: of what has not ended and is not revoked yet.
    fn rows(&self, refused: Vec<IssuedRow>, first: &str, reason: &str) -> Vec<RevocationRow> {
        let directory = self.directory.load();
        let now = now_ns();
        let row = |row: IssuedRow| RevocationRow {
            reason: match row.serial == first || first.is_empty() {
                true => reason.to_owned(),
                false => format!("descends from {first}: {reason}"),
            },
            serial: row.serial,
            until_ns: row.until_ns,
            created_ns: now,
        };
        let counts =
            |row: &IssuedRow| row.until_ns >= now && !directory.revoked.contains_key(&row.serial);
        refused.into_iter().filter(counts).map(row).collect()
    }

    async fn refuse(
        &self,
        permit: &Permit,
        rows: Vec<RevocationRow>,
        before: Option<(UserKey, i64)>,
    ) -> Result<Vec<String>, Error> {
        let directory = self.directory.load_full();
        if directory.revoked.len() + rows.len() > MAX_REVOCATIONS {
            let words = format!("{MAX_REVOCATIONS} certificates are revoked already, the most");
            return Err(Error::new(Reason::LimitExceeded, words)
                .hint("refuse a user's certificates up to a moment: `revoke --user --before`"));
        }
        let mut lines: Vec<Line> = rows.iter().map(Line::revoked).collect();
        let mut next = directory.with_revoked(&rows);
        if let Some((user, from_ns)) = before {
            let (tenant, name) = (user.tenant.to_string(), user.name.to_string());
            lines.push(Line::ValidFrom {
                tenant: tenant.clone(),
                user: name.clone(),
                from_ns,
            });
            next = next.with_valid_from(user, from_ns);
            self.revocation_log.add(lines).await?;
            if let Err(error) = self.store.set_valid_from(tenant, name, from_ns).await {
                tracing::error!(%error, "a revocation is in its log, not in the database");
            }
        } else {
            self.revocation_log.add(lines).await?;
        }
        self.publish(next);
        let serials: Vec<String> = rows.iter().map(|row| row.serial.clone()).collect();
        self.record_revoked(permit, &serials);
        for row in rows {
            // The next daemon puts it into the database.
            if let Err(error) = self.store.add_revocation(row).await {
                tracing::error!(%error, "a revocation is in its log, not in the database");
            }
        }
        Ok(serials)
    }

    /// The decision's line names what was asked for; this one names what it came to.
    fn record_revoked(&self, permit: &Permit, serials: &[String]) {
        for some in serials.chunks(64) {
            let entry = Entry {
                actor: permit.actor().to_owned(),
                action: permit.action().to_owned(),
                tenant: permit.tenant().to_string(),
                allowed: true,
                note: format!("revoked: {}", some.join(" ")),
                ..Entry::default()
            };
            if let Err(error) = self.audit.record(entry) {
                tracing::warn!(%error, "the revocation is not in the audit");
            }
        }
    }
}

fn check_reason(reason: &str) -> Result<(), Error> {
    if reason.chars().count() > MAX_REASON || reason.chars().any(char::is_control) {
        let words = "must be at most 256 characters, none of them a control character";
        return Err(Error::invalid("reason", words));
    }
    Ok(())
}

/// Those of `rows` that descend from one of the given serials.
fn descendants(rows: &[IssuedRow], from: HashSet<String>) -> Vec<IssuedRow> {
    let mut children: HashMap<&str, Vec<&IssuedRow>> = HashMap::new();
    for row in rows {
        if let Some(parent) = row.parent.as_deref() {
            children.entry(parent).or_default().push(row);
        }
    }
    let mut next: Vec<String> = from.into_iter().collect();
    let mut found = Vec::new();
    while let Some(serial) = next.pop() {
        for row in children.remove(serial.as_str()).into_iter().flatten() {
            next.push(row.serial.clone());
            found.push(row.clone());
        }
    }
    found
}

fn revoked(directory: &Directory, user: &UserKey, row: &IssuedRow) -> Option<String> {
    if let Some(reason) = directory.revoked.get(&row.serial) {
        return Some(reason.to_string());
    }
    let issued = row.issued_ns.div_euclid(SECOND);
    let in_time = directory.issued_in_time(user, issued);
    (!in_time).then(|| "issued too early".to_owned())
}
