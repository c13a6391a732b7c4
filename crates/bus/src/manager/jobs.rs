// SPDX-License-Identifier: Apache-2.0
//! Methods about jobs, about all units at once, and about the machine.

use std::sync::atomic::{AtomicU64, Ordering};

use model::unit::{JobDone, JobMode, Verb};
use zbus::OwnedObjectPath;

use super::{Call, object_path, unit, unit_path};
use crate::error::Failure;
use crate::path;
use crate::serve::{Answer, End};
use crate::signals;
use crate::wire::message::Body;

/// Jobs that there was nothing to do for have numbers from here on: a client wants one to wait
/// for.
static NOTHING: AtomicU64 = AtomicU64::new(1 << 31);

/// Which of the API's methods a verb is.
const fn action(verb: Verb) -> &'static str {
    match verb {
        Verb::Start => "schedule.StartUnit",
        Verb::Stop => "schedule.StopUnit",
        Verb::Restart | Verb::TryRestart => "schedule.RestartUnit",
        Verb::Reload | Verb::ReloadOrRestart => "schedule.ReloadUnit",
    }
}

/// systemctl(1), --job-mode=.
pub(super) fn mode(word: &str) -> Result<JobMode, Failure> {
    match word {
        "replace" => Ok(JobMode::Replace),
        "replace-irreversibly" => Ok(JobMode::ReplaceIrreversibly),
        "flush" => Ok(JobMode::Flush),
        "fail" => Ok(JobMode::Fail),
        "isolate" => Ok(JobMode::Isolate),
        "ignore-dependencies" => Ok(JobMode::IgnoreDependencies),
        "ignore-requirements" => Ok(JobMode::IgnoreRequirements),
        _ => {
            let words = format!("the job mode {word} is not one that is done here");
            Err(Failure::of_bus("InvalidArgs", words))
        }
    }
}

/// What a reload of a unit that may not be up is, by its state.
pub(super) fn reload_or_try(active: &str) -> Verb {
    match active {
        "active" | "reloading" | "activating" => Verb::ReloadOrRestart,
        // It isn't up: there is nothing to do, and that is what this answers.
        _ => Verb::TryRestart,
    }
}

/// The targets that are the end of the machine (systemd.special(7)).
fn ends_machine(name: &str) -> Option<End> {
    match name {
        "poweroff.target" => Some(End::PowerOff),
        "reboot.target" => Some(End::Reboot),
        "halt.target" => Some(End::Halt),
        _ => None,
    }
}

