// SPDX-License-Identifier: Apache-2.0
//! A service: (state, event, time) to (state, effects), as systemd.service(5) has it.
//!
//! ```text
//! dead ─► condition ─► start-pre ─► start ─► start-post ─► running ─► (exited)
//!  ▲ failed      │ a failure            │                   │  │ ▲
//!  │   ▲         └─────────┬────────────┘                   │  └─┴ reload, -signal, -notify
//!  │   │                   ▼                                ▼
//!  └───┴─ stop-post ◄─ stop-sigterm ─► stop-sigkill ◄────── stop
//!                 └► final-sigterm, final-sigkill
//!  auto-restart: dead, and about to begin again
//! ```
//!
//! How it goes down is in [`super::down`], what it says of itself in [`super::said`].

use units::service::{Service, Type};
use units::time::Span;

pub(crate) use super::said::Said;
pub(crate) use super::state::{Process, State, Sub};
use super::{Commands, End, Outcome, Phase, ROUNDS, Role, Step};

/// What happens to a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// It is to be started: its conditions hold.
    Start,
    /// It is to be stopped.
    Stop,
    /// It is to read its configuration again.
    Reload,
    /// A command was executed.
    Began(Step),
    /// One could not be: with what status systemd's process would have ended.
    NotBegun(Step, u8),
    /// Nothing of it can be set up.
    Refused(Step),
    /// A process, and what it was to have with it, has ended.
    Ended(Step, End),
    /// What was to be signalled was; whether there was anything.
    Signalled(bool),
    /// No process of it lives any more, of whatever command.
    Gone,
    /// It says something of itself.
    Said(Said),
    /// Its name on the bus has an owner, or has none.
    Named(bool),
    /// The kernel has ended a process of it for want of memory.
    OutOfMemory,
    /// Time has passed.
    Time,
    /// What was to start it again can't: it waits no more.
    GivenUp,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Run a command.
    Run(Step, Role),
    /// Ask what there is to end, as `KillMode=` says; `true`: the main process was too slow to
    /// report, and gets `WatchdogSignal=`. Answered by [`Event::Signalled`], and where that is so
    /// by [`Event::Gone`].
    Kill(bool),
    /// Send `FinalKillSignal=`, with the same answers.
    KillNow,
    /// Tell by [`Event::Gone`] when no process of it lives any more.
    Watch,
    /// Send `ReloadSignal=` to the main process.
    AskReload,
    /// End one command, which is no part of what goes on any more.
    End(Step),
    /// It is down: what it had goes.
    Down,
    /// Ask for a restart job, with which those follow that a restart reaches.
    Restart,
}

/// What decides for a service.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) service: &'a Service,
    pub(crate) commands: &'a Commands,
}

/// How long `Type=idle` waits at most for the jobs of others (systemd.service(5)).
pub(crate) const IDLE: u64 = 5_000_000_000;

/// A span in nanoseconds; `None` is no end.
pub(crate) fn nanos(span: Span) -> Option<u64> {
    span.micros().map(|micros| micros.saturating_mul(1000))
}

/// Whether it waits to be started again, and nothing will do that but a job that is there.
pub(crate) fn is_stuck(state: &State) -> bool {
    state.sub == Sub::AutoRestart && state.deadline.is_none()
}

/// What becomes of a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// It begins: nothing of an earlier activation is there.
    Now,
    /// It is on its way, or there.
    Already,
    /// Once it is down.
    Later,
}

impl Start {
    /// As systemd's service does with a start, by its state.
    pub(crate) const fn of(sub: Sub) -> Start {
        match sub {
            Sub::Dead | Sub::Failed | Sub::AutoRestart => Self::Now,
            Sub::Condition | Sub::StartPre | Sub::Start | Sub::StartPost => Self::Already,
            Sub::Running | Sub::Exited | Sub::Reload => Self::Already,
            Sub::ReloadSignal | Sub::ReloadNotify => Self::Already,
            Sub::Stop | Sub::StopWatchdog => Self::Later,
            Sub::StopSigterm | Sub::StopSigkill => Self::Later,
            Sub::StopPost | Sub::FinalSigterm | Sub::FinalSigkill => Self::Later,
        }
    }
}

