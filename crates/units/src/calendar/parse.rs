// SPDX-License-Identifier: Apache-2.0
//! Reads calendar expressions: `Mon..Fri *-*-01,15 8..18:00/15 Europe/Berlin`.

use super::{Calendar, Field, Part, SECOND, YEARS, Zone, Zones};
use crate::finding::shown;

/// Monday first.
pub(super) const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// The words for whole expressions.
const SHORTHANDS: [(&str, &str); 12] = [
    ("minutely", "*-*-* *:*:00"),
    ("hourly", "*-*-* *:00:00"),
    ("daily", "*-*-* 00:00:00"),
    ("monthly", "*-*-01 00:00:00"),
    ("weekly", "Mon *-*-* 00:00:00"),
    ("yearly", "*-01-01 00:00:00"),
    ("annually", "*-01-01 00:00:00"),
    ("anually", "*-01-01 00:00:00"),
    ("quarterly", "*-01,04,07,10-01 00:00:00"),
    ("semiannually", "*-01,07-01 00:00:00"),
    ("semi-annually", "*-01,07-01 00:00:00"),
    ("biannually", "*-01,07-01 00:00:00"),
];

/// So many parts of one field, at most, as in systemd.
const MOST_PARTS: usize = 240;

impl Calendar {
    /// Parses an expression. Which words are zones is said by `zones`.
    ///
    /// # Errors
    /// What is wrong with it, and how it is written.
    pub fn parse(text: &str, zones: &dyn Zones) -> Result<Calendar, String> {
        let wrong = || {
            let shown = shown(text);
            format!("{shown} is no calendar expression: write it as in `Mon..Fri *-*-* 08:00:00`")
        };
        let (text, zone) = zone(text, zones);
        let mut calendar = match shorthand(text) {
            Some(full) => Scan::read(full),
            None => Scan::read(text),
        }
        .ok_or_else(wrong)?;
        // Seconds since 1970 bring their own.
        if calendar.zone == Zone::Local {
            calendar.zone = zone;
        }
        calendar.normalise();
        if calendar.is_valid() {
            return Ok(calendar);
        }
        Err(format!(
            "{} has a value out of its range: years are {} to {}, months 1 to 12, days 1 to 31 \
             (from the end 1 to 28), hours 0 to 23, minutes and seconds 0 to 59; a step must stay \
             within",
            shown(text),
            YEARS.0,
            YEARS.1
        ))
    }

    fn normalise(&mut self) {
        if self.weekdays == Some(0x7f) {
            self.weekdays = None;
        }
        self.from_end &= !self.day.0.is_empty();
        for part in &mut self.year.0 {
            part.start = full_year(part.start);
            part.stop = part.stop.map(full_year);
        }
        let fields = [
            &mut self.year,
            &mut self.month,
            &mut self.day,
            &mut self.hour,
        ];
        for field in fields
            .into_iter()
            .chain([&mut self.minute, &mut self.second])
        {
            for part in &mut field.0 {
                let Some(stop) = part.stop else {
                    continue;
                };
                // Up to the last value that is reached, which may be the first one.
                let reached = stop - (stop.saturating_sub(part.start)) % part.step;
                if reached == part.start {
                    *part = Part::one(reached);
                } else {
                    part.stop = Some(reached);
                }
            }
            field
                .0
                .sort_by_key(|part| (part.start, part.stop, part.step));
            field.0.dedup();
        }
    }

    fn is_valid(&self) -> bool {
        let days = if self.from_end { 28 } else { 31 };
        within(&self.year, YEARS.0, YEARS.1, false)
            && within(&self.month, 1, 12, false)
            && within(&self.day, 1, days, self.from_end)
            && within(&self.hour, 0, 23, false)
            && within(&self.minute, 0, 59, false)
            && within(&self.second, 0, 60 * SECOND - 1, false)
    }
}

/// Two digits are a year of 1970 to 2069.
fn full_year(year: u32) -> u32 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        _ => year,
    }
}

fn within(field: &Field, from: u32, to: u32, from_end: bool) -> bool {
    field.0.iter().zip(0_u32..).all(|(part, number)| {
        // Systemd takes three days more away for each day of a list that counts from the end.
        let to = if from_end {
            to.saturating_sub(3 * number)
        } else {
            to
        };
        if to < from {
            return false;
        }
        let fits = |value: u32| (from..=to).contains(&value);
        let reached = match part.stop {
            Some(stop) => fits(stop) && part.start + part.step <= stop,
            None if from_end => part.start >= from + part.step,
            None => part.start + part.step <= to,
        };
        fits(part.start) && reached
    })
}

