// SPDX-License-Identifier: Apache-2.0
//! Aurae's nouns and rules: names, workload specifications, lifecycles. Pure: it knows nothing of
//! Linux, of the wire or of time, so that everything here can be tested by calling it. Every crate
//! above `kernel` uses it.
//!
//! A client's message becomes a *draft* (plain data) and then, checked in one place, a *spec*: a
//! value of [`executable::ExecutableSpec`] or [`cell::CellSpec`] is valid, also when it was read
//! from a record.

pub mod capability;
pub mod cell;
pub mod container;
pub mod device;
pub mod errno;
pub mod error;
pub mod executable;
pub mod exit;
pub mod hook;
pub mod label;
pub mod launch;
pub mod lifecycle;
pub mod name;
pub mod network;
pub mod object;
pub mod observe;
pub mod pod;
pub mod quantity;
pub mod quota;
pub mod request;
pub mod resources;
pub mod rlimit;
pub mod schedule;
pub mod seccomp;
pub mod selector;
mod selinux;
pub mod set;
pub mod signal;
pub mod status;
pub mod text;
pub mod time;
pub mod unified;
pub mod unit;
pub mod update;

/// Whether a field is left out where it is serialised: what is read without it gets its default.
/// Most fields of most specs are; records are kept for every executable.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
