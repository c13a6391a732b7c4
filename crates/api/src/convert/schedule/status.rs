// SPDX-License-Identifier: Apache-2.0
//! The status of a schedule, its history and the reason why it doesn't run, as messages.

use model::schedule::request::Named;
use model::schedule::state::{Entry, Outcome, RefusalKind, Revision, Run, Trigger};
use model::schedule::{Spec, State, Why};
use model::time::Timestamp;

use super::back::to_spec;
use crate::convert::scalar::to_timestamp;
use crate::schedule::v0 as wire;

/// What is shown of a schedule.
pub struct Shown<'a> {
    /// The schedule's tenant and name.
    pub named: &'a Named,
    /// For this time that it was made.
    pub uid: String,
    /// How often its spec was changed.
    pub generation: u64,
    /// As TENANT/USER.
    pub owner: String,
    /// When it was declared first, and last.
    pub declared: (Timestamp, Timestamp),
    /// The wish.
    pub spec: &'a Spec,
    /// What is known of it.
    pub state: &'a State,
    /// What is in its way.
    pub why: &'a Why,
    /// The end of its last run.
    pub last: Option<&'a Entry>,
    /// What is known of it is in memory only.
    pub unwritten: bool,
}

/// The message of a status.
pub fn to_status(shown: &Shown<'_>) -> wire::ScheduleStatus {
    let (created, changed) = shown.declared;
    let runs = shown.state.runs.iter();
    let current = |run: &&Run| run.stopping.is_none();
    let count = |wanted: &dyn Fn(&Run) -> bool| {
        let runs = shown.state.runs.iter().filter(current);
        u32::try_from(runs.filter(|run| wanted(run)).count()).unwrap_or(u32::MAX)
    };
    wire::ScheduleStatus {
        tenant: shown.named.tenant.to_string(),
        name: shown.named.name.to_string(),
        uid: shown.uid.clone(),
        generation: shown.generation,
        spec: Some(to_spec(shown.named.name.as_str(), shown.spec)),
        owner: shown.owner.clone(),
        created: Some(to_timestamp(created)),
        changed: Some(to_timestamp(changed)),
        runs: runs.map(|run| to_run(shown.named, run)).collect(),
        number: shown.state.numbers,
        paused: shown.state.paused.is_some(),
        why: Some(to_reason(shown.why)),
        last: shown.last.map(to_entry),
        unwritten: shown.unwritten,
        ready: count(&|run| run.ready.is_some()),
        wanted: match &shown.spec.replicas {
            Some(replicas) => replicas.count,
            None => count(&|_| true),
        },
        updated: count(&|run| run.revision == shown.state.revision),
        revision: shown.state.revision,
        revisions: shown.state.revisions.iter().map(to_revision).collect(),
    }
}

fn to_revision(revision: &Revision) -> wire::Revision {
    wire::Revision {
        number: revision.number,
        at: Some(to_timestamp(revision.at)),
    }
}

fn to_run(named: &Named, run: &Run) -> wire::Run {
    wire::Run {
        number: run.number,
        path: format!("{}-{}", named.name, run.number),
        trigger: to_trigger(run.due.by).into(),
        began: run.began.map(to_timestamp),
        stopping: run.stopping.is_some(),
        ready: run.ready.is_some(),
        revision: run.revision,
        index: run.index,
    }
}

fn to_trigger(trigger: Trigger) -> wire::Trigger {
    match trigger {
        Trigger::Declared => wire::Trigger::Declared,
        Trigger::Time => wire::Trigger::Time,
        Trigger::Missed => wire::Trigger::Missed,
        Trigger::After => wire::Trigger::After,
        Trigger::Restart => wire::Trigger::Restart,
        Trigger::Hand => wire::Trigger::Hand,
    }
}

/// The message of a line of the history.
pub fn to_entry(entry: &Entry) -> wire::HistoryEntry {
    use wire::history_entry::Outcome as Said;
    let outcome = match entry.outcome {
        Outcome::Succeeded => Said::Succeeded,
        Outcome::Failed => Said::Failed,
        Outcome::Stopped => Said::Stopped,
        Outcome::Skipped => Said::Skipped,
        Outcome::Refused => Said::Refused,
        Outcome::Lost => Said::Lost,
    };
    wire::HistoryEntry {
        number: entry.number,
        trigger: to_trigger(entry.by).into(),
        due: Some(to_timestamp(entry.due)),
        began: entry.began.map(to_timestamp),
        ended: Some(to_timestamp(entry.at)),
        outcome: outcome.into(),
        message: entry.words.clone(),
    }
}

/// The message of what is in a schedule's way.
pub fn to_reason(why: &Why) -> wire::Reason {
    use wire::reason::Cause;
    let mut reason = wire::Reason {
        message: why.to_string(),
        ..Default::default()
    };
    let cause = match why {
        Why::Starting => Cause::Starting,
        Why::Running => Cause::Running,
        Why::Waiting(until) => {
            reason.until = Some(to_timestamp(*until));
            Cause::Waiting
        }
        Why::After(schedule) => {
            reason.schedule = schedule.to_string();
            Cause::After
        }
        Why::Dependency(schedule, _) => {
            reason.schedule = schedule.to_string();
            Cause::Dependency
        }
        Why::Unit(unit, _) => {
            reason.unit = unit.clone();
            Cause::Dependency
        }
        Why::BackOff(until) => {
            reason.until = Some(to_timestamp(*until));
            Cause::BackOff
        }
        Why::StartLimit => Cause::StartLimit,
        Why::Paused(_) => Cause::Paused,
        Why::Refused(refusal, until) => {
            reason.until = until.map(to_timestamp);
            match refusal.kind {
                RefusalKind::Permission => Cause::Permission,
                RefusalKind::Quota => Cause::Quota,
                RefusalKind::Image => Cause::Image,
                RefusalKind::Node | RefusalKind::Spec => Cause::Node,
            }
        }
        Why::Pressure(_) => Cause::Pressure,
        Why::Window => Cause::Window,
        Why::Overlap(run) => {
            reason.run = *run;
            Cause::Overlap
        }
        Why::Rolling(_) => Cause::Rolling,
        Why::Hangs(_) => Cause::Hangs,
        Why::Leaving(_) => Cause::Leaving,
        Why::Elsewhere(_) => Cause::Elsewhere,
        Why::Broken(_) => Cause::Broken,
        Why::Done(true, _) => Cause::Succeeded,
        Why::Done(false, _) => Cause::Failed,
    };
    reason.cause = cause.into();
    reason
}
