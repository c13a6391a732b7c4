// SPDX-License-Identifier: Apache-2.0
//! Which request ids a tenant has used, and for what: a retry is answered as the first try was,
//! another body under the same id is refused. Remembered as long as the run's record, and rebuilt
//! from the records.

use std::collections::HashMap;

use model::error::{Error, Reason};
use model::name::{RequestId, Tenant, Uid};
use model::quota::Quota;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::counts::{Counts, LimitsNow};
use crate::caller::{Callers, Present};

/// A request id with what was asked for, as the object's record keeps it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct IdempotencyKey {
    /// The client's.
    pub(crate) id: RequestId,
    /// Of the body.
    pub(crate) digest: String,
}

impl IdempotencyKey {
    /// For a body, which must always serialise the same.
    pub(crate) fn new(id: RequestId, body: &impl Serialize) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(body).map_err(|e| Error::internal(e.to_string()))?;
        let digest = Sha256::digest(&bytes);
        let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { id, digest })
    }
}

/// How the first try came out; `None`: it is still under way.
pub(crate) type Outcome = Option<Result<Uid, Error>>;

/// What to do with a request.
pub(crate) enum Attempt {
    /// It is the first: carry it out and say here how it came out.
    First(watch::Sender<Outcome>),
    /// It was seen before: this is, or will be, its outcome, for which one more caller waits.
    Again(watch::Receiver<Outcome>, Option<Present>),
}

struct Known {
    digest: String,
    outcome: watch::Receiver<Outcome>,
    /// Who waits for it, while it is under way.
    callers: Option<Callers>,
}

pub(crate) struct Requests {
    /// Who may have how many.
    counts: Counts,
    known: HashMap<(Tenant, RequestId), Known>,
    by_uid: HashMap<Uid, (Tenant, RequestId)>,
}

impl Requests {
    /// Whose turn it is.
    pub(crate) fn begin(
        &mut self,
        tenant: &Tenant,
        idempotency_key: &IdempotencyKey,
        callers: &Callers,
    ) -> Result<Attempt, Error> {
        let name = (tenant.clone(), idempotency_key.id.clone());
        if let Some(known) = self.known.get(&name) {
            let outcome = &known.outcome;
            let gave_up = outcome.has_changed().is_err() && outcome.borrow().is_none();
            let failed = matches!(&*outcome.borrow(), Some(Err(_)));
            if !gave_up && !failed {
                let present = known.callers.as_ref().map(Callers::join);
                return match known.digest == idempotency_key.digest {
                    true => Ok(Attempt::Again(outcome.clone(), present)),
                    false => Err(reused(idempotency_key)),
                };
            }
        }
        if !self.known.contains_key(&name) {
            self.counts.admit(tenant, Quota::RequestIds, 1)?;
        }
        let (sender, receiver) = watch::channel(None);
        self.insert(name, idempotency_key, receiver, Some(callers.clone()));
        Ok(Attempt::First(sender))
    }

    fn insert(
        &mut self,
        name: (Tenant, RequestId),
        idempotency_key: &IdempotencyKey,
        outcome: watch::Receiver<Outcome>,
        callers: Option<Callers>,
    ) {
        let tenant = name.0.clone();
        let entry = Known {
            digest: idempotency_key.digest.clone(),
            outcome,
            callers,
        };
        if self.known.insert(name, entry).is_none() {
            self.counts.add(&tenant, Quota::RequestIds, 1);
        }
    }

    fn drop_name(&mut self, name: &(Tenant, RequestId)) {
        if self.known.remove(name).is_some() {
            self.counts.subtract(&name.0, Quota::RequestIds, 1);
        }
    }

    /// None known yet.
    pub(super) fn new(limits: LimitsNow) -> Self {
        Self {
            counts: Counts::new(limits),
            known: HashMap::new(),
            by_uid: HashMap::new(),
        }
    }

    /// How many of a tenant's are remembered.
    pub(super) fn used(&self, tenant: &Tenant) -> u64 {
        self.counts.used(tenant, Quota::RequestIds)
    }

    /// The request failed, which needs no remembering: a retry is a new attempt. Those that wait
    /// for this one have its outcome.
    pub(super) fn failed(&mut self, tenant: &Tenant, id: &RequestId) {
        self.drop_name(&(tenant.clone(), id.clone()));
    }

    /// The run of that uid answers the request from now on.
    pub(crate) fn remember(&mut self, tenant: &Tenant, idempotency_key: &IdempotencyKey, uid: Uid) {
        let name = (tenant.clone(), idempotency_key.id.clone());
        self.by_uid.insert(uid, name.clone());
        let (_, receiver) = watch::channel(Some(Ok(uid)));
        self.insert(name, idempotency_key, receiver, None);
    }

    /// The run's record is gone.
    pub(crate) fn forget(&mut self, uid: Uid) {
        if let Some(name) = self.by_uid.remove(&uid) {
            let still = self
                .known
                .get(&name)
                .is_some_and(|known| *known.outcome.borrow() == Some(Ok(uid)));
            if still {
                self.drop_name(&name);
            }
        }
    }
}

fn reused(idempotency_key: &IdempotencyKey) -> Error {
    let message = format!(
        "the request id {:?} was used for another request",
        idempotency_key.id.as_str()
    );
    Error::new(Reason::RequestIdReused, message)
        .field("request_id")
        .hint("use a new request id for a new request")
}

impl super::Index {
    /// Whose turn it is with this request id.
    pub(crate) fn begin(
        &self,
        tenant: &Tenant,
        idempotency_key: &IdempotencyKey,
        callers: &Callers,
    ) -> Result<Attempt, Error> {
        self.lock().requests.begin(tenant, idempotency_key, callers)
    }

    /// That request failed.
    pub(crate) fn attempt_failed(&self, tenant: &Tenant, id: &RequestId) {
        self.lock().requests.failed(tenant, id);
    }

    /// The run of that uid answers this request from now on.
    pub(crate) fn remember(&self, tenant: &Tenant, idempotency_key: &IdempotencyKey, uid: Uid) {
        self.lock().requests.remember(tenant, idempotency_key, uid);
    }
}
