// SPDX-License-Identifier: Apache-2.0
//! What comes next for a unit: pure functions of its settings, its state, an event and the time.
//! The state is all that is remembered, so a new daemon goes on where the last one was; the effects
//! are the driver's ([`super::manager`]). Times are `CLOCK_BOOTTIME` in nanoseconds: a clock that
//! is set moves no time-out, and a state of another boot is known by the boot's id.
//!
//! The words are systemd's: those of `systemctl show -p SubState,Result`.

mod down;
pub(crate) mod limit;
pub(crate) mod process;
mod said;
pub(crate) mod service;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod timer;

pub(crate) use process::{Commands, End, Outcome, Phase, ROUNDS, Role, Step};
