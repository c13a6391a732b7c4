// SPDX-License-Identifier: Apache-2.0
//! Volumes of a manifest.

use base64::Engine;

use super::reader::Fields;
use super::{Beside, container, quantity};
use crate::pod::volume::{Empty, Files, Host, HostKind, Source, Volume};
use crate::schedule::given::{Kind, Place};

pub(super) fn volume(mut fields: Fields<'_>, beside: &Beside) -> Volume {
    let name = fields.text("name");
    let empty = fields.object("emptyDir").map(empty);
    let config = fields
        .object("configMap")
        .map(|it| files(it, &name, Kind::ConfigMap, beside));
    let secret = fields
        .object("secret")
        .map(|it| files(it, &name, Kind::Secret, beside));
    let host = fields.object("hostPath").map(host);
    let source = empty.or(config).or(secret).or(host);
    if source.is_none() {
        fields.refuse("", "must be emptyDir, configMap, secret or hostPath");
    }
    fields.end();
    Volume {
        name,
        source: source.unwrap_or(Source::Empty(Empty::default())),
    }
}

/// In memory, whatever the medium: the node's disk bounds no folder.
fn empty(mut fields: Fields<'_>) -> Source {
    fields.only("medium", &["", "Memory"]);
    let size_bytes = container::quantity(&mut fields, "sizeLimit", quantity::whole);
    fields.end();
    Source::Empty(Empty {
        size_bytes,
        ..Empty::default()
    })
}

fn files(mut fields: Fields<'_>, volume: &str, kind: Kind, beside: &Beside) -> Source {
    let (name, maps) = match kind {
        Kind::ConfigMap => ("name", &beside.config),
        Kind::Secret => ("secretName", &beside.secret),
    };
    let named = fields.text(name);
    let mode = fields.number("defaultMode");
    let optional = fields.flag("optional").unwrap_or(false);
    let item = |mut item: Fields<'_>| {
        let pair = (item.text("key"), item.text("path"));
        item.end();
        pair
    };
    let items = fields.each("items", item);
    let place = Place::Volume {
        name: volume.to_owned(),
        items: items.iter().cloned().collect(),
    };
    if beside.gives(&mut fields, (name, kind, &named), optional, place) {
        fields.end();
        return Source::Files(Files {
            mode,
            ..Files::default()
        });
    }
    let all = maps.get(&named);
    if all.is_none() && !optional {
        let words = format!("is {named}, which the file doesn't have: put it beside the pod");
        fields.refuse(name, words);
    }
    let all = all.cloned().unwrap_or_default();
    let mut files = Files {
        mode,
        ..Files::default()
    };
    for (key, path) in &items {
        match all.get(key) {
            Some(text) => drop(files.files.insert(path.clone(), text.clone())),
            None if optional => {}
            None => fields.refuse("items", format!("{named} has no key {key}")),
        }
    }
    if items.is_empty() {
        files.files = all;
    }
    fields.end();
    Source::Files(files)
}

fn host(mut fields: Fields<'_>) -> Source {
    let path = fields.text("path");
    let kind = match fields.text("type").as_str() {
        "" => HostKind::Any,
        "Directory" => HostKind::Folder,
        "File" => HostKind::File,
        "Socket" => HostKind::Socket,
        "DirectoryOrCreate" => HostKind::FolderOrCreate,
        "FileOrCreate" => HostKind::FileOrCreate,
        other @ ("CharDevice" | "BlockDevice") => {
            let words = format!("is {other}: a device of a volume can't be opened in a pod");
            fields.refuse("type", words);
            HostKind::Any
        }
        other => {
            let words = format!("is {other}, which is no type of Kubernetes");
            fields.refuse("type", words);
            HostKind::Any
        }
    };
    fields.end();
    Source::Host(Host {
        path,
        kind,
        ..Host::default()
    })
}

/// The text of base64 with padding; `None` where it is none.
pub(super) fn from_base64(text: &str) -> Option<String> {
    let digits: String = text.split_ascii_whitespace().collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(digits);
    String::from_utf8(bytes.ok()?).ok()
}
