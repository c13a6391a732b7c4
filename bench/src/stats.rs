// SPDX-License-Identifier: Apache-2.0
//! Percentiles, ratios with their spread, and goals.

use serde_json::{Value, json};

/// Times of one kind, in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn add(&mut self, micros: f64) {
        self.0.push(micros);
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest sample that this share of all doesn't pass; not a number where there is none.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "a count of samples")]
        let rank = (share * sorted.len() as f64).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and the count"
        )]
        let index = (rank as usize).clamp(1, sorted.len().max(1)) - 1;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn mean(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a count of samples")]
        let count = self.0.len() as f64;
        self.0.iter().sum::<f64>() / count
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(0.5)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<T: IntoIterator<Item = f64>>(samples: T) -> Self {
        Self(samples.into_iter().collect())
    }
}

/// Whether more or less is better, and how much is enough.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// Of the ratio, or of our value where there is no reference.
    AtMost(f64),
    AtLeast(f64),
    /// Shown beside the others.
    None,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) row: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) reference: Option<f64>,
    /// What the reference is, in words.
    pub(crate) against: String,
    /// The smallest and the largest ratio of the run's batches.
    pub(crate) spread: Option<(f64, f64)>,
    pub(crate) goal: Goal,
    /// Why it could not be measured; its numbers mean nothing then.
    pub(crate) error: Option<String>,
}

impl Figure {
    /// A figure of ours alone.
    pub(crate) fn alone(row: &str, unit: &'static str, ours: f64, goal: Goal) -> Self {
        let (row, against) = (row.to_owned(), String::new());
        Self {
            row,
            unit,
            ours,
            reference: None,
            against,
            spread: None,
            goal,
            error: None,
        }
    }

    /// One of ours beside a reference.
    pub(crate) fn beside(self, against: &str, reference: f64) -> Self {
        Self {
            reference: Some(reference),
            against: against.to_owned(),
            ..self
        }
    }

    /// A row that could not be measured.
    pub(crate) fn failed(row: &str, error: &anyhow::Error) -> Self {
        Self {
            error: Some(format!("{error:#}")),
            ..Self::alone(row, "", f64::NAN, Goal::None)
        }
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.ours / self.reference?)
    }

    fn met(&self) -> Option<bool> {
        let value = self.ratio().unwrap_or(self.ours);
        match self.goal {
            Goal::AtMost(bound) => Some(value <= bound),
            Goal::AtLeast(bound) => Some(value >= bound),
            Goal::None => None,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let goal = match self.goal {
            Goal::AtMost(bound) => format!("<= {bound}"),
            Goal::AtLeast(bound) => format!(">= {bound}"),
            Goal::None => String::new(),
        };
        if let Some(error) = &self.error {
            return json!({ "row": self.row, "error": error });
        }
        json!({
            "row": self.row,
            "unit": self.unit,
            "ours": self.ours,
            "reference": self.reference,
            "against": self.against,
            "ratio": self.ratio(),
            "spread": self.spread.map(|(low, high)| [low, high]),
            "goal": goal,
            "met": self.met(),
        })
    }
}

/// Ours and the reference's samples, batch by batch in turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    pub(crate) batches: Vec<(Samples, Samples)>,
}

impl Turns {
    /// The ratio at this percentile over all samples, with the spread of the batches' medians or,
    /// for the tail, none: a batch is too small to have one.
    pub(crate) fn figure(&self, row: &str, against: &str, share: f64, goal: Goal) -> Figure {
        let (mut ours, mut reference) = (Samples::default(), Samples::default());
        for (our, their) in &self.batches {
            ours.extend(our);
            reference.extend(their);
        }
        let ratios: Samples = self
            .batches
            .iter()
            .map(|(our, their)| our.median() / their.median())
            .collect();
        let middle = (share - 0.5).abs() < f64::EPSILON;
        Figure {
            row: format!("{row} (n={})", ours.len()),
            unit: "us",
            ours: ours.percentile(share),
            reference: Some(reference.percentile(share)),
            against: against.to_owned(),
            spread: middle.then(|| (ratios.percentile(0.1), ratios.percentile(0.9))),
            goal,
            error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Samples = (1..=100).map(f64::from).collect();
        assert!((samples.median() - 50.0).abs() < 1e-9);
        assert!((samples.percentile(0.99) - 99.0).abs() < 1e-9);
        assert!((samples.percentile(1.0) - 100.0).abs() < 1e-9);
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn a_goal_is_of_the_ratio_where_there_is_one() {
        let mut figure = Figure::alone("x", "us", 6.0, Goal::AtMost(2.5));
        assert_eq!(figure.met(), Some(false));
        figure.reference = Some(3.0);
        assert_eq!(figure.met(), Some(true));
        figure.goal = Goal::AtLeast(2.5);
        assert_eq!(figure.met(), Some(false));
    }

    #[test]
    fn a_row_that_failed_has_its_reason_and_no_numbers() {
        let failed = Figure::failed("x", &anyhow::anyhow!("no group").context("a cell"));
        let expected = json!({ "row": "x", "error": "a cell: no group" });
        assert_eq!(failed.to_json(), expected);
    }
}
