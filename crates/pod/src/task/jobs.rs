// SPDX-License-Identifier: Apache-2.0
//! What a pod's task has done beside it, because it takes time: starts, stops, waiting for ends,
//! watching over runs. Each job tells the task what came of it.

use std::time::Duration;

use model::error::Error;
use model::name::Uid;
use model::pod::spec::Container;
use model::pod::steps::{Count, Seen};
use tokio::time::Instant;

use super::held::Watching;
use super::{Event, Task};
use crate::ask;
use crate::prober::Watch;
use crate::sandbox::{Program, Ran, Sandbox};

/// What is left of the grace for the stop signal where a hook has used all of it, as in Kubernetes.
const LAST: Duration = Duration::from_secs(2);
/// How often a stop is tried.
const TRIES: u32 = 10;
/// The time between two of these.
const AGAIN: Duration = Duration::from_secs(5);

impl Task {
    fn container(&self, number: usize) -> Option<Container> {
        self.kept.spec.all().nth(number).cloned()
    }

    pub(super) fn beside(&mut self, job: impl Future<Output = Option<Event>> + Send + 'static) {
        let tell = self.tell.clone();
        let job = async move {
            if let Some(event) = job.await {
                // The task is gone with the pod.
                let _ = tell.send(event).await;
            }
        };
        self.jobs.spawn(self.share.run(job));
    }

    pub(super) fn watch_sandbox(&mut self) {
        let sandbox = self.sandbox.clone();
        self.beside(async move {
            sandbox.gone().await;
            Some(Event::Gone)
        });
    }

    pub(super) fn begin_start(&mut self, number: usize, count: Count) {
        let Some(container) = self.container(number) else {
            return;
        };
        let sandbox = self.sandbox.clone();
        self.beside(async move {
            if let Err(error) = sandbox.make(&container).await {
                return Some(Event::Refused(number, count, error));
            }
            let started = sandbox.start(&container, count).await;
            Some(Event::Started(number, count, started))
        });
    }

    /// A run has begun: its end is waited for, and it is watched.
    pub(super) fn began(&mut self, number: usize, program: Program, count: Count) {
        if let Some(held) = self.held.get_mut(number) {
            let program = Program { count, ..program };
            held.take(&program);
            held.message.clone_from(&held.stopped_for);
            // One that ended at once is told of by the wait, like every other.
            if program.exit.is_some() {
                held.uid = Some(program.uid);
                held.seen = Seen::Starting(count);
            }
        }
        self.resume(number);
    }

    /// Waits for the end of a run that goes on, and watches it.
    pub(super) fn resume(&mut self, number: usize) {
        let Some(container) = self.container(number) else {
            return;
        };
        let held = self.held.get(number);
        let Some((uid, seen)) = held.and_then(|held| Some((held.uid?, held.seen))) else {
            return;
        };
        self.wait_for_end(number, uid, &container);
        match seen {
            Seen::Running(run) => self.watch(number, uid, container, run.started),
            // An earlier daemon was about to stop it.
            Seen::Stopping(_) => self.begin_stop(number, false),
            _ => {}
        }
    }

    fn wait_for_end(&mut self, number: usize, uid: Uid, container: &Container) {
        let (sandbox, container) = (self.sandbox.clone(), container.clone());
        let restarts = self.held.get(number).map_or(0, |it| it.count().restarts);
        self.beside(async move {
            let exit = sandbox.ended(&container.name, uid).await;
            // A record that was removed says nothing any more.
            let exit = exit.unwrap_or_else(|_| model::exit::Exit::unknown());
            let ran = Ran::new(&container.name, uid, restarts, exit);
            let word = sandbox.last_word(&container, &ran).await;
            Some(Event::Ended(number, uid, exit, word))
        });
    }

    /// The last words of runs that ended without a daemon, before anything begins anew.
    pub(super) async fn hear(&mut self) {
        for number in 0..self.held.len() {
            let Some(container) = self.container(number) else {
                continue;
            };
            let Some(held) = self.held.get_mut(number) else {
                continue;
            };
            if let (Some(uid), Some(exit)) = (held.unheard.take(), held.exit) {
                let ran = Ran::new(&container.name, uid, held.count().restarts, exit);
                held.word = self.sandbox.last_word(&container, &ran).await;
            }
        }
    }

    fn watch(&mut self, number: usize, uid: Uid, container: Container, started: bool) {
        let since = self.held.get(number).and_then(|held| held.since);
        let ago = since.map_or(Duration::ZERO, |since| runtime::now().since(since));
        let now = Instant::now();
        let watch = Watch {
            sandbox: self.sandbox.clone(),
            container,
            started,
            since: now.checked_sub(ago).unwrap_or(now),
            questions: self.questions.clone(),
            run: (number, uid),
            events: self.tell.clone(),
        };
        let task = self.jobs.spawn(self.share.run(watch.run()));
        if let Some(held) = self.held.get_mut(number) {
            held.watch = Some(Watching(task));
        }
    }

    pub(super) fn note_started(&mut self, number: usize, uid: Uid) {
        let Some(container) = self.container(number) else {
            return;
        };
        let sandbox = self.sandbox.clone();
        self.beside(async move {
            if let Err(error) = sandbox.started(&container.name, uid).await {
                // The next daemon asks once more.
                tracing::debug!(%error, "that a container has started is not noted");
            }
            None
        });
    }

    /// Stops a run: its hook where asked for, its stop signal, the grace, SIGKILL. Its end is
    /// waited for elsewhere.
    pub(super) fn begin_stop(&mut self, number: usize, with_hook: bool) {
        let uid = self.held.get(number).and_then(|held| held.uid);
        let Some((uid, container)) = uid.zip(self.container(number)) else {
            return;
        };
        let grace = match self.kept.stop {
            Some(stop) => stop.grace.saturating_sub(runtime::now().since(stop.at)),
            None => {
                let of_probe = self.held.get(number).and_then(|held| held.grace);
                of_probe.unwrap_or_else(|| self.kept.spec.grace())
            }
        };
        let sandbox = self.sandbox.clone();
        self.beside(async move {
            let begun = Instant::now();
            let mut left = grace;
            if with_hook && !grace.is_zero() {
                pre_stop(&*sandbox, &container, grace).await;
                left = grace.saturating_sub(begun.elapsed()).max(LAST.min(grace));
            }
            let stopped = stop(&*sandbox, &container.name, uid, left).await;
            stopped
                .err()
                .map(|error| Event::NotStopped(number, uid, error))
        });
    }
}

/// Tries again where it can't be carried out: what is to end must not be forgotten.
async fn stop(
    sandbox: &dyn Sandbox,
    container: &str,
    uid: Uid,
    grace: Duration,
) -> Result<(), Error> {
    let mut tries = tokio::time::interval(AGAIN);
    for _ in 1..TRIES {
        tries.tick().await;
        if sandbox.stop(container, uid, grace).await.is_ok() {
            return Ok(());
        }
    }
    tries.tick().await;
    sandbox.stop(container, uid, grace).await
}

async fn pre_stop(sandbox: &dyn Sandbox, container: &Container, grace: Duration) {
    let Some(hook) = &container.pre_stop else {
        return;
    };
    if let Err(why) = ask::hook(sandbox, &container.name, hook, grace).await {
        tracing::info!(container = container.name, why, "a pre_stop hook failed");
    }
}
