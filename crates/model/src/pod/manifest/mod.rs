// SPDX-License-Identifier: Apache-2.0
//! Kubernetes' manifests as pods of ours: a Pod, and the ConfigMaps and Secrets beside it that it
//! names. Pure. Nothing is left out in silence: what a pod of ours can't have is named by its path,
//! all of it at once.

mod container;
mod device;
mod downward;
mod files;
mod network;
mod owner;
mod probe;
mod pull;
pub(crate) mod quantity;
pub(crate) mod reader;
mod selinux;
mod storage;
mod volume;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::spec::{Draft, HostAlias, Restart};
use crate::name::Label;
use crate::schedule::given::{Config, Given, Kind, Place};
pub use pull::PullSecret;
use reader::{Fields, Problems};

/// A pod that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`; empty: none.
    pub namespace: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// Not checked yet.
    pub draft: Draft,
    /// What its images are pulled with, by registry.
    pub pull_secrets: Vec<PullSecret>,
}

/// A field that can't be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// As in `spec.containers[0].image`.
    pub path: String,
    /// Why, and what to do.
    pub words: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.words)
    }
}

/// What ConfigMaps and Secrets of the same file hold, by name and key.
type Maps = BTreeMap<String, BTreeMap<String, String>>;

/// The ConfigMaps and Secrets beside a pod.
#[derive(Default)]
pub(crate) struct Beside {
    config: Maps,
    secret: Maps,
    /// What is mentioned is named, and given when a run begins; it needs not be in the file.
    pub(crate) given: Option<RefCell<Vec<Given>>>,
    /// What the pod that is being read has images pulled with.
    pulls: RefCell<Vec<PullSecret>>,
}

impl Beside {
    /// Of a pod whose configs are kept elsewhere.
    pub(crate) fn giving() -> Self {
        Self {
            given: Some(RefCell::default()),
            ..Self::default()
        }
    }

    /// Keeps that a place is given something, where what is mentioned is named. Whether it is.
    fn gives(
        &self,
        fields: &mut Fields<'_>,
        (field, kind, name): (&str, Kind, &str),
        optional: bool,
        place: Place,
    ) -> bool {
        let Some(given) = &self.given else {
            return false;
        };
        match name.parse() {
            Ok(name) => given.borrow_mut().push(Given {
                config: Config { kind, name },
                optional,
                place,
            }),
            Err(error) if name.is_empty() => {
                let _: crate::name::InvalidName = error;
                fields.refuse(field, "Required value");
            }
            Err(error) => fields.refuse(field, format!("Invalid value: {name:?}: {error}")),
        }
        true
    }
}

/// Reads the documents of a file.
///
/// # Errors
/// Every field that can't be taken; at least one.
pub fn read(documents: Vec<Value>) -> Result<Vec<Manifest>, Vec<Problem>> {
    let (pods, problems) = read_partly(documents);
    match problems.is_empty() {
        true => Ok(pods),
        false => Err(problems),
    }
}

/// Reads the documents of a file as far as they can be taken, with every field that can't.
pub fn read_partly(documents: Vec<Value>) -> (Vec<Manifest>, Vec<Problem>) {
    let mut problems = Problems::default();
    let mut beside = Beside::default();
    let mut pods = Vec::new();
    for (i, document) in documents.into_iter().enumerate() {
        let at = format!("document {}", i + 1);
        let kind = document.get("kind").and_then(Value::as_str);
        match kind {
            Some("Pod") => pods.push(document),
            Some("ConfigMap") => data(document, &mut beside.config, false, &mut problems),
            Some("Secret") => data(document, &mut beside.secret, true, &mut problems),
            _ if document.is_null() => {}
            Some(other) => {
                let words = format!("is a {other}; a Pod, ConfigMap or Secret can be taken");
                problems.add(&at, words);
            }
            None => problems.add(&at, "has no kind: it must be a Pod of apiVersion v1"),
        }
    }
    if pods.is_empty() {
        problems.add("kind", "the file has no Pod");
    }
    let pods = pods.into_iter().map(|it| pod(it, &beside, &mut problems));
    (pods.collect(), problems.0)
}

/// The texts of a ConfigMap or Secret.
fn data(document: Value, into: &mut Maps, secret: bool, problems: &mut Problems) {
    let (name, texts, _) = texts_of(document, secret, problems);
    into.insert(name, texts);
}

