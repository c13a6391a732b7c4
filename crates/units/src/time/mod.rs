// SPDX-License-Identifier: Apache-2.0
//! Spans of time as systemd writes and reads them (systemd.time(7), "Parsing time spans"). Points
//! in time are [`crate::calendar`]'s.

pub mod span;

pub use span::Span;
