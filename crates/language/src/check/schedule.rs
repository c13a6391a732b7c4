// SPDX-License-Identifier: Apache-2.0
//! Checks modules in parallel, each after those it imports. Modules that import each other in a
//! circle (a finding of `program`) see each other's exports as any value.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::exports::{declared_types, exports};
use super::report::Report;
use super::table::Environment;
use super::types::FileId;
use super::world::{Slot, World};
use super::{Facts, File, analyse, walk};
use crate::stack;

/// More threads than this only wait for memory.
const THREADS: usize = 8;

/// The findings of each file.
pub(crate) fn reports(environment: &Arc<Environment>, files: &[File]) -> Vec<Vec<Report>> {
    let world = World {
        environment: environment.clone(),
        // Not one slot many times: a clone shares what is filled in.
        modules: files.iter().map(|_| Slot::default()).collect(),
    };
    let work = Work::new(files);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(THREADS).min(files.len());
    // Where there is no room for a stack the others do the work; where there is none at all, each
    // module is passed over as one that doesn't parse.
    let run = || {
        if stack::on_big_stack(|| work.run(&world, files)).is_err() {
            work.run(&world, files);
        }
    };
    match threads {
        // A single module, most of the time: no thread is made to wait for another.
        0 | 1 => run(),
        _ => thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(run);
            }
        }),
    }
    let mut state = work.lock();
    std::mem::take(&mut state.reports)
}

/// Looks at one module and makes what it declares known to the others.
pub(crate) fn settle(world: &World, file: FileId, facts: &Facts<'_, '_>, whole: bool) {
    if let Some(slot) = world.slot(file) {
        slot.types.get_or_init(|| Arc::new(declared_types(facts)));
        slot.exports.get_or_init(|| {
            let mut exports = exports(facts);
            exports.open |= !whole;
            Arc::new(exports)
        });
    }
}

impl World {
    /// Makes known what types a module declares, and nothing else of it.
    pub(crate) fn declare(&self, file: FileId, facts: &Facts<'_, '_>) {
        if let Some(slot) = self.slot(file) {
            slot.types.get_or_init(|| Arc::new(declared_types(facts)));
        }
    }
}

struct Work {
    /// For each file, which files import it.
    importers: Vec<Vec<usize>>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    ready: VecDeque<usize>,
    /// How many imports of each file aren't checked yet; `None` once it is taken.
    waiting: Vec<Option<usize>>,
    running: usize,
    reports: Vec<Vec<Report>>,
}

impl Work {
    fn new(files: &[File]) -> Self {
        let mut importers = vec![Vec::new(); files.len()];
        let mut waiting = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let mut imported: Vec<usize> = file.imports.values().copied().collect();
            imported.sort_unstable();
            imported.dedup();
            imported.retain(|it| *it != index && *it < files.len());
            for it in &imported {
                if let Some(list) = importers.get_mut(*it) {
                    list.push(index);
                }
            }
            waiting.push(Some(imported.len()));
        }
        let ready = waiting.iter().enumerate();
        let ready = ready.filter(|(_, count)| **count == Some(0));
        let state = State {
            ready: ready.map(|(index, _)| index).collect(),
            reports: vec![Vec::new(); files.len()],
            waiting: Vec::new(),
            running: 0,
        };
        Self {
            importers,
            state: Mutex::new(State { waiting, ..state }),
            changed: Condvar::new(),
        }
    }

    /// A thread that panicked has left whole values behind.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, world: &World, files: &[File]) {
        while let Some(index) = self.take() {
            let guard = Done { work: self, index };
            if let Some(file) = files.get(index) {
                let reports = look_at(world, index, file);
                if let Some(place) = self.lock().reports.get_mut(index) {
                    *place = reports;
                }
            }
            drop(guard);
        }
    }

    /// The next file, or `None` when all are taken and done.
    fn take(&self) -> Option<usize> {
        let mut state = self.lock();
        loop {
            let next = match state.ready.pop_front() {
                Some(index) => Some(index),
                // Only circles are left: any of them.
                None if state.running == 0 => state.waiting.iter().position(Option::is_some),
                None => None,
            };
            if let Some(index) = next {
                if let Some(waiting) = state.waiting.get_mut(index)
                    && waiting.take().is_none()
                {
                    continue;
                }
                state.running += 1;
                return Some(index);
            }
            if state.running == 0 {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, index: usize) {
        let mut state = self.lock();
        state.running -= 1;
        for importer in self.importers.get(index).into_iter().flatten() {
            let count = state.waiting.get_mut(*importer).and_then(Option::as_mut);
            if let Some(count) = count {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    state.ready.push_back(*importer);
                }
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Marks a file as done, even if looking at it panicked.
struct Done<'w> {
    work: &'w Work,
    index: usize,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.work.done(self.index);
    }
}

/// The file's number among the world's modules.
pub(crate) fn file_id(index: usize) -> FileId {
    FileId::try_from(index).map_or(FileId::MAX, |index| index.saturating_add(1))
}

fn look_at(world: &World, index: usize, file: &File) -> Vec<Report> {
    let imports: HashMap<String, FileId> = file
        .imports
        .iter()
        .map(|(specifier, index)| (specifier.clone(), file_id(*index)))
        .collect();
    let id = file_id(index);
    analyse(world, id, &file.source, &imports, |facts, whole| {
        settle(world, id, facts, whole);
        match whole {
            true => walk::reports(facts),
            false => Vec::new(),
        }
    })
}
