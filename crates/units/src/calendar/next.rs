// SPDX-License-Identifier: Apache-2.0
//! The next time of a calendar expression. First the next date and time of day that match, as if
//! every day had all its hours; then whether the zone's clock ever shows it.
//!
//! A time that the clock skips is skipped. Of a time that it shows twice the first is taken, and
//! the second only by who asks between the two.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::{Calendar, SECOND, YEARS, Zone, Zones};

/// A guard against expressions that match no time, such as 31 February: nothing is found in so many
/// times that the clock doesn't show.
const MOST_SKIPPED: usize = 10_000;

impl Calendar {
    /// The first time after `after` (both in microseconds since 1970, UTC). `None` where there is
    /// none until the year 2199, or the zone isn't there any more.
    pub fn next(&self, after: i64, zones: &dyn Zones) -> Option<i64> {
        let zone = match &self.zone {
            Zone::Utc => TimeZone::UTC,
            Zone::Local | Zone::LocalWhile { .. } => zones.local(),
            Zone::Named(name) => zones.zone(name)?,
        };
        let dst = match &self.zone {
            Zone::LocalWhile { dst, .. } => Some(*dst),
            _ => None,
        };
        let start = Timestamp::from_microsecond(after.checked_add(1)?).ok()?;
        let mut from = Civil::of(zone.to_datetime(start))?;
        for _ in 0..MOST_SKIPPED {
            let found = self.next_civil(from)?;
            let fits = |at: &Timestamp| {
                let season = dst.is_none_or(|dst| is_dst(&zone, *at) == dst);
                at.as_microsecond() > after && season
            };
            match instant(&zone, found.datetime()?, &fits) {
                Shown::At(at) => return Some(at.as_microsecond()),
                // The other half of the year: nothing before the clock changes again.
                Shown::Not(at) if dst.is_some() => {
                    let change = zone.following(at).next()?.timestamp();
                    from = Civil::of(zone.to_datetime(change))?.max(found.later());
                }
                Shown::Not(_) => from = found.later(),
                Shown::NotBefore(next) => from = Civil::of(next)?.max(found.later()),
            }
        }
        None
    }

    /// The first date and time of day, from `from` on, that match.
    fn next_civil(&self, from: Civil) -> Option<Civil> {
        let mut at = from;
        loop {
            at = at.carried();
            let year = self.year.least(at.year, None).filter(|it| *it <= YEARS.1)?;
            at.raise(0, year);
            let Some(month) = self.month.least(at.month, None).filter(|it| *it <= 12) else {
                at = Civil::new(at.year + 1, 1, 1);
                continue;
            };
            at.raise(1, month);
            let length = at.month_length()?;
            let from_end = self.from_end.then_some(length);
            let Some(day) = self.day.least(at.day, from_end).filter(|it| *it <= length) else {
                at = Civil::new(at.year, at.month + 1, 1);
                continue;
            };
            at.raise(2, day);
            if !self.is_weekday(&at)? {
                at = Civil::new(at.year, at.month, at.day + 1);
                continue;
            }
            let Some(hour) = self.hour.least(at.hour, None).filter(|it| *it < 24) else {
                at = Civil::new(at.year, at.month, at.day + 1);
                continue;
            };
            at.raise(3, hour);
            let Some(minute) = self.minute.least(at.minute, None).filter(|it| *it < 60) else {
                at.minute = 0;
                at.micros = 0;
                at.hour += 1;
                continue;
            };
            at.raise(4, minute);
            let second = self.second.least(at.micros, None);
            let Some(second) = second.filter(|it| *it < 60 * SECOND) else {
                at.micros = 0;
                at.minute += 1;
                continue;
            };
            at.raise(5, second);
            return Some(at);
        }
    }

    fn is_weekday(&self, at: &Civil) -> Option<bool> {
        let Some(bits) = self.weekdays else {
            return Some(true);
        };
        let day = at.date()?.weekday().to_monday_zero_offset();
        Some(bits & (1 << day) != 0)
    }
}

/// Whether the zone's clock shows a time.
enum Shown {
    At(Timestamp),
    /// It does at this instant, which doesn't fit.
    Not(Timestamp),
    /// It doesn't: nothing before this time of its clock.
    NotBefore(DateTime),
}

