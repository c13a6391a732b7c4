// SPDX-License-Identifier: Apache-2.0
//! What is asked for when a cell is to be made, from the wire and back.

use std::collections::BTreeSet;

use model::cell::{Access, CellSpec, Draft, Grant, Namespace, Volume};
use model::error::{Error, Result, Within};

use super::resources::{resources, to_resources};
use super::scalar::enumeration;
use crate::runtime::v0 as wire;

/// A checked spec.
pub fn spec(message: wire::CellSpec) -> Result<CellSpec> {
    let share = message.share.iter().enumerate();
    let share = share.map(|(i, number)| namespace(&format!("share[{i}]"), *number));
    let grants = message.grants.into_iter().enumerate();
    let grants = grants.map(|(i, message)| grant(message).within(&format!("grants[{i}]")));
    Draft {
        share: share.collect::<Result<BTreeSet<_>>>()?,
        resources: resources(message.resources).within("resources")?,
        grants: grants.collect::<Result<_>>()?,
        volumes: message.volumes.into_iter().map(volume).collect(),
        hostname: message.hostname,
        id_range: message.id_range,
    }
    .try_into()
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

fn grant(message: wire::Grant) -> Result<Grant> {
    let access = match enumeration("access", message.access)? {
        wire::grant::Access::Unspecified => {
            return Err(Error::invalid("access", "must be READ or WRITE"));
        }
        wire::grant::Access::Read => Access::Read,
        wire::grant::Access::Write => Access::Write,
    };
    Ok(Grant {
        source: message.source,
        target: message.target,
        access,
        owner_uid: message.owner_uid,
        owner_gid: message.owner_gid,
        allow_root_owner: message.allow_root_owner,
    })
}

fn volume(message: wire::Volume) -> Volume {
    Volume {
        path: message.path,
        size_bytes: message.size_bytes,
        mode: message.mode,
    }
}

/// For the wire.
pub fn to_spec(draft: &Draft) -> wire::CellSpec {
    wire::CellSpec {
        share: draft
            .share
            .iter()
            .map(|ns| to_namespace(*ns).into())
            .collect(),
        resources: to_resources(&draft.resources),
        grants: draft.grants.iter().map(to_grant).collect(),
        volumes: draft.volumes.iter().map(to_volume).collect(),
        hostname: draft.hostname.clone(),
        id_range: draft.id_range,
    }
}

fn to_grant(grant: &Grant) -> wire::Grant {
    let access = match grant.access {
        Access::Read => wire::grant::Access::Read,
        Access::Write => wire::grant::Access::Write,
    };
    wire::Grant {
        source: grant.source.clone(),
        target: grant.target.clone(),
        access: access.into(),
        owner_uid: grant.owner_uid,
        owner_gid: grant.owner_gid,
        allow_root_owner: grant.allow_root_owner,
    }
}

fn to_volume(volume: &Volume) -> wire::Volume {
    wire::Volume {
        path: volume.path.clone(),
        size_bytes: volume.size_bytes,
        mode: volume.mode,
    }
}
