// SPDX-License-Identifier: Apache-2.0
//! The spec of a cell, from the wire and back.

use std::collections::{BTreeMap, BTreeSet};

use model::cell::{Access, CellSpec, Draft, Mount, Namespace, Propagation, Volume};
use model::container::{Container, Pull};
use model::device::Device;
use model::error::{Error, Result, Within};
use model::hook::{Hook, Moment};
use model::name::ObjectPath;

use super::network;
use super::resources::{resources, to_resources};
use super::scalar::{duration, enumeration, parse, to_duration};
use crate::runtime::v0 as wire;

/// Checks the spec of a cell. A field without a value gets its default later, from the node.
///
/// # Errors
/// `INVALID_FIELD`, naming the field: an unspecified namespace or access, or what [`CellSpec`]
/// doesn't take.
pub fn spec(message: wire::CellSpec) -> Result<CellSpec> {
    let share = message.share.iter().enumerate();
    let share = share.map(|(i, number)| namespace(&format!("share[{i}]"), *number));
    let mounts = message.mounts.into_iter().enumerate();
    let mounts = mounts.map(|(i, message)| mount(message).within(&format!("mounts[{i}]")));
    Draft {
        share: share.collect::<Result<BTreeSet<_>>>()?,
        join: joined(message.join)?,
        resources: resources(message.resources).within("resources")?,
        mounts: mounts.collect::<Result<_>>()?,
        volumes: message.volumes.into_iter().map(volume).collect(),
        hostname: message.hostname,
        id_range: message.id_range,
        container: message
            .container
            .map(container)
            .transpose()
            .within("container")?,
        sysctls: message.sysctls,
        network: message
            .network
            .map(network::network)
            .transpose()
            .within("network")?,
        light: message.light,
    }
    .try_into()
}

fn joined(message: Vec<wire::Join>) -> Result<BTreeMap<Namespace, ObjectPath>> {
    let mut all = BTreeMap::new();
    for (i, join) in message.into_iter().enumerate() {
        let at = format!("join[{i}]");
        let kind = namespace("namespace", join.namespace).within(&at)?;
        let cell = parse("cell", &join.cell).within(&at)?;
        if all.insert(kind, cell).is_some() {
            return Err(Error::invalid(at, "is of a namespace that is given twice"));
        }
    }
    Ok(all)
}

fn container(message: wire::Container) -> Result<Container> {
    use wire::container::Pull as Wire;
    Ok(Container {
        image: message.image,
        pull: match enumeration("pull", message.pull)? {
            Wire::Unspecified | Wire::IfNotPresent => Pull::IfNotPresent,
            Wire::Always => Pull::Always,
            Wire::Never => Pull::Never,
        },
        read_only: message.read_only,
        root_bytes: message.root_bytes,
        root_on_disk: message.root_on_disk,
        shared_memory_bytes: message.shared_memory_bytes,
        devices: message.devices.into_iter().map(device).collect(),
        hooks: hooks(message.hooks)?,
        masked_paths: message.masked_paths,
        read_only_paths: message.read_only_paths,
        all_devices: message.all_devices,
        unmasked: message.unmasked,
        delegate_cgroup: message.delegate_cgroup,
        selinux_file_label: message.selinux_file_label,
    })
}

fn hooks(messages: Vec<wire::Hook>) -> Result<Vec<Hook>> {
    let hooks = messages.into_iter().enumerate();
    let hooks = hooks.map(|(i, message)| hook(message).within(&format!("hooks[{i}]")));
    hooks.collect()
}

fn hook(message: wire::Hook) -> Result<Hook> {
    use wire::hook::Kind;
    let timeout = message.timeout.as_ref();
    Ok(Hook {
        moment: match enumeration("kind", message.kind)? {
            Kind::Unspecified => {
                return Err(Error::invalid("kind", "must not be unspecified"));
            }
            Kind::CreateRuntime => Moment::CreateRuntime,
            Kind::CreateContainer => Moment::CreateContainer,
            Kind::StartContainer => Moment::StartContainer,
            Kind::Poststart => Moment::Poststart,
            Kind::Poststop => Moment::Poststop,
        },
        path: message.path,
        argv: message.argv,
        env: message.env,
        timeout: timeout.map(|it| duration("timeout", it)).transpose()?,
    })
}

fn to_hook(hook: &Hook) -> wire::Hook {
    use wire::hook::Kind;
    let kind = match hook.moment {
        Moment::CreateRuntime => Kind::CreateRuntime,
        Moment::CreateContainer => Kind::CreateContainer,
        Moment::StartContainer => Kind::StartContainer,
        Moment::Poststart => Kind::Poststart,
        Moment::Poststop => Kind::Poststop,
    };
    wire::Hook {
        kind: kind.into(),
        path: hook.path.clone(),
        argv: hook.argv.clone(),
        env: hook.env.clone(),
        timeout: hook.timeout.map(to_duration),
    }
}

pub(super) fn device(message: wire::Device) -> Device {
    Device {
        path: message.path,
        target: message.target,
        access: message.access,
    }
}

pub(super) fn to_device(device: &Device) -> wire::Device {
    wire::Device {
        path: device.path.clone(),
        target: device.target.clone(),
        access: device.access.clone(),
    }
}

