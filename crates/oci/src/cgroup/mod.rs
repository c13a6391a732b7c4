// SPDX-License-Identifier: Apache-2.0
//! The container's group: where it is, made, limited, removed. Version 2 alone.
//!
//! * [`path`]: from `cgroupsPath` to a path; pure. * [`limits`]: from `linux.resources` to files;
//!   pure. * [`devices`]: from device rules to those of the kernel; pure. * [`stats`]: what
//!   `events` shows. * [`systemd`]: a scope of systemd's, asked for over [`bus`].
//!
//! The process is cloned into its group, so there is no moment at which it runs outside.

mod bus;
pub(crate) mod devices;
pub(crate) mod limits;
pub(crate) mod path;
pub(crate) mod stats;
pub(crate) mod systemd;

use std::path::Path;
use std::time::Duration;

use kernel::cgroup::{Cgroup, find};
use rustix::io::Errno;

use crate::config::Spec;
use crate::config::resources::Resources;
use crate::error::{Doing, Result, refuse};
use crate::log;

/// How long an empty group may take to go.
const REMOVAL: Duration = Duration::from_secs(10);

/// Who has a say in groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Groups {
    /// The runtime makes them, by path.
    Path,
    /// systemd makes them; where it doesn't run, the path is where it would have them.
    Systemd,
    /// There is none, and nothing is limited.
    None,
}

/// A container's group that was made.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) group: Cgroup,
    /// The unit of systemd that it is. Until this is dropped there is a process in it.
    scope: Option<(String, systemd::Scope)>,
}

impl Placed {
    /// The name of systemd's unit, where it is one.
    pub(crate) fn unit(&self) -> Option<String> {
        self.scope.as_ref().map(|(name, _)| name.clone())
    }

    /// Takes it away again.
    pub(crate) fn undo(self) {
        let (path, unit) = (self.group.path().to_owned(), self.unit());
        drop(self);
        let undone = remove(&path, unit.as_deref());
        undone.unwrap_or_else(|error| log::warn(error.to_string()));
    }
}

/// Makes the container's group, with its limits and device rules.
pub(crate) fn set_up(spec: &Spec, id: &str, groups: Groups) -> Result<Option<Placed>> {
    let placed = match groups {
        Groups::None => return Ok(None),
        Groups::Systemd if systemd::is_there() => Some(scope(spec, id)?),
        groups => {
            let group = place(spec, id, groups == Groups::Systemd)?;
            group.map(|group| Placed { group, scope: None })
        }
    };
    let group = placed.as_ref().map(|placed| &placed.group);
    let limited = limit(group, &spec.linux.resources).and_then(|()| guard_devices(group, spec));
    match (limited, placed) {
        (Ok(()), placed) => Ok(placed),
        (Err(error), placed) => {
            placed.into_iter().for_each(Placed::undo);
            Err(error)
        }
    }
}

fn scope(spec: &Spec, id: &str) -> Result<Placed> {
    let unit = path::unit(&spec.linux.cgroups_path, id, !is_root_of_node())?;
    let scope = systemd::start(&unit, spec, id)?;
    Ok(Placed {
        group: scope.group.try_clone()?,
        scope: Some((unit.name, scope)),
    })
}

/// Makes the group that the configuration names. There is none where the caller may make none and
/// asks for none.
fn place(spec: &Spec, id: &str, by_systemd: bool) -> Result<Option<Cgroup>> {
    match make(spec, id, by_systemd) {
        Ok(group) => Ok(Some(group)),
        Err(error) if needs_none(spec) && may_go_without(&error) => {
            log::debug(format!("no cgroup: {error}"));
            Ok(None)
        }
        Err(error) => Err(error.while_doing("linux.cgroupsPath")),
    }
}

fn needs_none(spec: &Spec) -> bool {
    spec.linux.cgroups_path.is_empty()
        && limits::files(&spec.linux.resources).is_ok_and(|f| f.is_empty())
}

/// The hierarchy isn't there, or isn't the caller's.
fn may_go_without(error: &crate::error::Error) -> bool {
    [
        Errno::ACCESS,
        Errno::PERM,
        Errno::ROFS,
        Errno::NOENT,
        Errno::XDEV,
    ]
    .iter()
    .any(|errno| error.is(errno.raw_os_error()))
}

