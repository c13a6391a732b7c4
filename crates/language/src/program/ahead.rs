// SPDX-License-Identifier: Apache-2.0
//! Reads and parses what a program reaches on several threads, before `load` walks it in its order:
//! what is found, and in which order, is as if each module were read when it is come to. Programs
//! of a few modules are read on the caller's thread alone. What can't be read isn't kept: `load`
//! meets it again and says so. Runs on a big stack.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use oxc::allocator::Allocator;

use super::load::{Read, read};
use super::{Files, Program};
use crate::limits;
use crate::source::Source;
use crate::stack;

/// With so many modules waiting other threads are worth their start.
const FEW: usize = 8;

/// More threads than this only wait for memory.
const THREADS: usize = 8;

/// Modules that have been read, by path.
#[derive(Default)]
pub(super) struct Ahead(HashMap<String, Read>);

impl Ahead {
    /// Reads what the sources reach and the program doesn't have yet.
    pub(super) fn of(program: &Program, files: &dyn Files, sources: &[Source]) -> Self {
        let mut state = State::default();
        for source in sources {
            let is_new = !program.index.contains_key(source.name());
            if is_new && state.seen.insert(source.name().to_owned()) {
                state.waiting.push(Waiting::Source(source.clone()));
            }
        }
        let work = Work {
            program,
            files,
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        work.run(Some(FEW));
        let waiting = work.lock().waiting.len();
        if waiting > 0 {
            let threads = thread::available_parallelism().map_or(1, usize::from);
            let threads = threads.min(THREADS);
            thread::scope(|scope| {
                for _ in 1..threads {
                    // Where there is no room for one more thread the others do the work.
                    let _none = stack::spawn_big(scope, || work.run(None));
                }
                work.run(None);
            });
        }
        Self(std::mem::take(&mut work.lock().done))
    }

    /// The text of a module that has been read.
    pub(super) fn source(&self, path: &str) -> Option<Source> {
        self.0.get(path).map(|read| read.module.source.clone())
    }

    pub(super) fn take(&mut self, path: &str) -> Option<Read> {
        self.0.remove(path)
    }
}

/// A module that is to be read.
enum Waiting {
    Source(Source),
    Path(String),
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    seen: HashSet<String>,
    done: HashMap<String, Read>,
    running: usize,
    /// Of the texts that have been read. Beyond the program's limit nothing more is.
    bytes: usize,
}

struct Work<'w> {
    program: &'w Program,
    files: &'w dyn Files,
    state: Mutex<State>,
    changed: Condvar,
}

impl Work<'_> {
    /// A thread that panicked has left whole values behind.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until nothing waits, or more than `few` do.
    fn run(&self, few: Option<usize>) {
        let mut arena = Allocator::default();
        while let Some(next) = self.next(few) {
            let guard = Running(self);
            let source = match next {
                Waiting::Source(source) => Some(source),
                Waiting::Path(path) => {
                    let text = self.files.text(&path).ok();
                    text.map(|text| Source::new(path, text))
                }
            };
            if let Some(source) = source.filter(|source| self.may_hold(source)) {
                let read = read(&self.program.globals, &mut arena, source);
                self.keep(read);
            }
            drop(guard);
        }
    }

    fn next(&self, few: Option<usize>) -> Option<Waiting> {
        let mut state = self.lock();
        loop {
            if few.is_some_and(|few| state.waiting.len() > few) {
                return None;
            }
            if let Some(next) = state.waiting.pop() {
                state.running += 1;
                return Some(next);
            }
            if state.running == 0 {
                return None;
            }
            let changed = self.changed.wait(state);
            state = changed.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn may_hold(&self, source: &Source) -> bool {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_add(source.text().len());
        state.bytes <= limits::PROGRAM_BYTES
    }

    fn keep(&self, read: Read) {
        let mut state = self.lock();
        for import in &read.module.outline.imports {
            let Some(path) = &import.target else {
                continue;
            };
            if !self.program.index.contains_key(path) && state.seen.insert(path.clone()) {
                state.waiting.push(Waiting::Path(path.clone()));
            }
        }
        state.done.insert(read.module.path.clone(), read);
    }
}

/// A module that is being read, even if that panics.
struct Running<'r, 'w>(&'r Work<'w>);

impl Drop for Running<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.changed.notify_all();
    }
}
