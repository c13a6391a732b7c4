// SPDX-License-Identifier: Apache-2.0
//! Replicas and jobs, from the wire and back.

use model::error::{Error, Result};
use model::schedule::many::{Amount, Job, Replicas};

use crate::convert::scalar::{maybe_duration, to_duration};
use crate::schedule::v0 as wire;

fn amount(field: &str, text: &str) -> Result<Option<Amount>> {
    let given = (!text.is_empty()).then(|| text.parse());
    given
        .transpose()
        .map_err(|problem: String| Error::invalid(field, problem))
}

pub(super) fn replicas(message: wire::Replicas) -> Result<Replicas> {
    Ok(Replicas {
        count: message.count,
        recreate: message.recreate,
        max_unavailable: amount("max_unavailable", &message.max_unavailable)?,
        max_surge: amount("max_surge", &message.max_surge)?,
        min_ready: maybe_duration("min_ready", message.min_ready.as_ref())?,
        progress: maybe_duration("progress", message.progress.as_ref())?,
        revisions: message.revisions,
        hold: message.hold,
    })
}

pub(super) fn job(message: wire::Job) -> Result<Job> {
    Ok(Job {
        completions: message.completions,
        parallelism: message.parallelism,
        failures: message.failures,
        deadline: maybe_duration("deadline", message.deadline.as_ref())?,
        indexed: message.indexed,
        remove_after: maybe_duration("remove_after", message.remove_after.as_ref())?,
    })
}

pub(super) fn to_replicas(replicas: &Replicas) -> wire::Replicas {
    let text = |amount: Option<Amount>| amount.map(|it| it.to_string()).unwrap_or_default();
    wire::Replicas {
        count: replicas.count,
        recreate: replicas.recreate,
        max_unavailable: text(replicas.max_unavailable),
        max_surge: text(replicas.max_surge),
        min_ready: replicas.min_ready.map(to_duration),
        progress: replicas.progress.map(to_duration),
        revisions: replicas.revisions,
        hold: replicas.hold,
    }
}

pub(super) fn to_job(job: &Job) -> wire::Job {
    wire::Job {
        completions: job.completions,
        parallelism: job.parallelism,
        failures: job.failures,
        deadline: job.deadline.map(to_duration),
        indexed: job.indexed,
        remove_after: job.remove_after.map(to_duration),
    }
}
