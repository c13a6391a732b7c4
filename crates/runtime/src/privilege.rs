// SPDX-License-Identifier: Apache-2.0
//! What reaches out of a tenant's own cells is for administrators: parts of the node's file system,
//! the node's own namespaces and devices, protection from its OOM killer, all of its system calls.
//! Policies speak of methods and
//! objects; this is about fields, and without it a user who may run a cell would be the node's
//! root.

use model::cell::CellSpec;
use model::container::Container;
use model::error::{Error, Reason};
use model::executable::ExecutableSpec;
use model::name::ObjectPath;
use model::network::FIRST_FREE_PORT;
use model::seccomp::{Profile, Seccomp};

use identity::permit::Permit;

/// Whether the caller may ask for such a cell.
pub(crate) fn check_cell(permit: &Permit, path: &ObjectPath, spec: &CellSpec) -> Result<(), Error> {
    if permit.is_administrator() {
        return Ok(());
    }
    if path.parent().is_none()
        && let Some(shared) = spec.share.iter().next()
    {
        let what = format!("sharing the node's {} namespace", shared.as_str());
        return Err(refused(&what, "cell.spec.share"));
    }
    if let Some(container) = &spec.container {
        check_container(container)?;
    }
    let ports = spec.network.iter().flat_map(|network| &network.ports);
    if let Some(port) = ports.into_iter().find(|it| it.host_port < FIRST_FREE_PORT) {
        let what = format!("publishing port {} of the node", port.host_port);
        return Err(refused(&what, "cell.spec.network.ports"));
    }
    match spec.mounts.first() {
        Some(mount) => Err(refused(
            &format!("mounting {} of the node", mount.source),
            "cell.spec.mounts",
        )),
        None => Ok(()),
    }
}

fn check_container(container: &Container) -> Result<(), Error> {
    if let Some(device) = container.devices.first() {
        let what = format!("the device {} of the node", device.path);
        return Err(refused(&what, "cell.spec.container.devices"));
    }
    match container.unmasked {
        true => Err(refused(
            "all of /proc and /sys",
            "cell.spec.container.unmasked",
        )),
        false => Ok(()),
    }
}

/// Whether the caller may ask for such an executable.
pub(crate) fn check_executable(permit: &Permit, spec: &ExecutableSpec) -> Result<(), Error> {
    if !permit.is_administrator() && spec.oom_score_adj.is_some_and(|adj| adj < 0) {
        return Err(refused(
            "an oom_score_adj below 0",
            "executable.spec.oom_score_adj",
        ));
    }
    match permit.is_administrator() {
        true => Ok(()),
        false => check_filter(&spec.seccomp),
    }
}

/// A filter that lets through what it doesn't name lets through all that the kernel will ever have.
fn check_filter(seccomp: &Seccomp) -> Result<(), Error> {
    if seccomp.profile == Profile::Unconfined {
        return Err(refused(
            "a program without a filter of system calls",
            "executable.spec.seccomp.profile",
        ));
    }
    if seccomp.custom.is_empty() {
        return Ok(());
    }
    match crate::seccomp::lets_others_through(&seccomp.custom)? {
        true => Err(refused(
            "a filter that lets through what it doesn't name",
            "executable.spec.seccomp.custom",
        )),
        false => Ok(()),
    }
}

fn refused(what: &str, field: &str) -> Error {
    Error::new(
        Reason::PermissionDenied,
        format!("{what} is for administrators of the node"),
    )
    .field(field)
    .hint("leave it out, or have an administrator make the cell in your tenant")
}
