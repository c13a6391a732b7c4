// SPDX-License-Identifier: Apache-2.0
//! A figure as `aurae-bench` prints it, and the table of them.

use anyhow::{Context, Error, Result};
use serde_json::{Value, json};

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) row: String,
    /// `native` or `vm`.
    pub(super) place: String,
    pub(super) unit: String,
    /// `None`: see `error`.
    pub(super) ours: Option<f64>,
    pub(super) reference: Option<f64>,
    pub(super) against: String,
    pub(super) spread: Option<(f64, f64)>,
    /// Of the ratio, or of our value where there is no reference; such as `<= 0.1`.
    pub(super) goal: String,
    pub(super) met: Option<bool>,
    /// Why it could not be measured.
    pub(super) error: Option<String>,
}

/// What is kept of an error: of one with a long command, what was said last.
fn brief(error: &str) -> String {
    const LONGEST: usize = 300;
    let last = error.lines().rfind(|line| !line.trim().is_empty());
    match last {
        Some(last) if error.len() > LONGEST => last.to_owned(),
        _ => error.to_owned(),
    }
}

impl Row {
    /// A figure of ours, with a goal.
    pub(super) fn alone(row: &str, place: &str, unit: &str, ours: f64, goal: &str) -> Self {
        let mut made = Self {
            row: row.to_owned(),
            place: place.to_owned(),
            unit: unit.to_owned(),
            ours: Some(ours),
            reference: None,
            against: String::new(),
            spread: None,
            goal: goal.to_owned(),
            met: None,
            error: None,
        };
        made.met = made.holds();
        made
    }

    /// A figure beside another system's, with a goal for the ratio.
    pub(super) fn beside(self, (against, reference): (&str, f64)) -> Self {
        let mut made = Self {
            reference: Some(reference),
            against: against.to_owned(),
            ..self
        };
        made.met = made.holds();
        made
    }

    /// One that could not be measured.
    pub(super) fn failed(row: &str, place: &str, error: &Error) -> Self {
        Self {
            ours: None,
            met: None,
            error: Some(brief(&format!("{error:#}"))),
            ..Self::alone(row, place, "", 0.0, "")
        }
    }

    /// Measured, and no goal is missed.
    pub(super) fn is_good(&self) -> bool {
        self.error.is_none() && self.met != Some(false)
    }

    /// Ours by the reference's.
    pub(super) fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.reference?)
    }

    fn holds(&self) -> Option<bool> {
        let value = self.ratio().or(self.ours)?;
        let (sign, bound) = self.goal.split_once(' ')?;
        let bound: f64 = bound.parse().ok()?;
        Some(if sign == "<=" {
            value <= bound
        } else {
            value >= bound
        })
    }

    /// The figure in this object, as [`Self::to_json`] or `aurae-bench` wrote it.
    pub(super) fn from_json(value: &Value, place: &str) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| value.get(key).and_then(Value::as_f64);
        let spread = value.get("spread").and_then(Value::as_array);
        let error = value.get("error").and_then(Value::as_str);
        Some(Self {
            row: value.get("row")?.as_str()?.to_owned(),
            place: place.to_owned(),
            unit: text("unit").to_owned(),
            ours: number("ours"),
            reference: number("reference"),
            against: text("against").to_owned(),
            spread: spread.and_then(|two| Some((two.first()?.as_f64()?, two.get(1)?.as_f64()?))),
            goal: text("goal").to_owned(),
            met: value.get("met").and_then(Value::as_bool),
            error: error.map(str::to_owned),
        })
    }

    /// What `-o json` prints of it.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "row": self.row,
            "where": self.place,
            "unit": self.unit,
            "ours": self.ours,
            "reference": self.reference,
            "against": self.against,
            "ratio": self.ratio(),
            "spread": self.spread.map(|(low, high)| [low, high]),
            "goal": self.goal,
            "met": self.met,
            "error": self.error,
        })
    }
}

/// Reads the list that `aurae-bench` has printed.
pub(super) fn read(figures: &str, place: &str) -> Result<Vec<Row>> {
    let figures: Value = serde_json::from_str(figures)?;
    let figures = figures.as_array().context("not a list")?;
    let rows = figures
        .iter()
        .map(|one| Row::from_json(one, place).context("not a figure"));
    rows.collect()
}

/// Prints them for people or for programs.
pub(super) fn print(rows: &[Row], format: &str) -> Result<()> {
    if format == "json" {
        let all = Value::from_iter(rows.iter().map(Row::to_json));
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    println!(
        "{:6} {:56} {:>14} {:>11} {:>8}  {:11}  {:8} {:6}  against",
        "where", "row", "ours", "reference", "ratio", "spread", "goal", "met"
    );
    for row in rows {
        if let Some(error) = &row.error {
            println!("{:6} {:56} not measured: {error}", row.place, row.row);
            continue;
        }
        let cells = Shown::of(row);
        println!(
            "{:6} {:56} {:>14} {:>11} {:>8}  {:11}  {:8} {:6}  {}",
            row.place,
            row.row,
            cells.ours,
            cells.reference,
            cells.ratio,
            cells.spread,
            row.goal,
            cells.met,
            row.against
        );
    }
    Ok(())
}

/// The figure's numbers as people read them.
pub(super) struct Shown {
    pub(super) ours: String,
    pub(super) reference: String,
    pub(super) ratio: String,
    pub(super) spread: String,
    pub(super) met: &'static str,
}

impl Shown {
    pub(super) fn of(row: &Row) -> Self {
        let spread = row.spread.map(|(low, high)| format!("{low:.2}–{high:.2}"));
        Self {
            ours: row
                .ours
                .map(|ours| {
                    format!("{} {}", shown(ours), row.unit)
                        .trim_end()
                        .to_owned()
                })
                .unwrap_or_default(),
            reference: row.reference.map(shown).unwrap_or_default(),
            ratio: row.ratio().map(shown_ratio).unwrap_or_default(),
            spread: spread.unwrap_or_default(),
            met: match row.met {
                Some(true) => "yes",
                Some(false) => "MISSED",
                None => "",
            },
        }
    }
}

fn shown(value: f64) -> String {
    if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

fn shown_ratio(ratio: f64) -> String {
    if ratio < 0.1 {
        format!("{ratio:.4}")
    } else {
        format!("{ratio:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_back_as_it_was_written() {
        let row = Row::alone("run p50", "vm", "us", 12.5, "<= 2.5").beside(("fork", 10.0));
        assert_eq!(row.met, Some(true));
        assert_eq!(Row::from_json(&row.to_json(), "vm"), Some(row));
    }

    #[test]
    fn a_row_that_failed_says_why_and_is_not_good() {
        let row = Row::failed("cell", "vm", &anyhow::anyhow!("no cgroup"));
        assert!(!row.is_good());
        let again = Row::from_json(&row.to_json(), "vm").expect("it is a row");
        assert_eq!(again.error.as_deref(), Some("no cgroup"));
        assert_eq!(again.ours, None);
    }
}
