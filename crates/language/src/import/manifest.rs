// SPDX-License-Identifier: Apache-2.0
//! Kubernetes' manifests. What of them can be had here is `api::convert`'s to say, by the code of
//! `aurae pod run` and of `aurae schedule apply`: where a file has pods alone they are run, and
//! what a pod can't have is left out with a comment. Of a file with other kinds everything is a
//! schedule or a config, as a node reads it; a document that a node would refuse is left out whole.

use std::collections::BTreeSet;

use api::convert::pod::{Manifest, read_partly, to_spec};
use api::convert::schedule::{self, Manifests, Read, ReadConfig, read_manifests, to_put};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, Value as Field};
use serde_json::Value;

use super::Origin;
use super::write::{Expression, comment};
use crate::schema::Schema;

/// A message of the contract by its name, to walk over.
macro_rules! dynamic {
    ($name:literal, $message:expr) => {{
        let of = api::descriptor_pool().ok();
        let of = of.and_then(|pool| pool.get_message_by_name($name));
        of.and_then(|of| {
            let mut walked = DynamicMessage::new(of);
            walked.transcode_from($message).ok()?;
            Some(walked)
        })
    }};
}

/// What a program declares flat: its place, its labels and its spec are fields side by side.
const FLAT: &str = "aurae.pod.v0.Pod";

/// The program, not formatted.
pub(super) fn program(documents: Vec<Value>, origin: &Origin) -> String {
    let is_pod = |document: &Value| document.get("kind").is_some_and(|it| it == "Pod");
    match documents.iter().all(is_pod) {
        true => of_pods(documents, origin),
        false => of_all(documents, origin),
    }
}

/// Schedules and configs, in the order in which a node would take them.
fn of_all(documents: Vec<Value>, origin: &Origin) -> String {
    let mut text = String::new();
    let words = format!("Imported from {} by `aurae import`.", origin.name);
    comment(&mut text, &words);
    let (mut configs, mut schedules) = (Vec::new(), Vec::new());
    for document in documents {
        let said = called(&document);
        match read_manifests(vec![document]) {
            Ok(Manifests {
                configs: own_configs,
                schedules: own,
                ..
            }) => {
                configs.extend(own_configs);
                schedules.extend(own);
            }
            Err(problems) => {
                text.push_str("//\n");
                comment(&mut text, &format!("{said} is left out:"));
                for problem in problems {
                    comment(&mut text, &format!("- {}: {}", problem.path, problem.words));
                }
            }
        }
    }
    text.push('\n');
    configs.iter().for_each(|it| put(&mut text, it));
    schedules.iter().for_each(|it| declare(&mut text, it));
    text
}

/// `Deployment web`.
fn called(document: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let kind = text(document.get("kind")).unwrap_or_else(|| "a document without a kind".to_owned());
    let name = text(document.pointer("/metadata/name")).unwrap_or_default();
    format!("{kind} {name}").trim_end().to_owned()
}

/// What `kubectl` takes where nothing is said is the caller's own tenant.
fn tenant(namespace: &str) -> String {
    match namespace {
        "" | "default" => String::new(),
        other => other.to_owned(),
    }
}

fn put(text: &mut String, config: &ReadConfig) {
    let put = to_put(tenant(&config.namespace), config);
    if put.kind() == api::schedule::v0::ConfigKind::Secret {
        let words = "Its texts stand here in the clear: read them from a file, or give them as \
                     values.";
        comment(text, words);
    }
    call(
        text,
        "PutConfig",
        dynamic!("aurae.schedule.v0.PutConfigRequest", &put),
    );
}

fn declare(text: &mut String, read: &Read) {
    let request = api::schedule::v0::DeclareRequest {
        tenant: tenant(&read.namespace),
        name: read.name.to_string(),
        spec: Some(schedule::to_spec(read.name.as_str(), &read.spec)),
    };
    call(
        text,
        "Declare",
        dynamic!("aurae.schedule.v0.DeclareRequest", &request),
    );
}

fn call(text: &mut String, method: &str, request: Option<DynamicMessage>) {
    let request = request.as_ref().map(message);
    let request = request.unwrap_or(Expression::Object(Vec::new()));
    text.push_str(&format!(
        "await schedule.{method}({});\n\n",
        request.written()
    ));
}

fn of_pods(documents: Vec<Value>, origin: &Origin) -> String {
    let (pods, problems) = read_partly(documents);
    let mut text = String::new();
    comment(
        &mut text,
        &format!("Imported from {} by `aurae import`.", origin.name),
    );
    if !problems.is_empty() {
        text.push_str("//\n");
        comment(&mut text, "What a pod can't have, by its place there:");
    }
    for problem in problems {
        comment(&mut text, &format!("- {}: {}", problem.path, problem.words));
    }
    text.push('\n');
    let mut names = BTreeSet::new();
    let pods: Vec<_> = pods
        .into_iter()
        .map(|pod| (name(&mut names, &pod), pod))
        .collect();
    for (name, pod) in &pods {
        let declared = declaration(pod);
        text.push_str(&format!(
            "const {name} = new Pod({});\n\n",
            declared.written()
        ));
    }
    let names: Vec<_> = pods.iter().map(|(name, _)| name.as_str()).collect();
    text.push_str(&match names.as_slice() {
        [one] => format!("await runtime.Run({one});\n"),
        several => format!("await runtime.Run([{}]);\n", several.join(", ")),
    });
    text
}

