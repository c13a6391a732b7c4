// SPDX-License-Identifier: Apache-2.0
//! Writes a calendar expression in the normalised form, `Mon..Fri *-*-* 08:00:00 UTC`.

use std::fmt;

use super::parse::WEEKDAYS;
use super::{Calendar, Field, Part, SECOND, Zone};

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bits) = self.weekdays {
            weekdays(f, bits)?;
            f.write_str(" ")?;
        }
        field(f, &self.year, 0)?;
        f.write_str("-")?;
        field(f, &self.month, 2)?;
        f.write_str(if self.from_end { "~" } else { "-" })?;
        field(f, &self.day, 2)?;
        f.write_str(" ")?;
        field(f, &self.hour, 2)?;
        f.write_str(":")?;
        field(f, &self.minute, 2)?;
        f.write_str(":")?;
        seconds(f, &self.second)?;
        match &self.zone {
            Zone::Local => Ok(()),
            Zone::LocalWhile { name, .. } | Zone::Named(name) => write!(f, " {name}"),
            Zone::Utc => f.write_str(" UTC"),
        }
    }
}

/// Three days in a row and more are a range.
fn weekdays(f: &mut fmt::Formatter<'_>, bits: u8) -> fmt::Result {
    let names: Vec<&str> = WEEKDAYS.iter().filter_map(|name| name.get(..3)).collect();
    let is_set = |day: usize| bits & (1 << day) != 0;
    let mut comma = "";
    let mut day = 0;
    while day < names.len() {
        let run = (day..names.len()).take_while(|it| is_set(*it)).count();
        let name = |index: usize| names.get(index).copied().unwrap_or("");
        match run {
            0 => {
                day += 1;
                continue;
            }
            1 => write!(f, "{comma}{}", name(day))?,
            2 => write!(f, "{comma}{},{}", name(day), name(day + 1))?,
            _ => write!(f, "{comma}{}..{}", name(day), name(day + run - 1))?,
        }
        comma = ",";
        day += run;
    }
    Ok(())
}

fn field(f: &mut fmt::Formatter<'_>, field: &Field, width: usize) -> fmt::Result {
    if field.0.is_empty() {
        return f.write_str("*");
    }
    let mut comma = "";
    for part in &field.0 {
        write!(f, "{comma}{:0width$}", part.start)?;
        match part.stop {
            Some(stop) => {
                write!(f, "..{stop:0width$}")?;
                if part.step > 1 {
                    write!(f, "/{}", part.step)?;
                }
            }
            None if part.step > 0 => write!(f, "/{}", part.step)?,
            None => {}
        }
        comma = ",";
    }
    Ok(())
}

fn seconds(f: &mut fmt::Formatter<'_>, field: &Field) -> fmt::Result {
    let every = Part {
        start: 0,
        stop: None,
        step: SECOND,
    };
    if field.0.is_empty() || field.0 == [every] {
        return f.write_str("*");
    }
    let mut comma = "";
    for part in &field.0 {
        f.write_str(comma)?;
        second(f, part.start, 2)?;
        if let Some(stop) = part.stop {
            f.write_str("..")?;
            second(f, stop, 2)?;
        }
        if part.step > 0 && !(part.stop.is_some() && part.step == SECOND) {
            f.write_str("/")?;
            second(f, part.step, 0)?;
        }
        comma = ",";
    }
    Ok(())
}

fn second(f: &mut fmt::Formatter<'_>, micros: u32, width: usize) -> fmt::Result {
    write!(f, "{:0width$}", micros / SECOND)?;
    match micros % SECOND {
        0 => Ok(()),
        rest => write!(f, ".{rest:06}"),
    }
}
