// SPDX-License-Identifier: Apache-2.0
//! Row `cell`: an isolated cell with a process, its exit and its removal, against a clone into the
//! same seven namespaces and a cgroup, with exec, wait and the cgroup's removal; with few cells
//! beside it and with many.

use std::time::Instant;

use anyhow::Result;

use super::Bench;
use crate::reference::{PROGRAM, Reference};
use crate::stats::{Figure, Goal, Samples, Turns};
use crate::subject::micros;

const BATCHES: usize = 15;
/// The same in a translated VM, where each takes a multiple.
const BATCHES_IN_VM: usize = 5;
const BATCH: usize = 10;
const FEW: usize = 10;
const AGAINST: &str = "clone3 into 7 namespaces and a cgroup, exec, wait";

impl Bench {
    /// With few cells beside it.
    pub(super) async fn cell(&self, figures: &mut Vec<Figure>) -> Result<()> {
        let mut reference = Reference::start()?;
        for number in 0..FEW {
            self.subject.make_cell(&beside(number)).await?;
        }
        let (few, bound) = self.cell_turns(&mut reference).await?;
        for number in 0..FEW {
            self.subject.remove(&beside(number)).await?;
        }
        let row = format!("cell p50, {FEW} beside");
        figures.push(few.figure(&row, AGAINST, 0.5, Goal::AtMost(2.5)));
        let row = format!("cell, without a daemon p50, {FEW} beside");
        figures.push(bound.figure(&row, AGAINST, 0.5, Goal::None));
        Ok(())
    }

    /// With the crowd beside it, which stands already.
    pub(super) async fn cell_in_crowd(&self, figures: &mut Vec<Figure>) -> Result<()> {
        let mut reference = Reference::start()?;
        let (many, bound) = self.cell_turns(&mut reference).await?;
        let row = format!("cell p50, {} beside", self.cells);
        figures.push(many.figure(&row, AGAINST, 0.5, Goal::AtMost(3.0)));
        let row = format!("cell, without a daemon p50, {} beside", self.cells);
        figures.push(bound.figure(&row, AGAINST, 0.5, Goal::None));
        Ok(())
    }

    /// Ours, and what is made of all that a cell has without a daemon, each in turns with a clone.
    async fn cell_turns(&self, reference: &mut Reference) -> Result<(Turns, Turns)> {
        let (mut turns, mut bound) = (Turns::default(), Turns::default());
        reference.full_cells(BATCH)?;
        self.cell_batch().await?;
        let batches = if self.vm { BATCHES_IN_VM } else { BATCHES };
        for _ in 0..batches {
            let ours = self.cell_batch().await?;
            let cells = reference.cells(BATCH)?;
            let full = reference.full_cells(BATCH)?;
            bound.batches.push((full, cells.clone()));
            turns.batches.push((ours, cells));
        }
        Ok((turns, bound))
    }

    async fn cell_batch(&self) -> Result<Samples> {
        let mut times = Samples::default();
        for _ in 0..BATCH {
            let started = Instant::now();
            self.subject.make_cell("bench-cell").await?;
            let words = [PROGRAM, "true"];
            let exited = api::runtime::v0::WaitFor::Exited;
            self.subject.run("bench-cell/one", &words, exited).await?;
            self.subject.remove("bench-cell").await?;
            times.add(micros(started));
        }
        Ok(times)
    }
}

fn beside(number: usize) -> String {
    format!("bench-beside-{number}")
}
