// SPDX-License-Identifier: Apache-2.0
//! Containers that are added to a pod to look at it: each is started once, and ends with its
//! program or the pod. They are no part of `steps`' decision.

use std::time::Duration;

use model::error::Error;
use model::exit::Exit;
use model::name::Uid;
use model::pod::debug::{self, Debug};
use model::pod::status::{ContainerState, ContainerStatus};

use super::{Answer, Event, Task, ended_words, said};
use crate::kept::Kept;
use crate::sandbox::{Program, Ran};

/// How long one has to end by itself when its pod ends. It serves no client.
const GRACE: Duration = Duration::from_secs(1);

/// One of them.
pub(super) struct Added {
    name: String,
    /// Its place in the sandbox.
    place: String,
    state: ContainerState,
    /// Of its run, while that goes on.
    uid: Option<Uid>,
    exit: Option<Exit>,
    /// The last word of its run.
    word: String,
    message: String,
    stopping: bool,
    /// Who waits for its start.
    waiter: Option<Answer>,
}

impl Added {
    /// As an earlier daemon has left it. What it was about to start isn't started any more: its
    /// caller has got no answer.
    pub(super) fn found(debug: &Debug, program: Option<Program>, word: Option<String>) -> Self {
        let mut added = Self::new(debug, None);
        added.state = ContainerState::Ended;
        added.word = word.unwrap_or_default();
        if let Some(program) = program {
            added.begin(&program);
            added.exit = program.exit;
        }
        added
    }

    fn new(debug: &Debug, waiter: Option<Answer>) -> Self {
        Self {
            name: debug.container.name.clone(),
            place: debug.place(),
            state: ContainerState::Waiting,
            uid: None,
            exit: None,
            word: String::new(),
            message: String::new(),
            stopping: false,
            waiter,
        }
    }

    fn begin(&mut self, program: &Program) {
        self.uid = program.exit.is_none().then_some(program.uid);
        self.state = match program.exit {
            None => ContainerState::Running,
            Some(_) => ContainerState::Ended,
        };
    }

    pub(super) fn status(&self) -> ContainerStatus {
        let runs = self.state == ContainerState::Running;
        ContainerStatus {
            name: self.name.clone(),
            state: self.state,
            restarts: 0,
            started: runs,
            ready: false,
            last_exit: self.exit,
            next_start: None,
            message: self.message.clone(),
            termination_message: self.word.clone(),
        }
    }
}

impl Task {
    /// Begins to add one; its caller is answered when its program runs.
    pub(super) async fn add(&mut self, new: Debug, waiter: Answer) -> Result<(), (Error, Answer)> {
        let kept = match self.with(&new) {
            Ok(kept) => kept,
            Err(error) => return Err((error, waiter)),
        };
        let kept_now = match self.sandbox.admit(&kept) {
            Ok(()) => self.sandbox.keep(&kept).await,
            refused => refused,
        };
        if let Err(error) = kept_now {
            return Err((error, waiter));
        }
        self.kept = kept;
        let number = self.debug.len();
        self.debug.push(Added::new(&new, Some(waiter)));
        self.notes.add(&new.container.name, "added");
        let sandbox = self.sandbox.clone();
        self.beside(async move {
            let started = sandbox.debug(&new).await;
            Some(Event::DebugStarted(number, started))
        });
        Ok(())
    }

    fn with(&self, new: &Debug) -> Result<Kept, Error> {
        self.lives()?;
        debug::check(&self.kept.spec, &self.kept.debug, new)?;
        let mut kept = self.kept.clone();
        kept.debug.push(new.clone());
        Ok(kept)
    }

    pub(super) fn debug_started(&mut self, number: usize, started: Result<Program, Error>) {
        let Some(added) = self.debug.get_mut(number) else {
            return;
        };
        let waiter = added.waiter.take();
        let answer = match started {
            Ok(program) => {
                // One that ended at once is told of by the wait, like every other.
                added.begin(&Program {
                    exit: None,
                    ..program
                });
                self.wait_for_debug(number);
                self.publish(self.decide().phase);
                Ok(self.status.borrow().clone())
            }
            Err(error) => {
                added.state = ContainerState::Ended;
                added.message = said(&error);
                let name = added.name.clone();
                self.notes.add(&name, said(&error));
                Err(error)
            }
        };
        if let Some(waiter) = waiter {
            let _ = waiter.send(answer);
        }
    }

    /// Goes on with those of an earlier daemon.
    pub(super) fn resume_debug(&mut self) {
        for number in 0..self.debug.len() {
            self.wait_for_debug(number);
        }
    }

    fn wait_for_debug(&mut self, number: usize) {
        let Some(added) = self.debug.get(number) else {
            return;
        };
        let Some(uid) = added.uid else { return };
        let (sandbox, place) = (self.sandbox.clone(), added.place.clone());
        let container = self.kept.debug.get(number).map(|it| it.container.clone());
        self.beside(async move {
            let exit = sandbox.ended(&place, uid).await;
            let exit = exit.unwrap_or_else(|_| Exit::unknown());
            let ran = Ran::new(&place, uid, 0, exit);
            let word = match &container {
                Some(container) => sandbox.last_word(container, &ran).await,
                None => String::new(),
            };
            Some(Event::DebugEnded(number, uid, exit, word))
        });
    }

    pub(super) fn debug_ended(&mut self, number: usize, uid: Uid, exit: Exit, word: String) {
        let added = self.debug.get_mut(number);
        if let Some(added) = added.filter(|added| added.uid == Some(uid)) {
            added.uid = None;
            added.exit = Some(exit);
            added.word = word;
            added.state = ContainerState::Ended;
            let name = added.name.clone();
            self.notes.add(&name, ended_words(exit));
        }
    }

    /// The pod ends, and they with it.
    pub(super) fn end_debug(&mut self) {
        let mut stops = Vec::new();
        for added in self.debug.iter_mut().filter(|added| !added.stopping) {
            if let Some(uid) = added.uid {
                added.stopping = true;
                stops.push((added.place.clone(), uid));
            }
        }
        for (place, uid) in stops {
            let sandbox = self.sandbox.clone();
            self.beside(async move {
                // What is left goes with the pod's cell.
                if let Err(error) = sandbox.stop(&place, uid, GRACE).await {
                    tracing::warn!(place, %error, "a container that was added can't be stopped");
                }
                None
            });
        }
    }
}
