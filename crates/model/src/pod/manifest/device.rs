// SPDX-License-Identifier: Apache-2.0
//! Devices of a manifest: a `hostPath` of the types `CharDevice` and `BlockDevice` is no volume
//! here, but a device of each container that mounts it; and what `privileged` is.

use std::collections::BTreeSet;

use super::super::spec::{Container, Draft};
use super::super::volume::Source;
use super::reader::Fields;
use crate::device::Device;

/// Takes the volumes of those names away, and gives the devices to the containers.
pub(super) fn devices(fields: &mut Fields<'_>, draft: &mut Draft, named: &BTreeSet<String>) {
    let (devices, volumes) = std::mem::take(&mut draft.volumes)
        .into_iter()
        .partition::<Vec<_>, _>(|it| named.contains(&it.name));
    draft.volumes = volumes;
    let path = |name: &str| {
        let volume = devices.iter().find(|it| it.name == name)?;
        match &volume.source {
            Source::Host(host) => Some(host.path.clone()),
            Source::Empty(_) | Source::Files(_) => None,
        }
    };
    let lists = [
        ("initContainers", &mut draft.init_containers),
        ("containers", &mut draft.containers),
    ];
    for (list, containers) in lists {
        for (i, container) in containers.iter_mut().enumerate() {
            for at in give(container, path) {
                let field = format!("{list}[{i}].volumeMounts[{at}].subPath");
                fields.refuse(&field, "a device has no parts");
            }
        }
    }
}

/// The mounts of parts of devices, which there can't be.
fn give(container: &mut Container, path: impl Fn(&str) -> Option<String>) -> Vec<usize> {
    let mut parts = Vec::new();
    let mounts = std::mem::take(&mut container.mounts);
    for (at, mount) in mounts.into_iter().enumerate() {
        let Some(path) = path(&mount.volume) else {
            container.mounts.push(mount);
            continue;
        };
        if !mount.sub_path.is_empty() || !mount.sub_path_expr.is_empty() {
            parts.push(at);
        }
        let access = if mount.read_only { "r" } else { "" };
        container.devices.push(Device {
            path,
            target: mount.path,
            access: access.to_owned(),
        });
    }
    parts
}

/// All that Kubernetes takes from such a container's walls, but for its user namespace, which every
/// pod has here.
pub(super) fn unwall(container: &mut Container) {
    container.add_capabilities = vec!["ALL".to_owned()];
    container.drop_capabilities.clear();
    container.unconfined = true;
    container.seccomp_profile.clear();
    container.apparmor_profile.clear();
    container.unmasked = true;
    container.all_devices = true;
}
