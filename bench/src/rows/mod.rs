// SPDX-License-Identifier: Apache-2.0
//! The rows of the table, a file each.

mod cell;
mod crowd;
mod logs;
mod run;

pub(crate) use logs::write_lines;

use anyhow::{Result, bail};

use crate::stats::Figure;
use crate::subject::Subject;

/// The rows, in the order in which they are measured: those that leave a thousand cells behind are
/// one visit.
const ROWS: [&str; 6] = ["run", "cell", "memory", "restart", "density", "logs"];

/// What a row needs.
pub(crate) struct Bench {
    pub(crate) subject: Subject,
    pub(crate) vm: bool,
    pub(crate) cells: usize,
}

impl Bench {
    /// Measures these rows; none: all.
    pub(crate) async fn measure(mut self, rows: &[String]) -> Result<Vec<Figure>> {
        if let Some(unknown) = rows.iter().find(|row| !ROWS.contains(&row.as_str())) {
            bail!("no row {unknown}: there are {}", ROWS.join(", "));
        }
        let wanted = |row: &str| rows.is_empty() || rows.iter().any(|one| one == row);
        let mut figures = Vec::new();
        if wanted("run") {
            figures.extend(self.run().await?);
        }
        if wanted("cell") {
            figures.extend(self.cell().await?);
        }
        if wanted("memory") || wanted("restart") || wanted("density") {
            let crowd = self.crowd(wanted("memory")).await?;
            let of_row = |figure: &Figure| {
                ROWS.iter()
                    .any(|row| wanted(row) && figure.row.starts_with(row))
            };
            figures.extend(crowd.into_iter().filter(of_row));
        }
        if wanted("logs") {
            figures.extend(self.logs().await?);
        }
        Ok(figures)
    }

    /// The goal natively, or in a translated VM.
    pub(crate) const fn either(&self, native: f64, vm: f64) -> f64 {
        if self.vm { vm } else { native }
    }
}
