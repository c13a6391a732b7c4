// SPDX-License-Identifier: Apache-2.0
//! The spec of a pod, from the wire and back.

use model::error::{Error, Result, Within};
use model::network::Network;
use model::pod::spec::{Container, Draft, HostAlias, PodSpec, Restart};
use model::pod::volume::{Empty, Files, Host, HostKind, Medium, Source, Volume};

use super::container::{container, to_container};
use crate::convert::HIDDEN;
use crate::convert::network::{network, to_network};
use crate::convert::scalar::{enumeration, maybe_duration, parse, required, to_duration};
use crate::pod::v0 as wire;

/// Checks the spec of a pod.
///
/// # Errors
/// `INVALID_FIELD`: a part is missing or malformed.
pub fn spec(message: wire::PodSpec) -> Result<PodSpec> {
    let containers = |field: &str, list: Vec<wire::Container>| {
        let all = list.into_iter().enumerate();
        let all = all.map(|(i, it)| container(it).within(&format!("{field}[{i}]")));
        all.collect::<Result<Vec<Container>>>()
    };
    let volumes = message.volumes.into_iter().enumerate();
    let volumes = volumes.map(|(i, it)| volume(it).within(&format!("volumes[{i}]")));
    let aliases = message.host_aliases.into_iter().enumerate();
    let aliases = aliases.map(|(i, it)| alias(it).within(&format!("host_aliases[{i}]")));
    Draft {
        containers: containers("containers", message.containers)?,
        init_containers: containers("init_containers", message.init_containers)?,
        volumes: volumes.collect::<Result<_>>()?,
        restart: match enumeration("restart_policy", message.restart_policy)? {
            wire::RestartPolicy::Unspecified | wire::RestartPolicy::Always => Restart::Always,
            wire::RestartPolicy::OnFailure => Restart::OnFailure,
            wire::RestartPolicy::Never => Restart::Never,
        },
        stop_grace: maybe_duration("stop_grace", message.stop_grace.as_ref())?,
        hostname: message.hostname,
        host_aliases: aliases.collect::<Result<_>>()?,
        user: message.user,
        group: message.group,
        groups: message.groups,
        fs_group: message.fs_group,
        network: match message.network {
            Some(it) => network(it).within("network")?,
            None => Network::default(),
        },
        host_network: message.host_network,
        share_processes: message.share_processes,
        sysctls: message.sysctls,
        sandbox_class: match message.sandbox_class.as_str() {
            "" => None,
            name => Some(parse("sandbox_class", name)?),
        },
        selinux_file_label: message.selinux_file_label,
    }
    .try_into()
}

fn alias(message: wire::HostAlias) -> Result<HostAlias> {
    Ok(HostAlias {
        ip: parse("ip", &message.ip)?,
        names: message.names,
    })
}

fn volume(message: wire::Volume) -> Result<Volume> {
    let source = match required("source", message.source)? {
        wire::volume::Source::Empty(it) => Source::Empty(empty(it).within("empty")?),
        wire::volume::Source::Files(files) => Source::Files(Files {
            files: files.files,
            mode: files.mode,
            secret: false,
        }),
        wire::volume::Source::Host(it) => Source::Host(host(it).within("host")?),
    };
    Ok(Volume {
        name: message.name,
        source,
    })
}

fn empty(message: wire::EmptyVolume) -> Result<Empty> {
    use wire::empty_volume::Medium as Wire;
    Ok(Empty {
        medium: match enumeration("medium", message.medium)? {
            Wire::Unspecified | Wire::Memory => Medium::Memory,
            Wire::Disk => Medium::Disk,
        },
        size_bytes: message.size_bytes,
    })
}

fn host(message: wire::HostVolume) -> Result<Host> {
    use wire::host_volume::Type;
    if message.path.is_empty() {
        return Err(Error::invalid("path", "is required"));
    }
    Ok(Host {
        path: message.path,
        kind: match enumeration("type", message.r#type)? {
            Type::Unspecified => HostKind::Any,
            Type::Folder => HostKind::Folder,
            Type::File => HostKind::File,
            Type::Socket => HostKind::Socket,
            Type::FolderOrCreate => HostKind::FolderOrCreate,
            Type::FileOrCreate => HostKind::FileOrCreate,
        },
        owner_uid: message.owner_uid,
        owner_gid: message.owner_gid,
    })
}

/// The message of a pod's spec.
pub fn to_spec(draft: &Draft) -> wire::PodSpec {
    let restart = match draft.restart {
        Restart::Always => wire::RestartPolicy::Always,
        Restart::OnFailure => wire::RestartPolicy::OnFailure,
        Restart::Never => wire::RestartPolicy::Never,
    };
    let aliases = draft.host_aliases.iter().map(|alias| wire::HostAlias {
        ip: alias.ip.to_string(),
        names: alias.names.clone(),
    });
    wire::PodSpec {
        containers: draft.containers.iter().map(to_container).collect(),
        init_containers: draft.init_containers.iter().map(to_container).collect(),
        volumes: draft.volumes.iter().map(to_volume).collect(),
        restart_policy: restart.into(),
        stop_grace: draft.stop_grace.map(to_duration),
        hostname: draft.hostname.clone(),
        host_aliases: aliases.collect(),
        user: draft.user.clone(),
        group: draft.group.clone(),
        groups: draft.groups.clone(),
        fs_group: draft.fs_group,
        network: (draft.network != Network::default()).then(|| to_network(&draft.network)),
        host_network: draft.host_network,
        share_processes: draft.share_processes,
        sysctls: draft.sysctls.clone(),
        sandbox_class: draft
            .sandbox_class
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        selinux_file_label: draft.selinux_file_label.clone(),
    }
}

/// The texts of a secret are never shown.
fn shown(files: &Files) -> std::collections::BTreeMap<String, String> {
    let mut all = files.files.clone();
    if files.secret {
        all.values_mut().for_each(|text| *text = HIDDEN.to_owned());
    }
    all
}

fn to_volume(volume: &Volume) -> wire::Volume {
    use wire::volume::Source as Wire;
    let source = match &volume.source {
        Source::Empty(empty) => Wire::Empty(to_empty(empty)),
        Source::Files(files) => Wire::Files(wire::FilesVolume {
            files: shown(files),
            mode: files.mode,
        }),
        Source::Host(host) => Wire::Host(to_host(host)),
    };
    wire::Volume {
        name: volume.name.clone(),
        source: Some(source),
    }
}

fn to_empty(empty: &Empty) -> wire::EmptyVolume {
    use wire::empty_volume::Medium as Wire;
    let medium = match empty.medium {
        Medium::Memory => Wire::Unspecified,
        Medium::Disk => Wire::Disk,
    };
    wire::EmptyVolume {
        medium: medium.into(),
        size_bytes: empty.size_bytes,
    }
}

fn to_host(host: &Host) -> wire::HostVolume {
    use wire::host_volume::Type;
    let kind = match host.kind {
        HostKind::Any => Type::Unspecified,
        HostKind::Folder => Type::Folder,
        HostKind::File => Type::File,
        HostKind::Socket => Type::Socket,
        HostKind::FolderOrCreate => Type::FolderOrCreate,
        HostKind::FileOrCreate => Type::FileOrCreate,
    };
    wire::HostVolume {
        path: host.path.clone(),
        r#type: kind.into(),
        owner_uid: host.owner_uid,
        owner_gid: host.owner_gid,
    }
}
