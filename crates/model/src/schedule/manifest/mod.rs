// SPDX-License-Identifier: Apache-2.0
//! Kubernetes' manifests as schedules and configs of ours: Pod, Deployment, DaemonSet, Job,
//! CronJob, ConfigMap, Secret. Pure. Nothing is left out in silence: what can't be taken is named
//! by its path, in Kubernetes' words, all of it at once. A Service is not taken: ports of a pod are
//! reached at the pod.

mod workload;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::given::{Config, Kind};
use super::request::check_name;
use super::spec::{Draft, Spec};
use crate::name::{Label, Tenant};
use crate::pod::manifest::reader::{Fields, Problems};
use crate::pod::manifest::{Beside, Problem, texts_of};

/// A schedule that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    /// `metadata.name`.
    pub name: Label,
    /// `metadata.namespace`; empty: none.
    pub namespace: String,
    /// The spec, checked.
    pub spec: Spec,
}

/// A ConfigMap or Secret that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadConfig {
    /// The config's kind and name.
    pub config: Config,
    /// `metadata.namespace`; empty: none.
    pub namespace: String,
    /// Its texts.
    pub data: BTreeMap<String, String>,
    /// It can't be changed.
    pub immutable: bool,
}

/// What the documents of a file are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct All {
    /// ConfigMaps and Secrets; they come first.
    pub configs: Vec<ReadConfig>,
    /// Everything that runs.
    pub schedules: Vec<Read>,
}

impl All {
    /// Refuses what names another namespace than that of a tenant: nothing is put elsewhere in
    /// silence. None, and `default`, are the tenant that declares.
    ///
    /// # Errors
    /// Each `metadata.namespace` that is another one.
    pub fn only_in(&self, tenant: &Tenant) -> Result<(), Vec<Problem>> {
        let of_configs = self.configs.iter();
        let of_configs = of_configs.map(|it| (it.config.to_string(), &it.namespace));
        let of_schedules = self.schedules.iter();
        let of_schedules = of_schedules.map(|it| (it.name.to_string(), &it.namespace));
        let mut problems = Problems::default();
        for (name, namespace) in of_configs.chain(of_schedules) {
            if !matches!(namespace.as_str(), "" | "default") && namespace != tenant.as_str() {
                let words = format!(
                    "Invalid value: {namespace:?}: {name} is declared in the tenant {tenant}: \
                     leave the namespace out"
                );
                problems.add("metadata.namespace", words);
            }
        }
        match problems.0.is_empty() {
            true => Ok(()),
            false => Err(problems.0),
        }
    }
}

/// The kinds that can be taken, with their `apiVersion`.
const KINDS: [(&str, &str); 7] = [
    ("Pod", "v1"),
    ("ConfigMap", "v1"),
    ("Secret", "v1"),
    ("Deployment", "apps/v1"),
    ("DaemonSet", "apps/v1"),
    ("Job", "batch/v1"),
    ("CronJob", "batch/v1"),
];

/// Reads the documents of a file.
///
/// # Errors
/// Every field that can't be taken; at least one.
pub fn read(documents: Vec<Value>) -> Result<All, Vec<Problem>> {
    let mut problems = Problems::default();
    let mut all = All::default();
    let mut names = BTreeSet::new();
    let documents = flattened(documents);
    let several = documents.len() > 1;
    for (i, document) in documents.into_iter().enumerate() {
        let mut own = Problems::default();
        let kind = text(&document, "kind");
        let name = document.get("metadata").map(|it| text(it, "name"));
        one(document, &mut all, &mut own);
        let said = name.unwrap_or_default();
        for problem in own.0 {
            let path = match several {
                true => format!("document {}: {kind} {said}: {}", i + 1, problem.path),
                false => problem.path,
            };
            problems.add(&path, problem.words);
        }
    }
    for name in all.schedules.iter().map(|it| &it.name) {
        if !names.insert(name) {
            let words = format!(
                "Duplicate value: {:?}: a node has one schedule of a name, of \
                                 whatever kind",
                name.as_str()
            );
            problems.add("metadata.name", words);
        }
    }
    match problems.0.is_empty() {
        true => Ok(all),
        false => Err(problems.0),
    }
}

fn text(value: &Value, field: &str) -> String {
    let text = value.get(field).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// The items of lists, and no empty documents.
fn flattened(documents: Vec<Value>) -> Vec<Value> {
    let mut all = Vec::new();
    for mut document in documents {
        match document.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) if text(&document, "kind").ends_with("List") => {
                all.extend(items);
            }
            Some(items) => {
                if let Some(map) = document.as_object_mut() {
                    map.insert("items".to_owned(), items);
                }
                all.push(document);
            }
            None if document.is_null() => {}
            None => all.push(document),
        }
    }
    all
}

