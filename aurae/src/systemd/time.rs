// SPDX-License-Identifier: Apache-2.0
//! Times and spans as systemd's programs read and print them (systemd.time(7)): in the machine's
//! own zone. Spans are `units::time`'s.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span as Days, Timestamp, Zoned};
use units::calendar::zones::{FileZones, Zones};
use units::time::span::Span;

use crate::cmd::units::Machine;

/// The zone of this machine.
pub(super) fn zone() -> TimeZone {
    let machine = Machine::new(std::path::Path::new("/"), None);
    machine.map_or(TimeZone::UTC, |it| FileZones(&it).local())
}

/// Microseconds since 1970.
pub(super) fn micros(time: &prost_types::Timestamp) -> i64 {
    let part = i64::from(time.nanos) / 1000;
    time.seconds.saturating_mul(1_000_000).saturating_add(part)
}

/// For the wire.
pub(super) fn wire(micros: i64) -> prost_types::Timestamp {
    let nanos = micros.rem_euclid(1_000_000).saturating_mul(1000);
    prost_types::Timestamp {
        seconds: micros.div_euclid(1_000_000),
        nanos: i32::try_from(nanos).unwrap_or(0),
    }
}

/// Now, in microseconds since 1970.
pub(super) fn now() -> i64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(passed.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}

fn zoned(micros: i64, zone: &TimeZone) -> Option<Zoned> {
    let time = Timestamp::from_microsecond(micros).ok()?;
    Some(time.to_zoned(zone.clone()))
}

const FULL: &str = "%a %Y-%m-%d %H:%M:%S %Z";

/// `Mon 2026-11-23 22:46:04 UTC`.
pub(super) fn full(micros: i64, zone: &TimeZone) -> String {
    shown(micros, zone, FULL)
}

/// How a moment is printed: systemctl(1), --timestamp=.
#[derive(Clone, Debug)]
pub(super) struct Style {
    zone: TimeZone,
    /// Of strftime(3); none: seconds since 1970.
    pattern: Option<&'static str>,
}

impl Style {
    /// `None`: there is no such one.
    pub(super) fn of(word: &str) -> Option<Style> {
        const EXACT: &str = "%a %Y-%m-%d %H:%M:%S.%6f %Z";
        let (zone, pattern) = match word {
            "pretty" => (zone(), Some(FULL)),
            "utc" => (TimeZone::UTC, Some(FULL)),
            "us" | "µs" | "μs" => (zone(), Some(EXACT)),
            "us+utc" | "µs+utc" | "μs+utc" => (TimeZone::UTC, Some(EXACT)),
            "unix" => (TimeZone::UTC, None),
            _ => return None,
        };
        Some(Style { zone, pattern })
    }

    pub(super) fn show(&self, micros: i64) -> String {
        match self.pattern {
            Some(pattern) => shown(micros, &self.zone, pattern),
            None => format!("@{}", micros.div_euclid(1_000_000)),
        }
    }
}

/// By a pattern of strftime(3).
pub(super) fn shown(micros: i64, zone: &TimeZone, pattern: &str) -> String {
    let time = zoned(micros, zone);
    time.map_or_else(String::new, |it| it.strftime(pattern).to_string())
}

/// What has passed, or is to pass, to two units: `5min`, `1h 2min`.
pub(super) fn about(micros: u64) -> String {
    let (second, minute, hour, day) = (1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000);
    let grain = match micros {
        it if it < 1000 => 1,
        it if it < second => 1000,
        it if it < hour => second,
        it if it < day => minute,
        it if it < 30 * day => hour,
        _ => day,
    };
    let rounded = micros - micros % grain;
    Span::from_micros(rounded).to_string()
}

/// `5min 3s ago`, or `6 days left`, as systemd's programs tell a time from now.
pub(super) fn relative(micros: i64, now: i64) -> String {
    const SECOND: u64 = 1_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const MONTH: u64 = 2_629_800 * SECOND;
    const YEAR: u64 = 31_557_600 * SECOND;
    let word = |count: u64, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    let d = micros.abs_diff(now);
    let span = match d {
        _ if d >= YEAR => {
            let months = word(d % YEAR / MONTH, "month");
            format!("{} {months}", word(d / YEAR, "year"))
        }
        _ if d >= MONTH => {
            let days = word(d % MONTH / DAY, "day");
            format!("{} {days}", word(d / MONTH, "month"))
        }
        _ if d >= 7 * DAY => {
            let days = word(d % (7 * DAY) / DAY, "day");
            format!("{} {days}", word(d / (7 * DAY), "week"))
        }
        _ if d >= 2 * DAY => word(d / DAY, "day"),
        _ if d >= 25 * HOUR => format!("1 day {}h", (d - DAY) / HOUR),
        _ if d >= 6 * HOUR => format!("{}h", d / HOUR),
        _ if d >= HOUR => format!("{}h {}min", d / HOUR, d % HOUR / MINUTE),
        _ if d >= 5 * MINUTE => format!("{}min", d / MINUTE),
        _ if d >= MINUTE => format!("{}min {}s", d / MINUTE, d % MINUTE / SECOND),
        _ if d >= SECOND => format!("{}s", d / SECOND),
        _ if d >= 1000 => format!("{}ms", d / 1000),
        _ if d > 0 => format!("{d}us"),
        _ => return "now".to_owned(),
    };
    match micros > now {
        true => format!("{span} left"),
        false => format!("{span} ago"),
    }
}

