// SPDX-License-Identifier: Apache-2.0
//! The rows of the table, a file each.

mod cell;
mod crowd;
mod dense;
mod growth;
mod hostile;
mod logs;
mod memory;
mod neighbour;
mod restart;
mod run;
mod units;

pub(crate) use logs::write_lines;
pub(crate) use units::print as units;

use std::time::Instant;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::attack::Attack;
use crate::stats::Figure;
use crate::subject::Subject;

/// What every object of ours is called first.
const PREFIX: &str = "bench-";

/// The rows that there are.
const ROWS: [&str; 8] = [
    "run",
    "cell",
    "memory",
    "growth",
    "restart",
    "density",
    "logs",
    "neighbour",
];

/// What is measured together: one preparation, one failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Visit {
    Run,
    Cell,
    /// A thousand cells stand: what they cost, and all that is asked among them.
    Crowd,
    /// As many cells as a node may have.
    Dense,
    Logs,
    /// A hostile tenant beside another; last, for what it leaves of the node.
    Neighbour,
}

/// The visits, in their order.
const VISITS: [Visit; 6] = [
    Visit::Run,
    Visit::Cell,
    Visit::Crowd,
    Visit::Dense,
    Visit::Logs,
    Visit::Neighbour,
];

/// The rows that were asked for; none: all.
#[derive(Clone, Debug)]
pub(crate) struct Wanted(Vec<String>);

impl Wanted {
    fn row(&self, row: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|one| one == row)
    }

    fn any(&self, visit: Visit) -> bool {
        visit.rows().iter().any(|row| self.row(row))
    }
}

impl Visit {
    const fn rows(self) -> &'static [&'static str] {
        match self {
            Self::Run => &["run"],
            Self::Cell => &["cell"],
            Self::Crowd => &["memory", "cell", "growth", "density", "restart"],
            Self::Dense => &["density"],
            Self::Logs => &["logs"],
            Self::Neighbour => &["neighbour"],
        }
    }
}

/// What a row needs.
pub(crate) struct Bench {
    pub(crate) subject: Subject,
    pub(crate) vm: bool,
    pub(crate) cells: usize,
    pub(crate) dense: usize,
    pub(crate) runs: usize,
    pub(crate) only: Vec<Attack>,
}

impl Bench {
    /// Measures these rows; none: all. What fails is in the list with its reason.
    ///
    /// # Errors
    /// For a row that there isn't.
    pub(crate) async fn measure(mut self, rows: &[String]) -> Result<Vec<Value>> {
        if let Some(unknown) = rows.iter().find(|row| !ROWS.contains(&row.as_str())) {
            bail!("no row {unknown}: there are {}", ROWS.join(", "));
        }
        let wanted = Wanted(rows.to_vec());
        let mut all = Vec::new();
        if wanted.row("memory") {
            all.extend(self.idle().await?.iter().map(Figure::to_json));
        }
        for visit in VISITS.into_iter().filter(|visit| wanted.any(*visit)) {
            let started = Instant::now();
            let mut figures = Vec::new();
            let outcome = self.visit(visit, &wanted, &mut figures).await;
            let named = visit.rows().join(", ");
            if let Err(error) = outcome {
                figures.push(Figure::failed(&named, &error));
            }
            all.extend(figures.iter().map(Figure::to_json));
            eprintln!("aurae-bench: {named}: {:.0?}", started.elapsed());
        }
        Ok(all)
    }

    async fn visit(
        &mut self,
        visit: Visit,
        wanted: &Wanted,
        figures: &mut Vec<Figure>,
    ) -> Result<()> {
        // A visit that failed may have left something standing.
        self.subject.remove_all(PREFIX).await?;
        match visit {
            Visit::Run => self.run(figures).await,
            Visit::Cell => self.cell(figures).await,
            Visit::Crowd => self.crowd(wanted, figures).await,
            Visit::Dense => self.dense(figures).await,
            Visit::Logs => self.logs(figures).await,
            Visit::Neighbour => self.neighbour(figures).await,
        }
    }

    /// The goal natively, or in a translated VM.
    pub(crate) const fn either(&self, native: f64, vm: f64) -> f64 {
        if self.vm { vm } else { native }
    }
}
