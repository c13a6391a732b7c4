// SPDX-License-Identifier: Apache-2.0
//! The spec of a schedule, from the wire.

use model::error::{Error, Result, Within};
use model::schedule::request::Named;
use model::schedule::spec::{
    Backoff, Draft, Lax, Missed, Need, NeedOf, Needed, Overlap, Restart, Spec, StartLimit, Window,
};
use model::schedule::{When, Work};
use model::text::check_length;

use super::{many, work};
use crate::convert::pod::probe;
use crate::convert::scalar::{enumeration, maybe_duration, parse, required, timestamp};
use crate::schedule::v0 as wire;

/// Checks the spec of a schedule.
pub(super) fn spec(named: &Named, message: wire::ScheduleSpec) -> Result<Spec> {
    let work: Work =
        required("work", message.work).and_then(|it| work::work(named, it).within("work"))?;
    let needs = message.needs.iter().enumerate();
    let needs = needs.map(|(i, it)| need(it).within(&format!("needs[{i}]")));
    Draft {
        work,
        when: message.when.map_or(Ok(When::Now), when).within("when")?,
        node: message.node,
        restart: match enumeration("restart", message.restart)? {
            wire::RestartPolicy::Unspecified | wire::RestartPolicy::No => Restart::No,
            wire::RestartPolicy::OnFailure => Restart::OnFailure,
            wire::RestartPolicy::Always => Restart::Always,
        },
        backoff: backoff(message.backoff.unwrap_or_default()).within("backoff")?,
        start_limit: message
            .start_limit
            .map(start_limit)
            .transpose()
            .within("start_limit")?,
        overlap: match enumeration("overlap", message.overlap)? {
            wire::Overlap::Unspecified | wire::Overlap::Forbid => Overlap::Forbid,
            wire::Overlap::Allow => Overlap::Allow,
            wire::Overlap::Replace => Overlap::Replace,
        },
        missed: match enumeration("missed", message.missed)? {
            wire::Missed::Unspecified => None,
            wire::Missed::Skip => Some(Missed::Skip),
            wire::Missed::RunOnce => Some(Missed::RunOnce),
        },
        history: message.history,
        needs: needs.collect::<Result<_>>()?,
        health: message.health.map(probe).transpose().within("health")?,
        replicas: message
            .replicas
            .map(many::replicas)
            .transpose()
            .within("replicas")?,
        job: message.job.map(many::job).transpose().within("job")?,
        suspended: message.suspended,
        start_within: maybe_duration("start_within", message.start_within.as_ref())?,
        keep_succeeded: message.keep_succeeded,
        keep_failed: message.keep_failed,
        node_labels: message.node_labels,
        kind: message.kind,
    }
    .try_into()
    .map_err(|error: Error| match error.field.as_deref() {
        // What is checked as a whole names the message's field.
        Some(field) if field.starts_with("cron.") || field.starts_with("lax.") => {
            error.within("when")
        }
        _ => error,
    })
}

fn when(message: wire::When) -> Result<When> {
    use wire::when::When as Said;
    let none = || {
        Error::invalid(
            "",
            "must have one of `now`, `cron`, `at`, `after`, `lax` and `boot`",
        )
    };
    Ok(match message.when.ok_or_else(none)? {
        Said::Now(wire::Now {}) => When::Now,
        Said::Cron(cron) => When::Cron {
            pattern: cron.pattern,
            zone: cron.zone,
        },
        Said::At(time) => When::At(timestamp("at", &time)?),
        Said::After(after) => When::After {
            schedule: parse("after.schedule", &after.schedule)?,
            success: after.success,
        },
        Said::Lax(it) => When::Lax(lax(it).within("lax")?),
        Said::Boot(wire::Boot {}) => When::Boot,
    })
}

fn lax(message: wire::Lax) -> Result<Lax> {
    let percent = |field: &str, given: Option<u32>| {
        let checked = given.map(u8::try_from).transpose();
        checked.map_err(|_| Error::invalid(field, "must be at most 100 per cent"))
    };
    Ok(Lax {
        window: message.window.map(window).transpose().within("window")?,
        cpu: percent("cpu", message.cpu)?,
        memory: percent("memory", message.memory)?,
        io: percent("io", message.io)?,
        quiet_for: maybe_duration("quiet_for", message.quiet_for.as_ref())?,
    })
}

fn window(message: wire::Window) -> Result<Window> {
    Ok(Window {
        from: minute("from", &message.from)?,
        to: minute("to", &message.to)?,
        zone: message.zone,
    })
}

/// `HH:MM` as a minute of the day.
fn minute(field: &str, text: &str) -> Result<u16> {
    let wrong = || Error::invalid(field, format!("is {text:?}; write HH:MM"));
    let (hours, minutes) = text.split_once(':').ok_or_else(wrong)?;
    let digits = |part: &str, most: u16| {
        let two = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let number = two.then(|| part.parse::<u16>().ok()).flatten();
        number.filter(|number| *number <= most).ok_or_else(wrong)
    };
    Ok(digits(hours, 23)? * 60 + digits(minutes, 59)?)
}

fn backoff(message: wire::Backoff) -> Result<Backoff> {
    Ok(Backoff {
        first: maybe_duration("first", message.first.as_ref())?,
        most: maybe_duration("most", message.most.as_ref())?,
        stable: maybe_duration("stable", message.stable.as_ref())?,
    })
}

fn start_limit(message: wire::StartLimit) -> Result<StartLimit> {
    let within = maybe_duration("within", message.within.as_ref())?;
    Ok(StartLimit {
        starts: message.starts,
        within: required("within", within)?,
    })
}

/// Bytes of a unit's name: systemd's bound.
const MAX_UNIT: usize = 255;

fn need(message: &wire::Need) -> Result<Need> {
    use wire::need::Of;
    let of = match required("of", message.of.as_ref())? {
        Of::Schedule(schedule) => NeedOf::Schedule(parse("schedule", schedule)?),
        Of::Unit(unit) => {
            check_length("unit", unit, MAX_UNIT)?;
            NeedOf::Unit(unit.clone())
        }
    };
    Ok(Need {
        of,
        state: match enumeration("state", message.state)? {
            wire::need::State::Unspecified | wire::need::State::Running => Needed::Running,
            wire::need::State::Succeeded => Needed::Succeeded,
        },
    })
}
