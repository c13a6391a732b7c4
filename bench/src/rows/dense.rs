// SPDX-License-Identifier: Apache-2.0
//! Row `density`, natively: as many cells as a node may have, and how fast it answers and runs
//! programs among them.

use anyhow::{Context, Result};
use api::runtime::v0::{self as runtime, WaitFor};
use rustix::process::{Resource, getrlimit};
use tokio::task::JoinSet;

use super::Bench;
use crate::reference::PROGRAM;
use crate::stats::{Figure, Goal, Samples};
use crate::subject::named;

const FEW: usize = 10;
const RUNS: usize = 500;
const GETS: usize = 1000;
const CELL: &str = "bench-run";
/// A cell that makes no cells needs no more; the node has ids for as many of these as it may have
/// cells.
const IDS: u32 = 65536;
/// Descriptors that the daemon has for a cell with an executable: its init's socket and process,
/// two groups, two pipes.
const DESCRIPTORS: usize = 6;
/// Those that it has for everything else.
const OTHERS: usize = 1000;
/// Removals that go on at the same time.
const AT_ONCE: usize = 200;

impl Bench {
    pub(super) async fn dense(&self, figures: &mut Vec<Figure>) -> Result<()> {
        // A machine of a few gigabytes has no room for so many.
        if self.vm {
            return Ok(());
        }
        let dense = self.dense.min(room());
        if dense < self.dense {
            eprintln!(
                "aurae-bench: {dense} cells, not {}: a process of this machine may not have \
                 descriptors for more",
                self.dense
            );
        }
        self.subject.make_cell(CELL).await?;
        for number in 0..FEW {
            self.one_of_many(number).await?;
        }
        let few = self.times_of_runs().await?;
        for number in FEW..dense {
            self.one_of_many(number).await?;
            if number % 1000 == 999 {
                eprintln!("aurae-bench: {} cells", number + 1);
            }
        }
        let many = self.times_of_runs().await?;
        let gets = self.times_of_gets(dense, GETS, member).await?;
        let row = format!("density, Get p99 among {dense} cells");
        figures.push(Figure::alone(
            &row,
            "ms",
            gets.percentile(0.99),
            Goal::AtMost(10.0),
        ));
        figures.push(Figure {
            row: format!("density, run p50 among {dense} cells"),
            unit: "us",
            ours: many.median(),
            reference: Some(few.median()),
            against: format!("the same, {FEW} beside"),
            spread: None,
            goal: Goal::AtMost(1.2),
        });
        self.subject.remove(CELL).await?;
        self.remove_many(dense).await
    }

    async fn one_of_many(&self, number: usize) -> Result<()> {
        let spec = runtime::CellSpec {
            id_range: Some(IDS),
            ..Default::default()
        };
        let cell = member(number);
        self.subject.make_cell_as(named(&cell), spec).await?;
        let words = [PROGRAM, "sleep", "1000000"];
        let path = format!("{cell}/one");
        self.subject.run(&path, &words, WaitFor::Started).await?;
        Ok(())
    }

    async fn times_of_runs(&self) -> Result<Samples> {
        let mut times = Samples::default();
        for _ in 0..RUNS {
            let (path, words) = (format!("{CELL}/one"), [PROGRAM, "true"]);
            times.add(self.subject.run(&path, &words, WaitFor::Exited).await?);
        }
        Ok(times)
    }

    async fn remove_many(&self, dense: usize) -> Result<()> {
        let mut removals = JoinSet::new();
        for number in 0..dense {
            let subject = self.subject.clone();
            removals.spawn(async move { subject.remove(&member(number)).await });
            if removals.len() >= AT_ONCE
                && let Some(removed) = removals.join_next().await
            {
                removed?.context("Remove")?;
            }
        }
        while let Some(removed) = removals.join_next().await {
            removed?.context("Remove")?;
        }
        Ok(())
    }
}

/// Cells for which the daemon may have descriptors: its limit is this process's.
fn room() -> usize {
    let most = getrlimit(Resource::Nofile).maximum;
    let most = most.and_then(|most| usize::try_from(most).ok());
    most.map_or(usize::MAX, |most| most.saturating_sub(OTHERS) / DESCRIPTORS)
}

fn member(number: usize) -> String {
    format!("bench-dense-{number}")
}
