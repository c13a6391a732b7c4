// SPDX-License-Identifier: Apache-2.0
//! Row `memory`: what the crowd's cells (`crowd`) take of the machine's memory and what that is
//! made of, what a cell's init takes, and what a daemon takes that has done nothing yet.

use anyhow::Result;
use api::runtime::v0::object::Object as Kind;

use super::Bench;
use super::crowd::{PREFIX, path};
use crate::reference::Reference;
use crate::stats::{Figure, Goal, Samples};
use crate::system;

const MIB: f64 = 1_048_576.0;
/// What our parts of the memory have beside them.
const BARE: &str = "as many inits with a program, without a daemon";

impl Bench {
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

    /// What so many of the reference's take of MemAvailable.
    pub(super) async fn memory_of(
        &self,
        hold: fn(&mut Reference, usize) -> Result<Samples>,
    ) -> Result<Memory> {
        let mut reference = Reference::start()?;
        system::settled_memory().await?;
        let before = Memory::now()?;
        hold(&mut reference, self.cells)?;
        let taken = Memory::now()?.since(&before);
        reference.drop_all()?;
        drop(reference);
        system::settled_memory().await?;
        Ok(taken)
    }

    /// The mean PSS of the cells' inits.
    pub(super) async fn init_share(&self, cells: usize) -> Result<Figure> {
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

    /// What the crowd takes of the machine's memory, and what the reference took for as many.
    pub(super) fn taken_by_all(
        &self,
        ours: &Memory,
        raw: &Memory,
        full: Result<Memory>,
    ) -> Vec<Figure> {
        let mut figures = vec![self.taken("cells", ours, raw, Goal::AtMost(1.25))];
        let bare = "inits with a program, groups and mounts of their own, without a daemon";
        match full {
            Ok(full) => {
                figures.push(self.taken(bare, &full, raw, Goal::None));
                figures.extend(self.parts(ours, &full));
            }
            Err(error) => figures.push(Figure::failed("memory, bare inits", &error)),
        }
        figures
    }

    /// What so many of these take of the machine's memory, beside as many raw clones.
    fn taken(&self, what: &str, ours: &Memory, raw: &Memory, goal: Goal) -> Figure {
        let row = format!("memory, MemAvailable taken by {} {what}", self.cells);
        let raw = raw.taken / MIB;
        Figure::alone(&row, "MiB", ours.taken / MIB, goal).beside("as many raw clones", raw)
    }

    /// What that is made of.
    fn parts<'a>(&self, ours: &'a Memory, bare: &'a Memory) -> impl Iterator<Item = Figure> + 'a {
        let cells = self.cells;
        let both = ours.parts.into_iter().zip(bare.parts);
        let named = system::PARTS.into_iter().zip(both);
        named.map(move |(part, (ours, bare))| {
            let part = part.trim_end_matches(':');
            let row = format!("memory, {part} of {cells} cells");
            Figure::alone(&row, "MiB", ours / MIB, Goal::None).beside(BARE, bare / MIB)
        })
    }
}

/// What is taken of the machine's memory, in bytes.
pub(super) struct Memory {
    taken: f64,
    /// Of [`system::PARTS`].
    parts: [f64; system::PARTS.len()],
}

impl Memory {
    pub(super) fn now() -> Result<Self> {
        Ok(Self {
            taken: -system::memory_available()?,
            parts: system::memory_parts()?,
        })
    }

    pub(super) fn since(mut self, before: &Self) -> Self {
        self.taken -= before.taken;
        for (part, before) in self.parts.iter_mut().zip(before.parts) {
            *part -= before;
        }
        self
    }
}
