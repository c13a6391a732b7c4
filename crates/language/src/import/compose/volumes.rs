// SPDX-License-Identifier: Apache-2.0
//! Volumes, tmpfs, secrets and configs of a Compose file: volumes of the pod, and where containers
//! have them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::fields::{Fields, Notes, plain, scalar};
use super::text::{label, unique};
use super::variables::Variables;
use crate::import::NotImported;
use crate::import::write::{Expression, quoted};

type Result<T> = std::result::Result<T, NotImported>;

/// The volumes of the pod, as they are met.
pub(super) struct Volumes<'a> {
    folder: &'a Path,
    /// By what they are: `volume data`, `folder /srv`, `secret password`.
    names: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    made: Vec<Expression>,
    secrets: BTreeMap<String, Value>,
    configs: BTreeMap<String, Value>,
    external: BTreeSet<String>,
}

impl<'a> Volumes<'a> {
    /// Takes what the file says of them at its top.
    pub(super) fn of(top: &mut Fields, folder: &'a Path, notes: &mut Notes) -> Result<Self> {
        let mut external = BTreeSet::new();
        for (name, value) in top.object("volumes")?.entries() {
            if value
                .get("external")
                .is_some_and(|it| *it != Value::Bool(false))
            {
                external.insert(name.clone());
            } else if value.get("driver").is_some() || value.get("driver_opts").is_some() {
                notes.add(format!("volumes.{name}.driver: a pod's volumes have none"));
            }
        }
        Ok(Self {
            folder,
            names: BTreeMap::new(),
            taken: BTreeSet::new(),
            made: Vec::new(),
            secrets: top.object("secrets")?.entries().collect(),
            configs: top.object("configs")?.entries().collect(),
            external,
        })
    }

    /// All that were met.
    pub(super) fn made(self) -> Vec<Expression> {
        self.made
    }

    /// The mounts of a service.
    pub(super) fn mounts(
        &mut self,
        service: &mut Fields,
        variables: &mut Variables,
        notes: &mut Notes,
    ) -> Result<Vec<Expression>> {
        let mut mounts = Vec::new();
        let at = service.path("volumes");
        if let Some(Value::Array(items)) = service.take("volumes") {
            for item in items {
                mounts.extend(match item {
                    Value::Object(_) => self.long(Fields::of(item, &at)?, notes)?,
                    short => self.short(&plain(&scalar(short, &at)?, "volumes", notes), notes),
                });
            }
        }
        for text in service.list("tmpfs")? {
            let path = text.split(':').next().unwrap_or_default().to_owned();
            notes.add(format!(
                "tmpfs {text}: is an empty volume, on the node's disk"
            ));
            mounts.push(self.empty(&format!("tmpfs {path}"), &path, &path, false));
        }
        for (field, folder) in [("secrets", "/run/secrets/"), ("configs", "/")] {
            let at = service.path(field);
            if let Some(Value::Array(items)) = service.take(field) {
                for item in items {
                    let item = match item {
                        Value::Object(_) => Fields::of(item, &at)?,
                        name => Fields::of(serde_json::json!({ "source": name }), &at)?,
                    };
                    mounts.extend(self.given((field, folder), item, variables, notes)?);
                }
            }
        }
        Ok(mounts)
    }

    /// `data:/var/lib/data:ro`, `./src:/app`, `/data`.
    fn short(&mut self, text: &str, notes: &mut Notes) -> Option<Expression> {
        let mut parts = text.split(':');
        let (first, target, options) = (parts.next()?, parts.next(), parts.next());
        let Some(target) = target else {
            return Some(self.empty(&format!("unnamed {first}"), first, first, false));
        };
        let options: Vec<_> = options.unwrap_or_default().split(',').collect();
        let read_only = options.contains(&"ro");
        match first.starts_with(['.', '/', '~']) {
            true => {
                let word = options.iter().find(|it| SPREADS.contains(it));
                let propagation = propagation(word.copied().unwrap_or_default(), notes);
                self.folder(first, target, read_only, propagation, notes)
            }
            false => self.named(first, target, read_only, notes),
        }
    }

