// SPDX-License-Identifier: Apache-2.0
//! The rules of a schedule's spec that its types don't say.

use super::cron::{self, Pattern};
use super::given;
use super::many;
use super::spec::{
    Backoff, Draft, LEAST_BACKOFF, LONGEST, Lax, MAX_HISTORY, MAX_NEEDS, MAX_PROGRAMS, MAX_WEIGHT,
    Restart, When, Work,
};
use crate::error::{Error, Result, Within};
use crate::time::Timestamp;

/// Checks all of a draft.
pub(super) fn check(draft: &Draft) -> Result<()> {
    check_work(&draft.work).within("work")?;
    many::check(draft)?;
    check_rest(draft)?;
    check_when(draft)?;
    check_times(draft)?;
    if draft.history.is_some_and(|n| n > MAX_HISTORY) {
        return Err(Error::invalid(
            "history",
            format!("must be at most {MAX_HISTORY}"),
        ));
    }
    if draft.needs.len() > MAX_NEEDS {
        return Err(Error::invalid(
            "needs",
            format!("has more than {MAX_NEEDS} entries"),
        ));
    }
    check_health(draft).within("health")?;
    check_weight(draft)?;
    Ok(())
}

fn check_health(draft: &Draft) -> Result<()> {
    let Some(health) = &draft.health else {
        return Ok(());
    };
    if matches!(draft.work, Work::Pod { .. }) {
        let problem = "is for programs and cells: the containers of a pod have probes";
        return Err(Error::invalid("", problem));
    }
    if health.grace.is_some() {
        let problem = "is the program's own: its `stop_grace`";
        return Err(Error::invalid("grace", problem));
    }
    health.check(false)
}

fn check_rest(draft: &Draft) -> Result<()> {
    for (field, number) in [
        ("keep_succeeded", draft.keep_succeeded),
        ("keep_failed", draft.keep_failed),
    ] {
        if number.is_some_and(|it| it > MAX_HISTORY) {
            let problem = format!("must be at most {MAX_HISTORY}");
            return Err(Error::invalid(field, problem));
        }
    }
    if draft.node_labels.len() > MAX_NEEDS {
        let problem = format!("has more than {MAX_NEEDS} entries");
        return Err(Error::invalid("node_labels", problem));
    }
    if draft.kind.len() > 32 || !draft.kind.bytes().all(|it| it.is_ascii_alphanumeric()) {
        return Err(Error::invalid("kind", "must be at most 32 letters"));
    }
    Ok(())
}

fn check_weight(draft: &Draft) -> Result<()> {
    let json = serde_json::to_vec(draft);
    let json = json.map_err(|e| Error::internal(format!("a spec can't be kept: {e}")))?;
    if json.len() <= MAX_WEIGHT {
        return Ok(());
    }
    let (size, most) = (json.len(), MAX_WEIGHT >> 10);
    let problem = format!("takes {size} bytes; a schedule may take {most} KiB");
    let error = Error::invalid("", problem);
    Err(error.hint("put large files and environments into an image or a folder"))
}

fn check_work(work: &Work) -> Result<()> {
    let programs = match work {
        Work::Executable { program, .. } => std::slice::from_ref(&**program),
        Work::Cell { programs, .. } => programs.as_slice(),
        Work::Pod { spec, given, .. } => return given::check(spec, given),
    };
    if programs.is_empty() || programs.len() > MAX_PROGRAMS {
        let problem = format!("must have 1 to {MAX_PROGRAMS} entries");
        return Err(Error::invalid("cell.executables", problem));
    }
    for (i, program) in programs.iter().enumerate() {
        let field = |name: &str| match work {
            Work::Executable { .. } => format!("executable.executable.{name}"),
            _ => format!("cell.executables[{i}].executable.{name}"),
        };
        if programs.iter().take(i).any(|it| it.name == program.name) {
            return Err(Error::invalid(field("ref.path"), "is there twice"));
        }
        if program.spec.auto_remove {
            let problem = "can't be set in a schedule: its history limits remove finished runs";
            return Err(Error::invalid(field("spec.auto_remove"), problem));
        }
    }
    Ok(())
}

fn check_when(draft: &Draft) -> Result<()> {
    match &draft.when {
        When::Cron { pattern, zone } => {
            let checked = Pattern::new(pattern, zone).within("cron")?;
            if checked.after(Timestamp(0)).is_none() {
                return Err(Error::invalid("cron.pattern", "matches no time at all"));
            }
        }
        When::Lax(lax) => check_lax(lax).within("lax")?,
        When::Now | When::At(_) | When::After { .. } | When::Boot => {}
    }
    let repeats = matches!(
        draft.when,
        When::Cron { .. } | When::After { .. } | When::Boot
    );
    if repeats && draft.restart == Restart::Always {
        let error = Error::invalid("restart", "ALWAYS is not for what runs again and again");
        return Err(error.hint("write ON_FAILURE, or run it NOW"));
    }
    Ok(())
}

fn check_lax(lax: &Lax) -> Result<()> {
    for (name, most) in [("cpu", lax.cpu), ("memory", lax.memory), ("io", lax.io)] {
        if most.is_some_and(|most| most > 100) {
            return Err(Error::invalid(name, "must be at most 100 per cent"));
        }
    }
    if let Some(window) = &lax.window {
        cron::zone(&window.zone).within("window")?;
        if window.from >= 1440 || window.to >= 1440 || window.from == window.to {
            let problem = "must be two different minutes of the day, 00:00 to 23:59";
            return Err(Error::invalid("window", problem));
        }
    }
    Ok(())
}

fn check_times(draft: &Draft) -> Result<()> {
    let Backoff {
        first,
        most,
        stable,
    } = draft.backoff;
    let quiet = match &draft.when {
        When::Lax(lax) => lax.quiet_for,
        _ => None,
    };
    let within = draft.start_limit.map(|limit| limit.within);
    let times = [
        ("start_within", draft.start_within),
        ("backoff.first", first),
        ("backoff.most", most),
        ("backoff.stable", stable),
        ("start_limit.within", within),
        ("lax.quiet_for", quiet),
    ];
    for (field, time) in times {
        if time.is_some_and(|time| time > LONGEST) {
            return Err(Error::invalid(field, "must be at most 30 days"));
        }
    }
    for (field, time) in [("backoff.first", first), ("backoff.most", most)] {
        if time.is_some_and(|time| time < LEAST_BACKOFF) {
            return Err(Error::invalid(field, "must be at least 100 ms"));
        }
    }
    if let Some(limit) = draft.start_limit
        && (!(1..=100).contains(&limit.starts) || limit.within.is_zero())
    {
        let problem = "must allow 1 to 100 starts, in an interval longer than 0";
        return Err(Error::invalid("start_limit", problem));
    }
    Ok(())
}