fn to_container(container: &Container) -> wire::Container {
    use wire::container::Pull as Wire;
    let pull = match container.pull {
        Pull::IfNotPresent => Wire::Unspecified,
        Pull::Always => Wire::Always,
        Pull::Never => Wire::Never,
    };
    wire::Container {
        image: container.image.clone(),
        pull: pull.into(),
        read_only: container.read_only,
        root_bytes: container.root_bytes,
        root_on_disk: container.root_on_disk,
        shared_memory_bytes: container.shared_memory_bytes,
        devices: container.devices.iter().map(to_device).collect(),
        hooks: container.hooks.iter().map(to_hook).collect(),
        masked_paths: container.masked_paths.clone(),
        read_only_paths: container.read_only_paths.clone(),
        all_devices: container.all_devices,
        unmasked: container.unmasked,
        delegate_cgroup: container.delegate_cgroup,
        selinux_file_label: container.selinux_file_label.clone(),
    }
}

fn namespace(field: &str, number: i32) -> Result<Namespace> {
    Ok(match enumeration(field, number)? {
        wire::Namespace::Unspecified => {
            return Err(Error::invalid(field, "must not be unspecified"));
        }
        wire::Namespace::User => Namespace::User,
        wire::Namespace::Mount => Namespace::Mount,
        wire::Namespace::Pid => Namespace::Pid,
        wire::Namespace::Net => Namespace::Net,
        wire::Namespace::Ipc => Namespace::Ipc,
        wire::Namespace::Uts => Namespace::Uts,
        wire::Namespace::Cgroup => Namespace::Cgroup,
    })
}

fn to_namespace(namespace: Namespace) -> wire::Namespace {
    match namespace {
        Namespace::User => wire::Namespace::User,
        Namespace::Mount => wire::Namespace::Mount,
        Namespace::Pid => wire::Namespace::Pid,
        Namespace::Net => wire::Namespace::Net,
        Namespace::Ipc => wire::Namespace::Ipc,
        Namespace::Uts => wire::Namespace::Uts,
        Namespace::Cgroup => wire::Namespace::Cgroup,
    }
}

fn mount(message: wire::Mount) -> Result<Mount> {
    let access = match enumeration("access", message.access)? {
        wire::mount::Access::Unspecified => {
            return Err(Error::invalid("access", "must be READ or WRITE"));
        }
        wire::mount::Access::Read => Access::Read,
        wire::mount::Access::Write => Access::Write,
    };
    Ok(Mount {
        source: message.source,
        target: message.target,
        access,
        owner_uid: message.owner_uid,
        owner_gid: message.owner_gid,
        allow_root_owner: message.allow_root_owner,
        propagation: propagation(message.propagation)?,
    })
}

/// What is mounted below the source of a mount.
pub(in crate::convert) fn propagation(number: i32) -> Result<Propagation> {
    Ok(match enumeration("propagation", number)? {
        wire::mount::Propagation::Unspecified => Propagation::None,
        wire::mount::Propagation::Rprivate => Propagation::Rprivate,
        wire::mount::Propagation::Rslave => Propagation::Rslave,
    })
}

pub(in crate::convert) fn to_propagation(propagation: Propagation) -> wire::mount::Propagation {
    match propagation {
        Propagation::None => wire::mount::Propagation::Unspecified,
        Propagation::Rprivate => wire::mount::Propagation::Rprivate,
        Propagation::Rslave => wire::mount::Propagation::Rslave,
    }
}

fn volume(message: wire::Volume) -> Volume {
    Volume {
        path: message.path,
        size_bytes: message.size_bytes,
        mode: message.mode,
        uid: message.uid,
        gid: message.gid,
        no_exec: message.no_exec,
    }
}

/// The message of a cell's spec.
pub fn to_spec(draft: &Draft) -> wire::CellSpec {
    wire::CellSpec {
        share: draft
            .share
            .iter()
            .map(|ns| to_namespace(*ns).into())
            .collect(),
        resources: to_resources(&draft.resources),
        mounts: draft.mounts.iter().filter_map(to_mount).collect(),
        volumes: draft.volumes.iter().map(to_volume).collect(),
        hostname: draft.hostname.clone(),
        id_range: draft.id_range,
        container: draft.container.as_ref().map(to_container),
        sysctls: draft.sysctls.clone(),
        network: draft.network.as_ref().map(network::to_network),
        light: draft.light,
        join: draft.join.iter().map(to_join).collect(),
    }
}

fn to_join((kind, cell): (&Namespace, &ObjectPath)) -> wire::Join {
    wire::Join {
        namespace: to_namespace(*kind).into(),
        cell: cell.to_string(),
    }
}

/// What the node has made for the cell is no client's to see.
fn to_mount(mount: &Mount) -> Option<wire::Mount> {
    let access = match mount.access {
        Access::Read => wire::mount::Access::Read,
        Access::Write => wire::mount::Access::Write,
        Access::Own | Access::OwnRead => return None,
    };
    Some(wire::Mount {
        source: mount.source.clone(),
        target: mount.target.clone(),
        access: access.into(),
        owner_uid: mount.owner_uid,
        owner_gid: mount.owner_gid,
        allow_root_owner: mount.allow_root_owner,
        propagation: to_propagation(mount.propagation).into(),
    })
}

fn to_volume(volume: &Volume) -> wire::Volume {
    wire::Volume {
        path: volume.path.clone(),
        size_bytes: volume.size_bytes,
        mode: volume.mode,
        uid: volume.uid,
        gid: volume.gid,
        no_exec: volume.no_exec,
    }
}
