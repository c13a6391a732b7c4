// SPDX-License-Identifier: Apache-2.0
//! Row `growth`: what a cell, a run and a stop take among many cells, against the same among few,
//! before the many and after them: a machine changes in the minutes that they take.

use std::time::Instant;

use anyhow::Result;
use api::runtime::v0::WaitFor;

use super::Bench;
use crate::reference::{PROGRAM, Reference};
use crate::stats::{Figure, Goal, Samples};
use crate::subject::micros;

/// How often each is done.
const TIMES: usize = 150;
/// The same in a translated VM.
const TIMES_IN_VM: usize = 40;
const CELL: &str = "bench-growth";

/// One measurement of the three.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    cell: Samples,
    run: Samples,
    stop: Samples,
    /// The bare kernel's part of a cell: a clone into seven namespaces and a cgroup, and its end.
    raw: Samples,
}

impl Work {
    /// And what another measurement of the same found.
    pub(super) fn add(&mut self, other: &Self) {
        self.cell.extend(&other.cell);
        self.run.extend(&other.run);
        self.stop.extend(&other.stop);
        self.raw.extend(&other.raw);
    }
}

impl Bench {
    /// Among the cells that stand now.
    pub(super) async fn work(&self) -> Result<Work> {
        let mut work = Work::default();
        let times = if self.vm { TIMES_IN_VM } else { TIMES };
        for _ in 0..times {
            let started = Instant::now();
            self.subject.make_cell(CELL).await?;
            let made = micros(started);
            let words = [PROGRAM, "true"];
            let one = path("one");
            work.run
                .add(self.subject.run(&one, &words, WaitFor::Exited).await?);
            let words = [PROGRAM, "sleep", "1000000"];
            let sleeper = path("sleeper");
            self.subject.run(&sleeper, &words, WaitFor::Started).await?;
            work.stop.add(self.subject.stop(&sleeper).await?);
            let started = Instant::now();
            self.subject.remove(CELL).await?;
            work.cell.add(made + micros(started));
        }
        work.raw = Reference::start()?.cells(times)?;
        Ok(work)
    }

    /// What became of the work among few cells when there were many.
    pub(super) fn growth(&self, count: usize, few: &Work, many: &Work) -> Vec<Figure> {
        let against = format!("the same, {count} beside, before and after");
        let row = |what: &str, goal: Goal, many: &Samples, few: &Samples| {
            let row = format!("growth, {what} p50, {} beside", self.cells);
            Figure::alone(&row, "us", many.median(), goal).beside(&against, few.median())
        };
        let goal = Goal::AtMost(1.3);
        vec![
            row("a cell and its removal", goal, &many.cell, &few.cell),
            row("a run", goal, &many.run, &few.run),
            row("a stop", goal, &many.stop, &few.stop),
            row(
                "a raw clone and its removal",
                Goal::None,
                &many.raw,
                &few.raw,
            ),
        ]
    }
}

fn path(name: &str) -> String {
    format!("{CELL}/{name}")
}