    fn long(&mut self, mut item: Fields, notes: &mut Notes) -> Result<Option<Expression>> {
        let mut text =
            |field: &str| -> Result<String> { Ok(item.plain(field, notes)?.unwrap_or_default()) };
        let (kind, source, target) = (text("type")?, text("source")?, text("target")?);
        let read_only = item.flag("read_only", notes)?;
        let mut more = item.object("volume")?;
        let sub_path = more.plain("subpath", notes)?;
        more.known(&["nocopy"]);
        more.end("volumes.volume.", notes);
        let mut bind = item.object("bind")?;
        let word = bind.plain("propagation", notes)?.unwrap_or_default();
        bind.known(&["create_host_path"]);
        bind.end("volumes.bind.", notes);
        item.known(&["consistency"]);
        item.object("tmpfs")?.end("volumes.tmpfs.", notes);
        item.end("volumes.", notes);
        let mount = match kind.as_str() {
            "bind" => {
                let propagation = propagation(&word, notes);
                self.folder(&source, &target, read_only, propagation, notes)
            }
            "volume" if !source.is_empty() => self.named(&source, &target, read_only, notes),
            "volume" => Some(self.empty(&format!("unnamed {target}"), &target, &target, false)),
            "tmpfs" => {
                notes.add(format!(
                    "tmpfs {target}: is an empty volume, on the node's disk"
                ));
                Some(self.empty(&format!("tmpfs {target}"), &target, &target, false))
            }
            other => {
                notes.add(format!(
                    "volumes: {target} is of the type {other}, which a pod hasn't"
                ));
                None
            }
        };
        Ok(match (mount, sub_path) {
            (Some(Expression::Object(mut fields)), Some(path)) => {
                fields.push(("subPath".to_owned(), Expression::Text(path)));
                Some(Expression::Object(fields))
            }
            (mount, _) => mount,
        })
    }

    fn named(
        &mut self,
        name: &str,
        target: &str,
        read_only: bool,
        notes: &mut Notes,
    ) -> Option<Expression> {
        if self.external.contains(name) {
            notes.add(format!(
                "volumes: {name} is external: a pod's volumes are its own"
            ));
            return None;
        }
        notes.add(format!(
            "volumes: {name} is there as long as the pod, and goes with it"
        ));
        Some(self.empty(&format!("volume {name}"), name, target, read_only))
    }

    fn empty(&mut self, what: &str, name: &str, target: &str, read_only: bool) -> Expression {
        let source = ("empty".to_owned(), Expression::Object(Vec::new()));
        let name = self.volume(what, name, source);
        mount(&name, target, read_only)
    }

    /// A folder or file of the node, and what is mounted below it.
    fn folder(
        &mut self,
        source: &str,
        target: &str,
        read_only: bool,
        propagation: Option<&str>,
        notes: &mut Notes,
    ) -> Option<Expression> {
        if source.starts_with('~') {
            notes.add(format!(
                "volumes: {source} is a person's folder: say which, absolute"
            ));
            return None;
        }
        let path = absolute(&self.folder.join(source)).display().to_string();
        if !read_only {
            notes.add(format!(
                "volumes: {source} can't be written: a pod reads folders of the node"
            ));
        }
        let host = vec![("path".to_owned(), Expression::Text(path.clone()))];
        let source = ("host".to_owned(), Expression::Object(host));
        let name = self.volume(&format!("folder {path}"), target, source);
        let mut mount = mount(&name, target, true);
        if let (Expression::Object(fields), Some(word)) = (&mut mount, propagation) {
            let word = Expression::Text(word.to_owned());
            fields.push(("propagation".to_owned(), word));
        }
        Some(mount)
    }

