// SPDX-License-Identifier: Apache-2.0
//! A service: (state, event, time) to (state, effects), as systemd.service(5) has it.
//!
//! ```text
//! dead ─► condition ─► start-pre ─► start ─► start-post ─► running ─► (exited)
//!  ▲ failed      │ a failure            │                   │  │ ▲
//!  │   ▲         └─────────┬────────────┘                   │  └─┴ reload
//!  │   │                   ▼                                ▼
//!  └───┴─ stop-post ◄─ stop-sigterm ─► stop-sigkill ◄────── stop
//!  auto-restart: dead, and about to begin again
//! ```

use units::service::{Service, Type};
use units::time::Span;

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
    /// What was to be killed has gone.
    Gone,
    /// It says that it is ready.
    #[cfg_attr(not(test), expect(dead_code, reason = "Type=notify is refused as yet"))]
    Ready,
    /// It says that it lives.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "WatchdogSec= is not honoured yet")
    )]
    Alive,
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
    /// End what there is as `KillMode=` says; `true`: the main process was too slow to report, and
    /// gets `WatchdogSignal=`. Answered by [`Event::Gone`].
    Kill(bool),
    /// End what is left at once.
    KillNow,
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
            Sub::Stop | Sub::StopSigterm | Sub::StopSigkill => Self::Later,
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
        Event::Gone => turn.gone(),
        Event::Ready => turn.ready(),
        Event::Alive => turn.alive(),
        Event::Time => turn.time(),
        Event::GivenUp => turn.given_up(),
    }
    turn.effects
}

struct Turn<'a> {
    rules: Rules<'a>,
    state: &'a mut State,
    now: u64,
    effects: Vec<Effect>,
}

