// SPDX-License-Identifier: Apache-2.0
//! The schedule subsystem: keeps what users wish to run, and runs it on their behalf. What comes
//! next for a schedule is `model::schedule::steps`' decision; this crate sees, does, waits and
//! keeps.
//!
//! [`Schedules`] is the handle that `auraed/rpc` calls, with a `Permit` by value. Each schedule has
//! one task ([`task`]), which alone changes it; others send it orders and look at the status that
//! it publishes. What it does is a client's calls of the runtime and of pods ([`act`]), each with a
//! permit on behalf of the schedule's owner, decided at that moment.
//!
//! ```text
//!   Schedules (handle) ──orders──► task, one per schedule ──► act ──► Runtime, Pods
//!        ▲                          │   ▲        │                     on the owner's behalf
//!        └─────────status───────────┘   │        └──► store: the wish, the state, the history
//!                                       └── ends of runs, others' statuses, grants, the clock
//! ```
//!
//! The truth about what runs is the runtime's, and the truth about what is wished the database's. A
//! daemon that comes back compares the two. While the disk takes nothing, it decides from memory.

mod act;
mod configs;
mod declare;
mod effects;
mod handle;
mod kept;
mod needed;
mod room;
mod runs;
mod task;
pub mod unit;
mod watch;
mod watcher;
mod yard;

pub use act::Images;
pub use configs::KeptConfig;
pub use handle::{Schedules, Settings};
pub use kept::{Status, Wish};
pub use room::Room;
pub use watch::{Gone, Told, WatchEvent, Watched, Watcher};

/// The label of what runs for a schedule: the schedule's name.
pub const OWNER: &str = "schedule.aurae/owner";
/// The label with the run's number.
pub const RUN: &str = "schedule.aurae/run";
