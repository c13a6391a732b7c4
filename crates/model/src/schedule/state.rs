// SPDX-License-Identifier: Apache-2.0
//! What is known of a schedule, and how an [`Event`] changes it. All of it is kept: what a daemon
//! has decided, the next one goes on with.

use serde::{Deserialize, Serialize};

pub use super::refusal::RefusalKind;
pub use super::shape::Shape;
use super::spec::{Restart, Spec, When};
use crate::exit::How;
use crate::name::Uid;
use crate::time::Timestamp;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct State {
    /// Nothing begins by itself.
    pub paused: Option<Pause>,
    /// Times up to this one are accounted for.
    pub since: Timestamp,
    /// A run that is wanted and has not begun.
    pub due: Option<Due>,
    /// The number of the last run; 0: none yet.
    pub numbers: u64,
    /// Runs that begin or go on.
    pub runs: Vec<Run>,
    /// Starts in a row that ended soon.
    pub in_a_row: u32,
    /// No start before.
    pub held_until: Option<Timestamp>,
    /// The last run that ended.
    pub last: Option<End>,
    /// Starts, as far as the start limit asks.
    pub starts: Vec<Timestamp>,
    /// There were more than the start limit allows.
    pub limited: bool,
    /// Nothing comes any more.
    pub done: bool,
    /// Of the schedule that it comes after: which one, and the last run that is accounted for.
    pub after: Option<(Uid, u64)>,
    /// Why the last start was refused.
    pub refusal: Option<Refusal>,
}

/// Who has paused it, and when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pause {
    /// In words.
    pub by: String,
    /// The node's clock.
    pub at: Timestamp,
}

/// A run that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Due {
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub by: Trigger,
    /// How often it was begun already.
    pub attempt: u32,
}

/// What makes a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// It was declared.
    Declared,
    /// Its time came.
    Time,
    /// Its time had passed while nobody looked.
    Missed,
    /// Another schedule's run ended.
    After,
    /// Its last run ended, or went with the node.
    Restart,
    /// Somebody asked.
    Hand,
}

/// A run that begins or goes on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The path is the schedule's name, `-` and this.
    pub number: u64,
    /// What it is made of, whatever the spec says by now.
    pub shape: Shape,
    /// Why there is one.
    pub due: Due,
    /// When it had begun; `None`: it is being started.
    pub began: Option<Timestamp>,
    /// Asked to end; why.
    pub stopping: Option<Stopping>,
}

/// Why a run was asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopping {
    /// For the next one.
    Replaced,
    /// By a user.
    Hand,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct End {
    /// Which.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// As it should.
    pub success: bool,
    /// For people.
    pub words: String,
}

/// Why a start was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// Of which kind.
    pub kind: RefusalKind,
    /// For people.
    pub words: String,
    /// When it was first so.
    pub at: Timestamp,
}

/// Something that has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// By whom, in words.
    Paused(String),
    /// What was paused or limited goes on.
    Resumed,
    /// A user wants a run.
    Triggered,
    /// A run has begun.
    Began(u64),
    /// A start was refused.
    Refused(u64, RefusalKind, String),
    /// A daemon was killed before a start had an effect.
    NotBegun(u64),
    /// A run has ended: whether it succeeded, and words.
    Ended(u64, bool, String),
    /// A run went with the node.
    Lost(u64),
    /// A run was asked to end by a user: who, in words.
    StopAsked(u64, String),
    /// What [`Event::StopAsked`] told of, in the same words, came to nothing.
    StopFailed(u64, String),
    /// The spec is another one.
    Declared,
}

/// A line of the history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// When it was written.
    pub at: Timestamp,
    /// The run; 0: there was none.
    pub number: u64,
    /// Why there was to be one.
    pub by: Trigger,
    /// Since when it was wanted.
    pub due: Timestamp,
    /// When it began.
    pub began: Option<Timestamp>,
    /// What came of it.
    pub outcome: Outcome,
    /// For people.
    pub words: String,
}