fn shorthand(text: &str) -> Option<&'static str> {
    let all = SHORTHANDS.iter();
    all.clone()
        .find(|(name, _)| name.eq_ignore_ascii_case(text))
        .map(|(_, full)| *full)
}

/// The text without its zone, and the zone.
fn zone<'a>(text: &'a str, zones: &dyn Zones) -> (&'a str, Zone) {
    let Some((rest, last)) = text.rsplit_once(' ') else {
        return (text, Zone::Local);
    };
    if last.eq_ignore_ascii_case("UTC") {
        return (rest, Zone::Utc);
    }
    let local = zones.local_names();
    for (name, dst) in [(local.standard, false), (local.daylight, true)] {
        if let Some(name) = name.filter(|name| name.eq_ignore_ascii_case(last)) {
            return (rest, Zone::LocalWhile { name, dst });
        }
    }
    if !last.is_empty() && zones.zone(last).is_some() {
        return (rest, Zone::Named(last.to_owned()));
    }
    (text, Zone::Local)
}

struct Scan<'a>(&'a str);

impl<'a> Scan<'a> {
    /// `None` where it is no expression.
    fn read(text: &'a str) -> Option<Calendar> {
        if text.is_empty() {
            return None;
        }
        let mut scan = Scan(text);
        let mut calendar = Calendar {
            weekdays: scan.weekdays()?,
            year: Field::default(),
            month: Field::default(),
            day: Field::default(),
            from_end: false,
            hour: Field(vec![Part::one(0)]),
            minute: Field(vec![Part::one(0)]),
            second: Field(vec![Part::one(0)]),
            zone: Zone::Local,
        };
        if scan.0.is_empty() && calendar.weekdays.is_none() {
            return None;
        }
        scan.date(&mut calendar)?;
        if !scan.0.is_empty() {
            scan.clock(&mut calendar)?;
        }
        scan.0.is_empty().then_some(calendar)
    }

