// SPDX-License-Identifier: Apache-2.0
//! What ended for want of memory without saying so. An engine that is out of memory has none for an
//! error either, and throws `null`, or leaves the promise of an `async` function pending for ever;
//! on its way out of the functions that took the memory it lets go of it, so that afterwards the
//! evaluator can't tell that from a program's own `throw null`, or from one that awaits nothing.
//! The kernel can: it knows the most that the process ever had.

use super::Session;
use crate::protocol::{Limit, Thrown};

/// As of any other program that is out of memory.
const FULL: &str = "out of memory";

impl Session {
    /// What ended an evaluation, for people and programs.
    pub(super) fn told(&mut self, thrown: Thrown) -> Thrown {
        let thrown = match thrown.unsure {
            true => self.made_sure(thrown),
            false => thrown,
        };
        self.was_full |= thrown.limit == Some(Limit::Memory);
        thrown
    }

    fn made_sure(&self, thrown: Thrown) -> Thrown {
        let thrown = Thrown {
            unsure: false,
            ..thrown
        };
        match self.process.has_taken(self.memory) {
            Some(false) => thrown,
            Some(true) if !self.was_full => Thrown {
                stack: thrown.stack,
                ..Thrown::limit(Limit::Memory, FULL)
            },
            // The memory has been full before, or the kernel doesn't say.
            Some(true) | None => Thrown {
                message: format!("{FULL}, or {}", thrown.message),
                ..thrown
            },
        }
    }
}