/// What came of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ended as it should.
    Succeeded,
    /// It failed.
    Failed,
    /// It was stopped.
    Stopped,
    /// It was never begun: another one went on, or nobody was there.
    Skipped,
    /// Its start was refused.
    Refused,
    /// It went with the node.
    Lost,
}

impl State {
    /// Of a schedule that is declared now.
    pub fn new(spec: &Spec, now: Timestamp) -> Self {
        let mut state = Self {
            since: now,
            ..Self::default()
        };
        state.begin(spec, now);
        state
    }

    /// What runs by itself is wanted.
    fn begin(&mut self, spec: &Spec, now: Timestamp) {
        self.done = false;
        let by_itself = matches!(spec.when, When::Now | When::Lax(_));
        if by_itself && self.runs.is_empty() && self.due.is_none() {
            self.want(now, Trigger::Declared, 0);
        }
    }

    pub(super) fn want(&mut self, at: Timestamp, by: Trigger, attempt: u32) {
        self.due = Some(Due { at, by, attempt });
    }

    /// What was held back is so no more.
    fn release(&mut self) {
        self.limited = false;
        self.starts.clear();
        self.held_until = None;
        self.in_a_row = 0;
        self.refusal = None;
    }

    /// Takes an event in. Returns a line of the history, where it makes one.
    pub fn happened(&mut self, spec: &Spec, event: Event, now: Timestamp) -> Option<Entry> {
        match event {
            Event::Paused(by) => {
                self.paused.get_or_insert(Pause { by, at: now });
                None
            }
            Event::Resumed => {
                self.release();
                if self.paused.take().is_some() {
                    self.since = now;
                }
                // What has done its work stays done.
                let over = self.done && self.last.as_ref().is_some_and(|last| last.success);
                if !over {
                    self.begin(spec, now);
                }
                None
            }
            Event::Triggered => {
                self.release();
                self.want(now, Trigger::Hand, 0);
                None
            }
            Event::Declared => {
                self.declared(spec, now);
                None
            }
            Event::Began(number) => {
                self.refusal = None;
                if let Some(run) = self.run(number) {
                    run.began.get_or_insert(now);
                }
                None
            }
            Event::NotBegun(number) => {
                let run = self.take(number)?;
                self.due.get_or_insert(run.due);
                None
            }
            Event::Refused(number, kind, words) => self.refused(spec, number, kind, words, now),
            Event::Ended(number, success, words) => {
                let run = self.take(number)?;
                Some(self.ended(spec, &run, success, words, now))
            }
            Event::Lost(number) => {
                let run = self.take(number)?;
                Some(self.lost(spec, &run, now))
            }
            Event::StopAsked(number, by) => {
                let run = self.run(number)?;
                run.stopping = Some(Stopping::Hand);
                // The wish ends with the run; where there are to be more, only this one does.
                if spec.is_once() {
                    self.paused.get_or_insert(Pause { by, at: now });
                }
                None
            }
            Event::StopFailed(number, by) => {
                self.stop_failed(number, &by);
                None
            }
        }
    }

    fn declared(&mut self, spec: &Spec, now: Timestamp) {
        self.release();
        self.since = now;
        self.due = None;
        self.after = None;
        for run in &mut self.runs {
            // What is to run now runs as the new spec says.
            if spec.when == When::Now {
                run.stopping.get_or_insert(Stopping::Replaced);
            }
        }
        self.done = false;
        if matches!(spec.when, When::Now | When::Lax(_)) {
            self.want(now, Trigger::Declared, 0);
        }
    }

    fn stop_failed(&mut self, number: u64, by: &str) {
        if let Some(run) = self.run(number)
            && run.stopping == Some(Stopping::Hand)
        {
            run.stopping = None;
            self.paused.take_if(|pause| pause.by == by);
        }
    }

