// SPDX-License-Identifier: Apache-2.0
//! systemd's unit files: their text, what it means, and what would follow from it. Pure: files are
//! seen through a port ([`files::Files`]), no clock is read, nothing is started. `schedule` runs
//! units; this crate says what they are. It follows Debian 12's systemd 252, whose manual pages its
//! tests cite.
//!
//! From the text up: [`syntax`] reads sections and assignments; [`table`] says for each directive
//! what its value is, and [`value`] reads it; [`load`] finds a unit's files, and [`unit`] puts them
//! together; [`install`] says what enabling would link; [`exec`] has command lines; [`calendar`]
//! and [`time`] have timers' expressions; [`service`] and [`condition`] what a manager decides by;
//! [`depend`] and [`job`] what waits for what; [`verify`] and [`security`] tell people.

pub mod calendar;
pub mod condition;
pub mod depend;
pub mod exec;
pub mod files;
pub mod finding;
pub mod glob;
pub mod honoured;
pub mod install;
pub mod job;
pub mod load;
pub mod name;
pub mod security;
pub mod service;
pub mod socket;
pub mod specifier;
pub mod spelling;
pub mod syntax;
pub mod syslog;
pub mod table;
pub mod time;
pub mod unit;
pub mod value;
pub mod verify;
