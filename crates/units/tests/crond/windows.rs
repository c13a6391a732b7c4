// SPDX-License-Identifier: Apache-2.0
//! The spans of time of which each minute is compared.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::schedule::cron;

use super::lines::Focus;

/// A time span in a zone. It begins at a full minute and has whole hours.
pub(super) struct Window {
    pub(super) what: &'static str,
    pub(super) zone: &'static str,
    from: &'static str,
    pub(super) hours: i64,
}

pub(super) const WINDOWS: [Window; 11] = [
    window("a month's end", "UTC", "2026-04-29T12:00", 48),
    window(
        "February's end in a leap year",
        "UTC",
        "2028-02-28T12:00",
        48,
    ),
    window(
        "February's end in another year",
        "UTC",
        "2027-02-27T12:00",
        48,
    ),
    window("a year's end", "UTC", "2026-12-30T20:00", 48),
    window(
        "weekdays and an end of a week",
        "Europe/Berlin",
        "2026-08-13T20:00",
        96,
    ),
    window(
        "an hour is skipped",
        "Europe/Berlin",
        "2026-03-28T20:00",
        30,
    ),
    window(
        "an hour comes twice",
        "Europe/Berlin",
        "2026-10-24T20:00",
        30,
    ),
    window(
        "half an hour is skipped",
        "Australia/Lord_Howe",
        "2026-10-03T20:00",
        20,
    ),
    window(
        "half an hour comes twice",
        "Australia/Lord_Howe",
        "2026-04-04T20:00",
        20,
    ),
    window(
        "midnight is skipped",
        "America/Havana",
        "2026-03-07T18:00",
        20,
    ),
    window("a day is left out", "Pacific/Apia", "2011-12-29T12:00", 36),
];

const fn window(what: &'static str, zone: &'static str, from: &'static str, hours: i64) -> Window {
    Window {
        what,
        zone,
        from,
        hours,
    }
}

impl Window {
    pub(super) fn zone(&self) -> TimeZone {
        cron::zone(self.zone).unwrap()
    }

    /// The minute before the first, and the last one.
    pub(super) fn bounds(&self) -> (i64, i64) {
        let from: DateTime = self.from.parse().unwrap();
        let from = from.to_zoned(self.zone()).unwrap().timestamp().as_second() / 60;
        (from, from + self.hours * 60)
    }

    pub(super) fn focus(&self) -> Focus {
        let from: DateTime = self.from.parse().unwrap();
        let mut focus = Focus::default();
        for hour in 0..self.hours {
            let time = from + jiff::Span::new().hours(hour);
            let value = |it: i8| usize::try_from(it).unwrap();
            focus[2].push(value(time.day()));
            focus[3].push(value(time.month()));
            focus[4].push(value(time.weekday().to_sunday_zero_offset()));
        }
        focus[1] = (0..4).collect();
        focus
    }

    /// The minute at which a skipped part of a day ends, and how long that is. A longer one than
    /// cron makes up for doesn't count.
    pub(super) fn skipped(&self) -> Option<(i64, i64)> {
        let (from, to) = self.bounds();
        let offset = |minute: i64| {
            let time = jiff::Timestamp::from_second(minute * 60).unwrap();
            i64::from(self.zone().to_offset(time).seconds() / 60)
        };
        let change = (from..to).find(|it| offset(it + 1) > offset(*it))?;
        let length = offset(change + 1) - offset(change);
        (length < 180).then_some((change + 1, length))
    }
}
