// SPDX-License-Identifier: Apache-2.0
//! Whose files a pod writes in a folder of the node. Kubernetes has the container's user write
//! there, with the node's number; a pod of ours has numbers of its own, and acts on the node's disk
//! as the owner that an annotation of the pod names.

use std::collections::{BTreeMap, BTreeSet};

use super::super::spec::{Container, Draft};
use super::super::volume::{Source, Volume};
use super::reader::Fields;

/// The annotation of a volume is this with the volume's name: `1000`, or `1000:1000` with a group.
const OWNER: &str = "pod.aurae/owner.";

/// Gives the volumes their owners, and names each mount that would be read-only in silence. A
/// device has its container's root for an owner.
pub(super) fn owners(
    fields: &mut Fields<'_>,
    draft: &mut Draft,
    annotations: &BTreeMap<String, String>,
    devices: &BTreeSet<String>,
) {
    for (key, text) in annotations {
        if let Some(name) = key.strip_prefix(OWNER)
            && let Err(words) = give(&mut draft.volumes, name, text, devices)
        {
            fields.refuse("volumes", format!("the annotation {key} {words}"));
        }
    }
    let lists = [
        ("initContainers", &draft.init_containers),
        ("containers", &draft.containers),
    ];
    for (list, containers) in lists {
        for (i, container) in containers.iter().enumerate() {
            for at in silent(&draft.volumes, container, devices) {
                let volume = container.mounts.get(at).map_or("", |it| &it.volume);
                let words = format!(
                    "must be true for the hostPath {volume}, unless the pod's annotation \
                     {OWNER}{volume} says as which user of the node it is written: \"1000\", or \
                     \"1000:1000\" with a group"
                );
                fields.refuse(&format!("{list}[{i}].volumeMounts[{at}].readOnly"), words);
            }
        }
    }
}

fn give(
    volumes: &mut [Volume],
    name: &str,
    text: &str,
    devices: &BTreeSet<String>,
) -> Result<(), String> {
    if devices.contains(name) {
        return Err(format!(
            "names {name}, which is a device: its owner is the pod's root"
        ));
    }
    let (uid, gid) = match text.split_once(':') {
        Some((uid, gid)) => (uid, Some(gid)),
        None => (text, None),
    };
    let number = |text: &str| {
        let parsed = text.parse::<u32>().ok();
        parsed.ok_or_else(|| format!("is {text:?}: it must be UID or UID:GID, in numbers"))
    };
    let (uid, gid) = (number(uid)?, gid.map(number).transpose()?);
    let mut named = volumes.iter_mut().filter(|it| it.name == name);
    match named.next().map(|it| &mut it.source) {
        Some(Source::Host(host)) => {
            host.owner_uid = Some(uid);
            host.owner_gid = gid;
            Ok(())
        }
        Some(_) => Err(format!("names {name}, which is no hostPath")),
        None => Err(format!("names {name}, which is no volume of the pod")),
    }
}

/// The mounts that ask for writing and have no owner.
fn silent(volumes: &[Volume], container: &Container, devices: &BTreeSet<String>) -> Vec<usize> {
    let ownerless = |name: &str| {
        let volume = volumes.iter().find(|it| it.name == name);
        let source = volume.map(|it| &it.source);
        let is_ownerless = matches!(source, Some(Source::Host(host)) if host.owner_uid.is_none());
        is_ownerless && !devices.contains(name)
    };
    let mounts = container.mounts.iter().enumerate();
    let silent = mounts.filter(|(_, mount)| !mount.read_only && ownerless(&mount.volume));
    silent.map(|(at, _)| at).collect()
}
