// SPDX-License-Identifier: Apache-2.0
//! Pods of Kubernetes' manifests. What of them a pod here can have is `api::convert`'s to say, by
//! the code of `aurae pod run`.

use std::collections::BTreeSet;

use api::convert::pod::{Manifest, read_partly, to_spec};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, Value as Field};
use serde_json::Value;

use super::Origin;
use super::write::{Expression, comment};
use crate::schema::Schema;

/// The program, not formatted.
pub(super) fn program(documents: Vec<Value>, origin: &Origin) -> String {
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
    let of = api::descriptor_pool().ok();
    let of = of.and_then(|pool| pool.get_message_by_name("aurae.pod.v0.PodSpec"));
    let spec = of.and_then(|of| {
        let mut spec = DynamicMessage::new(of);
        spec.transcode_from(&to_spec(&pod.draft)).ok()?;
        Some(message(&spec))
    });
    if let Some(Expression::Object(spec)) = spec {
        fields.extend(spec);
    }
    Expression::Object(fields)
}

/// The fields of a message that say something, as a program writes them.
fn message(message: &DynamicMessage) -> Expression {
    let fields = message.fields().map(|(field, value)| {
        let value = match value {
            Field::List(items) => {
                Expression::List(items.iter().map(|item| one(&field, item)).collect())
            }
            Field::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| (*key).clone());
                let entries = entries
                    .into_iter()
                    .map(|(key, value)| (text(key), one(&field, value)));
                Expression::Object(entries.collect())
            }
            value => one(&field, value),
        };
        (field.json_name().to_owned(), value)
    });
    Expression::Object(fields.collect())
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
            _ => message(inner),
        },
        Field::String(text) => Expression::Text(text.clone()),
        other => Expression::Text(other.to_string()),
    }
}

fn is_duration(field: &FieldDescriptor) -> bool {
    let kind = field.kind();
    let of = kind.as_message().map(|of| of.full_name());
    of == Some("google.protobuf.Duration")
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
