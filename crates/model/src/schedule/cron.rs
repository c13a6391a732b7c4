// SPDX-License-Identifier: Apache-2.0
//! Times by a cron pattern: five fields, or six with seconds before them, in a time zone. What the
//! fields mean is `croner`'s; here is what is refused, and in which words.
//!
//! A fixed time that a change of the clock skips runs just after the change, as with Debian's cron.
//! One that comes twice runs at the first. Patterns with `*`, steps or ranges follow the clock.

use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;

use crate::error::{Error, Result};
use crate::time::Timestamp;

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 256;

/// A checked pattern in its time zone.
#[derive(Clone, Debug)]
pub struct Pattern {
    cron: croner::Cron,
    zone: TimeZone,
}

/// The time zone of that name; empty: UTC.
///
/// # Errors
/// `INVALID_FIELD` for `zone`: the node knows none of that name.
pub fn zone(name: &str) -> Result<TimeZone> {
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    let known = name.len() <= 64 && !name.contains('\0');
    let found = known.then(|| jiff::tz::db().get(name).ok()).flatten();
    found.ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        Error::invalid("zone", format!("{shown:?} is no time zone"))
            .hint("write a name such as Europe/Berlin or UTC")
    })
}

impl Pattern {
    /// Checks a pattern and the name of its zone.
    ///
    /// # Errors
    /// `INVALID_FIELD` for `pattern` or `zone`: the number of fields isn't five or six, a field is
    /// malformed, or no time ever matches.
    pub fn new(text: &str, zone_name: &str) -> Result<Self> {
        let invalid = |problem: String| Error::invalid("pattern", problem);
        if text.len() > MAX_PATTERN {
            return Err(invalid(format!("is longer than {MAX_PATTERN} bytes")));
        }
        if !text.is_ascii() || text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(invalid(
                "may only have printable characters of ASCII".into(),
            ));
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        check_count(&fields)?;
        let parser = CronParser::builder();
        let parser = parser.seconds(Seconds::Optional).year(Year::Disallowed);
        let cron = parser.build().parse(text).map_err(|problem| {
            invalid(format!("is {text:?}: {problem}"))
                .hint("write minute, hour, day of month, month, day of week: `30 4 * * mon-fri`")
        })?;
        let zone = zone(zone_name)?;
        Ok(Self { cron, zone })
    }

    /// The first time after that one; `None`: never again.
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        let nanos = i128::from(time.0);
        let time = jiff::Timestamp::from_nanosecond(nanos).ok()?;
        let zoned = time.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&zoned, false).ok()?;
        let next = next.timestamp().as_nanosecond();
        u64::try_from(next).ok().map(Timestamp)
    }
}

/// Says which five fields were probably meant by another number of them.
fn check_count(fields: &[&str]) -> Result<()> {
    let nickname = matches!(fields, [one] if one.starts_with('@'));
    if nickname || matches!(fields.len(), 5 | 6) {
        return Ok(());
    }
    let problem = format!(
        "has {} fields; a pattern has five, or six with seconds",
        fields.len()
    );
    let error = Error::invalid("pattern", problem);
    if fields.is_empty() || fields.len() > 6 {
        return Err(error.hint(
            "write minute, hour, day of month, month, day of week: `30 4 * * mon-fri`; with \
             seconds, those come first",
        ));
    }
    let mut meant = fields.to_vec();
    meant.resize(5, "*");
    Err(error.hint(format!(
        "`{}` was probably meant: minute, hour, day of month, month, day of week",
        meant.join(" ")
    )))
}

/// The minute of the day at that time in a zone, and how many nanoseconds are left until another
/// minute of the day begins.
pub fn minute_of_day(time: Timestamp, zone: &TimeZone) -> Option<u16> {
    let time = jiff::Timestamp::from_nanosecond(i128::from(time.0)).ok()?;
    let zoned = time.to_zoned(zone.clone());
    let (hour, minute) = (u16::try_from(zoned.hour()), u16::try_from(zoned.minute()));
    Some(hour.ok()? * 60 + minute.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let time: jiff::Timestamp = text.parse().unwrap();
        Timestamp(u64::try_from(time.as_nanosecond()).unwrap())
    }

    fn next(pattern: &str, zone: &str, from: &str) -> Timestamp {
        Pattern::new(pattern, zone)
            .unwrap()
            .after(at(from))
            .unwrap()
    }

    #[test]
    fn five_and_six_fields_and_zones() {
        let from = "2026-01-01T00:00:30Z";
        assert_eq!(next("* * * * *", "", from), at("2026-01-01T00:01:00Z"));
        assert_eq!(next("* * * * * *", "", from), at("2026-01-01T00:00:31Z"));
        assert_eq!(next("0 9 * * mon", "", from), at("2026-01-05T09:00:00Z"));
        let berlin = next("0 9 * * *", "Europe/Berlin", from);
        assert_eq!(berlin, at("2026-01-01T08:00:00Z"));
    }

    #[test]
    fn a_time_that_the_clock_skips_runs_just_after_it_and_one_that_comes_twice_once() {
        // In 2026, Berlin's clocks go from 2:00 to 3:00 on 29 March, and back on 25 October.
        let skipped = next("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z");
        assert_eq!(skipped, at("2026-03-29T01:00:00Z"));
        let pattern = Pattern::new("30 2 * * *", "Europe/Berlin").unwrap();
        let first = pattern.after(at("2026-10-24T12:00:00Z")).unwrap();
        assert_eq!(first, at("2026-10-25T00:30:00Z"));
        assert_eq!(pattern.after(first).unwrap(), at("2026-10-26T01:30:00Z"));
    }

    #[test]
    fn three_fields_are_refused_with_the_five_that_were_meant() {
        let error = Pattern::new("* * *", "").unwrap_err();
        assert_eq!(error.field.as_deref(), Some("pattern"));
        assert!(
            error.hint.as_ref().unwrap().contains("`* * * * *`"),
            "{error:?}"
        );
        for bad in [
            "",
            "61 * * * *",
            "* * * * * * *",
            "a b c d e",
            "* * * * \u{0}",
        ] {
            assert!(Pattern::new(bad, "").is_err(), "{bad:?}");
        }
        let error = Pattern::new("* * * * *", "Mars/Olympus").unwrap_err();
        assert_eq!(error.field.as_deref(), Some("zone"));
    }
}
