// SPDX-License-Identifier: Apache-2.0
//! How much a service leaves open, as `systemd-analyze security --offline=true` counts it: a number
//! from 0.0 to 10.0 and a word. It judges what the unit's files say, not what the program does, and
//! not whether the manager of the unit honours it ([`crate::verify`]).

mod calls;
mod judge;
mod rows;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::name::UnitType;
use crate::unit::Unit;
use judge::Effective;
use rows::ROWS;

/// A number with one decimal, in tenths: 96 is 9.6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Exposure(pub u64);

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.0 / 10, self.0 % 10))
    }
}

/// The word for an overall exposure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Level {
    /// An exposure of 0.
    Perfect,
    /// Below 1.
    Safe,
    /// Below 5.
    Ok,
    /// Below 7.5.
    Medium,
    /// Below 9.
    Exposed,
    /// Below 10.
    Unsafe,
    /// An exposure of 10.
    Dangerous,
}

impl Level {
    fn of(exposure: Exposure) -> Level {
        match exposure.0 {
            0 => Self::Perfect,
            1..10 => Self::Safe,
            10..50 => Self::Ok,
            50..75 => Self::Medium,
            75..90 => Self::Exposed,
            90..100 => Self::Unsafe,
            _ => Self::Dangerous,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Perfect => "PERFECT",
            Self::Safe => "SAFE",
            Self::Ok => "OK",
            Self::Medium => "MEDIUM",
            Self::Exposed => "EXPOSED",
            Self::Unsafe => "UNSAFE",
            Self::Dangerous => "DANGEROUS",
        })
    }
}

/// One question's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// What systemd's JSON and policies call it.
    pub id: String,
    /// The directive that would close it.
    pub name: String,
    /// What it adds to the exposure. `None`: it has no meaning for this service.
    pub exposure: Option<Exposure>,
    /// What the service may do because of it; empty where nothing is left.
    pub risk: String,
}

/// What is said of one service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Score {
    /// All questions, in the table's order.
    pub answers: Vec<Answer>,
    /// The whole.
    pub overall: Exposure,
    /// Its word.
    pub level: Level,
}

/// Scores a service. `None`: the unit is none, or is masked.
pub fn score(unit: &Unit) -> Option<Score> {
    if unit.kind() != UnitType::Service || unit.masked.is_some() {
        return None;
    }
    let effective = Effective::of(&unit.settings);
    let judged = ROWS.iter().map(|row| (row, effective.bad(&row.test)));
    let judged: Vec<_> = judged.collect();
    let counting = judged
        .iter()
        .filter_map(|(row, (bad, _))| Some((row, (*bad)?)));
    let weights: u64 = counting.clone().map(|(row, _)| row.weight).sum();
    let bads: u64 = counting
        .map(|(row, bad)| (bad * row.weight).div_ceil(row.range))
        .sum();
    let overall = Exposure((bads * 100).div_ceil(weights.max(1)));
    let answers = judged.into_iter().map(|(row, (bad, left))| {
        let part = |bad: u64| {
            (bad * row.weight * 100)
                .div_ceil(row.range)
                .div_ceil(weights.max(1))
        };
        let risk = match (bad, left) {
            (None | Some(0), _) => String::new(),
            (_, Some(call)) => format!("{} ({call})", row.risk),
            (_, None) => row.risk.to_owned(),
        };
        Answer {
            id: row.id(),
            name: row.name(),
            exposure: bad.map(|bad| Exposure(part(bad))),
            risk,
        }
    });
    Some(Score {
        answers: answers.collect(),
        overall,
        level: Level::of(overall),
    })
}
