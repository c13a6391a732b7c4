// SPDX-License-Identifier: Apache-2.0
//! Rows `growth` and `density`: a thousand cells with a process each, how fast the node answers
//! among them, and how long it takes to end them all. What they cost is `memory`'s, and what the
//! death of the daemon does `restart`'s.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::runtime::v0::{self as runtime, object::Object as Kind};
use tokio::task::JoinSet;

use super::growth::Work;
use super::memory::Memory;
use super::restart::ENDING;
use super::{Bench, Wanted};
use crate::reference::{PROGRAM, Reference};
use crate::stats::{Figure, Goal, Samples};
use crate::subject::{micros, named};

const SOME: usize = 100;
/// Beside row `growth`'s first measurement.
const FEW: usize = 10;
const ASKED: usize = 1000;
/// Groups that are still there by then aren't taken away.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Bench {
    /// Builds the crowd and takes what is wanted from it.
    pub(super) async fn crowd(&mut self, wanted: &Wanted, figures: &mut Vec<Figure>) -> Result<()> {
        let mut few = match wanted.row("growth") {
            true => Some(self.among_few().await?),
            false => None,
        };
        self.gather(wanted, figures).await?;
        let many = match wanted.row("growth") {
            true => self.work().await?,
            false => Work::default(),
        };
        if wanted.row("cell") {
            self.cell_in_crowd(figures).await?;
        }
        if wanted.row("density") {
            figures.push(self.answers(self.cells).await?);
        }
        self.losses(self.cells, wanted, figures).await?;
        if let Some(few) = few.as_mut() {
            few.add(&self.among_few().await?);
            figures.extend(self.growth(FEW, few, &many));
        }
        if !self.vm {
            self.tenth(wanted, figures).await?;
        }
        Ok(())
    }

    /// The work that row `growth` compares, with few of the crowd beside it.
    async fn among_few(&self) -> Result<Work> {
        for number in 0..FEW {
            self.join(number).await?;
        }
        self.work().await?; // the first ones find cold caches
        let work = self.work().await?;
        for number in 0..FEW {
            self.subject.remove(&member(number)).await?;
        }
        Ok(work)
    }

    /// The daemon's death and the end of all, where so many stand.
    async fn losses(
        &mut self,
        cells: usize,
        wanted: &Wanted,
        figures: &mut Vec<Figure>,
    ) -> Result<()> {
        if wanted.row("restart") {
            figures.extend(self.deaths(cells).await?);
        }
        let ended = self.end_of_all(cells).await?;
        if wanted.row("density") {
            figures.extend(self.ends(cells, ended)?);
        }
        Ok(())
    }

    /// The same with a tenth of the crowd: what of it grows with the number of cells. In a
    /// translated VM it would take minutes more.
    async fn tenth(&mut self, wanted: &Wanted, figures: &mut Vec<Figure>) -> Result<()> {
        let cells = self.cells / 10;
        if cells < ENDING || !(wanted.row("restart") || wanted.row("density")) {
            return Ok(());
        }
        for number in 0..cells {
            self.join(number).await?;
        }
        self.losses(cells, wanted, figures).await
    }

    /// Makes every cell of the crowd, and looks at the memory meanwhile.
    async fn gather(&self, wanted: &Wanted, figures: &mut Vec<Figure>) -> Result<()> {
        let (memory, density) = (wanted.row("memory"), wanted.row("density"));
        // Natively what is available depends on whatever else the machine does.
        let raw = match memory && self.vm {
            true => Some((
                self.memory_of(Reference::hold).await?,
                self.memory_of(Reference::hold_full).await,
            )),
            false => None,
        };
        let before = Memory::now()?;
        for number in 0..self.cells {
            self.join(number).await?;
            if number % 100 == 99 {
                eprintln!("aurae-bench: {} cells", number + 1);
            }
            if memory && number + 1 == SOME {
                figures.push(self.init_share(SOME).await?);
            }
            if density && number + 1 == self.cells / 10 {
                figures.push(self.answers(number + 1).await?);
            }
        }
        if memory {
            figures.push(self.init_share(self.cells).await?);
        }
        if let Some((raw, full)) = raw {
            let ours = Memory::now()?.since(&before);
            figures.extend(self.taken_by_all(&ours, &raw, full));
        }
        Ok(())
    }

    async fn join(&self, number: usize) -> Result<()> {
        let cell = member(number);
        self.subject.make_cell(&cell).await?;
        let words = [PROGRAM, "sleep", "1000000"];
        self.subject
            .run(&format!("{cell}/one"), &words, runtime::WaitFor::Started)
            .await?;
        Ok(())
    }

    /// Row `density`: how fast the node answers.
    async fn answers(&self, cells: usize) -> Result<Figure> {
        let times = self.times_of_gets(cells, ASKED, member).await?;
        let goal = if self.vm {
            Goal::None
        } else {
            Goal::AtMost(10.0)
        };
        let row = format!("density, Get p99 among {cells} cells");
        Ok(Figure::alone(&row, "ms", times.percentile(0.99), goal))
    }

    /// Milliseconds of so many Gets, over the executables of these cells in turn.
    pub(super) async fn times_of_gets(
        &self,
        cells: usize,
        count: usize,
        cell: fn(usize) -> String,
    ) -> Result<Samples> {
        let mut times = Samples::default();
        for turn in 0..count {
            let wanted = named(&format!("{}/one", cell(turn % cells)));
            let request = runtime::GetRequest {
                r#ref: Some(wanted),
            };
            let started = Instant::now();
            let node = self.subject.node();
            let answer = node.runtime().get(node.unary(request)).await;
            answer.context("Get")?;
            times.add(micros(started) / 1000.0);
        }
        Ok(times)
    }

    /// Row `density`: the seconds that the end of all took, and those of as many raw clones with a
    /// group each, which is what the kernel alone takes of it.
    fn ends(&self, cells: usize, ours: f64) -> Result<[Figure; 2]> {
        let goal = match cells == self.cells {
            true => Goal::AtMost(self.either(0.5, 5.0)),
            false => Goal::None,
        };
        let row = |what: &str| format!("density, {cells} {what} ended and their cgroups gone");
        let ours = Figure::alone(&row("cells"), "s", ours, goal);
        let raw = Figure::alone(&row("raw clones"), "s", end_of_raw(cells)?, Goal::None);
        Ok([ours, raw])
    }

    /// Ends everything at once; seconds until the last of the crowd and its groups is gone.
    async fn end_of_all(&self, cells: usize) -> Result<f64> {
        let mount = kernel::cgroup::find::mount_point()?;
        let mut groups: Vec<PathBuf> = Vec::new();
        for object in self.subject.list(true).await? {
            if let Some(Kind::Cell(cell)) = object.object
                && path(cell.meta.as_ref()).starts_with(PREFIX)
            {
                groups.push(mount.join(cell.cgroup.trim_start_matches('/')));
            }
        }
        ensure!(
            groups.iter().all(|group| group.is_dir()),
            "a cell's cgroup isn't where it says"
        );
        let started = Instant::now();
        let mut removals = JoinSet::new();
        for number in 0..cells {
            let node = self.subject.node().clone();
            removals.spawn(async move {
                let wanted = Some(named(&member(number)));
                let request = runtime::RemoveRequest {
                    r#ref: wanted,
                    recursive: true,
                    force: true,
                };
                node.runtime().remove(node.unary(request)).await
            });
        }
        while let Some(removed) = removals.join_next().await {
            removed?.context("Remove")?;
        }
        let mut again = tokio::time::interval(Duration::from_millis(1));
        while groups.iter().any(|group| group.exists()) {
            ensure!(
                started.elapsed() < TIMEOUT,
                "cgroups are left after {TIMEOUT:?}"
            );
            again.tick().await;
        }
        Ok(micros(started) / 1e6)
    }
}

/// Seconds until as many raw clones and their groups are gone.
fn end_of_raw(cells: usize) -> Result<f64> {
    let mut reference = Reference::start()?;
    reference.hold(cells)?;
    let started = Instant::now();
    reference.drop_all()?;
    Ok(micros(started) / 1e6)
}

/// What the crowd's cells are called first.
pub(super) const PREFIX: &str = "bench-crowd-";

pub(super) fn member(number: usize) -> String {
    format!("{PREFIX}{number}")
}

pub(super) fn path(meta: Option<&runtime::Meta>) -> String {
    meta.and_then(|meta| meta.r#ref.as_ref())
        .map(|one| one.path.clone())
        .unwrap_or_default()
}
