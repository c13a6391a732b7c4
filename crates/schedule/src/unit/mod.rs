// SPDX-License-Identifier: Apache-2.0
//! The unit manager: runs systemd's unit files. What they say is crate `units`'; what comes next
//! for a unit is decided in [`steps`] and, between units, by `units::job`; one task ([`manager`])
//! keeps all of it and does what was decided through the runtime ([`runs`]).
//!
//! ```text
//!   Units (handle) ──orders──► manager ──► runs ──► Runtime: executables of the cell `system`
//!                               │    ▲
//!      files ──► table ─────────┤    └── ends, the clock
//!      steps, units::job ◄──────┴──► store: a row of each unit
//! ```
//!
//! Files say what is enabled and masked, the runtime what runs; a row only how far a unit was.

mod accounts;
mod automount;
mod bus;
mod cells;
mod credentials;
mod device;
mod disk;
mod dynamic;
mod facts;
mod fdstore;
mod generate;
mod given;
mod handle;
mod honour;
mod ipc;
mod kept;
mod live;
mod manager;
mod marker;
mod mount;
mod name;
mod news;
mod notify;
mod online;
mod past;
mod path;
mod printed;
mod program;
mod property;
mod rows;
mod runs;
mod sandbox;
mod scope;
mod socket;
mod steps;
mod table;
mod transient;
mod userdb;
mod view;

pub use bus::SYSTEM as SYSTEM_BUS;
pub use generate::Generators;
pub use handle::{Settings, Units, named};
pub use news::News;
pub use past::Past;
pub use printed::Printed;
pub use rows::ROWS;
pub use runs::UNIT;
pub use sandbox::late::Bind;
pub use table::Folders;
pub use transient::Transient;
pub use units::load::SYSTEM;
pub use units::name::{UnitName, UnitType};
pub use view::{Job, View};