fn one(document: Value, all: &mut All, problems: &mut Problems) {
    let (kind, version) = (text(&document, "kind"), text(&document, "apiVersion"));
    let known = KINDS.iter().find(|(it, _)| *it == kind);
    match known {
        None if kind.is_empty() => problems.add("kind", "Required value"),
        None if kind == "Service" => problems.add(
            "kind",
            "a Service is not taken: a node has no virtual addresses. Reach a pod at its own name \
             or port, and leave the Service out",
        ),
        None => {
            let kinds: Vec<_> = KINDS.iter().map(|(it, _)| format!("{it:?}")).collect();
            let words = format!(
                "Unsupported value: {kind:?}: supported values: {}",
                kinds.join(", ")
            );
            problems.add("kind", words);
        }
        Some((_, right)) if *right != version => {
            let words = format!("Invalid value: {version:?}: of a {kind} it is {right}");
            problems.add("apiVersion", words);
        }
        Some(("ConfigMap", _)) => all
            .configs
            .extend(config(document, Kind::ConfigMap, problems)),
        Some(("Secret", _)) => all.configs.extend(config(document, Kind::Secret, problems)),
        Some((kind, _)) => all.schedules.extend(schedule(document, kind, problems)),
    }
}

fn label(name: &str, problems: &mut Problems) -> Option<Label> {
    if name.is_empty() {
        // It was told.
        return None;
    }
    match name.parse() {
        Ok(label) => Some(label),
        Err(error) => {
            let words = format!("Invalid value: {name:?}: {error}");
            problems.add("metadata.name", words);
            None
        }
    }
}

fn config(document: Value, kind: Kind, problems: &mut Problems) -> Option<ReadConfig> {
    let namespace = document.get("metadata").map(|it| text(it, "namespace"));
    let before = problems.0.len();
    let (name, data, immutable) = texts_of(document, kind == Kind::Secret, problems);
    let name = label(&name, problems)?;
    (problems.0.len() == before).then(|| ReadConfig {
        config: Config { kind, name },
        namespace: namespace.unwrap_or_default(),
        data,
        immutable,
    })
}

fn schedule(document: Value, kind: &str, problems: &mut Problems) -> Option<Read> {
    let beside = Beside::giving();
    let mut fields = Fields::of(document, "", problems);
    fields.known(&["apiVersion", "kind", "status"]);
    let meta = crate::pod::manifest::metadata(&mut fields);
    let (name, namespace) = (meta.name.clone(), meta.namespace.clone());
    let mut draft = match fields.object("spec") {
        Some(spec) => workload::of(kind, spec, meta, &beside),
        None => {
            fields.refuse("spec", "Required value");
            None
        }
    };
    fields.end();
    let name = label(&name, problems)?;
    if let Err(error) = check_name(&name) {
        let words = format!("Invalid value: {:?}: {error}", name.as_str());
        problems.add("metadata.name", words);
        return None;
    }
    if let Some(draft) = &mut draft {
        draft.kind = kind.to_owned();
    }
    if !problems.0.is_empty() {
        return None;
    }
    let checked = draft.map(|draft| checked(draft, kind, problems));
    Some(Read {
        name,
        namespace,
        spec: checked??,
    })
}

/// What our own rules refuse, by Kubernetes' paths as far as they have one.
fn checked(draft: Draft, kind: &str, problems: &mut Problems) -> Option<Spec> {
    let replicas = draft.replicas.map(|it| it.count);
    match Spec::try_from(draft) {
        Ok(spec) => Some(spec),
        Err(error) => {
            let field = error.field.clone().unwrap_or_default();
            let path = match (field.as_str(), kind) {
                ("replicas.count", _) => "spec.replicas",
                ("cron.pattern", _) => "spec.schedule",
                ("cron.zone", _) => "spec.timeZone",
                ("job.completions", "CronJob") => "spec.jobTemplate.spec.completions",
                ("job.parallelism", "CronJob") => "spec.jobTemplate.spec.parallelism",
                ("job.completions", _) => "spec.completions",
                ("job.parallelism", _) => "spec.parallelism",
                ("overlap", _) => "spec.concurrencyPolicy",
                (field, _) => field,
            };
            let value = match path {
                "spec.replicas" => format!(" {}:", replicas.unwrap_or_default()),
                _ => String::new(),
            };
            problems.add(path, format!("Invalid value:{value} {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests;