    fn run(&mut self, number: u64) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.number == number)
    }

    fn take(&mut self, number: u64) -> Option<Run> {
        let at = self.runs.iter().position(|run| run.number == number)?;
        Some(self.runs.remove(at))
    }

    fn refused(
        &mut self,
        spec: &Spec,
        number: u64,
        kind: RefusalKind,
        words: String,
        now: Timestamp,
    ) -> Option<Entry> {
        let run = self.take(number)?;
        if kind == RefusalKind::Spec {
            return Some(self.ended(spec, &run, false, words, now));
        }
        let known = self.refusal.as_ref();
        let same = known.is_some_and(|it| it.kind == kind && it.words == words);
        self.hold(spec, now);
        // The start limit counts what has begun.
        self.starts.pop();
        if run.stopping.is_none() {
            self.due.get_or_insert(run.due);
        }
        if same {
            return None;
        }
        let entry = entry(&run, Outcome::Refused, words.clone(), now);
        self.refusal = Some(Refusal {
            kind,
            words,
            at: now,
        });
        Some(entry)
    }

    /// The next start waits.
    fn hold(&mut self, spec: &Spec, now: Timestamp) {
        let wait = spec.backoff.wait(self.in_a_row);
        self.in_a_row = self.in_a_row.saturating_add(1);
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.held_until = Some(Timestamp(now.0.saturating_add(wait)));
    }

    fn ended(
        &mut self,
        spec: &Spec,
        run: &Run,
        success: bool,
        words: String,
        now: Timestamp,
    ) -> Entry {
        self.last = Some(End {
            number: run.number,
            at: now,
            success,
            words: words.clone(),
        });
        let ran = run.began.map(|began| now.since(began)).unwrap_or_default();
        if ran >= spec.backoff.stable() {
            self.in_a_row = 0;
        }
        let again = match spec.restart {
            Restart::No => false,
            Restart::OnFailure => !success,
            Restart::Always => true,
        };
        let stopped = run.stopping.is_some();
        if stopped {
            // The next one is wanted already, or none is.
        } else if again && self.due.is_none() {
            self.hold(spec, now);
            self.again(run, now);
        } else if spec.is_once() && self.due.is_none() && !ahead(spec, run) {
            self.done = true;
        }
        let outcome = match (stopped, success) {
            (true, _) => Outcome::Stopped,
            (false, true) => Outcome::Succeeded,
            (false, false) => Outcome::Failed,
        };
        entry(run, outcome, words, now)
    }

    fn lost(&mut self, spec: &Spec, run: &Run, now: Timestamp) -> Entry {
        let words = "it went with the node".to_owned();
        self.last = Some(End {
            number: run.number,
            at: now,
            success: false,
            words: words.clone(),
        });
        // Nothing of it is the workload's fault: at once.
        self.in_a_row = 0;
        self.held_until = None;
        if run.stopping.is_some() {
            // No other one is wanted for it.
        } else if spec.restart == Restart::No {
            self.done = spec.is_once() && self.due.is_none() && !ahead(spec, run);
        } else if self.due.is_none() {
            self.again(run, now);
        }
        entry(run, Outcome::Lost, words, now)
    }

    /// Another run in the place of one. A clock that was set back brings no time back with it.
    fn again(&mut self, run: &Run, now: Timestamp) {
        let attempt = run.due.attempt.saturating_add(1);
        self.want(now.max(run.due.at), Trigger::Restart, attempt);
    }
}

/// A run that somebody asked for, and those that follow it, take nothing away from the time that is
/// yet to come.
fn ahead(spec: &Spec, run: &Run) -> bool {
    matches!(spec.when, When::At(at) if run.due.at < at)
}

fn entry(run: &Run, outcome: Outcome, words: String, now: Timestamp) -> Entry {
    Entry {
        at: now,
        number: run.number,
        by: run.due.by,
        due: run.due.at,
        began: run.began,
        outcome,
        words,
    }
}

/// The end of a program, for people.
pub fn said(how: How) -> String {
    match how {
        How::Code(code) => format!("exited with {code}"),
        How::Signal(number) => format!("killed by signal {number}"),
        How::Unknown => "ended; how is not known".to_owned(),
    }
}