/// A point in time as journalctl(1) takes it, in microseconds since 1970.
///
/// # Errors
/// It is none.
pub(super) fn parse(text: &str, now: i64, zone: &TimeZone) -> Result<i64, String> {
    let wrong = || format!("Failed to parse timestamp: {text}");
    let text = text.trim();
    let span = |text: &str| -> Result<i64, String> {
        let span = Span::parse(text).map_err(|_| wrong())?;
        let micros = span.micros().and_then(|it| i64::try_from(it).ok());
        micros.ok_or_else(wrong)
    };
    let midnight = |days: i64| -> Result<i64, String> {
        let today = zoned(now, zone).ok_or_else(wrong)?.datetime();
        let day = today
            .checked_add(Days::new().days(days))
            .map_err(|_| wrong())?;
        at(day.date().to_datetime(Time::midnight()), zone).ok_or_else(wrong)
    };
    match text {
        "now" => return Ok(now),
        "today" => return midnight(0),
        "yesterday" => return midnight(-1),
        "tomorrow" => return midnight(1),
        _ => {}
    }
    if let Some(rest) = text.strip_prefix('@') {
        return span(rest);
    }
    if let Some(rest) = text.strip_prefix('+') {
        return Ok(now.saturating_add(span(rest)?));
    }
    if let Some(rest) = text.strip_prefix('-') {
        return Ok(now.saturating_sub(span(rest)?));
    }
    if let Some(rest) = text.strip_suffix(" ago") {
        return Ok(now.saturating_sub(span(rest)?));
    }
    if let Some(rest) = text.strip_suffix(" left") {
        return Ok(now.saturating_add(span(rest)?));
    }
    let (text, zone) = match text.strip_suffix(" UTC").or_else(|| text.strip_suffix('Z')) {
        Some(rest) => (rest, &TimeZone::UTC),
        None => (text, zone),
    };
    civil(text, now, zone).ok_or_else(wrong)
}

/// A date, a time of today, or both; a day of the week before them is passed over.
fn civil(text: &str, now: i64, zone: &TimeZone) -> Option<i64> {
    let text = match text.split_once(' ') {
        Some((day, rest)) if day.chars().all(char::is_alphabetic) => rest,
        _ => text,
    };
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (Some(date), Some(time)),
        None if text.contains('-') => (Some(text), None),
        None => (None, Some(text)),
    };
    let date = match date {
        Some(text) => {
            let long = match text.split('-').next()?.len() {
                2 => format!("20{text}"),
                _ => text.to_owned(),
            };
            long.parse().ok()?
        }
        None => zoned(now, zone)?.date(),
    };
    let time: Time = match time {
        // `12:30` has seconds, too.
        Some(text) if text.matches(':').count() == 1 => format!("{text}:00").parse().ok()?,
        Some(text) => text.parse().ok()?,
        None => Time::midnight(),
    };
    at(date.to_datetime(time), zone)
}

fn at(time: DateTime, zone: &TimeZone) -> Option<i64> {
    let found = zone.to_ambiguous_zoned(time).compatible().ok()?;
    Some(found.timestamp().as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_the_styles_of_systemctl() {
        let show = |word: &str| Style::of(word).unwrap().show(1_795_941_092_500_001);
        assert_eq!(show("utc"), "Sun 2026-11-29 08:31:32 UTC");
        assert_eq!(show("us+utc"), "Sun 2026-11-29 08:31:32.500001 UTC");
        assert_eq!(show("unix"), "@1795941092");
        assert!(Style::of("sundial").is_none());
    }

    #[test]
    fn times_are_read_as_the_manual_of_times_says() {
        let now = 1_800_000_000_000_000;
        let read = |text: &str| parse(text, now, &TimeZone::UTC).map(|it| it / 1_000_000);
        // 2027-01-15 08:00:00 UTC.
        for (text, seconds) in [
            ("now", 1_800_000_000),
            ("@12", 12),
            ("-5min", 1_799_999_700),
            ("+1h", 1_800_003_600),
            ("10s ago", 1_799_999_990),
            ("today", 1_799_971_200),
            ("yesterday", 1_799_884_800),
            ("tomorrow", 1_800_057_600),
            ("2012-11-23 11:12:13", 1_353_669_133),
            ("2012-11-23 11:12:13 UTC", 1_353_669_133),
            ("2012-11-23T11:12:13Z", 1_353_669_133),
            ("Fri 2012-11-23 11:12:13", 1_353_669_133),
            ("2012-11-23", 1_353_628_800),
            ("12-11-23", 1_353_628_800),
            ("07:59", 1_799_999_940),
            ("07:59:30", 1_799_999_970),
        ] {
            assert_eq!(read(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "soon", "2012-13-01", "25:00", "- ago", "@x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_and_spans_are_printed_as_by_systemd() {
        assert_eq!(full(0, &TimeZone::UTC), "Thu 1970-01-01 00:00:00 UTC");
        assert_eq!(about(0), "0");
        assert_eq!(about(5_400_000), "5s");
        assert_eq!(about(3_725_000_000), "1h 2min");
        assert_eq!(relative(60_000_000, 0), "1min 0s left");
        assert_eq!(relative(0, 600_000_000), "10min ago");
        assert_eq!(relative(0, 6 * 86_400_000_000), "6 days ago");
        assert_eq!(relative(8 * 86_400_000_000, 0), "1 week 1 day left");
        assert_eq!(relative(5, 5), "now");
    }
}