fn instant(zone: &TimeZone, at: DateTime, fits: &dyn Fn(&Timestamp) -> bool) -> Shown {
    match zone.to_ambiguous_timestamp(at).offset() {
        AmbiguousOffset::Unambiguous { offset } => match offset.to_timestamp(at) {
            Ok(at) if fits(&at) => Shown::At(at),
            Ok(at) => Shown::Not(at),
            Err(_) => Shown::NotBefore(at),
        },
        AmbiguousOffset::Fold {
            before,
            after: second,
        } => {
            let both = [before.to_timestamp(at), second.to_timestamp(at)];
            let found = both.iter().flatten().copied().find(|at| fits(at));
            match (found, both) {
                (Some(at), _) => Shown::At(at),
                (None, [Ok(first), _]) => Shown::Not(first),
                (None, _) => Shown::NotBefore(at),
            }
        }
        AmbiguousOffset::Gap { before, .. } => {
            // The old offset gives an instant behind the jump: the clock's time at the jump is
            // the first one that it shows again.
            let jump = before
                .to_timestamp(at)
                .ok()
                .and_then(|behind| {
                    let behind = behind
                        .checked_add(jiff::SignedDuration::from_micros(1))
                        .ok()?;
                    zone.preceding(behind).next()
                })
                .map(|transition| zone.to_datetime(transition.timestamp()));
            Shown::NotBefore(jump.unwrap_or(at))
        }
    }
}

fn is_dst(zone: &TimeZone, at: Timestamp) -> bool {
    zone.to_offset_info(at).dst().is_dst()
}

/// A date and a time of day whose fields may be one too large.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Civil {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    micros: u32,
}

impl Civil {
    const fn new(year: u32, month: u32, day: u32) -> Civil {
        Civil {
            year,
            month,
            day,
            hour: 0,
            minute: 0,
            micros: 0,
        }
    }

    fn of(at: DateTime) -> Option<Civil> {
        let micros = u32::try_from(at.second()).ok()? * SECOND
            + u32::try_from(at.subsec_nanosecond() / 1000).ok()?;
        Some(Civil {
            year: u32::try_from(at.year()).ok()?,
            month: u32::try_from(at.month()).ok()?,
            day: u32::try_from(at.day()).ok()?,
            hour: u32::try_from(at.hour()).ok()?,
            minute: u32::try_from(at.minute()).ok()?,
            micros,
        })
    }

    /// Sets the field of this rank (0 is the year); those below it begin again where it grows.
    fn raise(&mut self, rank: u8, value: u32) {
        let fields = [
            (&mut self.year, 0),
            (&mut self.month, 1),
            (&mut self.day, 1),
            (&mut self.hour, 0),
            (&mut self.minute, 0),
            (&mut self.micros, 0),
        ];
        let mut grew = false;
        for (number, (field, least)) in (0..).zip(fields) {
            if number == rank {
                grew = *field != value;
                *field = value;
            } else if number > rank && grew {
                *field = least;
            }
        }
    }

    /// With each field in its range again.
    fn carried(mut self) -> Civil {
        if self.micros >= 60 * SECOND {
            (self.micros, self.minute) = (0, self.minute + 1);
        }
        if self.minute >= 60 {
            (self.minute, self.hour) = (0, self.hour + 1);
        }
        if self.hour >= 24 {
            (self.hour, self.day) = (0, self.day + 1);
        }
        if self.month <= 12 && self.month_length().is_some_and(|length| self.day > length) {
            (self.day, self.month) = (1, self.month + 1);
        }
        if self.month > 12 {
            (self.month, self.year) = (1, self.year + 1);
        }
        self
    }

    /// One microsecond later.
    fn later(mut self) -> Civil {
        self.micros += 1;
        self.carried()
    }

    fn month_length(&self) -> Option<u32> {
        let first = Civil::new(self.year, self.month, 1).date()?;
        u32::try_from(first.days_in_month()).ok()
    }

    fn date(&self) -> Option<Date> {
        let small = |value: u32| i8::try_from(value).ok();
        Date::new(
            i16::try_from(self.year).ok()?,
            small(self.month)?,
            small(self.day)?,
        )
        .ok()
    }

    fn datetime(&self) -> Option<DateTime> {
        let small = |value: u32| i8::try_from(value).ok();
        let nanos = i32::try_from(self.micros % SECOND * 1000).ok()?;
        let second = small(self.micros / SECOND)?;
        let time = Time::new(small(self.hour)?, small(self.minute)?, second, nanos).ok()?;
        Some(self.date()?.to_datetime(time))
    }
}
