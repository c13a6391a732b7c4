// SPDX-License-Identifier: Apache-2.0
//! Quantities as people write them: `64M`, `500m` CPUs, `1h30m`, `10m` ago. Each parser fits clap,
//! which names the flag; the messages here say what to write instead. Printing the same quantities
//! is here, too.

mod bytes;
mod cpus;
mod duration;
mod instant;
mod list;

pub(crate) use api::quantity::show_bytes;
pub(crate) use bytes::{Limit, parse_bytes, parse_limit};
pub(crate) use cpus::parse_cpus;
pub(crate) use duration::{format_duration, parse_duration};
pub(crate) use instant::{format_instant, parse_instant, since};
pub(crate) use list::parse_numbers;
