// SPDX-License-Identifier: Apache-2.0
//! What a service says of itself (sd_notify(3)), and what follows. Who may say so was decided
//! before.

use serde::{Deserialize, Serialize};
use units::service::Type;

use super::Outcome;
use super::service::{Sub, Turn};

/// One thing that was said. Spans are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// `READY=1`.
    Ready,
    /// `RELOADING=1`, with the moment in `CLOCK_BOOTTIME` that `MONOTONIC_USEC=` stands for.
    Reloading(Option<u64>),
    /// `STOPPING=1`.
    Stopping,
    /// `WATCHDOG=1`.
    Alive,
    /// `WATCHDOG=trigger`.
    Trigger,
    /// `WATCHDOG_USEC=`: how often it will say that it lives; 0: never.
    Every(u64),
    /// `EXTEND_TIMEOUT_USEC=`: what goes on may take so long from now on.
    Extend(u64),
}

impl Turn<'_> {
    pub(super) fn said(&mut self, said: Said) {
        match said {
            Said::Ready => self.ready(),
            Said::Reloading(at) => self.reloading(at),
            Said::Stopping if self.state.sub == Sub::Running => {
                // It does by itself what ExecStop= would ask it for.
                self.state.watchdog = None;
                self.state.sub = Sub::Stop;
                self.arm(self.rules.service.stop_timeout);
            }
            Said::Stopping => {}
            Said::Alive if self.state.watchdog.is_some() => self.alive(),
            Said::Alive => {}
            Said::Trigger if self.state.sub.may_hang() => {
                self.fail(Outcome::Watchdog);
            }
            Said::Trigger => {}
            Said::Every(every) => {
                self.state.watchdog_every = Some(every);
                if self.state.sub.may_hang() {
                    self.alive();
                }
            }
            Said::Extend(span) => {
                let until = self.now.saturating_add(span);
                for at in [&mut self.state.deadline, &mut self.state.watchdog] {
                    *at = at.map(|at| at.max(until));
                }
            }
        }
    }

    fn ready(&mut self) {
        let notifies = matches!(self.rules.service.kind, Type::Notify | Type::NotifyReload);
        match self.state.sub {
            Sub::Start if notifies => self.started(),
            Sub::ReloadNotify => self.up(),
            _ => {}
        }
    }

    /// A reload that was asked for by a signal has begun only where what is said is newer than
    /// that: a service may have been at one already.
    fn reloading(&mut self, at: Option<u64>) {
        let since = self.state.reload_begun;
        match self.state.sub {
            Sub::Running => self.state.reloaded = Outcome::Success,
            Sub::ReloadSignal if at.is_some_and(|at| at >= since) => {}
            _ => return,
        }
        self.state.sub = Sub::ReloadNotify;
        self.arm(self.rules.service.start_timeout);
    }
}

impl Sub {
    /// Whether a watchdog counts.
    const fn may_hang(self) -> bool {
        matches!(
            self,
            Self::StartPost
                | Self::Running
                | Self::Reload
                | Self::ReloadSignal
                | Self::ReloadNotify
        )
    }

    /// Whether something was signalled and is waited for.
    pub(super) const fn is_signalled(self) -> bool {
        matches!(
            self,
            Self::StopWatchdog
                | Self::StopSigterm
                | Self::StopSigkill
                | Self::FinalSigterm
                | Self::FinalSigkill
        )
    }

    /// Whether its processes are to end.
    pub(super) const fn goes_down(self) -> bool {
        matches!(self, Self::Stop | Self::StopPost) || self.is_signalled()
    }
}
