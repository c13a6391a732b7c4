// SPDX-License-Identifier: Apache-2.0
//! Times by a cron pattern: five fields, or six with seconds before them, in a time zone. What the
//! fields mean is what Debian's cron makes of them, as far as it takes them (`./x soak cron`):
//! `croner` reads them, [`super::fields`] says first what it would read in another way.
//!
//! A change of the clock, too, is cron's (cron(8)). A pattern is fixed where neither its minute nor
//! its hour begins with `*`. A fixed time that a change of less than three hours skips runs just
//! after the change, several of them once; one that comes twice runs at the first. Other patterns
//! follow the clock.

use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp as Instant, Zoned};

use super::fields::Fields;
use crate::error::{Error, Result};
use crate::time::Timestamp;

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 256;
/// A change of the clock by so many seconds is a correction: what it skips doesn't run.
const CORRECTION: i32 = 3 * 60 * 60;

/// A checked pattern in its time zone.
#[derive(Clone, Debug)]
pub struct Pattern {
    cron: croner::Cron,
    zone: TimeZone,
    is_fixed: bool,
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
    /// `INVALID_FIELD` for `pattern` or `zone`: the number of fields isn't five or six, or a field
    /// is malformed.
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
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = match words.as_slice() {
            [one] => nickname(&one.to_ascii_lowercase())
                .map_or(words, |meant| meant.split(' ').collect()),
            _ => words,
        };
        check_count(&words)?;
        let malformed = |problem: String| {
            invalid(format!("is {text:?}: {problem}"))
                .hint("write minute, hour, day of month, month, day of week: `30 4 * * mon-fri`")
        };
        let fields = Fields::read(&words).map_err(malformed)?;
        let parser = CronParser::builder();
        let parser = parser.seconds(Seconds::Optional).year(Year::Disallowed);
        let parser = parser.dom_and_dow(fields.needs_both_days).build();
        let cron = parser.parse(&fields.text);
        Ok(Self {
            cron: cron.map_err(|problem| malformed(problem.to_string()))?,
            zone: zone(zone_name)?,
            is_fixed: fields.is_fixed,
        })
    }

    /// The first time after that one; `None`: never again.
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        let time = Instant::from_nanosecond(i128::from(time.0)).ok()?;
        let time = time.to_zoned(self.zone.clone());
        let next = match self.is_fixed {
            true => self.fixed_after(&time)?,
            false => {
                let next = self.cron.find_next_occurrence(&time, false);
                next.ok()?.timestamp()
            }
        };
        u64::try_from(next.as_nanosecond()).ok().map(Timestamp)
    }

    /// Goes through the times of a calendar without changes of the clock, and asks for each when
    /// the zone has it.
    fn fixed_after(&self, time: &Zoned) -> Option<Instant> {
        let mut civil = time.datetime();
        loop {
            civil = self.cron.find_next_occurrence(&civil, false).ok()?;
            let found = self.zone.to_ambiguous_timestamp(civil);
            let at = match found.offset() {
                AmbiguousOffset::Gap { before, after } => {
                    if after.seconds() - before.seconds() >= CORRECTION {
                        continue;
                    }
                    let earlier = found.earlier().ok()?;
                    self.zone.following(earlier).next()?.timestamp()
                }
                _ => found.earlier().ok()?,
            };
            if at > time.timestamp() {
                return Some(at);
            }
        }
    }
}

/// What a name such as `@daily` stands for. `@reboot` is no time.
pub(super) fn nickname(name: &str) -> Option<&'static str> {
    Some(match name {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return None,
    })
}