    fn skip(&mut self, prefix: &str) -> bool {
        match self.0.strip_prefix(prefix) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// The days named at the beginning, if any.
    #[expect(
        clippy::option_option,
        reason = "an error, and no days named, are two things"
    )]
    fn weekdays(&mut self) -> Option<Option<u8>> {
        let Some(mut last) = self.weekday() else {
            return Some(None);
        };
        let mut bits = 1_u8 << last;
        let mut ranged = false;
        loop {
            if self.0.is_empty() {
                return Some(Some(bits));
            }
            if self.skip(" ") {
                self.0 = self.0.trim_start_matches(' ');
                return Some(Some(bits));
            }
            // A range has two ends.
            let range = !ranged && (self.skip("..") || self.skip("-"));
            if !range && !self.skip(",") {
                return None;
            }
            ranged = range;
            // `Wed, 17:48` is written, too.
            if !range && self.skip(" ") {
                self.0 = self.0.trim_start_matches(' ');
                return Some(Some(bits));
            }
            let next = self.weekday()?;
            if range {
                if next < last {
                    return None;
                }
                bits |= (last..=next).fold(0, |set, day| set | 1 << day);
            }
            bits |= 1 << next;
            last = next;
        }
    }

    /// A day's name, whole or its first three letters. What follows must end it.
    fn weekday(&mut self) -> Option<u8> {
        for (number, name) in (0..).zip(WEEKDAYS) {
            for form in [name, name.get(..3)?] {
                let given = self.0.get(..form.len());
                let rest = self.0.get(form.len()..).unwrap_or("");
                let ended = rest.is_empty() || rest.starts_with([' ', ',', '-', '.']);
                if ended && given.is_some_and(|given| given.eq_ignore_ascii_case(form)) {
                    self.0 = rest;
                    return Some(number);
                }
            }
        }
        None
    }

    /// A date, or nothing where what comes is a time of day.
    fn date(&mut self, calendar: &mut Calendar) -> Option<()> {
        if self.0.is_empty() {
            return Some(());
        }
        if let Some(rest) = self.0.strip_prefix('@') {
            return self.instant(rest, calendar);
        }
        let begin = self.0;
        let first = self.field(1)?;
        if self.0.is_empty() || self.0.starts_with(' ') {
            // A single number is no date.
            self.skip(" ");
            return None;
        }
        if self.0.starts_with(':') {
            self.0 = begin;
            return Some(());
        }
        calendar.from_end = self.separator()?;
        let second = self.field(1)?;
        if self.0.is_empty() || self.0.starts_with(' ') {
            self.skip(" ");
            calendar.month = first;
            calendar.day = second;
            return Some(());
        }
        if calendar.from_end {
            return None;
        }
        calendar.from_end = self.separator()?;
        let third = self.field(1)?;
        if !self.0.is_empty() && !self.skip(" ") {
            return None;
        }
        (calendar.year, calendar.month, calendar.day) = (first, second, third);
        Some(())
    }

    /// What is between two fields of a date; whether the days are counted from the end.
    fn separator(&mut self) -> Option<bool> {
        if self.skip("~") {
            return Some(true);
        }
        self.skip("-").then_some(false)
    }

    /// Seconds since 1970, which is UTC.
    fn instant(&mut self, digits: &str, calendar: &mut Calendar) -> Option<()> {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let seconds: i64 = plain.then(|| digits.parse().ok())??;
        let at = jiff::Timestamp::from_second(seconds).ok()?;
        let at = jiff::tz::Offset::UTC.to_datetime(at);
        let one = |value: i8| Some(Field(vec![Part::one(u32::try_from(value).ok()?)]));
        calendar.year = Field(vec![Part::one(u32::try_from(at.year()).ok()?)]);
        calendar.month = one(at.month())?;
        calendar.day = one(at.day())?;
        calendar.hour = one(at.hour())?;
        calendar.minute = one(at.minute())?;
        calendar.second = Field(vec![Part::one(u32::try_from(at.second()).ok()? * SECOND)]);
        calendar.zone = Zone::Utc;
        self.0 = "";
        Some(())
    }

    fn clock(&mut self, calendar: &mut Calendar) -> Option<()> {
        calendar.hour = self.field(1)?;
        if !self.skip(":") {
            return None;
        }
        calendar.minute = self.field(1)?;
        if self.0.is_empty() {
            return Some(());
        }
        if !self.skip(":") {
            return None;
        }
        calendar.second = self.field(SECOND)?;
        Some(())
    }

    /// One field's parts; `scale` is what one whole number counts.
    fn field(&mut self, scale: u32) -> Option<Field> {
        if self.skip("*") {
            let every = Part {
                start: 0,
                stop: None,
                step: scale,
            };
            let parts = if scale == 1 { vec![] } else { vec![every] };
            return Some(Field(parts));
        }
        let mut parts = Vec::new();
        loop {
            parts.push(self.part(scale)?);
            if parts.len() > MOST_PARTS {
                return None;
            }
            if !self.skip(",") {
                return Some(Field(parts));
            }
        }
    }

    fn part(&mut self, scale: u32) -> Option<Part> {
        let start = self.number(scale)?;
        let mut part = Part::one(start);
        let range = self.skip("..");
        if range {
            let stop = self.number(scale)?;
            if stop < start {
                return None;
            }
            part.stop = Some(stop);
            part.step = scale;
        }
        if self.skip("/") {
            part.step = self.number(scale)?;
            if part.step == 0 {
                return None;
            }
        } else if range && scale > 1 && part.stop < Some(start + scale) {
            // Of seconds a range reaches at least the next one.
            return None;
        }
        let ended = self.0.is_empty() || self.0.starts_with([' ', ',', '-', '~', ':']);
        ended.then_some(part)
    }

    /// A number, with a fraction where `scale` counts one: rounded to a millionth.
    fn number(&mut self, scale: u32) -> Option<u32> {
        let whole = self.digits();
        let value: u32 = whole.parse().ok()?;
        let mut value = value.checked_mul(scale)?;
        if scale > 1 && self.0.starts_with('.') && !self.0.starts_with("..") {
            self.skip(".");
            let fraction = self.digits();
            let mut share = scale / 10;
            for digit in fraction.bytes().take(6) {
                value = value.checked_add(u32::from(digit - b'0') * share)?;
                share /= 10;
            }
            if fraction
                .as_bytes()
                .get(6)
                .is_some_and(|digit| *digit >= b'5')
            {
                value = value.checked_add(1)?;
            }
        }
        (value < i32::MAX.unsigned_abs()).then_some(value)
    }

    fn digits(&mut self) -> &'a str {
        let end = self
            .0
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at_checked(end).unwrap_or(("", self.0));
        self.0 = rest;
        digits
    }
}
