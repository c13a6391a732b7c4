// SPDX-License-Identifier: Apache-2.0
//! Volumes of a manifest that are files: `configMap`, `secret`, `downwardAPI`, and `projected`,
//! which is several of them in one folder. All become one volume of files of ours; where two of
//! them want the same path, both are left as they are and the second is named.

use std::collections::{BTreeMap, BTreeSet};

use super::reader::Fields;
use super::{Beside, downward};
use crate::pod::volume::Files;
use crate::schedule::given::{Kind, Place};

/// What the files of a pod are made of, beside the volume itself.
pub(super) struct Around<'a> {
    pub(super) beside: &'a Beside,
    pub(super) annotations: &'a BTreeMap<String, String>,
    /// What containers say of storage, by name: see [`downward::storage`].
    pub(super) storage: BTreeMap<String, u64>,
}

/// A volume of files as it is read.
pub(super) struct Parts<'a> {
    /// The volume's name.
    name: &'a str,
    pub(super) around: &'a Around<'a>,
    pub(super) files: Files,
    /// Paths that are known, also of what is given later.
    taken: BTreeSet<String>,
}

impl<'a> Parts<'a> {
    pub(super) fn new(name: &'a str, around: &'a Around<'a>) -> Self {
        Self {
            name,
            around,
            files: Files::default(),
            taken: BTreeSet::new(),
        }
    }

    /// Whether a path is free for the field that names it, which is refused otherwise.
    pub(super) fn take(&mut self, fields: &mut Fields<'_>, field: &str, path: &str) -> bool {
        let free = self.taken.insert(path.to_owned());
        if !free {
            let words = format!("is {path:?}, as another file's of the volume: change one of them");
            fields.refuse(field, words);
        }
        free
    }

    /// A file of the volume has a mode of its own.
    pub(super) fn mode(&mut self, path: &str, mode: Option<u32>) {
        if let Some(mode) = mode {
            self.files.modes.insert(path.to_owned(), mode);
        }
    }
}

pub(super) fn config_map(mut fields: Fields<'_>, parts: &mut Parts<'_>) {
    parts.files.mode = fields.number("defaultMode");
    texts(fields, "name", Kind::ConfigMap, parts);
}

pub(super) fn secret(mut fields: Fields<'_>, parts: &mut Parts<'_>) {
    parts.files.mode = fields.number("defaultMode");
    texts(fields, "secretName", Kind::Secret, parts);
}

pub(super) fn downward(mut fields: Fields<'_>, parts: &mut Parts<'_>) {
    parts.files.mode = fields.number("defaultMode");
    downward::items(&mut fields, parts);
    fields.end();
}

pub(super) fn projected(mut fields: Fields<'_>, parts: &mut Parts<'_>) {
    parts.files.mode = fields.number("defaultMode");
    let count = fields.each("sources", |it| source(it, parts)).len();
    if count == 0 {
        fields.refuse("sources", "Required value: at least one");
    }
    fields.end();
}

/// One of several; its kinds have the same fields as the volumes, but for names and modes.
fn source(mut fields: Fields<'_>, parts: &mut Parts<'_>) {
    let mut kinds = 0;
    if let Some(object) = fields.object("configMap") {
        kinds += 1;
        texts(object, "name", Kind::ConfigMap, parts);
    }
    if let Some(object) = fields.object("secret") {
        kinds += 1;
        texts(object, "name", Kind::Secret, parts);
    }
    if let Some(mut object) = fields.object("downwardAPI") {
        kinds += 1;
        downward::items(&mut object, parts);
        object.end();
    }
    if fields.take("serviceAccountToken").is_some() {
        kinds += 1;
        let words = "can't be taken: a node has no API server that a token would be for, and \
                     identities are certificates. Leave it out, or put a token of your own into \
                     a Secret";
        fields.refuse("serviceAccountToken", words);
    }
    if kinds != 1 {
        let words = "must be one of configMap, secret and downwardAPI";
        fields.refuse("", words);
    }
    fields.end();
}

/// A key of a config, and where its text goes.
struct Item {
    key: String,
    path: String,
}

fn items(fields: &mut Fields<'_>, parts: &mut Parts<'_>) -> (bool, Vec<Item>) {
    let read = fields.each("items", |mut item| {
        let (key, path) = (item.text("key"), item.text("path"));
        let mode = item.number("mode");
        let free = parts.take(&mut item, "path", &path);
        if free {
            parts.mode(&path, mode);
        }
        item.end();
        free.then_some(Item { key, path })
    });
    (!read.is_empty(), read.into_iter().flatten().collect())
}

/// The texts of a ConfigMap or Secret: those of the file, or named to be given later.
fn texts(mut fields: Fields<'_>, field: &str, kind: Kind, parts: &mut Parts<'_>) {
    let named = fields.text(field);
    let optional = fields.flag("optional").unwrap_or(false);
    let (chosen, items) = items(&mut fields, parts);
    if parts.around.beside.given.is_some() {
        let mut paths = BTreeMap::new();
        for Item { key, path } in items {
            if let Some(other) = paths.insert(key, path) {
                let words = format!("has a key twice, for {other:?}: name it in another source");
                fields.refuse("items", words);
            }
        }
        let place = Place::Volume {
            name: parts.name.to_owned(),
            items: paths,
        };
        let of = (field, kind, named.as_str());
        parts.around.beside.gives(&mut fields, of, optional, place);
        return fields.end();
    }
    let beside = parts.around.beside;
    let maps = match kind {
        Kind::ConfigMap => &beside.config,
        Kind::Secret => &beside.secret,
    };
    let all = maps.get(&named);
    if all.is_none() && !optional {
        let words = format!("is {named}, which the file doesn't have: put it beside the pod");
        fields.refuse(field, words);
    }
    let none = BTreeMap::new();
    let all = all.unwrap_or(&none);
    if !chosen {
        for (key, text) in all {
            if parts.take(&mut fields, field, key) {
                parts.files.files.insert(key.clone(), text.clone());
            }
        }
    }
    for Item { key, path } in items {
        match all.get(&key) {
            Some(text) => drop(parts.files.files.insert(path, text.clone())),
            None if optional => {}
            None => fields.refuse("items", format!("{named} has no key {key}")),
        }
    }
    fields.end();
}

#[cfg(test)]
mod tests;
