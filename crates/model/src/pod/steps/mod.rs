// SPDX-License-Identifier: Apache-2.0
//! What is to be done next for a pod: a pure function of its spec, of what is seen of its
//! containers, and of the time. It has no memory, so a new daemon goes on where the last one was.
//!
//! ```text
//!            init containers, one after the other; sidecars stay
//!  PENDING ──────────────────────────────────────────────► RUNNING
//!     │ one has failed and isn't started again                │ all app containers have ended
//!     │                                                       │ and aren't started again
//!     ▼              sidecars end, the last one first         ▼
//!  FAILED ◄────────────────────────────────────────────── SUCCEEDED or FAILED
//!
//!  one container:   ABSENT ─Start─► STARTING ─► RUNNING ─Stop─► STOPPING
//!                      ▲                │           │               │
//!                      │                ▼           ▼               ▼
//!                      └─ back-off ── REFUSED      ENDED ◄──────────┘
//!                                                   └─ back-off ─Start─► STARTING
//! ```
//!
//! When a stop was asked for, the app containers are stopped together, then what is left of the
//! init containers from the last to the first. Nothing is started any more. So it is when the pod's
//! deadline has come, which is its failure. A pod that was over before had none.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::backoff;
use super::spec::{Container, PodSpec, Restart};
use super::status::Phase;
use crate::time::Timestamp;

/// What is seen of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It was never started.
    Absent,
    /// It is being made or started.
    Starting(Count),
    /// Its program runs.
    Running(Run),
    /// It was asked to end.
    Stopping(Count),
    /// Its program has ended.
    Ended(End),
    /// It could not be made. It is tried again, whatever the restart policy.
    Refused(End),
}

/// How often a container was started again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// In all.
    pub restarts: u32,
    /// Since it last ran for long: what the back-off counts.
    pub in_a_row: u32,
}

/// A program that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// How often it was started again.
    pub count: Count,
    /// What is asked after its start was done, and its startup probe has succeeded.
    pub started: bool,
    /// Its readiness probe says so, or it has none.
    pub ready: bool,
    /// A probe or its hook has failed: it is to be stopped.
    pub unhealthy: bool,
}

/// A program that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// How often it was started again.
    pub count: Count,
    /// The time at which it ended.
    pub at: Timestamp,
    /// How long it ran.
    pub ran: Duration,
    /// It exited with 0.
    pub success: bool,
}

/// Something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Start a container, by its number in [`PodSpec::all`].
    Start(usize, Count),
    /// Stop one: its hook, its stop signal, its grace.
    Stop(usize),
}

/// What is to be done, and what it means for the pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// In any order.
    pub effects: Vec<Effect>,
    /// When to look again, where nothing happens before.
    pub wake: Option<Timestamp>,
    /// Where the pod is.
    pub phase: Phase,
    /// Its deadline has ended it.
    pub outlived: bool,
}

/// What is to be done next; `seen` has one element for each container of [`PodSpec::all`], `begun`
/// is when the pod was made.
pub fn next(
    spec: &PodSpec,
    seen: &[Seen],
    stopping: bool,
    begun: Timestamp,
    now: Timestamp,
) -> Step {
    let inits = spec.init_containers.len();
    let mut pod = Pod {
        restart: spec.restart,
        containers: spec.all().zip(seen.iter().copied()).enumerate().collect(),
        inits,
        now,
        effects: Vec::new(),
        wake: None,
    };
    let mut phase = pod.decide(stopping);
    let deadline = spec.active_deadline.map(|it| later(begun, it));
    let outlived = deadline.is_some_and(|it| pod.has_outlived(it, phase));
    if outlived {
        phase = pod.end(true);
    } else if !phase.is_final() {
        pod.wake = [pod.wake, deadline].into_iter().flatten().min();
    }
    Step {
        effects: pod.effects,
        wake: pod.wake,
        phase,
        outlived,
    }
}

/// When a container that has ended is started again; `None`: it isn't.
pub fn next_start(container: &Container, restart: Restart, seen: &Seen) -> Option<Timestamp> {
    let end = match seen {
        Seen::Refused(end) => end,
        Seen::Ended(end) if goes_on(container, restart, end.success) => end,
        _ => return None,
    };
    let (wait, _) = backoff::next(end.count.in_a_row, end.ran);
    Some(later(end.at, wait))
}

/// Whether a container that has ended is started again.
fn goes_on(container: &Container, restart: Restart, success: bool) -> bool {
    match restart {
        _ if container.sidecar => true,
        Restart::Always => true,
        Restart::OnFailure => !success,
        Restart::Never => false,
    }
}

fn later(at: Timestamp, wait: Duration) -> Timestamp {
    let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    Timestamp(at.0.saturating_add(nanos))
}

