// SPDX-License-Identifier: Apache-2.0
//! From messages to checked model types, and from statuses back to messages. Everything that a
//! client sends goes through here before anything else looks at it; a refusal names the field by
//! its path in the request.
//!
//! What is not here: permission (`identity`), and whether an object exists (`runtime`).

/// What is shown in place of a text that is never shown.
pub(crate) const HIDDEN: &str = "(hidden)";

pub mod cell;
pub mod executable;
mod launch;
mod network;
pub mod object;
pub mod observe;
pub mod pod;
pub mod request;
pub mod resources;
pub mod scalar;
pub mod schedule;
pub mod set;
pub mod status;
pub mod tenant;
pub mod unit;

pub use model::error::Error;
