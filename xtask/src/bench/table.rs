// SPDX-License-Identifier: Apache-2.0
//! A figure as `aurae-bench` prints it, and the table of them.

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) row: String,
    /// `native` or `vm`.
    pub(super) place: String,
    pub(super) unit: String,
    pub(super) ours: f64,
    pub(super) reference: Option<f64>,
    pub(super) against: String,
    pub(super) spread: Option<(f64, f64)>,
    pub(super) goal: String,
    pub(super) met: Option<bool>,
}

impl Row {
    /// A figure of the VM beside another system's, with a goal for the ratio, such as `<= 0.1`.
    pub(super) fn beside(
        row: &str,
        unit: &str,
        ours: f64,
        (against, reference): (&str, f64),
        goal: &str,
    ) -> Self {
        let mut made = Self {
            row: row.to_owned(),
            place: "vm".into(),
            unit: unit.to_owned(),
            ours,
            reference: Some(reference),
            against: against.to_owned(),
            spread: None,
            goal: goal.to_owned(),
            met: None,
        };
        made.met = made.holds();
        made
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.ours / self.reference?)
    }

    fn holds(&self) -> Option<bool> {
        let value = self.ratio().unwrap_or(self.ours);
        let (sign, bound) = self.goal.split_once(' ')?;
        let bound: f64 = bound.parse().ok()?;
        Some(if sign == "<=" {
            value <= bound
        } else {
            value >= bound
        })
    }

    fn from_json(value: &Value, place: &str) -> Option<Self> {
        let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
        let spread = value.get("spread")?.as_array();
        let spread =
            spread.and_then(|pair| Some((pair.first()?.as_f64()?, pair.get(1)?.as_f64()?)));
        Some(Self {
            row: text("row")?,
            place: place.to_owned(),
            unit: text("unit")?,
            ours: value.get("ours")?.as_f64()?,
            reference: value.get("reference")?.as_f64(),
            against: text("against")?,
            spread,
            goal: text("goal")?,
            met: value.get("met")?.as_bool(),
        })
    }

    fn to_json(&self) -> Value {
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
        "{:7} {:58} {:>11} {:>11}  {:>7} {:13} {:9} {:4}  against",
        "where", "row", "ours", "reference", "ratio", "spread", "goal", "met"
    );
    for row in rows {
        let reference = row.reference.map(shown).unwrap_or_default();
        let ratio = row
            .ratio()
            .map(|ratio| format!("{ratio:.3}"))
            .unwrap_or_default();
        let spread = row
            .spread
            .map(|(low, high)| format!("{low:.2}–{high:.2}"))
            .unwrap_or_default();
        let met = match row.met {
            Some(true) => "yes",
            Some(false) => "MISSED",
            None => "",
        };
        let ours = format!("{} {}", shown(row.ours), row.unit);
        println!(
            "{:7} {:58} {ours:>11} {reference:>11}  {ratio:>7} {spread:13} {:9} {met:6}  {}",
            row.place, row.row, row.goal, row.against
        );
    }
    Ok(())
}

fn shown(value: f64) -> String {
    if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
