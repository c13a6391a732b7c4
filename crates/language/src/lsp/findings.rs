// SPDX-License-Identifier: Apache-2.0
//! Makes findings on a thread of its own, so that questions are answered meanwhile. It is given
//! snapshots and holds one order at most: a newer one replaces what waits and ends what is being
//! done, whose result is not wanted any more. What it finds goes back to the server's loop, which
//! alone writes to the editor.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use lsp_types::{Diagnostic, Uri};

use super::project::Project;
use super::{Incoming, unused};
use crate::check::Claim;
use crate::program::Files;
use crate::root::ReadError;
use crate::stack;

/// Documents whose findings are wanted.
pub(super) struct Order {
    /// Of the texts; a greater number is a newer text.
    pub(super) version: u64,
    /// Each with what was known around it, the one that changed last first.
    pub(super) documents: Vec<(Uri, String, Arc<Project>)>,
}

/// What was made of one document.
#[derive(Default)]
pub(super) struct Made {
    pub(super) claims: Vec<Claim>,
    /// What is never read, for editors where TypeScript's service doesn't say it.
    pub(super) unused: Vec<Diagnostic>,
}

/// What came of an order.
pub(super) enum Told {
    /// All that is wrong with one document.
    Findings { version: u64, uri: Uri, made: Made },
    /// The order is done.
    Done { version: u64 },
}

/// Where orders are left.
pub(super) struct Desk {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    left: Condvar,
    /// The newest order's version; what is done for an older one is in vain.
    newest: AtomicU64,
}

#[derive(Default)]
struct State {
    waiting: Option<Order>,
    closed: bool,
}

impl Desk {
    /// Starts the thread. It ends when the desk goes or the receiver does.
    ///
    /// # Errors
    /// The system has no room for the thread.
    pub(super) fn open(sender: SyncSender<Incoming>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let desk = Self {
            shared: Arc::clone(&shared),
        };
        std::thread::Builder::new()
            .name("lsp-findings".into())
            .spawn(move || {
                // Without room for its stack each document is one that can't be parsed.
                if stack::on_big_stack(|| shared.work(&sender)).is_err() {
                    shared.work(&sender);
                }
            })?;
        Ok(desk)
    }

    /// Leaves an order in the place of an older one.
    pub(super) fn leave(&self, order: Order) {
        self.shared.newest.store(order.version, Ordering::Release);
        self.shared.lock().waiting = Some(order);
        self.shared.left.notify_one();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.shared.newest.store(u64::MAX, Ordering::Release);
        self.shared.lock().closed = true;
        self.shared.left.notify_one();
    }
}

impl Shared {
    /// A thread that panicked has left whole values behind.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Order> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(order) = state.waiting.take() {
                return Some(order);
            }
            let waited = self.left.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn work(&self, sender: &SyncSender<Incoming>) {
        while let Some(order) = self.take() {
            if self.fill(order, sender).is_err() {
                return;
            }
        }
    }

    /// Fails where the receiver is gone.
    fn fill(&self, order: Order, sender: &SyncSender<Incoming>) -> Result<(), ()> {
        let version = order.version;
        let stale = || self.newest.load(Ordering::Acquire) != version;
        for (uri, path, project) in order.documents {
            if stale() {
                return Ok(());
            }
            let claims = || project.findings(&path, &stale);
            let unused = || unused::of(&project, &path);
            let made = Made {
                claims: catch_unwind(AssertUnwindSafe(claims)).unwrap_or_default(),
                unused: catch_unwind(AssertUnwindSafe(unused)).unwrap_or_default(),
            };
            if stale() {
                return Ok(());
            }
            let told = Told::Findings { version, uri, made };
            sender.send(Incoming::Told(told)).map_err(|_| ())?;
        }
        let done = Incoming::Told(Told::Done { version });
        sender.send(done).map_err(|_| ())
    }
}

/// Files that are gone once what is made of them is not wanted.
pub(super) struct WhileWanted<'f> {
    pub(super) files: &'f dyn Files,
    pub(super) stale: &'f (dyn Fn() -> bool + Sync),
}

impl Files for WhileWanted<'_> {
    fn text(&self, path: &str) -> Result<String, ReadError> {
        match (self.stale)() {
            true => Err(ReadError::Missing(path.to_owned())),
            false => self.files.text(path),
        }
    }
}
