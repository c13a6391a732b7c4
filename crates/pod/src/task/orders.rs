// SPDX-License-Identifier: Apache-2.0
//! What is asked of a pod's task: to stop, to go, to change, to have one more container. What is
//! asked is kept before its first effect.

use std::time::Duration;

use model::error::{Error, Reason};
use model::label::Labels;
use model::pod::status::Phase;
use model::pod::steps::Seen;
use model::pod::{PodSpec, debug, update};

use super::held::Held;
use super::{Order, Task};
use crate::kept::{Kept, Stop};

impl Task {
    pub(super) async fn ordered(&mut self, order: Order) {
        match order {
            Order::Stop(grace, waiter) => match self.stop(grace).await {
                Ok(()) => {
                    self.waiting.retain(|it| !it.is_closed());
                    self.waiting.push(waiter);
                }
                Err(error) => drop(waiter.send(Err(error))),
            },
            Order::Remove(force, waiter) => {
                let is_final = self.status.borrow().phase.is_final();
                if !is_final && !force && self.kept.stop.is_none() {
                    let message = format!("the pod {} runs", self.meta.path);
                    let error = Error::new(Reason::WrongState, message);
                    let error = error.about("pod", self.meta.path.to_string());
                    let _ = waiter.send(Err(error.hint("stop it first, or say force")));
                    return;
                }
                let stopped = match is_final {
                    true => Ok(()),
                    false => self.stop(self.kept.spec.grace()).await,
                };
                match stopped {
                    Ok(()) => {
                        self.removing.retain(|it| !it.is_closed());
                        self.removing.push(waiter);
                    }
                    Err(error) => drop(waiter.send(Err(error))),
                }
            }
            Order::Update(update, waiter) => {
                let (spec, labels) = *update;
                let updated = self.update(spec, &labels).await;
                // Who is answered finds the files as they are to be.
                self.tell(self.decide().phase).await;
                self.publish(self.decide().phase);
                let status = updated.map(|()| self.status.borrow().clone());
                let _ = waiter.send(status);
            }
            Order::Debug(debug, waiter) => {
                if let Err((error, waiter)) = self.add(*debug, waiter).await {
                    let _ = waiter.send(Err(error));
                }
            }
        }
    }

    /// A stop is kept before its first effect. A shorter one takes the place of one that goes on.
    async fn stop(&mut self, grace: Duration) -> Result<(), Error> {
        let now = runtime::now();
        let stop = Stop { at: now, grace };
        if let Some(before) = self.kept.stop
            && before.grace.saturating_sub(now.since(before.at)) <= grace
        {
            return Ok(());
        }
        let kept = Kept {
            stop: Some(stop),
            ..self.kept.clone()
        };
        self.sandbox.keep(&kept).await?;
        self.kept = kept;
        self.notes.add("", format!("asked to end within {grace:?}"));
        for number in 0..self.held.len() {
            if matches!(self.seen(number), Seen::Stopping(_)) {
                self.begin_stop(number, false);
            }
        }
        Ok(())
    }

    /// Whether it still has a life to be changed.
    pub(super) fn lives(&self) -> Result<(), Error> {
        let is_final = self.status.borrow().phase.is_final();
        if !is_final && self.kept.stop.is_none() {
            return Ok(());
        }
        let message = format!("the pod {} has ended or is stopping", self.meta.path);
        let error = Error::new(Reason::WrongState, message);
        Err(error.about("pod", self.meta.path.to_string()))
    }

    /// The new spec is kept before its first effect; where one is refused, the old one is put back.
    async fn update(&mut self, spec: PodSpec, labels: &Labels) -> Result<(), Error> {
        self.lives()?;
        update::check(&self.kept.spec, &spec)?;
        debug::check_weight(&spec, &self.kept.debug)?;
        let kept = Kept {
            spec,
            ..self.kept.clone()
        };
        self.sandbox.admit(&kept)?;
        self.sandbox.keep(&kept).await?;
        let settled = match self.sandbox.settle(&kept.spec).await {
            Ok(()) => self.sandbox.label(labels).await,
            refused => refused,
        };
        if let Err(error) = settled {
            let back = match self.sandbox.settle(&self.kept.spec).await {
                Ok(()) => self.sandbox.keep(&self.kept).await,
                failed => failed,
            };
            if let Err(error) = back {
                tracing::error!(pod = %self.meta.path, %error, "an update is not taken back");
            }
            return Err(error);
        }
        self.kept = kept;
        self.meta.labels = self.meta.labels.relabelled(labels)?;
        let starting = |held: &Held| matches!(held.seen, Seen::Starting(_));
        self.unsettled |= self.held.iter().any(starting);
        self.notes.add("", "updated");
        Ok(())
    }

    /// Files that tell the pod's labels follow them, at the latest when the task has slept.
    pub(super) async fn tell(&mut self, phase: Phase) {
        if phase.is_final() {
            return;
        }
        if let Err(error) = self.sandbox.tell().await {
            tracing::warn!(pod = %self.meta.path, %error, "files don't tell the pod's labels");
        }
    }

    /// A container that was being made during an update has what it said then, or before.
    pub(super) async fn settle_again(&mut self) {
        if !self.unsettled {
            return;
        }
        match self.sandbox.settle(&self.kept.spec).await {
            Ok(()) => {
                let starting = |held: &Held| matches!(held.seen, Seen::Starting(_));
                self.unsettled = self.held.iter().any(starting);
            }
            Err(error) => self
                .notes
                .add("", format!("an update is not complete: {error}")),
        }
    }
}
