// SPDX-License-Identifier: Apache-2.0
//! What can be asked of a schedule's task, and what it answers.

use std::sync::Arc;

use identity::{Permit, UserKey};
use model::error::{Error, Reason};
use model::schedule::spec::Overlap;
use model::schedule::state::Event;
use model::schedule::{Spec, When};
use tokio::sync::oneshot;

use super::Task;
use crate::kept::Status;

type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// See the module. Answered when what was asked for is on the disk; what comes of it goes on.
pub(crate) enum Order {
    /// Another spec, of this user.
    Declare(Arc<Spec>, UserKey, Reply<Arc<Status>>),
    /// Run it now.
    Trigger(Reply<Arc<Status>>),
    /// Begin nothing; by whom, in words.
    Pause(String, Reply<Arc<Status>>),
    /// Go on.
    Resume(Reply<Arc<Status>>),
    /// A user is about to stop this run; by whom, in words.
    StopAsked(u64, String, Reply<()>),
    /// That stop came to nothing.
    StopFailed(u64, String, Reply<()>),
    /// Stop what runs, and be gone.
    Remove(Permit, Reply<()>),
}

impl Task {
    pub(super) async fn ordered(&mut self, order: Order) {
        match order {
            Order::Declare(_, _, reply) | Order::Resume(reply) if self.removing.is_some() => {
                let _ = reply.send(Err(self.goes()));
            }
            Order::Trigger(reply) | Order::Pause(_, reply) if self.state.leaving.is_some() => {
                let _ = reply.send(Err(self.goes()));
            }
            Order::Declare(spec, owner, reply) => {
                let declared = self.declare(spec, owner).await;
                self.answer(declared, reply).await;
            }
            Order::Trigger(reply) => {
                let triggered = self.trigger().await;
                self.answer(triggered, reply).await;
            }
            Order::Pause(by, reply) => {
                self.event(Event::Paused(by));
                self.answer(Ok(()), reply).await;
            }
            Order::Resume(reply) => {
                self.stops.clear();
                self.leave_again = None;
                self.event(Event::Resumed);
                self.answer(Ok(()), reply).await;
            }
            Order::StopAsked(number, by, reply) => {
                self.event(Event::StopAsked(number, by));
                self.keep().await;
                let _ = reply.send(Ok(()));
            }
            Order::StopFailed(number, by, reply) => {
                self.event(Event::StopFailed(number, by));
                self.keep().await;
                let _ = reply.send(Ok(()));
            }
            Order::Remove(_, reply) if self.removing.is_some() => {
                let _ = reply.send(Err(self.goes()));
            }
            Order::Remove(permit, reply) => self.remove(permit, reply).await,
        }
    }

    fn goes(&self) -> Error {
        let name = self.wish.named.name.to_string();
        let message = format!("the schedule {name} is being removed");
        Error::new(Reason::WrongState, message)
            .about("schedule", name)
            .hint("wait until it is gone")
    }

    /// Answers with the status that the order has led to.
    async fn answer(&mut self, done: Result<(), Error>, reply: Reply<Arc<Status>>) {
        let answer = match done {
            Err(error) => Err(error),
            Ok(()) => {
                self.step().await;
                Ok(self.status.borrow().clone())
            }
        };
        // Who has gone away has asked all the same.
        let _ = reply.send(answer);
    }

    async fn declare(&mut self, spec: Arc<Spec>, owner: UserKey) -> Result<(), Error> {
        let before = (self.wish.clone(), self.state.clone());
        let changed = *self.wish.spec != *spec || self.state.leaving.is_some();
        let work = self.wish.spec.work != spec.work;
        let adjusted = self.wish.spec.goes_on_as(&spec) && self.state.leaving.is_none();
        if changed && !adjusted {
            self.keeps_job(&spec)?;
        }
        let left = self.state.leaving.is_some();
        let stable = self.stable.clone();
        self.wish.owner = owner;
        self.wish.changed = runtime::now();
        if changed {
            // What was whole goes on until the new one is.
            if work && self.state.stable == Some(self.state.revision) {
                let old = Arc::new(self.wish.spec.work.clone());
                self.stable = Some((self.state.revision, old));
            }
            self.wish.spec = spec;
            self.wish.generation = self.wish.generation.saturating_add(1);
            self.event(match adjusted {
                true => Event::Adjusted,
                false => Event::Declared(work),
            });
        }
        let kept = self.keep_wish().await;
        match kept.is_err() {
            // As if it had not been asked for.
            true => (self.wish, self.state, self.stable) = (before.0, before.1, stable),
            false => {
                self.leave_again = None;
                if left {
                    self.stops.clear();
                }
            }
        }
        kept
    }

    /// As in Kubernetes, what a job that goes on runs can't be changed: part of it is done already.
    fn keeps_job(&self, spec: &Spec) -> Result<(), Error> {
        let once = self.wish.spec.when == When::Now && spec.when == When::Now;
        let both = self.wish.spec.job.is_some() && spec.job.is_some();
        let goes_on = self.state.jobs.first().filter(|_| once && both);
        let Some(job) = goes_on.filter(|_| self.state.leaving.is_none()) else {
            return Ok(());
        };
        let name = &self.wish.named.name;
        let message = format!(
            "job {} of {name} goes on: its work, completions and indexes can't be changed",
            job.number
        );
        let error = Error::new(Reason::WrongState, message);
        let error = error.about("schedule", name.to_string());
        Err(error.hint("wait for its end, or remove it and declare it again"))
    }

    /// All replicas are begun anew: that is another revision, which is kept as a wish is.
    async fn roll(&mut self) -> Result<(), Error> {
        let before = (self.state.clone(), self.stable.clone());
        if self.state.stable == Some(self.state.revision) {
            let old = Arc::new(self.wish.spec.work.clone());
            self.stable = Some((self.state.revision, old));
        }
        self.event(Event::Triggered);
        let kept = self.keep_wish().await;
        if kept.is_err() {
            (self.state, self.stable) = before;
        }
        kept
    }

    async fn trigger(&mut self) -> Result<(), Error> {
        if self.wish.spec.replicas.is_some() {
            return self.roll().await;
        }
        let going = self.state.runs.first().map(|run| run.number);
        if let (Some(number), Overlap::Forbid) = (going, self.wish.spec.overlap) {
            let message = format!("run {number} of {} goes on", self.wish.named.name);
            let error = Error::new(Reason::WrongState, message);
            let error = error.about("schedule", self.wish.named.name.to_string());
            return Err(error.hint("wait for its end, or declare overlap as allow or replace"));
        }
        self.event(Event::Triggered);
        Ok(())
    }
}