    /// A secret or a config: a file with a text.
    fn given(
        &mut self,
        (field, folder): (&str, &str),
        mut item: Fields,
        variables: &mut Variables,
        notes: &mut Notes,
    ) -> Result<Option<Expression>> {
        let name = item.plain("source", notes)?.unwrap_or_default();
        let target = item.plain("target", notes)?.unwrap_or_else(|| name.clone());
        let mode = item.plain("mode", notes)?;
        item.end(&format!("{field}.{name}."), notes);
        let all = if field == "secrets" {
            &self.secrets
        } else {
            &self.configs
        };
        let said = Fields::of(all.get(&name).cloned().unwrap_or_default(), &name)?;
        let Some(content) = content(said, &format!("{field}.{name}"), variables, notes)? else {
            return Ok(None);
        };
        let files = vec![(name.clone(), content)];
        let mut of = vec![("files".to_owned(), Expression::Object(files))];
        if let Some(mode) = mode.as_deref().and_then(octal) {
            of.push(("mode".to_owned(), Expression::Code(format!("0o{mode:o}"))));
        }
        let what = format!("{field} {name} {}", mode.unwrap_or_default());
        let source = ("files".to_owned(), Expression::Object(of));
        let volume = self.volume(&what, &name, source);
        let path = match target.starts_with('/') {
            true => target,
            false => format!("{folder}{target}"),
        };
        Ok(match mount(&volume, &path, true) {
            Expression::Object(mut fields) => {
                fields.push(("subPath".to_owned(), Expression::Text(name)));
                Some(Expression::Object(fields))
            }
            other => Some(other),
        })
    }

    /// The volume's name; a new one for what wasn't met before.
    fn volume(&mut self, what: &str, name: &str, source: (String, Expression)) -> String {
        if let Some(known) = self.names.get(what) {
            return known.clone();
        }
        let name = unique(&mut self.taken, &label(name), "-");
        self.names.insert(what.to_owned(), name.clone());
        let fields = vec![("name".to_owned(), Expression::Text(name.clone())), source];
        self.made.push(Expression::Object(fields));
        name
    }
}

/// What is in a secret or a config, as the program says it.
fn content(
    mut said: Fields,
    what: &str,
    variables: &mut Variables,
    notes: &mut Notes,
) -> Result<Option<Expression>> {
    let content = said.text("content", variables)?;
    let variable = said.plain("environment", notes)?;
    let file = said.plain("file", notes)?;
    said.known(&["name"]);
    Ok(match (content, variable, file) {
        (Some(content), ..) => Some(content),
        (_, Some(variable), _) => Some(Expression::Code(variables.of(&variable, None))),
        (.., Some(file)) if !file.starts_with(['/', '~']) => Some(Expression::Code(format!(
            "await file.readText({})",
            quoted(&file)
        ))),
        (.., Some(file)) => {
            notes.add(format!(
                "{what}: a program reads no file outside of its folder: {file}"
            ));
            None
        }
        _ => {
            notes.add(format!("{what}: is external: say its content"));
            None
        }
    })
}

/// Docker's words for what becomes of mounts below a folder of the node.
const SPREADS: [&str; 6] = [
    "private", "rprivate", "slave", "rslave", "shared", "rshared",
];

/// Ours for one of [`SPREADS`], or for none: what is mounted below is there, too.
fn propagation(word: &str, notes: &mut Notes) -> Option<&'static str> {
    match word {
        "private" => None,
        "slave" | "rslave" => Some("rslave"),
        "shared" | "rshared" => {
            notes.add(format!(
                "volumes: {word} is taken as rslave: what a pod mounts is never the node's"
            ));
            Some("rslave")
        }
        _ => Some("rprivate"),
    }
}

fn mount(volume: &str, path: &str, read_only: bool) -> Expression {
    let mut fields = vec![
        ("volume".to_owned(), Expression::Text(volume.to_owned())),
        ("path".to_owned(), Expression::Text(path.to_owned())),
    ];
    if read_only {
        fields.push(("readOnly".to_owned(), Expression::Flag(true)));
    }
    Expression::Object(fields)
}

/// A mode as YAML gives it: `0440` is an octal number to some readers, a text to others.
fn octal(text: &str) -> Option<u32> {
    let digits = text.trim_start_matches("0o");
    match digits.starts_with('0') {
        true => u32::from_str_radix(digits, 8).ok(),
        // A number that was read already.
        false => digits.parse().ok(),
    }
}

/// Without `.` and `..`, by the text alone.
fn absolute(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = found.pop(),
            other => found.push(other),
        }
    }
    found
}
