// SPDX-License-Identifier: Apache-2.0
//! Schedules: what is to run, when, and what becomes of it when it ends. Pure: `schedule` (the
//! crate) sees, does and waits; what comes next is decided here.
//!
//! ```text
//!                     time, a trigger, another's end
//!   (nothing due) ───────────────────────────────────► due ──gates──► starting ──► running
//!        ▲                                              ▲  (why)          │           │
//!        │                                              └─── refused ◄────┘           │
//!        └── done, or waiting for the next time ◄── ended ◄──────────────────────────┘
//!                                                     └─ restart policy, back-off ─► due
//! ```
//!
//! A [`spec::Spec`] is the wish, a [`state::State`] what is known of it; [`steps::advance`] makes
//! effects of the two. The state is all that is remembered: a new daemon goes on from it.

mod check;
pub mod cron;
pub mod crontab;
pub mod cycle;
mod events;
mod fields;
pub mod given;
pub mod manifest;
pub mod many;
mod refusal;
pub mod request;
mod shape;
pub mod spec;
pub mod state;
pub mod steps;
#[cfg(test)]
mod tests;
pub mod why;

pub use spec::{Spec, When, Work};
pub use state::State;
pub use why::Why;