struct Pod<'a> {
    restart: Restart,
    containers: Vec<(usize, (&'a Container, Seen))>,
    inits: usize,
    now: Timestamp,
    effects: Vec<Effect>,
    wake: Option<Timestamp>,
}

/// Where an init container is.
enum Turn {
    /// The next one may begin.
    Over,
    /// It is waited for.
    Goes,
    /// It has failed for ever.
    Failed,
}

impl<'a> Pod<'a> {
    fn decide(&mut self, stopping: bool) -> Phase {
        self.stop_unhealthy();
        if stopping {
            return self.end(false);
        }
        let begun = self.apps().any(|(_, _, seen)| seen != Seen::Absent);
        if !begun {
            match self.initialize() {
                Turn::Over => {}
                Turn::Goes => return Phase::Pending,
                Turn::Failed => return self.end(true),
            }
        }
        self.keep_sidecars();
        let apps: Vec<_> = self.apps().collect();
        for (number, container, seen) in &apps {
            self.keep(*number, container, *seen, self.restart);
        }
        let is_over = |(_, container, seen): &(usize, &Container, Seen)| match seen {
            Seen::Ended(end) => !goes_on(container, self.restart, end.success),
            _ => false,
        };
        if apps.iter().all(is_over) {
            return self.end(false);
        }
        let waits = |seen: &Seen| match seen {
            Seen::Absent | Seen::Refused(_) => true,
            Seen::Starting(count) => *count == Count::default(),
            Seen::Running(_) | Seen::Stopping(_) | Seen::Ended(_) => false,
        };
        match apps.iter().any(|(_, _, seen)| waits(seen)) {
            true => Phase::Pending,
            false => Phase::Running,
        }
    }

    /// Whether the deadline has come to a pod that wasn't over by then. It would be in this phase
    /// without one.
    fn has_outlived(&self, deadline: Timestamp, phase: Phase) -> bool {
        let later = |seen: &Seen| matches!(seen, Seen::Ended(end) if end.at >= deadline);
        let mut all = self.containers.iter().map(|(_, (_, seen))| seen);
        self.now >= deadline && (!phase.is_final() || all.any(later))
    }

    fn apps(&self) -> impl Iterator<Item = (usize, &'a Container, Seen)> + use<'a, '_> {
        let all = self.containers.iter().skip(self.inits);
        all.map(|(number, (container, seen))| (*number, *container, *seen))
    }

    fn init_containers(&self) -> Vec<(usize, &'a Container, Seen)> {
        let all = self.containers.iter().take(self.inits);
        let all = all.map(|(number, (container, seen))| (*number, *container, *seen));
        all.collect()
    }

    fn stop_unhealthy(&mut self) {
        for (number, (_, seen)) in &self.containers {
            if let Seen::Running(Run {
                unhealthy: true, ..
            }) = seen
            {
                self.effects.push(Effect::Stop(*number));
            }
        }
    }

    /// The first init container that isn't over is started, and waited for.
    fn initialize(&mut self) -> Turn {
        let restart = self.restart.of_init();
        let failed = |(_, container, seen): &(usize, &Container, Seen)| match seen {
            Seen::Ended(end) => !end.success && !goes_on(container, restart, false),
            _ => false,
        };
        let inits = self.init_containers();
        if inits.iter().any(failed) {
            return Turn::Failed;
        }
        for (number, container, seen) in inits {
            self.keep(number, container, seen, restart);
            let over = match seen {
                Seen::Running(run) => container.sidecar && run.started,
                Seen::Ended(end) => !container.sidecar && end.success,
                _ => false,
            };
            if !over {
                return Turn::Goes;
            }
        }
        Turn::Over
    }

    fn keep_sidecars(&mut self) {
        for (number, container, seen) in self.init_containers() {
            // Init containers that ended are not run again.
            if container.sidecar {
                self.keep(number, container, seen, Restart::Always);
            }
        }
    }

    /// Starts a container where it is to run and it is time.
    fn keep(&mut self, number: usize, container: &Container, seen: Seen, restart: Restart) {
        let (due, count) = match seen {
            Seen::Absent => (self.now, Count::default()),
            Seen::Ended(end) | Seen::Refused(end) => {
                let Some(due) = next_start(container, restart, &seen) else {
                    return;
                };
                (due, again(&end))
            }
            Seen::Starting(_) | Seen::Running(_) | Seen::Stopping(_) => return,
        };
        if due <= self.now {
            self.effects.push(Effect::Start(number, count));
        } else if self.wake.is_none_or(|wake| due < wake) {
            self.wake = Some(due);
        }
    }

    /// Stops what still runs: app containers first, then the others from the last to the first.
    /// `failed`: the pod has, however its containers end.
    fn end(&mut self, failed: bool) -> Phase {
        self.wake = None;
        self.effects.retain(|it| matches!(it, Effect::Stop(_)));
        let runs = |seen: &Seen| {
            matches!(
                seen,
                Seen::Starting(_) | Seen::Running(_) | Seen::Stopping(_)
            )
        };
        let apps: Vec<_> = self.apps().filter(|(_, _, seen)| runs(seen)).collect();
        let mut inits = self.init_containers();
        inits.retain(|(_, _, seen)| runs(seen));
        let first = match apps.is_empty() {
            true => inits.into_iter().rev().take(1).collect(),
            false => apps,
        };
        for (number, _, seen) in &first {
            let stop = Effect::Stop(*number);
            if matches!(seen, Seen::Running(_)) && !self.effects.contains(&stop) {
                self.effects.push(stop);
            }
        }
        if !first.is_empty() {
            return Phase::Running;
        }
        let succeeded = |seen: Seen| matches!(seen, Seen::Ended(End { success: true, .. }));
        match !failed && self.apps().all(|(_, _, seen)| succeeded(seen)) {
            true => Phase::Succeeded,
            false => Phase::Failed,
        }
    }
}

/// The count of the run that follows one that has ended.
fn again(end: &End) -> Count {
    let (_, in_a_row) = backoff::next(end.count.in_a_row, end.ran);
    Count {
        restarts: end.count.restarts.saturating_add(1),
        in_a_row,
    }
}
