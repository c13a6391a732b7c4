// SPDX-License-Identifier: Apache-2.0
//! Sets' manifests.

use model::error::Result;
use model::set::{Manifest, Member, check_name};

use super::scalar::required;
use crate::sets::v0 as wire;

/// Checks a manifest to be stored; returns it with its set's tenant (empty: the caller's own) and
/// name.
///
/// # Errors
/// `INVALID_FIELD`: a field that is malformed or beyond its bound.
pub fn put(message: Option<wire::Set>) -> Result<(String, String, Manifest)> {
    let set = required("set", message)?;
    check_name("set.name", &set.name)?;
    let manifest = Manifest {
        program: set.program,
        nodes: set.nodes,
        members: set.members.into_iter().map(member).collect(),
    };
    manifest.check()?;
    Ok((set.tenant, set.name, manifest))
}

fn member(member: wire::Member) -> Member {
    Member {
        method: member.method,
        kind: member.kind,
        key: member.key,
    }
}

/// The message of a manifest. The caller of this function adds the user who stored it, and the
/// time.
pub fn to_set(manifest: Manifest) -> wire::Set {
    let members = manifest.members.into_iter();
    wire::Set {
        program: manifest.program,
        nodes: manifest.nodes,
        members: members
            .map(|member| wire::Member {
                method: member.method,
                kind: member.kind,
                key: member.key,
            })
            .collect(),
        ..wire::Set::default()
    }
}
