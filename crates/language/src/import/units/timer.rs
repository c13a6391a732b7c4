// SPDX-License-Identifier: Apache-2.0
//! When a timer starts its service: its clocks as times of schedules.

use units::calendar::{Calendar, Zone};
use units::unit::Unit;
use units::value::Clock;

use super::said_at;
use crate::import::Origin;
use crate::import::write::Expression;

/// When a schedule runs, and what becomes of times that are missed.
pub(super) struct Time {
    pub(super) when: Expression,
    pub(super) missed: bool,
}

impl Time {
    /// At once.
    pub(super) fn now() -> Time {
        let now = ("now".to_owned(), Expression::Object(Vec::new()));
        Time {
            when: Expression::Object(vec![now]),
            missed: false,
        }
    }

    /// By a pattern.
    pub(super) fn cron(pattern: String, zone: Option<String>, missed: bool) -> Time {
        let mut fields = vec![("pattern".to_owned(), Expression::Text(pattern))];
        fields.extend(zone.map(|zone| ("zone".to_owned(), Expression::Text(zone))));
        let cron = ("cron".to_owned(), Expression::Object(fields));
        Time {
            when: Expression::Object(vec![cron]),
            missed,
        }
    }
}

/// The times, and what of the clocks can't be taken.
pub(super) fn times(timer: &Unit, origin: &Origin) -> (Vec<Time>, Vec<String>) {
    let settings = &timer.settings;
    let persistent = settings.flag("Persistent") == Some(true);
    let (mut times, mut notes) = (Vec::new(), Vec::new());
    let clocks = settings.clocks("Clocks");
    for (index, clock) in clocks.iter().enumerate() {
        let mut note = |words: &str| {
            let setting = settings.setting("Clocks");
            // A line each, unless an empty one has taken some back.
            let lines = setting.filter(|it| it.origins.len() == clocks.len());
            let line = lines.map_or(usize::MAX, |_| index);
            notes.extend(setting.map(|setting| said_at(setting, line, words)));
        };
        match clock {
            Clock::Calendar(calendar) => match pattern(calendar, origin) {
                Ok((pattern, zone)) => times.push(Time::cron(pattern, zone, persistent)),
                Err(reason) => note(&format!("`{calendar}`: {reason}")),
            },
            Clock::After("OnUnitActiveSec" | "OnUnitInactiveSec", span) => {
                match every(span.micros()) {
                    Some(pattern) => {
                        note(&format!(
                            "`{span}` counts from the last run; here by the clock"
                        ));
                        times.push(Time::cron(pattern, None, persistent));
                    }
                    None => note(&format!("`{span}` is no part of an hour or of a day")),
                }
            }
            Clock::After(_, span) => {
                note(&format!(
                    "`{span}`: a schedule doesn't count from the node's start"
                ));
            }
        }
    }
    (times, notes)
}

fn pattern(calendar: &Calendar, origin: &Origin) -> Result<(String, Option<String>), String> {
    let zone = match calendar.zone() {
        Zone::Utc => None,
        Zone::Named(name) => Some(name.clone()),
        Zone::Local => origin.zone.clone(),
        Zone::LocalWhile { .. } => return Err("a pattern has no half of the year".to_owned()),
    };
    Ok((calendar.as_cron()?, zone))
}

/// A span as a pattern, where the hour or the day is so many of them.
fn every(micros: Option<u64>) -> Option<String> {
    const MINUTE: u64 = 60_000_000;
    let micros = micros.filter(|it| *it > 0 && it.is_multiple_of(MINUTE))?;
    Some(match micros / MINUTE {
        1 => "* * * * *".to_owned(),
        60 => "0 * * * *".to_owned(),
        1440 => "0 0 * * *".to_owned(),
        10_080 => "0 0 * * 0".to_owned(),
        minutes if 60_u64.is_multiple_of(minutes) => format!("*/{minutes} * * * *"),
        minutes if 1440_u64.is_multiple_of(minutes) && minutes.is_multiple_of(60) => {
            format!("0 */{} * * *", minutes / 60)
        }
        _ => return None,
    })
}
