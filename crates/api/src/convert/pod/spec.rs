// SPDX-License-Identifier: Apache-2.0
//! The spec of a pod, from the wire and back.

use model::error::{Result, Within};
use model::network::Network;
use model::pod::spec::{Container, Draft, HostAlias, PodSpec, Restart};

use super::container::{container, to_container};
use super::volume::{to_volume, volume};
use crate::convert::network::{network, to_network};
use crate::convert::scalar::{enumeration, maybe_duration, parse, to_duration};
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
        active_deadline: maybe_duration("active_deadline", message.active_deadline.as_ref())?,
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
        host_pid: message.host_pid,
        host_ipc: message.host_ipc,
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
        active_deadline: draft.active_deadline.map(to_duration),
        hostname: draft.hostname.clone(),
        host_aliases: aliases.collect(),
        user: draft.user.clone(),
        group: draft.group.clone(),
        groups: draft.groups.clone(),
        fs_group: draft.fs_group,
        network: (draft.network != Network::default()).then(|| to_network(&draft.network)),
        host_network: draft.host_network,
        host_pid: draft.host_pid,
        host_ipc: draft.host_ipc,
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
