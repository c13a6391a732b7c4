// SPDX-License-Identifier: Apache-2.0
//! The bytes of a log on disk, and what they mean. Pure: no file is touched here.
//!
//! A log is a chain of *segments*. A segment is a data file (the workload's bytes and nothing else)
//! and an index file: a [`Header`], then [`Record`]s of 16 bytes. Every byte of an executable's
//! whole output has an *offset*, what was dropped included; a segment is named by the offset that
//! it begins at.
//!
//! ```text
//! BASE.index   header (96)  | record (16) | record (16) | ...
//! BASE.data    the bytes, in the order in which they were read
//! ```
//!
//! The rules, which the mover keeps and [`Walk`] relies on:
//!
//! 1. A data record is written *ahead* of its bytes. The data file's size is the truth: a record at
//!    or past it is void, and is overwritten in place by the next one.
//! 2. Only the last record changes. So every other one is exact: the next begins where it ends.
//! 3. A gap's count is written ahead of the discarding, so it may count bytes twice but never
//!    misses one.
//! 4. An end record is the last. A log without one goes on, or the machine stopped under it.
//!
//! `mover` writes this, `read` reads it, the fuzz target `log_frames` throws bytes at it.

mod header;
mod record;
mod walk;

pub use header::{HEADER, Header};
pub use record::{Entry, MAX_BATCH, MAX_GAP, RECORD, Record};
pub use walk::{Recovered, Step, Walk, recover};

/// Why an index is not one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// The header is cut short.
    #[error("the index is shorter than its header")]
    Short,
    /// Not an index, or a damaged one.
    #[error("the index's header is damaged")]
    Damaged,
    /// Of another version of Aurae.
    #[error("the index has version {0}, this daemon reads version {version}", version = header::VERSION)]
    Version(u16),
}

#[cfg(test)]
mod tests;
