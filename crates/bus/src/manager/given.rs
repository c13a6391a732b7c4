// SPDX-License-Identifier: Apache-2.0
//! What callers give: settings of a unit that is there, marks of units and what follows from them,
//! variables of the manager itself.

use model::unit::Verb;
use zbus::OwnedVariant;

use super::jobs::reload_or_try;
use super::units::api_words::{LIST, SET, SET_MANAGER};
use super::{Call, text, unit};
use crate::error::Failure;
use crate::serve::{Answer, Caller, Service};
use crate::wire::message::Body;

/// Whether watchdogs of services count from now on.
pub(crate) async fn watchdogs(
    service: &Service,
    caller: &Caller,
    count: bool,
) -> Result<(), Failure> {
    let permit = service.permit(caller, SET_MANAGER, "watchdogs").await?;
    let changed = service.units.give(&permit, Vec::new(), &[], Some(count));
    changed.await?;
    Ok(())
}

impl Call<'_> {
    /// `None`: it is another method.
    pub(super) async fn given(&self) -> Option<Answer> {
        Some(match self.message.member.as_str() {
            "SetUnitProperties" => self.set_named_properties().await,
            "SetEnvironment" => self.set_environment().await,
            "UnsetEnvironment" => self.unset_environment().await,
            "UnsetAndSetEnvironment" => self.unset_and_set_environment().await,
            "EnqueueMarkedJobs" => self.enqueue_marked().await,
            _ => return None,
        })
    }

    async fn set_named_properties(&self) -> Answer {
        let (name, runtime, properties): (String, bool, Vec<(String, OwnedVariant)>) =
            self.arguments()?;
        self.set_properties(&name, runtime, properties).await
    }

    /// Settings of a unit, as `systemctl set-property` makes them.
    pub(crate) async fn set_properties(
        &self,
        name: &str,
        runtime: bool,
        properties: Vec<(String, OwnedVariant)>,
    ) -> Answer {
        let permit = self.service.permit(self.caller, SET, name).await?;
        let unit = unit(name)?;
        // As systemd, which has nothing to do then.
        if properties.is_empty() {
            return Ok(Body::default());
        }
        let settings = text::settings(&properties)?;
        let set = self
            .service
            .units
            .set_properties(&permit, unit, &settings, runtime);
        set.await.map_err(|error| {
            let failure = Failure::from(error);
            match failure.words.contains("unknown property") {
                true => Failure::of_bus("PropertyReadOnly", failure.words),
                false => failure,
            }
        })?;
        Ok(Body::default())
    }

    async fn set_environment(&self) -> Answer {
        let (set,): (Vec<String>,) = self.arguments()?;
        self.change_environment(Vec::new(), set).await
    }

    async fn unset_environment(&self) -> Answer {
        let (unset,): (Vec<String>,) = self.arguments()?;
        self.change_environment(unset, Vec::new()).await
    }

    async fn unset_and_set_environment(&self) -> Answer {
        let (unset, set): (Vec<String>, Vec<String>) = self.arguments()?;
        self.change_environment(unset, set).await
    }

    async fn change_environment(&self, unset: Vec<String>, set: Vec<String>) -> Answer {
        let service = self.service;
        let permit = service.permit(self.caller, SET_MANAGER, "environment");
        let permit = permit.await?;
        service.units.give(&permit, unset, &set, None).await?;
        Ok(Body::default())
    }

    /// A job for each unit that is marked; one that is refused leaves the others alone.
    async fn enqueue_marked(&self) -> Answer {
        let permit = self.service.permit(self.caller, LIST, "marked").await?;
        let mut jobs = Vec::new();
        for status in self.service.units.list(&permit, false).await? {
            let verb = match status.markers.as_slice() {
                [] => continue,
                marks if marks.contains(&"needs-restart") => Verb::TryRestart,
                _ => reload_or_try(status.active),
            };
            match self.enqueued(&status.name, verb, "fail").await {
                Ok(job) => jobs.push(job),
                // The others would be refused, too.
                Err(failure) if failure.name.ends_with("AccessDenied") => return Err(failure),
                Err(failure) => {
                    let words = failure.words;
                    tracing::warn!(unit = status.name, words, "a marked unit has no job");
                }
            }
        }
        Ok(Body::of(&(jobs,))?)
    }
}