fn name(taken: &mut BTreeSet<String>, pod: &Manifest) -> String {
    super::compose::name_for(&pod.name, taken)
}

fn declaration(pod: &Manifest) -> Expression {
    let mut fields = vec![("name".to_owned(), Expression::Text(pod.name.clone()))];
    // What `kubectl` takes where nothing is said.
    if !matches!(pod.namespace.as_str(), "" | "default") {
        fields.push(("tenant".to_owned(), Expression::Text(pod.namespace.clone())));
    }
    if !pod.labels.is_empty() {
        let labels = pod.labels.iter();
        let labels = labels.map(|(name, value)| (name.clone(), Expression::Text(value.clone())));
        fields.push(("labels".to_owned(), Expression::Object(labels.collect())));
    }
    let spec = dynamic!("aurae.pod.v0.PodSpec", &to_spec(&pod.draft));
    if let Some(Expression::Object(spec)) = spec.as_ref().map(message) {
        fields.extend(spec);
    }
    Expression::Object(fields)
}

/// A pod within a schedule, which has the schedule's tenant.
fn flat(pod: &DynamicMessage) -> Expression {
    let mut fields = Vec::new();
    for (field, value) in pod.fields() {
        let inner = value.as_message();
        match (field.name(), inner) {
            ("ref", Some(place)) => {
                let path = place.get_field_by_name("path");
                let path = path.as_ref().and_then(|it| it.as_str()).unwrap_or_default();
                fields.push(("name".to_owned(), Expression::Text(path.to_owned())));
            }
            ("spec", Some(spec)) => {
                if let Expression::Object(spec) = message(spec) {
                    fields.extend(spec);
                }
            }
            _ => fields.push((field.json_name().to_owned(), of_field(&field, value))),
        }
    }
    Expression::Object(fields)
}

/// The fields of a message that say something, as a program writes them.
fn message(message: &DynamicMessage) -> Expression {
    let fields = message.fields();
    let fields =
        fields.map(|(field, value)| (field.json_name().to_owned(), of_field(&field, value)));
    Expression::Object(fields.collect())
}

fn of_field(field: &FieldDescriptor, value: &Field) -> Expression {
    match value {
        Field::List(items) => Expression::List(items.iter().map(|item| one(field, item)).collect()),
        Field::Map(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| (*key).clone());
            let entries = entries
                .into_iter()
                .map(|(key, value)| (text(key), one(field, value)));
            Expression::Object(entries.collect())
        }
        value => one(field, value),
    }
}

fn text(key: &MapKey) -> String {
    key.as_str().map(str::to_owned).unwrap_or_default()
}

fn one(field: &FieldDescriptor, value: &Field) -> Expression {
    match value {
        Field::Bool(flag) => Expression::Flag(*flag),
        Field::U32(number) => Expression::Number((*number).into()),
        Field::U64(number) => Expression::Number(*number),
        Field::EnumNumber(number) => Expression::Text(enumerated(field, *number)),
        Field::Message(inner) => match inner.transcode_to::<prost_types::Duration>() {
            Ok(time) if is_duration(field) => Expression::Text(duration(&time)),
            _ if is_of(field, FLAT) => flat(inner),
            _ => message(inner),
        },
        Field::String(text) => Expression::Text(text.clone()),
        other => Expression::Text(other.to_string()),
    }
}

fn is_duration(field: &FieldDescriptor) -> bool {
    is_of(field, "google.protobuf.Duration")
}

fn is_of(field: &FieldDescriptor, name: &str) -> bool {
    let kind = field.kind();
    kind.as_message().is_some_and(|of| of.full_name() == name)
}

fn duration(time: &prost_types::Duration) -> String {
    match time.nanos {
        0 => format!("{}s", time.seconds),
        nanos => format!("{}ms", time.seconds * 1000 + i64::from(nanos) / 1_000_000),
    }
}

/// The language's word for a value of an enum.
fn enumerated(field: &FieldDescriptor, number: i32) -> String {
    let Kind::Enum(of) = field.kind() else {
        return number.to_string();
    };
    let known = Schema::bare()
        .ok()
        .and_then(|schema| schema.enumeration(of.full_name()));
    let values = known.iter().flat_map(|known| &known.values);
    let mut named = values.filter(|value| value.number == number);
    named
        .next()
        .map_or_else(|| number.to_string(), |value| value.name.clone())
}
