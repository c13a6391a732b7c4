// SPDX-License-Identifier: Apache-2.0
//! A calendar expression as a cron pattern of a schedule: five fields, or six with seconds. Where
//! cron has no such times, the reason.

use super::{Calendar, Field, SECOND};

/// A field of cron: its first and its last value.
type Bounds = (u32, u32);

impl Calendar {
    /// The pattern that has the same times.
    ///
    /// # Errors
    /// Why there is none.
    pub fn as_cron(&self) -> Result<String, String> {
        let refused = |words: &str| Err(words.to_owned());
        if !self.year.0.is_empty() {
            return refused("a pattern has no years");
        }
        if self.from_end {
            return refused("a pattern doesn't count days from the end of a month");
        }
        if self.weekdays.is_some() && !self.day.0.is_empty() {
            return refused("a pattern with a day of the month and one of the week means either");
        }
        let weekdays = match self.weekdays {
            None => "*".to_owned(),
            Some(days) => {
                // Monday is 1 there.
                let named = (0..7).filter(|day| days & (1 << day) != 0);
                list(named.map(|day| (day + 1) % 7).collect())
            }
        };
        let second = self.seconds()?;
        let fields = [
            written(&self.minute, (0, 59), 1),
            written(&self.hour, (0, 23), 1),
            written(&self.day, (1, 31), 1),
            written(&self.month, (1, 12), 1),
            weekdays,
        ];
        let pattern = fields.join(" ");
        Ok(match second.as_str() {
            "0" => pattern,
            _ => format!("{second} {pattern}"),
        })
    }

    fn seconds(&self) -> Result<String, String> {
        let parts = &self.second.0;
        let whole = |micros: u32| micros.is_multiple_of(SECOND);
        let is_whole = parts
            .iter()
            .all(|it| whole(it.start) && whole(it.step) && it.stop.is_none_or(whole));
        match is_whole {
            true => Ok(written(&self.second, (0, 59), SECOND)),
            false => Err("a pattern has no parts of seconds".to_owned()),
        }
    }
}

/// One field. Values are in `unit`s.
fn written(field: &Field, (first, last): Bounds, unit: u32) -> String {
    let parts = field.0.iter().map(|part| {
        let (start, step) = (part.start / unit, part.step / unit);
        let stop = part.stop.map(|it| it / unit);
        match (stop, step) {
            (None, 0) => start.to_string(),
            (None, step) if start == first => format!("*/{step}"),
            (None, step) if start + step > last => start.to_string(),
            (None, step) => format!("{start}-{last}/{step}"),
            (Some(stop), 0 | 1) => format!("{start}-{stop}"),
            (Some(stop), step) => format!("{start}-{stop}/{step}"),
        }
    });
    let parts: Vec<String> = parts.collect();
    match parts.is_empty() {
        true => "*".to_owned(),
        false => parts.join(","),
    }
}

/// Days as ranges: `1-5`, `0,6`.
fn list(mut days: Vec<u32>) -> String {
    days.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for day in days {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == day => *last = day,
            _ => runs.push((day, day)),
        }
    }
    let runs = runs.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::zones::UtcOnly;

    fn cron(text: &str) -> Result<String, String> {
        Calendar::parse(text, &UtcOnly).unwrap().as_cron()
    }

    #[test]
    fn what_both_can_say_is_said_as_cron_says_it() {
        for (text, pattern) in [
            ("daily", "0 0 * * *"),
            ("hourly", "0 * * * *"),
            ("weekly", "0 0 * * 1"),
            ("quarterly", "0 0 1 1,4,7,10 *"),
            ("04:30", "30 4 * * *"),
            ("Mon..Fri 08:00", "0 8 * * 1-5"),
            ("Sat,Sun 10:15", "15 10 * * 0,6"),
            ("*-*-* 6,18:00", "0 6,18 * * *"),
            ("*:0/15", "*/15 * * * *"),
            ("*:5/20", "5-59/20 * * * *"),
            ("*-*-01..07 03:10:00", "10 3 1-7 * *"),
            ("*:*:0/10", "*/10 * * * * *"),
            ("*:*:30", "30 * * * * *"),
        ] {
            assert_eq!(cron(text).as_deref(), Ok(pattern), "{text}");
        }
    }

    #[test]
    fn what_cron_can_t_say_has_its_reason() {
        for (text, reason) in [
            ("2030-01-01 00:00", "no years"),
            ("*-*~01 00:00", "from the end"),
            ("Mon *-*-01..07 00:00", "means either"),
            ("*:*:0.5", "parts of seconds"),
        ] {
            assert!(cron(text).unwrap_err().contains(reason), "{text}");
        }
    }
}
