// SPDX-License-Identifier: Apache-2.0
//! Calendar expressions (`OnCalendar=`, systemd.time(7), "Calendar events"): parsed here, written
//! in the normalised form by [`show`], and asked for their next time by [`next`]. Timers and their
//! clocks are their caller's.

mod cron;
mod next;
mod parse;
mod show;
pub mod zones;

pub use zones::Zones;

/// The first and the last year that an expression may name.
pub const YEARS: (u32, u32) = (1970, 2199);

/// The seconds are counted in microseconds.
pub(crate) const SECOND: u32 = 1_000_000;

/// Points in time: those at which every field matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Calendar {
    /// Bit 0 is Monday; `None` where any day will do.
    weekdays: Option<u8>,
    year: Field,
    month: Field,
    day: Field,
    /// Days are counted back from the month's end: 1 is the last one.
    from_end: bool,
    hour: Field,
    minute: Field,
    /// In microseconds.
    second: Field,
    zone: Zone,
}

/// Which clock an expression means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Zone {
    /// The machine's.
    Local,
    /// The machine's, while daylight saving time is as its named abbreviation says.
    LocalWhile {
        /// The abbreviation, such as `CEST`.
        name: String,
        /// Whether it is that of daylight saving time.
        dst: bool,
    },
    /// Coordinated universal time.
    Utc,
    /// A zone of the IANA database.
    Named(String),
}

/// The values that one field takes. No part: any.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Field(pub(crate) Vec<Part>);

/// A value, a range, or a value and what follows in steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Part {
    pub(crate) start: u32,
    pub(crate) stop: Option<u32>,
    /// 0: the start alone.
    pub(crate) step: u32,
}

impl Part {
    pub(crate) const fn one(start: u32) -> Part {
        Part {
            start,
            stop: None,
            step: 0,
        }
    }

    /// The smallest value that isn't below `least`. Days from the end are given as `length` of the
    /// month.
    fn least(self, least: u32, from_end: Option<u32>) -> Option<u32> {
        let (start, stop) = match from_end {
            None => (self.start, self.stop),
            Some(length) => {
                let back = |day: u32| (length + 1).checked_sub(day).filter(|it| *it > 0);
                match self.stop.and_then(back) {
                    Some(first) => (first, back(self.start)),
                    None => (back(self.start)?, None),
                }
            }
        };
        if start >= least {
            return Some(start);
        }
        if self.step == 0 {
            return None;
        }
        let value = start + (least - start).div_ceil(self.step) * self.step;
        stop.is_none_or(|stop| value <= stop).then_some(value)
    }
}

impl Field {
    /// The smallest value that isn't below `least`.
    pub(crate) fn least(&self, least: u32, from_end: Option<u32>) -> Option<u32> {
        if self.0.is_empty() {
            return Some(least);
        }
        self.0
            .iter()
            .filter_map(|part| part.least(least, from_end))
            .min()
    }
}

impl Calendar {
    /// Which clock it means.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }
}

#[cfg(test)]
mod tests;
