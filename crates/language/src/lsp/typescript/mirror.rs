// SPDX-License-Identifier: Apache-2.0
//! A folder in which TypeScript's service sees the projects: per project our `tsconfig.json`, our
//! `aurae.d.ts` and a link to each module, so that a configuration beside a program has no say and
//! nothing is written there. Names are translated both ways, in URIs and in paths.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::own_folder::OwnFolder;
use crate::lsp::{declared, place, project};
use crate::source::Source;
use crate::tsc::{Files, write_project};

struct Seen {
    /// In the mirror.
    folder: PathBuf,
    /// The modules that have links, relative to the root.
    modules: HashSet<String>,
}

pub(in crate::lsp) struct Mirror {
    folder: OwnFolder,
    /// By their roots.
    projects: HashMap<PathBuf, Seen>,
    /// What stands for what: in the mirror, and as the editor names it.
    names: Vec<(String, String)>,
    /// Where the editor opens our declarations.
    declarations: Option<PathBuf>,
}

impl Mirror {
    pub(super) fn new(cache: Option<&Path>) -> io::Result<Self> {
        let folder = OwnFolder::new(&std::env::temp_dir())?;
        let types = crate::declare::aurae_d_ts().ok();
        let declarations = types.zip(cache).and_then(|(text, cache)| {
            let source = Source::new("aurae.d.ts", text);
            declared::cached(&source, cache).ok()
        });
        Ok(Self {
            folder,
            projects: HashMap::new(),
            names: Vec::new(),
            declarations,
        })
    }

    /// Makes a project known.
    pub(super) fn add(&mut self, root: &Path) -> io::Result<()> {
        if self.projects.contains_key(root) {
            return Ok(());
        }
        let folder = self.folder.path().join(self.projects.len().to_string());
        let inner = folder.join("root");
        std::fs::create_dir_all(&inner)?;
        write_project(&folder, Files::InFolder).map_err(io::Error::other)?;
        self.name(&inner, root);
        if let Some(path) = self.declarations.clone() {
            self.name(&folder.join("aurae.d.ts"), &path);
        }
        let seen = Seen {
            folder: inner,
            modules: HashSet::new(),
        };
        self.projects.insert(root.to_owned(), seen);
        self.reread();
        Ok(())
    }

    fn name(&mut self, ours: &Path, theirs: &Path) {
        let uri = |path: &Path| place::uri(path).map(|uri| uri.as_str().to_owned());
        if let (Some(ours), Some(theirs)) = (uri(ours), uri(theirs)) {
            self.names.push((ours, theirs));
        }
        if let (Some(ours), Some(theirs)) = (ours.to_str(), theirs.to_str()) {
            self.names.push((ours.to_owned(), theirs.to_owned()));
        }
    }

    /// A file for a module that may not be saved yet.
    pub(super) fn ensure(&mut self, root: &Path, path: &str) {
        let Some(seen) = self.projects.get_mut(root) else {
            return;
        };
        let link = seen.folder.join(path);
        if !seen.modules.contains(path) && !link.exists() {
            let made = link.parent().map(std::fs::create_dir_all);
            // A module without a file is looked at alone.
            let _ = made.map(|_| std::fs::write(&link, ""));
        }
    }

    /// Links what has come and takes away what has gone; the changes, as the protocol says them.
    pub(super) fn reread(&mut self) -> Vec<Value> {
        let mut changed = Vec::new();
        for (root, seen) in &mut self.projects {
            let present: HashSet<String> = project::modules_below(root).into_iter().collect();
            let mut note = |path: &str, kind: u32| {
                if let Some(uri) = place::uri(&seen.folder.join(path)) {
                    changed.push(json!({ "uri": uri.as_str(), "type": kind }));
                }
            };
            for path in &present {
                // Its text may have changed.
                note(path, if seen.modules.contains(path) { 2 } else { 1 });
                if !seen.modules.contains(path) {
                    let link = seen.folder.join(path);
                    let _ = link.parent().map(std::fs::create_dir_all);
                    // The empty file of a module that wasn't saved.
                    let _ = std::fs::remove_file(&link);
                    let _ = symlink(root.join(path), &link);
                }
            }
            for path in seen.modules.difference(&present) {
                note(path, 3);
                let _ = std::fs::remove_file(seen.folder.join(path));
            }
            seen.modules = present;
        }
        changed
    }

    /// The editor's names in the service's; none if it speaks of what isn't mirrored.
    pub(super) fn outward(&self, value: &Value) -> Option<Value> {
        let uri = value.pointer("/textDocument/uri").and_then(Value::as_str);
        let known = |uri: &str| {
            let uri = encoded(uri);
            let mut names = self.names.iter();
            names.any(|(_, theirs)| uri.starts_with(theirs.as_str()))
        };
        if uri.is_some_and(|uri| !known(uri) || uri.ends_with(".d.ts")) {
            return None;
        }
        let translated = |text: &str| {
            let text = encoded(text);
            let found = self.names.iter().filter(|(_, theirs)| {
                let rest = text.strip_prefix(theirs.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            // A project may lie in another's folder.
            let (ours, theirs) = found.max_by_key(|(_, theirs)| theirs.len())?;
            Some(format!("{ours}{}", text.get(theirs.len()..)?))
        };
        Some(map(value.clone(), &translated))
    }

    /// The service's names in the editor's, also within texts.
    pub(super) fn inward(&self, value: Value) -> Value {
        let translated = |text: &str| {
            let ours = self.folder.path().to_str()?;
            if !text.contains(ours) {
                return None;
            }
            let names = self.names.iter();
            Some(names.fold(text.to_owned(), |text, (ours, theirs)| {
                text.replace(ours.as_str(), theirs)
            }))
        };
        map(value, &translated)
    }
}

/// An editor's `file:` URI as we write it; what is none stays.
fn encoded(text: &str) -> String {
    let uri = text.strip_prefix("file:").and_then(|_| text.parse().ok());
    let path = uri.and_then(|uri| place::path(&uri));
    let uri = path.and_then(|path| place::uri(&path));
    uri.map_or_else(|| text.to_owned(), |uri| uri.as_str().to_owned())
}

/// Every text in a value, keys too, through `change`. Texts of documents stay.
fn map(value: Value, change: &impl Fn(&str) -> Option<String>) -> Value {
    match value {
        Value::String(text) => Value::String(change(&text).unwrap_or(text)),
        Value::Array(list) => list.into_iter().map(|it| map(it, change)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| match key.as_str() {
                "text" | "newText" => (key, value),
                _ => (change(&key).unwrap_or(key), map(value, change)),
            })
            .collect(),
        other => other,
    }
}
