// SPDX-License-Identifier: Apache-2.0
//! A service on its way down, as systemd.kill(5) has it: what is there is asked to end, is given
//! its time, gets the final signal, and what is left then is left. Which processes a signal reaches
//! is the driver's to find out; what its having reached any, or none, means is decided here.

use units::service::{OomPolicy, Type};

use super::service::{Effect, Sub, Turn, nanos};
use super::{Outcome, Phase};

impl Turn<'_> {
    /// The first failure is the one that counts.
    pub(super) fn put(&mut self, outcome: Outcome) {
        if self.state.result == Outcome::Success {
            self.state.result = outcome;
        }
    }

    /// Its start, or what it does, failed: without `ExecStop=`, which is for what has started.
    pub(super) fn fail(&mut self, outcome: Outcome) {
        self.put(outcome);
        let watchdog = outcome == Outcome::Watchdog;
        let sub = match (self.state.sub, watchdog) {
            (Sub::StopPost, _) => Sub::FinalSigterm,
            (_, true) => Sub::StopWatchdog,
            (_, false) => Sub::StopSigterm,
        };
        self.signal(sub, watchdog);
    }

    /// Asks what there is to end.
    pub(super) fn signal(&mut self, sub: Sub, watchdog: bool) {
        self.state.sub = sub;
        self.state.watchdog = None;
        self.arm(match watchdog {
            true => self.rules.service.abort_timeout,
            false => self.rules.service.stop_timeout,
        });
        self.effects.push(Effect::Kill(watchdog));
    }

    /// It was signalled. Where nothing was reached there is nothing to wait for.
    pub(super) fn signalled(&mut self, reached: bool) {
        if reached {
            return;
        }
        let last = self.rules.service.kill.sends_final;
        match self.state.sub {
            Sub::StopWatchdog | Sub::StopSigterm if last => self.last_signal(Sub::StopSigkill),
            Sub::FinalSigterm if last => self.last_signal(Sub::FinalSigkill),
            sub if sub.is_signalled() => self.leave(),
            _ => {}
        }
    }

    /// One of its processes has ended while it was asked to, and the others that matter have.
    pub(super) fn ended_going_down(&mut self) {
        if self.state.main.is_none() && self.state.control.is_none() {
            self.leave();
        }
    }

    /// No process of it lives. What was at work is about to be told to have ended, and how.
    pub(super) fn gone(&mut self) {
        if self.state.main.is_some() || self.state.control.is_some() {
            return;
        }
        match self.state.sub {
            Sub::Running => {
                self.state.emptied = true;
                self.up();
            }
            sub if sub.is_signalled() => self.leave(),
            _ => {}
        }
    }

    /// What was signalled has ended, or is left.
    fn leave(&mut self) {
        (self.state.main, self.state.control) = (None, None);
        match self.state.sub {
            Sub::FinalSigterm | Sub::FinalSigkill => self.down(),
            _ => self.enter(Phase::StopPost),
        }
    }

    fn down(&mut self) {
        let state = &mut *self.state;
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

    pub(super) fn stop(&mut self) {
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
            Sub::Running | Sub::Exited | Sub::ReloadSignal | Sub::ReloadNotify => {
                self.state.watchdog = None;
                self.enter(Phase::Stop);
            }
            Sub::Reload => {
                if let Some(control) = self.state.control.take() {
                    self.effects.push(Effect::End(control.step));
                }
                self.state.watchdog = None;
                self.enter(Phase::Stop);
            }
            Sub::Condition | Sub::StartPre | Sub::Start | Sub::StartPost => {
                self.signal(Sub::StopSigterm, false);
            }
            _ => {}
        }
    }

    /// systemd.service(5), OOMPolicy=.
    pub(super) fn out_of_memory(&mut self) {
        let kills = match self.rules.service.oom_policy {
            OomPolicy::Continue => return,
            OomPolicy::Stop => false,
            OomPolicy::Kill => true,
        };
        match self.state.sub {
            Sub::Dead | Sub::Failed | Sub::AutoRestart => {}
            Sub::StopPost | Sub::FinalSigterm | Sub::FinalSigkill | Sub::StopSigkill => {
                self.put(Outcome::OomKill);
            }
            // The kernel is ending the others: they are waited for.
            _ if kills => {
                self.put(Outcome::OomKill);
                self.state.watchdog = None;
                self.last_signal(Sub::StopSigkill);
            }
            Sub::Condition | Sub::StartPre | Sub::Start | Sub::StartPost => {
                self.fail(Outcome::OomKill);
            }
            Sub::Running | Sub::Exited | Sub::Reload | Sub::ReloadSignal | Sub::ReloadNotify => {
                self.put(Outcome::OomKill);
                self.stop_of_itself();
            }
            Sub::Stop | Sub::StopWatchdog | Sub::StopSigterm => self.put(Outcome::OomKill),
        }
    }

    /// Runs `ExecStop=` of what is up; no job has asked for it.
    fn stop_of_itself(&mut self) {
        if let Some(control) = self.state.control.take() {
            self.effects.push(Effect::End(control.step));
        }
        self.state.watchdog = None;
        self.enter(Phase::Stop);
    }

    pub(super) fn given_up(&mut self) {
        if self.state.sub == Sub::AutoRestart {
            self.state.again = false;
            self.stop();
        }
    }

    pub(super) fn time(&mut self) {
        let passed = |at: Option<u64>| at.is_some_and(|at| at <= self.now);
        if passed(self.state.watchdog) {
            self.state.watchdog = None;
            return self.fail(Outcome::Watchdog);
        }
        if passed(self.state.deadline) {
            self.state.deadline = None;
            self.too_long();
        }
    }

    /// What goes on takes too long, or what waits has waited.
    fn too_long(&mut self) {
        match self.state.sub {
            Sub::Condition | Sub::StartPre | Sub::Start | Sub::StartPost => {
                self.fail(Outcome::Timeout);
            }
            Sub::Running => {
                // RuntimeMaxSec= ends it as a stop does, and is a failure.
                self.put(Outcome::Timeout);
                self.enter(Phase::Stop);
            }
            Sub::Reload | Sub::ReloadSignal | Sub::ReloadNotify => {
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
            Sub::StopWatchdog | Sub::StopSigterm => self.kill_now(Sub::StopSigkill),
            Sub::FinalSigterm => self.kill_now(Sub::FinalSigkill),
            // Not even SIGKILL helps: it is left.
            Sub::StopSigkill | Sub::FinalSigkill => self.leave(),
            Sub::AutoRestart => {
                self.state.again = true;
                self.effects.push(Effect::Restart);
            }
            Sub::Dead | Sub::Exited | Sub::Failed => {}
        }
    }

    fn kill_now(&mut self, sub: Sub) {
        self.put(Outcome::Timeout);
        match self.rules.service.kill.sends_final {
            true => self.last_signal(sub),
            false => self.leave(),
        }
    }

    fn last_signal(&mut self, sub: Sub) {
        self.state.sub = sub;
        self.arm(self.rules.service.stop_timeout);
        self.effects.push(Effect::KillNow);
    }

    /// It has shown that it lives.
    pub(super) fn alive(&mut self) {
        let own = self.rules.service.watchdog.and_then(nanos);
        let every = self.state.watchdog_every.or(own).filter(|it| *it > 0);
        let counts = !self.state.sub.goes_down() && self.state.sub != Sub::Exited;
        let oneshot = self.rules.service.kind == Type::Oneshot;
        self.state.watchdog = every
            .filter(|_| counts && !oneshot)
            .map(|span| self.now.saturating_add(span));
    }
}
