// SPDX-License-Identifier: Apache-2.0
//! What workloads print and what they use.
//!
//! *Output* goes one way: pipes → [`mover`] → files → [`Logs`]' readers. The mover is one thread
//! and the only writer; `retention` and `sync` have threads that delete and force to the disk;
//! readers read files on their own and are told by `live` when there is more.
//! [`format`](self::format) says what the files mean.
//!
//! *Usage* is read from cgroups when it is asked for, and kept nowhere.
//!
//! It starts and ends no workload and knows none by name: the runtime attaches and drains by uid,
//! and resolves names for it.

mod config;
mod folder;
pub mod format;
pub mod journal;
mod live;
mod logs;
mod merge;
mod mover;
mod plan;
mod port;
mod read;
mod retention;
mod service;
mod sync;
mod usage;

pub use config::{LogsConfig, MIN_LOG_BYTES};
pub use folder::LogKey;
pub use logs::Logs;
pub use mover::Drained;
pub use read::{LogReader, ReadItem, ReadOptions};
pub use service::{LogStream, Observe, UsageStream};

#[cfg(test)]
mod tests;
