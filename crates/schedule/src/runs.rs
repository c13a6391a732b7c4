// SPDX-License-Identifier: Apache-2.0
//! Whose runs objects of the runtime are, for the user who stops them: a stop of a run ends the
//! wish.

use identity::{Effect, Permit};
use model::error::Error;
use model::object::ObjectRef;
use model::schedule::request::Named;

use crate::effects;
use crate::handle::Schedules;
use crate::task::Order;

const PAUSE: &str = "schedule.Pause";

impl Schedules {
    /// Whose run that is, or a program of it: the schedule and the number of its run. Only what
    /// goes on and is what the reference says.
    fn owner_of(&self, target: &ObjectRef) -> Option<(Named, u64)> {
        let ObjectRef { tenant, path, .. } = target;
        let (name, number) = path.labels().first()?.as_str().rsplit_once('-')?;
        let number = number.parse().ok()?;
        let named = Named {
            tenant: tenant.clone(),
            name: name.parse().ok()?,
        };
        let status = self.shared().directory.handle(&named)?.status;
        let status = status.borrow().clone();
        let run = status.state.runs.iter().find(|it| it.number == number)?;
        // Not what a user runs beside the programs, nor `web-03`.
        let own = named.run(number).ok()?;
        let below = |name| effects::below(&own, name).is_ok_and(|it| it == *path);
        if own != *path && !run.shape.programs().iter().any(below) {
            return None;
        }
        let seen = self.shared().ports.runtime.seen(tenant, path)?;
        let meta = seen.meta();
        let meant = target.uid.is_none_or(|uid| uid == meta.uid)
            && target.kind.is_none_or(|kind| kind == meta.kind);
        (meant && !seen.state().is_final()).then_some((named, number))
    }

    /// The effect, beside its own, of a call that stops what is there: the schedule that has begun
    /// it wishes it no more.
    pub fn effect_of_stop(&self, target: &ObjectRef) -> Option<Effect> {
        let (named, _) = self.owner_of(target)?;
        Some(Effect::on(PAUSE, &named.path()))
    }

    /// Stops something, as `stop` says, with the permit for that. Where it is a schedule's run, its
    /// owner is told before, so that none follows it; and again, where the stop fails.
    ///
    /// # Errors
    /// Those of `stop`; `PERMISSION_DENIED`: the permit does not cover
    /// [`Schedules::effect_of_stop`].
    pub async fn stopping<T, F: Future<Output = Result<T, Error>>>(
        &self,
        permit: Permit,
        target: &ObjectRef,
        stop: impl FnOnce(Permit) -> F,
    ) -> Result<T, Error> {
        let Some((named, number)) = self.owner_of(target) else {
            return stop(permit).await;
        };
        permit.demand(&target.tenant, &Effect::on(PAUSE, &named.path()))?;
        let by = format!("{} stopped run {number}", permit.user());
        let asked = |reply| Order::StopAsked(number, by.clone(), reply);
        self.ask(&named, asked).await?;
        let stopped = stop(permit).await;
        if stopped.is_err() {
            let failed = |reply| Order::StopFailed(number, by, reply);
            if let Err(error) = self.ask(&named, failed).await {
                tracing::warn!(schedule = %named.name, %error, "a stop that failed is not untold");
            }
        }
        stopped
    }
}
