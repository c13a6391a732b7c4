// SPDX-License-Identifier: Apache-2.0
//! Kernel settings of the node's network namespace, as files of `/proc/sys/net`: which namespace
//! they are of follows from the calling thread.

use std::path::PathBuf;

use crate::Result;
use crate::error::Step;

/// A kernel setting that was changed, for the node's log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// As `sysctl` names it, with slashes: `net/ipv4/ip_forward`.
    pub name: String,
    /// What it was.
    pub from: String,
    /// What it is now.
    pub to: String,
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name)
}

/// The value, without its line end.
pub(crate) fn read(name: &str) -> Result<String> {
    let text = std::fs::read_to_string(path(name)).step(format!("reading {name}"))?;
    Ok(text.trim().to_owned())
}

/// Sets a value where it is another; notes what was changed.
pub(crate) fn set(name: &str, to: &str, changed: &mut Vec<Changed>) -> Result<()> {
    let from = read(name)?;
    if from == to {
        return Ok(());
    }
    std::fs::write(path(name), to).step(format!("setting {name} to {to}"))?;
    changed.push(Changed {
        name: name.to_owned(),
        from,
        to: to.to_owned(),
    });
    Ok(())
}
