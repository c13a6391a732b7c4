// SPDX-License-Identifier: Apache-2.0
//! The answers of `Identity` as messages: users, grants, certificates, and the audit as a stream of
//! its lines.

use std::sync::Arc;

use api::identity::v0 as wire;
use api::status::to_status;
use futures_util::{Stream, StreamExt, stream};
use identity::audit::{Entry, Filter, Hash, hex};
use identity::{AuditPage, CertificateView, Grant, Identity, Issued, Permit, UserView};
use model::error::Error;
use model::time::Timestamp;
use store::GrantEffect;
use tonic::Status;

/// A moment in whole seconds.
pub(super) fn seconds(since_epoch: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: since_epoch,
        nanos: 0,
    }
}

fn nanoseconds(since_epoch: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: since_epoch.div_euclid(1_000_000_000),
        nanos: i32::try_from(since_epoch.rem_euclid(1_000_000_000)).unwrap_or(0),
    }
}

/// The message of a user.
pub(super) fn to_user(user: &UserView) -> wire::User {
    wire::User {
        tenant: user.user.tenant.to_string(),
        name: user.user.name.to_string(),
        spiffe_id: user.spiffe_id.clone(),
        disabled: user.disabled,
        created: Some(nanoseconds(user.created_ns)),
        grants: user.grants.iter().map(to_grant).collect(),
        administrator: user.administrator,
    }
}

/// The message of a grant.
pub(super) fn to_grant(grant: &Grant) -> wire::Grant {
    let effect = match grant.effect {
        GrantEffect::Allow => wire::grant::Effect::Allow,
        GrantEffect::Deny => wire::grant::Effect::Deny,
    };
    wire::Grant {
        id: grant.id.clone(),
        tenant: grant.user.tenant.to_string(),
        user: grant.user.name.to_string(),
        effect: effect.into(),
        action: grant.action.clone(),
        target_tenant: grant.target.to_string(),
        path: grant
            .path
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        created: Some(nanoseconds(grant.created_ns)),
    }
}

/// The answer for a certificate that was just signed.
pub(super) fn to_issued(issued: Issued) -> wire::IssueResponse {
    wire::IssueResponse {
        certificate_pem: issued.certificate_pem,
        ca_pem: issued.ca_pem,
        serial: issued.serial,
        spiffe_id: issued.spiffe_id,
        expires: Some(seconds(issued.not_after)),
    }
}

/// A certificate in a list.
pub(super) fn to_certificate(view: CertificateView) -> wire::Certificate {
    wire::Certificate {
        serial: view.serial,
        parent: view.parent.unwrap_or_default(),
        issued: (view.issued_ns > 0).then(|| nanoseconds(view.issued_ns)),
        expires: Some(nanoseconds(view.until_ns)),
        revoked: view.revoked.is_some(),
        reason: view.revoked.unwrap_or_default(),
        live: view.live,
    }
}

/// The part of the audit that the request asks for.
pub(super) struct Wanted {
    pub(super) filter: Filter,
    pub(super) follow: bool,
    /// One verdict instead of lines.
    pub(super) verify: bool,
}

/// Empty texts are no condition.
pub(super) fn filter(
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    actor: String,
    action: String,
    denied_only: bool,
) -> Filter {
    let nanos = |time: Timestamp| i64::try_from(time.0).unwrap_or(i64::MAX);
    Filter {
        since_ns: since.map(nanos),
        until_ns: until.map(nanos),
        actor: Some(actor).filter(|text| !text.is_empty()),
        action: Some(action).filter(|text| !text.is_empty()),
        denied_only,
    }
}

type Answer = Result<wire::AuditResponse, Status>;

/// The lines, page by page, as the client takes them; or the verdict.
pub(super) fn stream(
    identity: Arc<Identity>,
    permit: Permit,
    wanted: Wanted,
) -> impl Stream<Item = Answer> + Send + 'static {
    let follow = wanted.follow;
    let first = if wanted.verify {
        Step::Verify(permit)
    } else {
        Step::First(permit, wanted.filter)
    };
    let pages = stream::unfold((identity, first), move |(identity, step)| async move {
        let (answers, next) = step.take(&identity, follow).await?;
        Some((stream::iter(answers), (identity, next)))
    });
    pages.flatten()
}

/// The next step of the stream.
enum Step {
    Verify(Permit),
    First(Permit, Filter),
    Next(AuditPage),
    Over,
}

impl Step {
    async fn take(self, identity: &Identity, follow: bool) -> Option<(Vec<Answer>, Step)> {
        let page = match self {
            Step::Over => return None,
            Step::Verify(permit) => {
                return Some((vec![verdict(identity, permit).await], Step::Over));
            }
            Step::First(permit, filter) => identity.read_audit(permit, filter).await,
            Step::Next(page) => next_page(identity, page, follow).await?,
        };
        Some(match page {
            Ok(mut page) => (drain(&mut page), Step::Next(page)),
            Err(error) => (vec![Err(to_status(error))], Step::Over),
        })
    }
}

/// The page after this one; when following, as soon as there is one. `None`: that was all.
async fn next_page(
    identity: &Identity,
    page: AuditPage,
    follow: bool,
) -> Option<Result<AuditPage, Error>> {
    if page.more {
        return Some(identity.next_audit(page).await);
    }
    if !follow {
        return None;
    }
    // Marked before reading, so that a line written in between wakes us.
    let mut commits = identity.audit().commits();
    commits.borrow_and_update();
    match identity.next_audit(page).await {
        Ok(page) if page.lines.is_empty() => {
            commits.changed().await.ok()?;
            Some(Ok(page))
        }
        other => Some(other),
    }
}

fn drain(page: &mut AuditPage) -> Vec<Answer> {
    let lines = std::mem::take(&mut page.lines);
    let answer = |(entry, hash)| {
        let entry = wire::audit_response::Message::Entry(to_entry(entry, &hash));
        Ok(wire::AuditResponse {
            message: Some(entry),
        })
    };
    lines.into_iter().map(answer).collect()
}

async fn verdict(identity: &Identity, permit: Permit) -> Answer {
    let verdict = identity.verify_audit(permit).await.map_err(to_status)?;
    let verdict = wire::AuditVerdict {
        intact: verdict.intact,
        entries: verdict.entries,
        problem: verdict.problem.unwrap_or_default(),
    };
    Ok(wire::AuditResponse {
        message: Some(wire::audit_response::Message::Verdict(verdict)),
    })
}

fn to_entry(entry: Entry, hash: &Hash) -> wire::AuditEntry {
    let time = entry.time.parse::<jiff::Timestamp>().ok();
    wire::AuditEntry {
        sequence: entry.sequence,
        time: time.map(|time| prost_types::Timestamp {
            seconds: time.as_second(),
            nanos: time.subsec_nanosecond(),
        }),
        actor: entry.actor,
        action: entry.action,
        tenant: entry.tenant,
        path: entry.path,
        allowed: entry.allowed,
        policies: entry.policies,
        count: entry.count,
        request_id: entry.request_id,
        hash: hex(hash),
        note: entry.note,
        also: entry.also,
        about: entry.about,
    }
}