/// Says which five fields were probably meant by another number of them.
fn check_count(fields: &[&str]) -> Result<()> {
    if matches!(fields.len(), 5 | 6) {
        return Ok(());
    }
    let problem = format!(
        "has {} fields; a pattern has five, or six with seconds",
        fields.len()
    );
    let error = Error::invalid("pattern", problem);
    if matches!(fields, [one] if one.starts_with('@')) {
        return Err(error.hint("names are @yearly, @monthly, @weekly, @daily and @hourly"));
    }
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
    let time = Instant::from_nanosecond(i128::from(time.0)).ok()?;
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

    /// A pattern, and its times in a day that is 23 or 25 hours long.
    fn times(pattern: &str, zone: &str, day: &str) -> Vec<String> {
        let pattern = Pattern::new(pattern, zone).unwrap();
        let day: jiff::civil::Date = day.parse().unwrap();
        let start = day.to_zoned(super::zone(zone).unwrap()).unwrap();
        let end = start.tomorrow().unwrap().timestamp();
        let start = u64::try_from(start.timestamp().as_nanosecond()).unwrap();
        let times =
            std::iter::successors(pattern.after(Timestamp(start - 1)), |it| pattern.after(*it));
        let times = times.map(|it| Instant::from_nanosecond(it.0.into()).unwrap());
        let times = times.take_while(|it| *it < end);
        times.map(|it| it.strftime("%H:%M").to_string()).collect()
    }

    #[test]
    fn only_what_begins_with_a_star_follows_a_change_of_the_clock() {
        // UTC, as times are told here, is Berlin's time less one hour, or two in summer.
        let cases: [(&str, &[&str], &[&str]); 8] = [
            ("0,30 2 * * *", &["01:00"], &["00:00", "00:30"]),
            (
                "30 1-3 * * *",
                &["00:30", "01:00", "01:30"],
                &["23:30", "00:30", "02:30"],
            ),
            ("0-40/20 2 * * *", &["01:00"], &["00:00", "00:20", "00:40"]),
            ("0 2,3 * * *", &["01:00"], &["00:00", "02:00"]),
            (
                "30 0-23/6 * * *",
                &["23:30", "04:30", "10:30", "16:30"],
                &["22:30", "05:30", "11:30", "17:30"],
            ),
            (
                "30 */2 * 3,10 *",
                &[
                    "23:30", "02:30", "04:30", "06:30", "08:30", "10:30", "12:30", "14:30",
                    "16:30", "18:30", "20:30",
                ],
                &[
                    "22:30", "00:30", "01:30", "03:30", "05:30", "07:30", "09:30", "11:30",
                    "13:30", "15:30", "17:30", "19:30", "21:30",
                ],
            ),
            ("*/30 2 * * *", &[], &["00:00", "00:30", "01:00", "01:30"]),
            ("15 30 2 * * *", &["01:00"], &["00:30"]),
        ];
        for (pattern, spring, autumn) in cases {
            assert_eq!(
                times(pattern, "Europe/Berlin", "2026-03-29"),
                spring,
                "{pattern}"
            );
            assert_eq!(
                times(pattern, "Europe/Berlin", "2026-10-25"),
                autumn,
                "{pattern}"
            );
        }
        let each = times("*,5 2 * * *", "Europe/Berlin", "2026-10-25");
        assert_eq!(each.len(), 120);
    }

    #[test]
    fn a_day_that_a_zone_leaves_out_is_not_made_up_for() {
        // Samoa had no 30 December 2011: with the 29th's end the 31st begins.
        let pattern = Pattern::new("0 9 * * *", "Pacific/Apia").unwrap();
        let last = pattern.after(at("2011-12-29T12:00:00Z")).unwrap();
        assert_eq!(last, at("2011-12-29T19:00:00Z"));
        assert_eq!(pattern.after(last).unwrap(), at("2011-12-30T19:00:00Z"));
    }

    /// Days of February 2026, which begins with a Sunday.
    fn days(pattern: &str) -> Vec<u64> {
        let pattern = Pattern::new(pattern, "").unwrap();
        let start = at("2026-02-01T00:00:00Z").0;
        let times =
            std::iter::successors(pattern.after(Timestamp(start - 1)), |it| pattern.after(*it));
        let days = times.map(|it| (it.0 - start) / 86_400_000_000_000 + 1);
        days.take_while(|day| *day <= 28).collect()
    }

    #[test]
    fn a_day_field_that_begins_with_a_star_makes_both_days_count() {
        for (pattern, expected) in [
            ("0 0 1,15 * 5", &[1, 6, 13, 15, 20, 27][..]),
            ("0 0 */10 * 0", &[1]),
            ("0 0 */7 * 0-2", &[1, 8, 15, 22]),
            ("0 0 1,2,9 * */2", &[1]),
            ("0 0 */2 * */3", &[1, 7, 11, 15, 21, 25]),
            ("0 0 *,5 * mon", &[2, 9, 16, 23]),
            ("0 0 5 * *,3", &[5]),
            ("0 0 26-31 * 3,*", &(1..=28).collect::<Vec<_>>()),
            ("0 0 * * sat-7", &[1, 7, 8, 14, 15, 21, 22, 28]),
            ("0 0 * * Sun-sun,0-SUN/6", &[1, 8, 15, 22]),
            (
                "0 0 * feb fri-sun",
                &[1, 6, 7, 8, 13, 14, 15, 20, 21, 22, 27, 28],
            ),
        ] {
            assert_eq!(days(pattern), expected, "{pattern}");
        }
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
            "1, * * * *",
            "5/10 * * * *",
            "mon * * * *",
            "* * * 1mon *",
            "* * * * jan",
            "* * * * */mon",
            "22-2 * * * *",
            "@never",
            "* * * * \u{0}",
        ] {
            assert!(Pattern::new(bad, "").is_err(), "{bad:?}");
        }
        let error = Pattern::new("* * * * *", "Mars/Olympus").unwrap_err();
        assert_eq!(error.field.as_deref(), Some("zone"));
    }
}