impl Turn<'_> {
    fn arm(&mut self, span: Span) {
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
    fn enter(&mut self, phase: Phase) {
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

    fn step(&mut self, step: Step) {
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
            Phase::StartPost | Phase::Reload => self.up(),
            Phase::Stop => self.signal(Sub::StopSigterm, false),
            Phase::StopPost => self.signal(Sub::FinalSigterm, false),
        }
    }

    /// It is up, or has nothing that runs.
    fn up(&mut self) {
        self.state.deadline = None;
        self.state.was_up = true;
        if self.state.result != Outcome::Success {
            return self.signal(Sub::StopSigterm, false);
        }
        if self.state.main.is_some() {
            self.state.sub = Sub::Running;
            self.arm(self.rules.service.runtime_max);
            self.alive();
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
        let kind = self.rules.service.kind;
        if starts && matches!(kind, Type::Simple | Type::Idle | Type::Exec) {
            self.enter(Phase::StartPost);
        }
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

    fn outcome(&self, step: Step, end: End) -> Outcome {
        match self.rules.commands.ignores_failure(step) {
            true => Outcome::Success,
            false => end.outcome(self.rules.service),
        }
    }

    fn main_ended(&mut self, step: Step, end: End) {
        self.state.ended = Some(end);
        let outcome = self.outcome(step, end);
        let next = Step {
            index: step.index + 1,
            ..step
        };
        match (self.state.sub, self.rules.service.kind, outcome) {
            (Sub::Start, Type::Oneshot, Outcome::Success) => self.step(next),
            // It ended before it said that it is ready.
            (Sub::Start, _, Outcome::Success) => self.fail(Outcome::Protocol),
            (Sub::Start, _, outcome) => self.fail(outcome),
            (Sub::Running, _, outcome) => {
                self.put(outcome);
                self.up();
            }
            // What goes on comes to its end first, and looks at this then.
            (Sub::StartPost | Sub::Reload | Sub::Stop, _, outcome) => self.put(outcome),
            (Sub::StopSigterm | Sub::StopSigkill, _, outcome) => self.put(outcome),
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

    /// The first failure is the one that counts.
    fn put(&mut self, outcome: Outcome) {
        if self.state.result == Outcome::Success {
            self.state.result = outcome;
        }
    }

    /// Its start, or what it does, failed: without `ExecStop=`, which is for what has started.
    fn fail(&mut self, outcome: Outcome) {
        self.put(outcome);
        let sub = match self.state.sub {
            Sub::StopPost => Sub::FinalSigterm,
            _ => Sub::StopSigterm,
        };
        self.signal(sub, outcome == Outcome::Watchdog);
    }

    /// Ends what there is.
    fn signal(&mut self, sub: Sub, watchdog: bool) {
        self.state.sub = sub;
        self.state.watchdog = None;
        self.arm(match watchdog {
            true => self.rules.service.abort_timeout,
            false => self.rules.service.stop_timeout,
        });
        self.effects.push(Effect::Kill(watchdog));
    }

    fn gone(&mut self) {
        match self.state.sub {
            Sub::StopSigterm | Sub::StopSigkill => {
                self.state.main = None;
                self.state.control = None;
                self.enter(Phase::StopPost);
            }
            Sub::FinalSigterm | Sub::FinalSigkill => self.down(),
            _ => {}
        }
    }

    fn down(&mut self) {
        let state = &mut *self.state;
        (state.main, state.control) = (None, None);
        (state.deadline, state.watchdog) = (None, None);
        let result = state.result;
        let again = !state.stopping && result.restarts(self.rules.service, state.ended);
        state.again = false;
        state.sub = match (again, result.is_failure()) {
            (true, _) => Sub::AutoRestart,
            (false, true) => Sub::Failed,
            (false, false) => Sub::Dead,
        };
        self.effects.push(Effect::Down);
        if again {
            self.arm(self.rules.service.restart_after);
        }
    }

    fn stop(&mut self) {
        self.state.stopping = true;
        match self.state.sub {
            Sub::Dead | Sub::Failed => {}
            Sub::AutoRestart => {
                // As a part of its restart it is down, and not failed: `OnFailure=` is for a
                // service that isn't started again.
                self.state.sub = match self.state.result.is_failure() && !self.state.again {
                    true => Sub::Failed,
                    false => Sub::Dead,
                };
                self.state.deadline = None;
            }
            Sub::Running | Sub::Exited | Sub::Reload => {
                self.state.watchdog = None;
                self.enter(Phase::Stop);
            }
            Sub::Condition | Sub::StartPre | Sub::Start | Sub::StartPost => {
                self.signal(Sub::StopSigterm, false);
            }
            _ => {}
        }
    }

    fn given_up(&mut self) {
        if self.state.sub == Sub::AutoRestart {
            self.state.again = false;
            self.stop();
        }
    }

    fn reload(&mut self) {
        if matches!(self.state.sub, Sub::Running | Sub::Exited) {
            self.state.reloaded = Outcome::Success;
            self.enter(Phase::Reload);
            self.state.round = (self.state.round + 1) % ROUNDS;
        }
    }

    fn ready(&mut self) {
        let notifies = matches!(self.rules.service.kind, Type::Notify | Type::NotifyReload);
        if notifies && self.state.sub == Sub::Start {
            self.enter(Phase::StartPost);
        }
    }

    fn alive(&mut self) {
        let watched = self.rules.service.watchdog.and_then(nanos);
        if self.state.sub == Sub::Running {
            self.state.watchdog = watched.map(|span| self.now.saturating_add(span));
        }
    }

    fn time(&mut self) {
        let passed = |at: Option<u64>| at.is_some_and(|at| at <= self.now);
        if passed(self.state.watchdog) {
            self.state.watchdog = None;
            return self.fail(Outcome::Watchdog);
        }
        if !passed(self.state.deadline) {
            return;
        }
        self.state.deadline = None;
        match self.state.sub {
            Sub::Condition | Sub::StartPre | Sub::Start | Sub::StartPost => {
                self.fail(Outcome::Timeout);
            }
            Sub::Running => {
                // RuntimeMaxSec= ends it as a stop does, and is a failure.
                self.put(Outcome::Timeout);
                self.enter(Phase::Stop);
            }
            Sub::Reload => {
                self.state.reloaded = Outcome::Timeout;
                if let Some(control) = self.state.control.take() {
                    self.effects.push(Effect::End(control.step));
                }
                self.up();
            }
            Sub::Stop => {
                self.put(Outcome::Timeout);
                self.signal(Sub::StopSigterm, false);
            }
            Sub::StopPost => {
                self.put(Outcome::Timeout);
                self.signal(Sub::FinalSigterm, false);
            }
            Sub::StopSigterm => self.kill_now(Sub::StopSigkill),
            Sub::FinalSigterm => self.kill_now(Sub::FinalSigkill),
            // Not even SIGKILL helps: it is given up.
            Sub::StopSigkill | Sub::FinalSigkill => self.gone(),
            Sub::AutoRestart => {
                self.state.again = true;
                self.effects.push(Effect::Restart);
            }
            Sub::Dead | Sub::Exited | Sub::Failed => {}
        }
    }

    fn kill_now(&mut self, sub: Sub) {
        self.put(Outcome::Timeout);
        if !self.rules.service.kill.sends_final {
            return self.gone();
        }
        self.state.sub = sub;
        self.arm(self.rules.service.stop_timeout);
        self.effects.push(Effect::KillNow);
    }
}
