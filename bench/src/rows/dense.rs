// SPDX-License-Identifier: Apache-2.0
//! Row `density`, natively: as many cells as a node may have, and how fast it answers and runs
//! programs among them. Where the machine's limits allow fewer than were asked for, a row says so,
//! and the others have no goal.

use std::ops::Range;

use anyhow::{Context, Result, anyhow};
use api::runtime::v0::{self as runtime, WaitFor};
use rustix::process::{Resource, getrlimit};
use tokio::task::JoinSet;

use super::Bench;
use crate::reference::{PROGRAM, Reference};
use crate::stats::{Figure, Goal, Samples};
use crate::subject::named;

const FEW: usize = 10;
const RUNS: usize = 500;
/// Runs before those that count: the first ones find cold caches.
const WARM: usize = 50;
const GETS: usize = 1000;
const CELL: &str = "bench-run";
/// A cell that makes no cells needs no more; the node has ids for as many of these as it may have
/// cells.
const IDS: u32 = 65536;
/// Descriptors that count for a cell with an executable where the daemon may have few: it has six
/// or seven of them, and its pools are cut so that readers of logs have theirs, too
/// (`auraed/src/capacity.rs`).
const DESCRIPTORS: usize = 13;
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
        self.subject.make_cell(CELL).await?;
        for number in 0..FEW {
            self.one_of_many(number).await?;
        }
        let mut few = self.among().await?;
        for number in FEW..dense {
            self.one_of_many(number).await?;
            if number % 1000 == 999 {
                eprintln!("aurae-bench: {} cells", number + 1);
            }
        }
        let many = self.among().await?;
        let gets = self.times_of_gets(dense, GETS, member).await?;
        self.remove_many(FEW..dense).await?;
        // A machine changes in the minutes that the many take.
        few.add(&self.among().await?);
        // A goal is one among as many as were asked for: among fewer it is neither met nor missed.
        let goal = |bound| match dense < self.dense {
            true => Goal::None,
            false => Goal::AtMost(bound),
        };
        figures.push(Figure::alone(
            &format!("density, Get p99 among {dense} cells"),
            "ms",
            gets.percentile(0.99),
            goal(10.0),
        ));
        figures.extend(few.beside(&many, dense, goal(1.2)));
        figures.extend(self.too_few(dense));
        self.subject.remove(CELL).await?;
        self.remove_many(0..FEW).await
    }

    /// The row that says so where fewer stood than were asked for.
    fn too_few(&self, dense: usize) -> Option<Figure> {
        let row = format!("density, {} cells at once", self.dense);
        let most = limit().unwrap_or(usize::MAX);
        let error = anyhow!(
            "only {dense} of {} cells: hard limit of descriptors {most}",
            self.dense
        );
        (dense < self.dense).then(|| Figure::failed(&row, &error))
    }

    /// What a run takes now, and what the bare kernel takes for a process of its own.
    async fn among(&self) -> Result<Among> {
        self.times_of_runs(WARM).await?;
        let forks = Reference::start()?.forks(RUNS)?;
        let runs = self.times_of_runs(RUNS).await?;
        Ok(Among { runs, forks })
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

    async fn times_of_runs(&self, count: usize) -> Result<Samples> {
        let mut times = Samples::default();
        for _ in 0..count {
            let (path, words) = (format!("{CELL}/one"), [PROGRAM, "true"]);
            times.add(self.subject.run(&path, &words, WaitFor::Exited).await?);
        }
        Ok(times)
    }

    async fn remove_many(&self, numbers: Range<usize>) -> Result<()> {
        let mut removals = JoinSet::new();
        for number in numbers {
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

/// Times of runs and of bare processes.
struct Among {
    runs: Samples,
    forks: Samples,
}

impl Among {
    fn add(&mut self, other: &Self) {
        self.runs.extend(&other.runs);
        self.forks.extend(&other.forks);
    }

    /// What the same takes among many. What the bare kernel takes more there is no daemon's.
    fn beside(&self, many: &Self, dense: usize, goal: Goal) -> [Figure; 2] {
        let against = format!("the same, {FEW} beside, before and after");
        let figure = |row: &str, few: &Samples, many: &Samples, goal| {
            let row = format!("density, {row} p50 among {dense} cells");
            Figure::alone(&row, "us", many.median(), goal).beside(&against, few.median())
        };
        [
            figure("run", &self.runs, &many.runs, goal),
            figure("bare process", &self.forks, &many.forks, Goal::None),
        ]
    }
}

/// Cells for which the daemon may have descriptors: its limit is this process's.
fn room() -> usize {
    limit().map_or(usize::MAX, |most| most.saturating_sub(OTHERS) / DESCRIPTORS)
}

/// The hard limit of descriptors; none: as many as there is memory for.
fn limit() -> Option<usize> {
    let most = getrlimit(Resource::Nofile).maximum;
    most.and_then(|most| usize::try_from(most).ok())
}

fn member(number: usize) -> String {
    format!("bench-dense-{number}")
}
