// SPDX-License-Identifier: Apache-2.0
//! The API as the friendly layer needs it at run time: `prelude/table.ts` says what each part is.
//! It is written into the layer's JavaScript when that is generated; no program's start makes it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::declare::{method, workload};
use crate::schema::{Kind, Message, Method, PROMISED, Schema, Subsystem};

/// JSON; an expression of JavaScript as well.
pub fn table(schema: &Schema) -> String {
    let value = json!({
        "subsystems": schema.subsystems.iter().map(|s| subsystem(schema, s)).collect::<Vec<_>>(),
        "workloads": workload::all(schema).filter_map(|w| class(schema, w)).collect::<Vec<_>>(),
        "notOffered": not_offered(schema),
    });
    value.to_string()
}

fn subsystem(schema: &Schema, subsystem: &Subsystem) -> Value {
    let methods = subsystem
        .methods
        .iter()
        .map(|found| of_method(schema, found));
    json!({ "name": subsystem.name, "methods": methods.collect::<Vec<_>>() })
}

fn of_method(schema: &Schema, found: &Method) -> Value {
    let request = schema.message(&found.request);
    let target = request.and_then(method::target_field);
    let mut value = json!({
        "name": found.name,
        "clientStreams": found.client_streams,
        "serverStreams": found.server_streams,
        "unwraps": method::unwraps(found),
    });
    if let (Some(target), Value::Object(fields)) = (target, &mut value) {
        fields.insert("target".into(), target.name.clone().into());
    }
    let workload = request.and_then(|request| method::workload_field(schema, request));
    if let (Some((field, class)), Value::Object(fields)) = (workload, &mut value) {
        let runs = found.declares.is_some();
        let taken = json!({ "field": field.name, "kind": workload::kind(class), "runs": runs });
        fields.insert("workload".into(), taken);
    }
    value
}

fn class(schema: &Schema, class: &Message) -> Option<Value> {
    let spec = workload::spec(schema, class)?;
    let maps: Vec<_> = workload::maps(spec)
        .map(|(field, method)| json!({ "field": field.name, "method": method }))
        .collect();
    let lists: Vec<_> = workload::lists(spec)
        .map(|(field, method)| json!({ "field": field.name, "method": method }))
        .collect();
    let mut paths = Vec::new();
    wide(schema, spec, "", &mut BTreeSet::new(), &mut paths);
    Some(json!({
        "name": class.name,
        "subsystem": class.subsystem,
        "kind": workload::kind(class),
        "fields": spec.fields.iter().map(|field| &field.name).collect::<Vec<_>>(),
        "maps": maps,
        "lists": lists,
        "withEnv": workload::with_env(schema, spec).iter().map(|it| &it.name).collect::<Vec<_>>(),
        "exposes": workload::ports(schema, spec).is_some(),
        "wide": paths,
    }))
}

/// Paths of all 64-bit integers in a message; a message within itself is left out.
fn wide<'a>(
    schema: &'a Schema,
    message: &'a Message,
    path: &str,
    open: &mut BTreeSet<&'a str>,
    found: &mut Vec<String>,
) {
    if !open.insert(&message.full_name) {
        return;
    }
    for field in &message.fields {
        let here = format!("{path}{}", field.name);
        match &field.kind {
            kind if kind.is_wide() => found.push(here),
            Kind::Message(name) => {
                if let Some(inner) = schema.message(name) {
                    wide(schema, inner, &format!("{here}."), open, found);
                }
            }
            _ => {}
        }
    }
    open.remove(message.full_name.as_str());
}

fn not_offered(schema: &Schema) -> Vec<&'static str> {
    PROMISED
        .into_iter()
        .filter(|name| !schema.offers(name))
        .collect()
}
