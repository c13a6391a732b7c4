// SPDX-License-Identifier: Apache-2.0
//! Command lines and environments of units: parsed when a unit is loaded, expanded when it is run.
//! Nothing is executed here.

pub mod command;
pub mod environment;
pub mod expand;

pub use command::{Command, Privileges};
