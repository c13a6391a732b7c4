// SPDX-License-Identifier: Apache-2.0
//! Where units come from: the folders of systemd.unit(5), which file of them a name means, and what
//! adds to it. What is in the files is [`crate::unit`]'s.

pub mod catalog;
pub mod dropins;
pub mod preset;

pub use catalog::{Catalog, Located, Source};

/// The folders of the system's units, the first one wins (systemd.unit(5), table 1).
pub const SYSTEM: [&str; 13] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// Where an administrator's links are made.
pub const PERSISTENT: &str = "/etc/systemd/system";
/// Where those go that are to be gone after a reboot.
pub const RUNTIME: &str = "/run/systemd/system";

#[cfg(test)]
mod tests;
