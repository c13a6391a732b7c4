// SPDX-License-Identifier: Apache-2.0
//! Flags that describe a workload, and their translation into the contract's messages. The names
//! are those of docker and systemd-run. Only the form of values is checked here; the node checks
//! the rest.

mod capabilities;
mod cell;
mod container;
mod executable;
mod mount;
mod network;
mod property;
mod resources;
mod seccomp;

pub(crate) use cell::CellFlags;
pub(crate) use container::{ContainerFlags, EntrypointFlag, Pull};
pub(crate) use executable::{ExecutableFlags, LabelFlags};
pub(crate) use network::NetworkFlags;
pub(crate) use resources::ResourceFlags;

/// Splits `KEY=VALUE`.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

/// A span of time for the wire. Longer than the wire has room for is cut; the node refuses it by
/// far earlier.
pub(crate) fn wire_duration(span: std::time::Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default(),
    }
}
