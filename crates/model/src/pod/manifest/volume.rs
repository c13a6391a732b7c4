// SPDX-License-Identifier: Apache-2.0
//! Volumes of a manifest.

use std::collections::BTreeSet;

use base64::Engine;

use super::files::{self, Around, Parts};
use super::reader::Fields;
use super::{container, quantity, storage};
use crate::cell::Propagation;
use crate::pod::spec::Draft;
use crate::pod::volume::{Empty, Host, HostKind, Source, Volume, is_of_node};

/// `devices` gets the names of those that are devices of the node.
pub(super) fn volume(
    mut fields: Fields<'_>,
    around: &Around<'_>,
    devices: &mut BTreeSet<String>,
) -> Volume {
    let name = fields.text("name");
    let on_disk = storage::is_on_disk(around.annotations);
    let empty = fields.object("emptyDir").map(|it| empty(it, on_disk));
    let mut files = |field: &str, read: fn(Fields<'_>, &mut Parts<'_>)| {
        let object = fields.object(field)?;
        let mut parts = Parts::new(&name, around);
        read(object, &mut parts);
        Some(Source::Files(parts.files))
    };
    let config = files("configMap", files::config_map);
    let secret = files("secret", files::secret);
    let downward = files("downwardAPI", files::downward);
    let projected = files("projected", files::projected);
    let host = fields.object("hostPath").map(|it| {
        let (source, is_device) = host(it);
        if is_device {
            devices.insert(name.clone());
        }
        source
    });
    let given = [empty, config, secret, downward, projected, host];
    let source = given.into_iter().flatten().next();
    if source.is_none() {
        let words = "must be emptyDir, configMap, secret, downwardAPI, projected or hostPath";
        fields.refuse("", words);
    }
    fields.end();
    Volume {
        name,
        source: source.unwrap_or(Source::Empty(Empty::default())),
    }
}

const DEVICE: &str = "CharDevice";
const BLOCK_DEVICE: &str = "BlockDevice";

/// In memory, unless the pod's annotation has on the disk what names no medium.
fn empty(mut fields: Fields<'_>, on_disk: bool) -> Source {
    let medium = fields.text("medium");
    if !["", "Memory"].contains(&medium.as_str()) {
        fields.refuse("medium", format!("is {medium}: only Memory can be taken"));
    }
    let size_bytes = container::quantity(&mut fields, "sizeLimit", quantity::whole);
    fields.end();
    Source::Empty(match on_disk && medium.is_empty() {
        true => storage::empty(size_bytes),
        false => Empty {
            size_bytes,
            ..Empty::default()
        },
    })
}

/// Also whether it is a device.
fn host(mut fields: Fields<'_>) -> (Source, bool) {
    let path = fields.text("path");
    let given = fields.text("type");
    let kind = match given.as_str() {
        "" => HostKind::Any,
        "Directory" => HostKind::Folder,
        "File" => HostKind::File,
        "Socket" => HostKind::Socket,
        "DirectoryOrCreate" => HostKind::FolderOrCreate,
        "FileOrCreate" => HostKind::FileOrCreate,
        DEVICE | BLOCK_DEVICE => HostKind::Any,
        other => {
            let words = format!("is {other}, which is no type of Kubernetes");
            fields.refuse("type", words);
            HostKind::Any
        }
    };
    fields.end();
    let host = Host {
        path,
        kind,
        ..Host::default()
    };
    let is_device = [DEVICE, BLOCK_DEVICE].contains(&given.as_str());
    (Source::Host(host), is_device)
}

/// Of a folder of the node Kubernetes shows what is mounted below it, too. What a pod brings has
/// nothing below it, whatever a mount of it says.
pub(super) fn below(draft: &mut Draft) {
    let containers = draft
        .init_containers
        .iter_mut()
        .chain(&mut draft.containers);
    for mount in containers.flat_map(|it| &mut it.mounts) {
        mount.propagation = match (is_of_node(&draft.volumes, &mount.volume), mount.propagation) {
            (false, _) => Propagation::None,
            (true, Propagation::Rslave) => Propagation::Rslave,
            (true, Propagation::None | Propagation::Rprivate) => Propagation::Rprivate,
        };
    }
}

/// The text of base64 with padding; `None` where it is none.
pub(super) fn from_base64(text: &str) -> Option<String> {
    let digits: String = text.split_ascii_whitespace().collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(digits);
    String::from_utf8(bytes.ok()?).ok()
}