fn make(spec: &Spec, id: &str, by_systemd: bool) -> Result<Cgroup> {
    let mount = find::mount_point().doing("cgroup v2 is needed (version 1 isn't supported)")?;
    let own = find::own_path().unwrap_or_else(|_| mount.clone());
    let own = own.strip_prefix(&mount).unwrap_or(Path::new("")).to_owned();
    let below = path::of(&spec.linux.cgroups_path, id, &own, by_systemd)?;
    let mut group = Cgroup::open(&mount)?;
    for name in below.iter().filter_map(|name| name.to_str()) {
        hand_on(&group);
        group = group.ensure(name)?;
    }
    check_unused(&group)?;
    Ok(group)
}

/// A group that is there already must have no process, and not be frozen.
fn check_unused(group: &Cgroup) -> Result<()> {
    let count = group.processes().map_or(0, |pids| pids.len());
    if count > 0 {
        return refuse(format!(
            "container's cgroup is not empty: {count} process(es) found"
        ));
    }
    let frozen = group
        .read("cgroup.freeze")
        .is_ok_and(|text| text.trim() == "1");
    match frozen {
        true => refuse("container's cgroup unexpectedly frozen"),
        false => Ok(()),
    }
}

/// Gives the groups below all controllers that there are. What can't be given is missed where a
/// limit needs it, and named there.
fn hand_on(group: &Cgroup) {
    let controllers = group.controllers().unwrap_or_default();
    let enabled = group.enabled().unwrap_or_default();
    let missing: Vec<_> = controllers
        .iter()
        .filter(|c| !enabled.contains(c))
        .collect();
    if missing.is_empty() || group.enable(&missing).is_ok() {
        return;
    }
    for controller in missing {
        if let Err(error) = group.enable(&[controller]) {
            log::debug(format!("controller {controller}: {error}"));
        }
    }
}

/// Writes limits; those of the configuration, or of `update`.
pub(crate) fn limit(group: Option<&Cgroup>, resources: &Resources) -> Result<()> {
    let files = limits::files(resources)?;
    let Some(group) = group else {
        return match files.first() {
            None => Ok(()),
            Some((file, _)) => refuse(format!(
                "linux.resources: {file} needs a cgroup, and the container has none"
            )),
        };
    };
    for (file, value) in files {
        match group.write(&file, &value) {
            // What isn't limited needs no controller.
            Err(error) if value == "max" && error.is(Errno::OPNOTSUPP.raw_os_error()) => {}
            // One of two names of the same limit.
            Err(error) if limits::is_optional(&file) && error.is_not_found() => {}
            other => other.doing("linux.resources")?,
        }
    }
    Ok(())
}

/// Attaches the device rules.
fn guard_devices(group: Option<&Cgroup>, spec: &Spec) -> Result<()> {
    let rules = devices::rules(&spec.linux.resources.devices)?;
    let Some(group) = group else { return Ok(()) };
    match group.allow_devices(&rules) {
        // An ordinary user may attach nothing, and its user namespace may make no device.
        Err(error) if error.is(Errno::PERM.raw_os_error()) && !is_root_of_node() => {
            log::debug(format!("device rules: {error}"));
            Ok(())
        }
        other => other.doing("linux.resources.devices"),
    }
}

/// Whether this process is root of the first user namespace.
pub(crate) fn is_root_of_node() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let first = map.split_whitespace().eq(["0", "0", "4294967295"]);
    first && kernel::process::effective_uid() == 0
}

/// Removes a container's group with all below it. Those above stay, as with other runtimes: their
/// path was the engine's choice, and they are its own to remove. `unit`: of systemd's.
pub(crate) fn remove(group: &Path, unit: Option<&str>) -> Result<()> {
    if let Some(unit) = unit {
        systemd::stop(unit)?;
    }
    let (Some(parent), Some(name)) = (group.parent(), group.file_name().and_then(|n| n.to_str()))
    else {
        return Ok(());
    };
    match Cgroup::open(parent) {
        Ok(parent) => parent.remove(name, REMOVAL).doing("remove the cgroup"),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error).doing("remove the cgroup"),
    }
}