/// Its name, its texts, and whether it can't be changed.
pub(crate) fn texts_of(
    document: Value,
    secret: bool,
    problems: &mut Problems,
) -> (String, BTreeMap<String, String>, bool) {
    let mut fields = Fields::of(document, "", problems);
    fields.known(&["apiVersion", "kind", "type"]);
    let immutable = fields.flag("immutable").unwrap_or(false);
    let name = metadata(&mut fields).name;
    let mut texts = BTreeMap::new();
    if secret {
        for (key, text) in fields.texts("data") {
            match volume::from_base64(&text) {
                Some(text) => drop(texts.insert(key, text)),
                None => fields.refuse(&format!("data.{key}"), "is no base64 of UTF-8 text"),
            }
        }
        texts.extend(fields.texts("stringData"));
    } else {
        texts.extend(fields.texts("data"));
    }
    fields.end();
    (name, texts, immutable)
}

/// What a document says of itself.
#[derive(Default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// Notes for other programs; a pod may read its own, and some say what our pods have besides.
    pub(crate) annotations: BTreeMap<String, String>,
}

pub(crate) fn metadata(fields: &mut Fields<'_>) -> Metadata {
    let Some(mut meta) = fields.object("metadata") else {
        fields.refuse("metadata.name", "Required value");
        return Metadata::default();
    };
    let name = meta.text("name");
    if name.is_empty() {
        meta.refuse("name", "Required value");
    }
    // What an API server writes.
    meta.known(&["creationTimestamp", "uid", "resourceVersion"]);
    meta.known(&[
        "generation",
        "managedFields",
        "ownerReferences",
        "generateName",
    ]);
    let found = Metadata {
        name,
        namespace: meta.text("namespace"),
        labels: meta.texts("labels"),
        annotations: meta.texts("annotations"),
    };
    meta.end();
    found
}

fn pod(document: Value, beside: &Beside, problems: &mut Problems) -> Manifest {
    let mut fields = Fields::of(document, "", problems);
    fields.known(&["kind", "status"]);
    if fields.text("apiVersion") != "v1" {
        fields.refuse("apiVersion", "must be v1");
    }
    let meta = metadata(&mut fields);
    let draft = match fields.object("spec") {
        Some(spec) => self::spec(spec, beside, &meta.annotations),
        None => {
            fields.refuse("spec", "Required value");
            Draft::default()
        }
    };
    fields.end();
    Manifest {
        name: meta.name,
        namespace: meta.namespace,
        labels: meta.labels,
        draft,
        pull_secrets: beside.pulls.take(),
    }
}

pub(crate) fn spec(
    mut fields: Fields<'_>,
    beside: &Beside,
    annotations: &BTreeMap<String, String>,
) -> Draft {
    let restart = match fields.text("restartPolicy").as_str() {
        "" | "Always" => Restart::Always,
        "OnFailure" => Restart::OnFailure,
        "Never" => Restart::Never,
        _ => {
            fields.refuse(
                "restartPolicy",
                "Unsupported value: supported values: \"Always\", \"OnFailure\", \"Never\"",
            );
            Restart::Always
        }
    };
    let around = files::Around {
        beside,
        annotations,
        storage: downward::storage(&mut fields),
    };
    let mut devices = BTreeSet::new();
    let mut draft = Draft {
        restart,
        stop_grace: fields.seconds("terminationGracePeriodSeconds"),
        active_deadline: fields.seconds("activeDeadlineSeconds"),
        hostname: fields.text("hostname"),
        volumes: fields.each("volumes", |it| volume::volume(it, &around, &mut devices)),
        host_aliases: fields
            .each("hostAliases", alias)
            .into_iter()
            .flatten()
            .collect(),
        host_network: fields.flag("hostNetwork").unwrap_or(false),
        host_pid: fields.flag("hostPID").unwrap_or(false),
        host_ipc: fields.flag("hostIPC").unwrap_or(false),
        share_processes: fields.flag("shareProcessNamespace").unwrap_or(false),
        sandbox_class: class(&mut fields),
        ..Draft::default()
    };
    draft.network = network::network(&mut fields);
    let mut pods = security(&mut fields, &mut draft);
    pods.annotations = annotations.clone();
    defaults(&mut fields);
    pull::secrets(&mut fields, beside);
    let mut ports = Vec::new();
    draft.init_containers = fields.each("initContainers", |it| {
        container::container(it, beside, &pods, true, &mut ports)
    });
    draft.containers = fields.each("containers", |it| {
        container::container(it, beside, &pods, false, &mut ports)
    });
    selinux::label_files(&mut draft);
    storage::roots(&mut fields, &mut draft, annotations);
    owner::owners(&mut fields, &mut draft, annotations, &devices);
    device::devices(&mut fields, &mut draft, &devices);
    volume::below(&mut draft);
    // In the node's network a container's ports are the node's already.
    if !draft.host_network {
        draft.network.ports = ports;
    }
    fields.end();
    draft
}