/// Takes an event in.
pub(crate) fn advance(rules: Rules<'_>, state: &mut State, event: Event, now: u64) -> Vec<Effect> {
    let mut turn = Turn {
        rules,
        state,
        now,
        effects: Vec::new(),
    };
    match event {
        Event::Start => turn.start(),
        Event::Stop => turn.stop(),
        Event::Reload => turn.reload(),
        Event::Began(step) => turn.began(step),
        Event::NotBegun(step, code) => turn.not_begun(step, code),
        Event::Refused(step) => turn.refused(step),
        Event::Ended(step, end) => turn.ended(step, end),
        Event::Signalled(reached) => turn.signalled(reached),
        Event::Gone => turn.gone(),
        Event::Said(said) => turn.said(said),
        Event::Named(owned) => turn.named(owned),
        Event::OutOfMemory => turn.out_of_memory(),
        Event::Time => turn.time(),
        Event::GivenUp => turn.given_up(),
    }
    turn.effects
}

pub(super) struct Turn<'a> {
    pub(super) rules: Rules<'a>,
    pub(super) state: &'a mut State,
    pub(super) now: u64,
    pub(super) effects: Vec<Effect>,
}

impl Turn<'_> {
    pub(super) fn arm(&mut self, span: Span) {
        self.state.deadline = nanos(span).map(|span| self.now.saturating_add(span));
    }

    fn start(&mut self) {
        if Start::of(self.state.sub) != Start::Now {
            return;
        }
        let again = self.state.again || self.state.sub == Sub::AutoRestart;
        let restarts = match again {
            true => self.state.restarts.saturating_add(1),
            false => 0,
        };
        *self.state = State {
            restarts,
            ..State::default()
        };
        self.enter(Phase::Condition);
    }

    /// Begins a list of commands, or what follows where it is empty.
    pub(super) fn enter(&mut self, phase: Phase) {
        let round = match phase {
            Phase::Reload => self.state.round,
            _ => 0,
        };
        self.step(Step {
            phase,
            index: 0,
            round,
        });
    }

    pub(super) fn step(&mut self, step: Step) {
        if !self.rules.commands.has(step) {
            return self.after(step.phase);
        }
        self.state.sub = Sub::of(step.phase);
        let oneshot = self.rules.service.kind == Type::Oneshot;
        let role = match step.phase {
            Phase::Start => Role::Main,
            _ => Role::Control,
        };
        let process = Process { step, begun: false };
        match role {
            Role::Main => {
                self.state.main = Some(process);
                self.state.ended = None;
            }
            Role::Control => self.state.control = Some(process),
        }
        let timeout = match step.phase {
            Phase::Stop | Phase::StopPost => self.rules.service.stop_timeout,
            _ => self.rules.service.start_timeout,
        };
        // The time of a oneshot service is that of all its commands together.
        if !(oneshot && step.phase == Phase::Start && step.index > 0) {
            self.arm(timeout);
        }
        self.effects.push(Effect::Run(step, role));
    }

    /// A list is done.
    fn after(&mut self, phase: Phase) {
        match phase {
            Phase::Condition => self.enter(Phase::StartPre),
            Phase::StartPre => self.enter(Phase::Start),
            Phase::Start => self.enter(Phase::StartPost),
            Phase::StartPost => self.up(),
            Phase::Reload => self.reload_done(),
            Phase::Stop => self.signal(Sub::StopSigterm, false),
            Phase::StopPost => self.signal(Sub::FinalSigterm, false),
        }
    }

    /// It is up, or has nothing that runs.
    pub(super) fn up(&mut self) {
        self.state.deadline = None;
        self.state.was_up = true;
        if self.state.result != Outcome::Success {
            return self.signal(Sub::StopSigterm, false);
        }
        if self.state.main.is_some() && self.is_named() {
            self.state.sub = Sub::Running;
            self.arm(self.rules.service.runtime_max);
        } else if self.rules.service.ends_with_group && !self.state.emptied {
            // systemd.service(5), ExitType=: what it has left is the service.
            self.state.sub = Sub::Running;
            self.arm(self.rules.service.runtime_max);
            self.effects.push(Effect::Watch);
        } else if self.rules.service.remains {
            self.state.sub = Sub::Exited;
        } else {
            self.enter(Phase::Stop);
        }
    }

    fn began(&mut self, step: Step) {
        let state = &mut *self.state;
        for process in [&mut state.main, &mut state.control] {
            if let Some(process) = process.as_mut().filter(|it| it.step == step) {
                process.begun = true;
            }
        }
        let starts = step.phase == Phase::Start && self.state.sub == Sub::Start;
        // A forking service has begun when its main process is known.
        let begun = matches!(
            self.rules.service.kind,
            Type::Simple | Type::Idle | Type::Exec | Type::Forking
        );
        // Its name may have been there before it: another program's, or by a command before it.
        let named = self.rules.service.kind == Type::Dbus && self.state.named;
        if starts && (begun || named) {
            self.started();
        }
    }

    /// Its name has an owner, where it needs one.
    fn is_named(&self) -> bool {
        self.rules.service.kind != Type::Dbus || self.state.named
    }

    /// systemd.service(5), `Type=dbus`: it has started with its name, and is over without it.
    fn named(&mut self, owned: bool) {
        self.state.named = owned;
        if self.rules.service.kind != Type::Dbus {
            return;
        }
        let begun = self.state.main.is_some_and(|it| it.begun);
        match (self.state.sub, owned) {
            (Sub::Start, true) if begun => self.started(),
            (Sub::Running, false) => self.up(),
            _ => {}
        }
    }

    /// It has started, and `ExecStartPost=` follows.
    pub(super) fn started(&mut self) {
        self.alive();
        self.enter(Phase::StartPost);
    }

    /// systemd.service(5), `Type=`: a simple service has started before its program is executed;
    /// where that fails, its main process has ended with the status that says why.
    fn not_begun(&mut self, step: Step, code: u8) {
        let simple = matches!(self.rules.service.kind, Type::Simple | Type::Idle);
        if step.phase == Phase::Start && simple && self.state.sub == Sub::Start {
            self.began(step);
        }
        self.ended(step, End::NotBegun(code));
    }

    fn refused(&mut self, step: Step) {
        let known = self.forget(step).is_some();
        if step.phase == Phase::Reload {
            // The service itself is as it was.
            if known && self.state.sub == Sub::Reload {
                self.state.reloaded = Outcome::Resources;
                self.up();
            }
            return;
        }
        self.fail(Outcome::Resources);
    }

    /// Whether it was one of the processes at work, which it is no more.
    fn forget(&mut self, step: Step) -> Option<Role> {
        let of = |process: &mut Option<Process>| process.take_if(|it| it.step == step).is_some();
        if of(&mut self.state.main) {
            return Some(Role::Main);
        }
        of(&mut self.state.control).then_some(Role::Control)
    }

    fn ended(&mut self, step: Step, end: End) {
        match self.forget(step) {
            None => {}
            Some(Role::Main) => self.main_ended(step, end),
            Some(Role::Control) => self.control_ended(step, end),
        }
    }

    pub(super) fn outcome(&self, step: Step, end: End) -> Outcome {
        match self.rules.commands.ignores_failure(step) {
            true => Outcome::Success,
            false => end.outcome(self.rules.service),
        }
    }

    fn main_ended(&mut self, step: Step, end: End) {
        self.state.ended = Some(end);
        let outcome = self.outcome(step, end);
        let alone = self.state.control.is_none();
        let next = Step {
            index: step.index + 1,
            ..step
        };
        match (self.state.sub, self.rules.service.kind, outcome) {
            (Sub::Start, Type::Oneshot, Outcome::Success) => self.step(next),
            // What it has left behind, if anything, is no process that could be its main one.
            (Sub::Start, Type::Forking, Outcome::Success)
                if self.rules.service.pid_file.is_none() =>
            {
                self.started();
            }
            // As systemd's `service_sigchld_event()`: what it was to do is done, name or none.
            (Sub::Start, Type::Dbus, Outcome::Success) => {
                self.put(outcome);
                self.up();
            }
            // It ended before it said that it is ready.
            (Sub::Start, _, Outcome::Success) => self.fail(Outcome::Protocol),
            (Sub::Start, _, outcome) => self.fail(outcome),
            (Sub::Running, _, outcome) => {
                self.put(outcome);
                self.up();
            }
            (Sub::ReloadSignal | Sub::ReloadNotify, _, outcome) => {
                self.put(outcome);
                self.state.reloaded = Outcome::Protocol;
                self.enter(Phase::Stop);
            }
            // It said that it stops, and has.
            (Sub::Stop, _, outcome) if alone => {
                self.put(outcome);
                self.signal(Sub::StopSigterm, false);
            }
            // What goes on comes to its end first, and looks at this then.
            (Sub::StartPost | Sub::Reload | Sub::Stop, _, outcome) => self.put(outcome),
            (sub, _, outcome) if sub.is_signalled() => {
                self.put(outcome);
                self.ended_going_down();
            }
            _ => {}
        }
    }

    fn control_ended(&mut self, step: Step, end: End) {
        let outcome = self.outcome(step, end);
        let next = Step {
            index: step.index + 1,
            ..step
        };
        let ok = outcome == Outcome::Success;
        match (self.state.sub, step.phase) {
            // systemd.service(5), ExecCondition=: 1 to 254 skip the unit, without a failure.
            (Sub::Condition, _) if !ok && matches!(end, End::Exited(1..=254)) => {
                self.put(Outcome::ExecCondition);
                self.signal(Sub::StopSigterm, false);
            }
            (Sub::Condition | Sub::StartPre | Sub::StartPost, _) if !ok => self.fail(outcome),
            (Sub::Reload, _) => {
                self.state.reloaded = outcome;
                match ok {
                    true => self.step(next),
                    false => self.up(),
                }
            }
            (sub, _) if sub.is_signalled() => self.ended_going_down(),
            (Sub::Stop, _) if !ok => {
                self.put(outcome);
                self.signal(Sub::StopSigterm, false);
            }
            (Sub::StopPost, _) if !ok => {
                self.put(outcome);
                self.signal(Sub::FinalSigterm, false);
            }
            (sub, phase) if sub == Sub::of(phase) => self.step(next),
            _ => {}
        }
    }

    fn reload(&mut self) {
        if !matches!(self.state.sub, Sub::Running | Sub::Exited) {
            return;
        }
        self.state.reloaded = Outcome::Success;
        self.state.reload_begun = self.now;
        let asks = self.rules.service.kind == Type::NotifyReload && self.state.main.is_some();
        if asks {
            self.effects.push(Effect::AskReload);
        }
        self.enter(Phase::Reload);
        self.state.round = (self.state.round + 1) % ROUNDS;
    }

    /// The commands of a reload are done. One that was asked for by a signal is over when the
    /// service says so.
    fn reload_done(&mut self) {
        let asks = self.rules.service.kind == Type::NotifyReload && self.state.main.is_some();
        if !asks || self.state.reloaded != Outcome::Success {
            return self.up();
        }
        self.state.sub = Sub::ReloadSignal;
        self.arm(self.rules.service.start_timeout);
    }
}
