// SPDX-License-Identifier: Apache-2.0
//! Rows `memory`, `growth`, `restart`, `density`: a thousand cells with a process each, what they
//! cost, how fast the node answers among them, what the death of its daemon does, and how long it
//! takes to end them all.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::observe::v0 as observe;
use api::runtime::v0::{self as runtime, object::Object as Kind};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;

use super::growth::Work;
use super::{Bench, Wanted};
use crate::reference::{PROGRAM, Reference};
use crate::stats::{Figure, Goal, Samples};
use crate::subject::{micros, named};
use crate::system;

const SOME: usize = 100;
/// Beside row `growth`'s first measurement.
const FEW: usize = 10;
const ASKED: usize = 1000;
const DEATHS: usize = 3;
/// Node-init starts a daemon at once that has served for ten seconds, and others with a growing
/// pause.
const STABLE: Duration = Duration::from_secs(11);
/// Executables that end while there is no daemon, and what each prints.
const ENDING: usize = 20;
const PRINTED: usize = 10_000;
/// A daemon that isn't back by then is lost.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Bench {
    /// Builds the crowd and takes what is wanted from it.
    pub(super) async fn crowd(&mut self, wanted: &Wanted, figures: &mut Vec<Figure>) -> Result<()> {
        let few = match wanted.row("growth") {
            true => Some(self.among_few().await?),
            false => None,
        };
        self.gather(wanted.row("memory"), figures).await?;
        if let Some(few) = few {
            let many = self.work().await?;
            figures.extend(self.growth(FEW, &few, &many));
        }
        if wanted.row("cell") {
            self.cell_in_crowd(figures).await?;
        }
        if wanted.row("density") {
            figures.push(self.answers().await?);
        }
        if wanted.row("restart") {
            figures.extend(self.deaths().await?);
        }
        let ended = self.end_of_all().await?;
        if wanted.row("density") {
            figures.extend(self.ends(ended)?);
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

    /// Makes every cell of the crowd, and looks at the memory meanwhile.
    async fn gather(&self, memory: bool, figures: &mut Vec<Figure>) -> Result<()> {
        // Natively what is available depends on whatever else the machine does.
        let raw = match memory && self.vm {
            true => Some(self.raw_memory().await?),
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
        }
        if memory {
            figures.push(self.init_share(self.cells).await?);
        }
        if let Some(raw) = raw {
            let ours = Memory::now()?.since(&before);
            figures.push(Figure {
                row: format!("memory, MemAvailable taken by {} cells", self.cells),
                unit: "MiB",
                ours: ours.taken / MIB,
                reference: Some(raw.taken / MIB),
                against: "as many raw clones".into(),
                spread: None,
                goal: Goal::AtMost(1.25),
            });
            figures.extend(self.parts(&ours, &raw));
        }
        Ok(())
    }

    /// What that is made of.
    fn parts<'a>(&self, ours: &'a Memory, raw: &'a Memory) -> impl Iterator<Item = Figure> + 'a {
        let cells = self.cells;
        let both = ours.parts.into_iter().zip(raw.parts);
        let named = system::PARTS.into_iter().zip(both);
        named.map(move |(part, (ours, raw))| Figure {
            row: format!("memory, {} of {cells} cells", part.trim_end_matches(':')),
            unit: "MiB",
            ours: ours / MIB,
            reference: Some(raw / MIB),
            against: "as many raw clones".into(),
            spread: None,
            goal: Goal::None,
        })
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

    /// Of a daemon that has done nothing yet.
    pub(super) async fn idle(&self) -> Result<Vec<Figure>> {
        let (daemon, init) = self.subject.processes()?;
        let daemon = system::settled_pss(daemon).await? / MIB;
        let init = system::pss(init)? / MIB;
        Ok(vec![
            Figure::alone(
                "memory, PSS of the idle daemon",
                "MiB",
                daemon,
                Goal::AtMost(12.0),
            ),
            Figure::alone("memory, PSS of init", "MiB", init, Goal::AtMost(1.0)),
        ])
    }

    /// What so many raw clones take of MemAvailable.
    async fn raw_memory(&self) -> Result<Memory> {
        let mut reference = Reference::start()?;
        system::settled_memory().await?;
        let before = Memory::now()?;
        reference.hold(self.cells)?;
        let taken = Memory::now()?.since(&before);
        reference.drop_all()?;
        drop(reference);
        system::settled_memory().await?;
        Ok(taken)
    }

    /// The mean PSS of the cells' inits.
    async fn init_share(&self, cells: usize) -> Result<Figure> {
        let mut all = Samples::default();
        for object in self.subject.list(true).await? {
            if let Some(Kind::Cell(cell)) = object.object
                && path(cell.meta.as_ref()).starts_with(PREFIX)
            {
                all.add(system::pss(cell.pid)? / 1024.0);
            }
        }
        let row = format!("memory, PSS of a cell's init among {cells}");
        Ok(Figure::alone(&row, "KiB", all.mean(), Goal::AtMost(128.0)))
    }

    /// Row `density`: how fast the node answers.
    async fn answers(&self) -> Result<Figure> {
        let times = self.times_of_gets(self.cells, ASKED, member).await?;
        let goal = if self.vm {
            Goal::None
        } else {
            Goal::AtMost(10.0)
        };
        let row = format!("density, Get p99 among {} cells", self.cells);
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

    /// Row `restart`: the daemon dies, and who notices.
    async fn deaths(&mut self) -> Result<Vec<Figure>> {
        let mut times = Samples::default();
        let mut lost = 0.0;
        for turn in 0..DEATHS {
            // Init doesn't say when it counts a daemon as stable.
            tokio::time::sleep(STABLE).await;
            let before = self.running().await?;
            let ending = self.start_ending(turn).await?;
            let (daemon, _) = self.subject.processes()?;
            let daemon = Pid::from_raw(i32::try_from(daemon)?).context("the daemon's pid")?;
            let died = Instant::now();
            kill_process(daemon, Signal::KILL)?;
            let after = self.first_list(died).await?;
            times.add(micros(died) / 1000.0);
            let gone = before
                .iter()
                .filter(|(path, pid)| after.get(*path) != Some(pid))
                .count();
            #[expect(clippy::cast_precision_loss, reason = "a count of cells")]
            let (gone, unheard) = (gone as f64, self.unheard(&ending).await? as f64);
            lost += gone + unheard;
        }
        let goal = Goal::AtMost(self.either(60.0, 400.0));
        let row = format!(
            "restart, kill -9 to the first correct List, {} cells",
            self.cells
        );
        let worst = format!("restart, the slowest of {DEATHS}");
        let losses = "restart, workloads, exits and logs lost in all";
        Ok(vec![
            Figure::alone(&row, "ms", times.median(), goal),
            Figure::alone(&worst, "ms", times.percentile(1.0), Goal::None),
            Figure::alone(losses, "", lost, Goal::AtMost(0.0)),
        ])
    }

    /// Every member that runs, and its pid.
    async fn running(&self) -> Result<BTreeMap<String, u32>> {
        let mut found = BTreeMap::new();
        for object in self.subject.list(true).await? {
            if let Some(Kind::Executable(one)) = object.object {
                let path = path(one.meta.as_ref());
                if path.starts_with(PREFIX) {
                    found.insert(path, one.pid);
                }
            }
        }
        Ok(found)
    }

    /// Asks again and again until a daemon answers.
    async fn first_list(&mut self, since: Instant) -> Result<BTreeMap<String, u32>> {
        let mut again = tokio::time::interval(Duration::from_millis(1));
        loop {
            if self.subject.reconnect().await.is_ok()
                && let Ok(found) = self.running().await
            {
                return Ok(found);
            }
            ensure!(
                since.elapsed() < TIMEOUT,
                "no daemon answered for {TIMEOUT:?}"
            );
            again.tick().await;
        }
    }

    /// Programs that print and end a little later, when the daemon is dead.
    async fn start_ending(&self, turn: usize) -> Result<Vec<runtime::ObjectRef>> {
        let mut refs = Vec::new();
        for number in 0..ENDING {
            let path = format!("{}/ending-{turn}", member(number));
            let script = format!(
                "usleep {}; head -c {PRINTED} /dev/zero; exit 7",
                number * 4000
            );
            let words = [PROGRAM, "sh", "-c", &script];
            self.subject
                .run(&path, &words, runtime::WaitFor::Started)
                .await?;
            let node = self.subject.node();
            let request = runtime::GetRequest {
                r#ref: Some(named(&path)),
            };
            let answer = node.runtime().get(node.unary(request)).await?.into_inner();
            let Some(Kind::Executable(status)) = answer.object else {
                continue;
            };
            refs.extend(status.meta.and_then(|meta| meta.r#ref));
        }
        ensure!(refs.len() == ENDING, "some executables have no reference");
        Ok(refs)
    }

    /// How many of them were not heard of as they should.
    async fn unheard(&self, refs: &[runtime::ObjectRef]) -> Result<usize> {
        let mut wrong = 0;
        for one in refs {
            let node = self.subject.node();
            let request = runtime::WaitRequest {
                r#ref: Some(one.clone()),
            };
            let answer = node.runtime().wait(node.unary(request)).await?.into_inner();
            let exit = match answer.object {
                Some(Kind::Executable(status)) => status.exit,
                _ => None,
            };
            let how = exit.and_then(|exit| exit.how);
            let code = matches!(how, Some(runtime::exit::How::Code(7)));
            if !code || self.logged(one).await? != PRINTED {
                wrong += 1;
            }
        }
        Ok(wrong)
    }

    /// Bytes in its log.
    async fn logged(&self, one: &runtime::ObjectRef) -> Result<usize> {
        let node = self.subject.node();
        let request = observe::LogsRequest {
            refs: vec![one.clone()],
            ..Default::default()
        };
        let mut stream = node.observe().logs(request).await?.into_inner();
        let mut bytes = 0;
        while let Some(answer) = stream.message().await? {
            if let Some(observe::logs_response::Message::Data(data)) = answer.message {
                bytes += data.data.len();
            }
        }
        Ok(bytes)
    }

    /// Row `density`: the seconds that the end of all took, and those of as many raw clones with a
    /// group each, which is what the kernel alone takes of it.
    fn ends(&self, ours: f64) -> Result<[Figure; 2]> {
        let goal = Goal::AtMost(self.either(0.5, 5.0));
        let row = |what: &str| {
            format!(
                "density, {} {what} ended and their cgroups gone",
                self.cells
            )
        };
        let ours = Figure::alone(&row("cells"), "s", ours, goal);
        let raw = Figure::alone(&row("raw clones"), "s", self.end_of_raw()?, Goal::None);
        Ok([ours, raw])
    }

    /// Seconds until as many raw clones and their groups are gone.
    fn end_of_raw(&self) -> Result<f64> {
        let mut reference = Reference::start()?;
        reference.hold(self.cells)?;
        let started = Instant::now();
        reference.drop_all()?;
        Ok(micros(started) / 1e6)
    }

    /// Ends everything at once; seconds until the last of the crowd and its groups is gone.
    async fn end_of_all(&self) -> Result<f64> {
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
        for number in 0..self.cells {
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

/// What is taken of the machine's memory, in bytes.
struct Memory {
    taken: f64,
    /// Of [`system::PARTS`].
    parts: [f64; system::PARTS.len()],
}

impl Memory {
    fn now() -> Result<Self> {
        Ok(Self {
            taken: -system::memory_available()?,
            parts: system::memory_parts()?,
        })
    }

    fn since(mut self, before: &Self) -> Self {
        self.taken -= before.taken;
        for (part, before) in self.parts.iter_mut().zip(before.parts) {
            *part -= before;
        }
        self
    }
}

const MIB: f64 = 1_048_576.0;
const PREFIX: &str = "bench-crowd-";

fn member(number: usize) -> String {
    format!("{PREFIX}{number}")
}

fn path(meta: Option<&runtime::Meta>) -> String {
    meta.and_then(|meta| meta.r#ref.as_ref())
        .map(|one| one.path.clone())
        .unwrap_or_default()
}