/// Kubernetes' word for it is a cluster's object; here the node itself has the classes.
fn class(fields: &mut Fields<'_>) -> Option<Label> {
    let name = fields.text("runtimeClassName");
    match name.parse() {
        Ok(label) => Some(label),
        Err(_) if name.is_empty() => None,
        Err(_) => {
            fields.refuse("runtimeClassName", "Invalid value: a DNS label");
            None
        }
    }
}

fn alias(mut fields: Fields<'_>) -> Option<HostAlias> {
    let ip = fields.text("ip");
    let names = fields.list("hostnames");
    let ip = match ip.parse() {
        Ok(ip) => Some(ip),
        Err(_) => {
            fields.refuse("ip", "is no IP address");
            None
        }
    };
    fields.end();
    Some(HostAlias { ip: ip?, names })
}

/// What a pod says for containers that don't.
#[derive(Default)]
struct Security {
    user: String,
    non_root: bool,
    /// Whether every system call is left, and the node's file that says which.
    filter: (bool, String),
    apparmor: String,
    selinux: Option<String>,
    /// What variables are told of its annotations.
    annotations: BTreeMap<String, String>,
}

fn security(fields: &mut Fields<'_>, draft: &mut Draft) -> Security {
    let Some(mut given) = fields.object("securityContext") else {
        return Security::default();
    };
    draft.user = given.number_text("runAsUser");
    draft.group = given.number_text("runAsGroup");
    draft.groups = given.numbers("supplementalGroups");
    draft.fs_group = given.number("fsGroup");
    // A pod's volumes are new: of both policies the same comes.
    let sysctl = |mut fields: Fields<'_>| {
        let pair = (fields.text("name"), fields.text("value"));
        fields.end();
        pair
    };
    // Their names may have slashes in place of dots, as in /proc/sys.
    let sysctls = given.each("sysctls", sysctl).into_iter();
    let dotted = |(name, value): (String, String)| match name.contains('.') {
        true => (name, value),
        false => (name.replace('/', "."), value),
    };
    draft.sysctls = sysctls.map(dotted).collect();
    given.only("fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    given.only("supplementalGroupsPolicy", &["Merge"]);
    let selinux = selinux::labels(&mut given);
    let security = Security {
        user: draft.user.clone(),
        non_root: given.flag("runAsNonRoot").unwrap_or(false),
        filter: container::seccomp(&mut given).unwrap_or_default(),
        apparmor: container::apparmor(&mut given).unwrap_or_default(),
        selinux: selinux.as_ref().map(|labels| labels.program.clone()),
        annotations: BTreeMap::new(),
    };
    draft.selinux_file_label = selinux.map(|labels| labels.files).unwrap_or_default();
    given.end();
    security
}

/// Fields that have a meaning elsewhere alone, or are at their defaults.
fn defaults(fields: &mut Fields<'_>) {
    // A node runs pods by itself: it schedules nothing, and has no services.
    fields.known(&[
        "schedulerName",
        "enableServiceLinks",
        "preemptionPolicy",
        "priority",
    ]);
    fields.known(&["tolerations", "serviceAccount", "serviceAccountName"]);
    fields.known(&["affinity", "topologySpreadConstraints"]);
    fields.known(&["priorityClassName", "overhead"]);
    if let Some(mut os) = fields.object("os") {
        os.only("name", &["linux"]);
        os.end();
    }
    fields.only("hostUsers", &["false"]);
    fields.only("automountServiceAccountToken", &["false"]);
    fields.only("setHostnameAsFQDN", &["false"]);
}

#[cfg(test)]
mod tests;
