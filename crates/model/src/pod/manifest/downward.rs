// SPDX-License-Identifier: Apache-2.0
//! Files of a manifest that tell something of the pod. Annotations and requests of storage are
//! nothing that a pod of ours has: what the manifest says is written as it is there.

use std::collections::BTreeMap;

use serde_json::Value;

use super::container::key_of;
use super::files::Parts;
use super::quantity;
use super::reader::Fields;
use crate::pod::env::Fact;
use crate::pod::told::{AmountOf, FileFact, Said, lines};

/// What a container says of storage, by its name: what it asks for, or else may take.
pub(super) fn storage(fields: &mut Fields<'_>) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for list in ["initContainers", "containers"] {
        let Some(containers) = fields.take(list) else {
            continue;
        };
        for container in containers.as_array().into_iter().flatten() {
            let name = container.get("name").and_then(Value::as_str);
            let of = |what: &str| {
                let found = container.get("resources")?.get(what)?.get(STORAGE)?;
                match found {
                    Value::String(text) => quantity::whole(text),
                    other => quantity::whole(&other.to_string()),
                }
            };
            if let (Some(name), Some(bytes)) = (name, of("requests").or_else(|| of("limits"))) {
                all.insert(name.to_owned(), bytes);
            }
        }
        fields.put(list, containers);
    }
    all
}

const STORAGE: &str = "ephemeral-storage";

/// What a file says: as it is now, or as it is in the manifest.
enum Says {
    Fact(Said),
    Text(String),
}

pub(super) fn items(fields: &mut Fields<'_>, parts: &mut Parts<'_>) {
    fields.each("items", |it| item(it, parts));
}

fn item(mut fields: Fields<'_>, parts: &mut Parts<'_>) {
    let (path, mode) = (fields.text("path"), fields.number("mode"));
    let of_pod = fields.object("fieldRef").map(|it| field(it, parts));
    let of_container = fields
        .object("resourceFieldRef")
        .map(|it| resource(it, parts));
    let says = match (of_pod, of_container) {
        (Some(says), None) | (None, Some(says)) => says,
        _ => {
            fields.refuse("", "must have one of fieldRef and resourceFieldRef");
            None
        }
    };
    if parts.take(&mut fields, "path", &path) {
        parts.mode(&path, mode);
        match says {
            Some(Says::Fact(from)) => parts.files.facts.push(FileFact { path, from }),
            Some(Says::Text(text)) => drop(parts.files.files.insert(path, text)),
            None => {}
        }
    }
    fields.end();
}

fn field(mut fields: Fields<'_>, parts: &Parts<'_>) -> Option<Says> {
    fields.only("apiVersion", &["v1"]);
    let path = fields.text("fieldPath");
    let annotations = parts.around.annotations;
    let fact = |fact| Some(Says::Fact(Said::Fact(fact)));
    let says = match path.as_str() {
        "metadata.name" => fact(Fact::PodName),
        "metadata.namespace" => fact(Fact::Tenant),
        "metadata.uid" => fact(Fact::PodUid),
        "metadata.labels" => Some(Says::Fact(Said::Labels)),
        "metadata.annotations" => {
            let pairs = annotations.iter();
            Some(Says::Text(lines(
                pairs.map(|(key, text)| (key.as_str(), text.as_str())),
            )))
        }
        path => match (key_of(path, "labels"), key_of(path, "annotations")) {
            (Some(key), _) => Some(Says::Fact(Said::Label(key.to_owned()))),
            (None, Some(key)) => {
                let text = annotations.get(key).cloned().unwrap_or_default();
                Some(Says::Text(text))
            }
            (None, None) => None,
        },
    };
    if says.is_none() {
        let words = format!(
            "is {path}; metadata.name, metadata.namespace, metadata.uid, metadata.labels, \
             metadata.annotations, metadata.labels['KEY'], metadata.annotations['KEY'] can be \
             taken; addresses and the node's name are for variables (env)"
        );
        fields.refuse("fieldPath", words);
    }
    fields.end();
    says
}

fn resource(mut fields: Fields<'_>, parts: &Parts<'_>) -> Option<Says> {
    let container = fields.text("containerName");
    if container.is_empty() {
        fields.refuse(
            "containerName",
            "Required value: a volume is all containers'",
        );
    }
    let name = fields.text("resource");
    let divisor = divisor(&mut fields, name.ends_with(".cpu"));
    let fact = match name.as_str() {
        "limits.cpu" => Some(Fact::CpuLimit),
        "requests.cpu" => Some(Fact::CpuRequest),
        "limits.memory" => Some(Fact::MemoryLimit),
        "requests.memory" => Some(Fact::MemoryRequest),
        "limits.ephemeral-storage" => Some(Fact::StorageLimit),
        _ => None,
    };
    let says = match fact {
        Some(fact) => Some(Says::Fact(Said::Amount(AmountOf {
            container,
            fact,
            divisor,
        }))),
        None if name == "requests.ephemeral-storage" => {
            let bytes = parts.around.storage.get(&container).copied().unwrap_or(0);
            Some(Says::Text(bytes.div_ceil(divisor.unwrap_or(1)).to_string()))
        }
        None => {
            let words = format!(
                "is {name}; limits and requests of cpu, memory and ephemeral-storage can be taken"
            );
            fields.refuse("resource", words);
            None
        }
    };
    fields.end();
    says
}

/// In thousandths of a CPU, or in bytes; `None`: the usual one.
fn divisor(fields: &mut Fields<'_>, of_cpu: bool) -> Option<u64> {
    let text = match fields.take("divisor")? {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let number = quantity::thousandths(&text).and_then(|thousandths| match of_cpu {
        true => Some(thousandths),
        false => (thousandths % 1000 == 0).then_some(thousandths / 1000),
    });
    if number.is_none() {
        let words = format!("is {text}: it must be a quantity such as 1m, of a CPU, or 1Mi");
        fields.refuse("divisor", words);
    }
    // As Kubernetes has it, 0 is 1.
    number.filter(|number| *number > 0)
}
