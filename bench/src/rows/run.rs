// SPDX-License-Identifier: Apache-2.0
//! Row `run`: an executable in a running cell until its exit status is back, against fork, exec and
//! wait.

use anyhow::Result;
use api::runtime::v0::WaitFor;

use super::Bench;
use crate::reference::{PROGRAM, Reference};
use crate::stats::{Figure, Goal, Samples, Turns};

const BATCHES: usize = 40;
const BATCH: usize = 25;
/// The same in a translated VM, where each takes a multiple.
const BATCHES_IN_VM: usize = 12;
/// What no daemon can be faster than: see `prototype::standing`.
const BOUND: &str = "run, by an init without a daemon p50";
const AGAINST: &str = "fork+exec+wait of the same static program";

impl Bench {
    pub(super) async fn run(&self, figures: &mut Vec<Figure>) -> Result<()> {
        let mut reference = Reference::start()?;
        self.subject.make_cell("bench-run").await?;
        self.batch().await?;
        reference.forks(BATCH)?;
        reference.runs(BATCH)?;
        let (mut turns, mut bound) = (Turns::default(), Turns::default());
        let batches = if self.vm { BATCHES_IN_VM } else { BATCHES };
        for _ in 0..batches {
            let ours = self.batch().await?;
            let forks = reference.forks(BATCH)?;
            bound.batches.push((reference.runs(BATCH)?, forks.clone()));
            turns.batches.push((ours, forks));
        }
        self.subject.remove("bench-run").await?;
        let middle = Goal::AtMost(self.either(2.5, 4.0));
        let tail = if self.vm {
            Goal::None
        } else {
            Goal::AtMost(4.0)
        };
        figures.push(turns.figure("run p50", AGAINST, 0.5, middle));
        figures.push(turns.figure("run p99", AGAINST, 0.99, tail));
        figures.push(bound.figure(BOUND, AGAINST, 0.5, Goal::None));
        Ok(())
    }

    async fn batch(&self) -> Result<Samples> {
        let mut times = Samples::default();
        for _ in 0..BATCH {
            let words = [PROGRAM, "true"];
            times.add(
                self.subject
                    .run("bench-run/one", &words, WaitFor::Exited)
                    .await?,
            );
        }
        Ok(times)
    }
}
