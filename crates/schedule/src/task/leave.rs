// SPDX-License-Identifier: Apache-2.0
//! The end of a schedule: its runs end, then it goes. That a user has removed it is kept: where
//! it fails, or the daemon dies, it is tried again on behalf of that user, and nothing begins
//! meanwhile.

use std::time::Duration;

use identity::{Permit, UserKey};
use model::error::Error;
use model::schedule::Why;
use model::schedule::state::{Event, Leaving, Shape, Stopping};
use model::schedule::steps::{Effect, Step};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{AGAIN, Removing, Task};

/// The longest time between two tries.
const SELDOM: Duration = Duration::from_secs(300);

impl Task {
    /// A caller removes it.
    pub(super) async fn remove(
        &mut self,
        permit: Permit,
        reply: oneshot::Sender<Result<(), Error>>,
    ) {
        let user = permit.user().clone();
        self.removing = Some(Removing { permit, reply });
        self.leaves(user);
        self.keep().await;
    }

    /// Its time to stay is over.
    pub(super) fn leave_by_itself(&mut self) {
        self.leaves(self.wish.owner.clone());
    }

    fn leaves(&mut self, user: UserKey) {
        self.event(Event::Removed(Leaving {
            tenant: user.tenant,
            user: user.name,
            at: runtime::now(),
            failed: None,
        }));
        for run in &mut self.state.runs {
            run.stopping = Some(Stopping::Hand);
        }
        self.stops.clear();
        self.leave_again = None;
    }

    /// On whose behalf runs are ended.
    pub(super) fn acts_for(&self) -> UserKey {
        match &self.state.leaving {
            Some(leaving) => UserKey {
                tenant: leaving.tenant.clone(),
                name: leaving.user.clone(),
            },
            None => self.wish.owner.clone(),
        }
    }

    /// The caller that removes a schedule ends its runs.
    pub(super) fn permit_of_removal(
        &self,
        shape: &Shape,
        number: u64,
    ) -> Result<Option<Permit>, Error> {
        let Some(removing) = &self.removing else {
            return Ok(None);
        };
        let run = self.wish.named.run(number)?;
        let effects = crate::effects::stop(shape, &run);
        removing.permit.part(effects).map(Some)
    }

    /// What goes on while it is removed: its runs end, none begins.
    pub(super) fn leaving(&self) -> Step {
        let runs = self.state.runs.iter().map(|run| Effect::Stop(run.number));
        let words = self.state.leaving.as_ref().map(|leaving| {
            let by = format!("{}/{} removes it", leaving.tenant, leaving.user);
            match &leaving.failed {
                Some(failed) => format!("{by}: {failed}"),
                None => by,
            }
        });
        Step {
            effects: runs.collect(),
            entries: Vec::new(),
            wake: None,
            why: Why::Leaving(words.unwrap_or_default()),
        }
    }

    /// All its runs have ended, and no failed try was just now.
    pub(super) fn may_leave(&self) -> bool {
        let again = self.leave_again.map(|(again, _)| again);
        self.state.leaving.is_some()
            && self.state.runs.is_empty()
            && again.is_none_or(|again| again <= Instant::now())
    }

    /// When to look again, where a removal is to be tried again, too.
    pub(super) fn sooner(&self, wake: Option<Duration>) -> Option<Duration> {
        let again = self.leave_again.filter(|_| self.state.leaving.is_some());
        let left = again.map(|(again, _)| again.saturating_duration_since(Instant::now()));
        match (wake, left) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The schedule goes from the store. Whether it has; who waits is told otherwise.
    pub(super) async fn forgotten(&mut self) -> bool {
        let user = self.acts_for();
        let permit = self.removing.as_ref().map(|removing| &removing.permit);
        for number in self.actor.pods() {
            let removed = self.actor.forget(&user, number, permit, true);
            if let Err(error) = removed.await {
                return self.stays(error);
            }
        }
        let named = &self.wish.named;
        let (tenant, name) = (named.tenant.to_string(), named.name.to_string());
        match self.store.remove_schedule(tenant, name).await {
            Ok(()) => true,
            Err(error) => self.stays(error.into()),
        }
    }

    /// It was not removed yet: who waits for that is told, and it is tried again.
    pub(super) fn stays(&mut self, error: Error) -> bool {
        if self.state.leaving.is_none() {
            return false;
        }
        let failed = self.leave_again.map_or(0, |(_, failed)| failed);
        let wait = AGAIN.saturating_mul(1 << failed.min(8)).min(SELDOM);
        self.leave_again = Some((Instant::now() + wait, failed.saturating_add(1)));
        self.event(Event::NotRemoved(super::said(&error)));
        if let Some(removing) = self.removing.take() {
            let name = &self.wish.named.name;
            let hint = match &error.hint {
                Some(hint) => format!("{hint}; "),
                None => String::new(),
            };
            let hint = format!(
                "{hint}removal is retried and no new run starts; `aurae schedule resume {name}` \
                 cancels the removal"
            );
            let _ = removing.reply.send(Err(error.hint(hint)));
        }
        false
    }
}
