// SPDX-License-Identifier: Apache-2.0
//! How what runs has ended otherwise than well: what was not caught or handled, what a plan has
//! met, an interrupt. Part of [`QuickJs`], whose turns ask for it.

use rquickjs::{Ctx, Persistent, Promise, Value};

use super::{Kept, QuickJs, Turn, thrown};
use crate::protocol::{FromEvaluator, Limit, Thrown};

/// Rejected promises that are remembered until they are handled.
const MAX_REJECTED: usize = 1000;

/// Before what may be for want of memory, where the evaluator can't tell.
const EITHER: &str = "out of memory, or ";

/// A promise that was rejected, and what for.
pub(super) type Rejected = (Kept<Value<'static>>, Kept<Value<'static>>);

/// Remembers a promise that was rejected, or forgets one that is handled after all.
pub(super) fn track<'js>(
    all: &mut Vec<Rejected>,
    ctx: &Ctx<'js>,
    promise: Value<'js>,
    reason: Value<'js>,
    handled: bool,
) {
    if handled {
        all.retain(|(known, _)| {
            known
                .clone()
                .restore(ctx)
                .is_ok_and(|known| known != promise)
        });
    } else if all.len() < MAX_REJECTED {
        let promise = Persistent::save(ctx, promise);
        all.push((promise, Persistent::save(ctx, reason)));
    }
}

impl QuickJs {
    /// What a plan has met that it can't know, be it that the program has caught it: the way that
    /// it took then isn't known either.
    pub(super) fn met(&self) -> Option<Thrown> {
        let thrown = self.with(|ctx| {
            let met: Value<'_> = self.hooks.function(ctx, "met")?.call(())?;
            let met = Some(met).filter(|met| !met.is_undefined());
            Ok(met.map(|met| thrown::describe(ctx, &self.hooks, &met)))
        });
        thrown.unwrap_or_else(Some)
    }

    /// What rejected the promise of what runs, if that is how it ended.
    pub(super) fn rejection(&self) -> Option<Thrown> {
        let promise = self.running.as_ref()?.promise.clone();
        let result = self.with(|ctx| promise.restore(ctx)?.result::<()>().transpose());
        result.err()
    }

    /// A rejection that is not handled; `but` not the promise that we look at ourselves.
    pub(super) fn unhandled(&self, but: Option<&Kept<Promise<'static>>>) -> Option<Thrown> {
        let rejected = std::mem::take(&mut *self.rejected.borrow_mut());
        self.context.with(|ctx| {
            let ours = but.and_then(|but| but.clone().restore(&ctx).ok());
            for (promise, reason) in rejected {
                let (Ok(promise), Ok(reason)) = (promise.restore(&ctx), reason.restore(&ctx))
                else {
                    continue;
                };
                if ours.as_ref().is_none_or(|ours| *ours.as_value() != promise) {
                    return Some(thrown::describe(&ctx, &self.hooks, &reason));
                }
            }
            None
        })
    }

    /// What failed, which may be what was begun: then it ends by it. A timer or a call that an
    /// earlier line has left behind is told of, since no line waits for its end.
    pub(super) fn failed(&mut self, thrown: Thrown) -> Option<Turn> {
        if self.running.is_some() {
            return Some(self.fail(thrown));
        }
        let thrown = self.named(thrown);
        self.full |= thrown.limit == Some(Limit::Memory);
        let interrupted = self.port.borrow_mut().interrupted();
        match interrupted {
            // It ends all that was left behind; who interrupts waits for what comes next.
            true => drop(self.stop(Some(thrown))),
            false => self.warn(&thrown),
        }
        None
    }

    /// Ends what runs with an error.
    pub(super) fn fail(&mut self, thrown: Thrown) -> Turn {
        let thrown = self.named(thrown);
        self.full |= thrown.limit == Some(Limit::Memory);
        // A getter of the error itself may have been what was interrupted.
        if thrown.limit == Some(Limit::Interrupt) || self.port.borrow_mut().interrupted() {
            let stopped = self.stop(Some(thrown));
            return Turn::Done(Err(stopped.unwrap_or_default()));
        }
        match self.running.take() {
            Some(running) if !running.line => {
                // A program that has failed does nothing more.
                let _ = self.hook("stop");
            }
            _ => {}
        }
        Turn::Done(Err(thrown))
    }

    /// Ends everything that is going on, and says where it was if something had been begun.
    pub(super) fn stop(&mut self, thrown: Option<Thrown>) -> Option<Thrown> {
        self.port.borrow_mut().take_interrupt();
        let place = self.with(|ctx| self.hooks.function(ctx, "waiting")?.call::<_, String>(()));
        let mut thrown = thrown.or_else(|| self.rejection());
        self.stopping.set(true);
        // Each job that doesn't end by itself soon is ended: so this does.
        loop {
            match self.jobs() {
                Ok(true) => {}
                Ok(false) => break,
                Err(ended) => thrown = thrown.or(Some(ended)),
            }
        }
        self.stopping.set(false);
        let _ = self.hook("stop");
        self.rejected.borrow_mut().clear();
        let was_running = self.running.take().is_some() || self.ended.take().is_some();
        if !was_running && thrown.is_none() {
            return None;
        }
        let mut thrown = thrown.unwrap_or_default();
        thrown.limit = Some(Limit::Interrupt);
        if thrown.stack.is_empty() {
            thrown.stack = thrown::stack(&place.unwrap_or_default());
        }
        Some(thrown)
    }

    /// Says on standard error what fails while nothing is being evaluated.
    pub(super) fn warn(&self, thrown: &Thrown) {
        let either = if thrown.unsure { EITHER } else { "" };
        let message = format!("{either}{}", thrown.message);
        let said = [thrown.name.as_str(), message.as_str()];
        let said: Vec<_> = said.into_iter().filter(|said| !said.is_empty()).collect();
        let text = format!("uncaught {}\n", said.join(": "));
        let message = FromEvaluator::Print { error: true, text };
        // Cut to fit by `describe`.
        let _ = self.port.borrow_mut().say(&message);
    }
}