impl Call<'_> {
    /// `None`: it is another method.
    pub(super) async fn jobs(&self) -> Option<Answer> {
        let verb = match self.message.member.as_str() {
            "StartUnit" => Verb::Start,
            "StopUnit" => Verb::Stop,
            "ReloadUnit" => Verb::Reload,
            "RestartUnit" => Verb::Restart,
            "TryRestartUnit" => Verb::TryRestart,
            "ReloadOrRestartUnit" => Verb::ReloadOrRestart,
            "ReloadOrTryRestartUnit" => return Some(self.reload_or_try().await),
            "StartUnitWithFlags" => return Some(self.start_with_flags().await),
            "GetJob" => return Some(self.get_job().await),
            "CancelJob" => return Some(self.cancel().await),
            "ClearJobs" => return Some(self.clear().await),
            "ListJobs" => return Some(self.list_jobs().await),
            "Subscribe" | "Unsubscribe" => return Some(self.subscribe()),
            // There is nothing to execute again.
            "Reload" | "Reexecute" => return Some(self.reload().await),
            "Reboot" => return Some(self.end(End::Reboot).await),
            "PowerOff" => return Some(self.end(End::PowerOff).await),
            "Halt" => return Some(self.end(End::Halt).await),
            _ => return None,
        };
        let arguments = self.arguments::<(String, String)>();
        Some(match arguments {
            Ok((name, mode)) => self.job(&name, verb, &mode).await,
            Err(failure) => Err(failure),
        })
    }

    /// A job on a unit; its object.
    pub(crate) async fn job(&self, name: &str, verb: Verb, mode_word: &str) -> Answer {
        Ok(Body::of(&(self.enqueued(name, verb, mode_word).await?,))?)
    }

    /// The same, of which the answer is another's to write.
    pub(super) async fn enqueued(
        &self,
        name: &str,
        verb: Verb,
        mode_word: &str,
    ) -> Result<OwnedObjectPath, Failure> {
        if let (Some(end), Verb::Start) = (ends_machine(name), verb) {
            self.end(end).await?;
            return Ok(nothing_to_do());
        }
        let service = self.service;
        let permit = service.permit(self.caller, action(verb), name).await?;
        let mode = mode(mode_word)?;
        let done = service.units.job(&permit, unit(name)?, verb, mode, false);
        Ok(self.object_of(&done.await?))
    }

    /// The object of a job that was asked for.
    pub(super) fn job_of(&self, done: JobDone) -> Answer {
        Ok(Body::of(&(self.object_of(&done),))?)
    }

    fn object_of(&self, done: &JobDone) -> OwnedObjectPath {
        if done.id > 0 {
            return object_path(path::of_job(done.id));
        }
        // Who waits for its end is told of it.
        let number = NOTHING.fetch_add(1, Ordering::Relaxed);
        signals::nothing_was_done(self.service, number, &done.unit.name);
        object_path(path::of_job(number))
    }

    async fn reload_or_try(&self) -> Answer {
        let (name, mode): (String, String) = self.arguments()?;
        let view = self.view(&name, true).await?;
        let verb = reload_or_try(view.status.active);
        self.job(&name, verb, &mode).await
    }

    async fn start_with_flags(&self) -> Answer {
        let (name, mode, flags): (String, String, u64) = self.arguments()?;
        match flags {
            0 => self.job(&name, Verb::Start, &mode).await,
            _ => Err(Failure::unsupported("flags of a start are not known here")),
        }
    }

    async fn get_job(&self) -> Answer {
        let (id,): (u32,) = self.arguments()?;
        let permit = self
            .service
            .permit(self.caller, "schedule.ListUnits", "")
            .await?;
        let jobs = self.service.units.jobs(&permit).await?;
        match jobs.iter().any(|job| job.id == u64::from(id)) {
            true => Ok(Body::of(&(object_path(path::of_job(u64::from(id))),))?),
            false => {
                let words = format!("Job {id} does not exist.");
                Err(Failure::of_systemd("NoSuchJob", words))
            }
        }
    }

    async fn cancel(&self) -> Answer {
        let (id,): (u32,) = self.arguments()?;
        self.cancel_job(u64::from(id)).await
    }

    pub(crate) async fn cancel_job(&self, id: u64) -> Answer {
        let about = format!("job {id}");
        let permit = self
            .service
            .permit(self.caller, "schedule.StopUnit", &about)
            .await?;
        self.service.units.cancel(&permit, id).await?;
        Ok(Body::default())
    }

    async fn clear(&self) -> Answer {
        let permit = self
            .service
            .permit(self.caller, "schedule.StopUnit", "all jobs")
            .await?;
        for job in self.service.units.jobs(&permit).await? {
            // One that has ended meanwhile needs nothing.
            let _ = self.service.units.cancel(&permit, job.id).await;
        }
        Ok(Body::default())
    }

    async fn list_jobs(&self) -> Answer {
        let permit = self
            .service
            .permit(self.caller, "schedule.ListUnits", "")
            .await?;
        let jobs = self.service.units.jobs(&permit).await?;
        type Row = (
            u32,
            String,
            String,
            &'static str,
            OwnedObjectPath,
            OwnedObjectPath,
        );
        let row = |job: schedule::unit::Job| -> Row {
            (
                u32::try_from(job.id).unwrap_or(u32::MAX),
                job.unit.to_string(),
                job.kind,
                if job.runs { "running" } else { "waiting" },
                object_path(path::of_job(job.id)),
                unit_path(job.unit.as_str()),
            )
        };
        let rows: Vec<Row> = jobs.into_iter().map(row).collect();
        Ok(Body::of(&(rows,))?)
    }

    fn subscribe(&self) -> Answer {
        let is_new = match self.message.member.as_str() {
            "Subscribe" => self.service.subscribe(self.caller)?,
            _ => self.service.unsubscribe(&self.caller.name) || self.caller.name.is_empty(),
        };
        if !is_new && self.message.member == "Subscribe" {
            return Err(Failure::of_systemd(
                "AlreadySubscribed",
                "you have subscribed",
            ));
        }
        Ok(Body::default())
    }

    async fn reload(&self) -> Answer {
        let action = "schedule.ReloadUnitFiles";
        let permit = self.service.permit(self.caller, action, "").await?;
        self.service.units.reload(&permit).await?;
        Ok(Body::default())
    }

    async fn end(&self, how: End) -> Answer {
        let about = format!("{how:?}");
        self.service
            .permit(self.caller, "node.Shutdown", &about)
            .await?;
        self.service.machine.end(how);
        Ok(Body::default())
    }
}

fn nothing_to_do() -> OwnedObjectPath {
    object_path(path::of_job(NOTHING.fetch_add(1, Ordering::Relaxed)))
}
