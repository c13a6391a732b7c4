// SPDX-License-Identifier: Apache-2.0
//! Workload classes: a message that is exactly `ref`, `labels` and `spec` is a workload, whichever
//! it is, and has a class of its name.

use super::{doc, line, message};
use crate::schema::{Cardinality, Field, Kind, Message, Schema};

/// All of the API, in the order of the descriptors.
pub(crate) fn all(schema: &Schema) -> impl Iterator<Item = &Message> {
    let names = schema
        .subsystems
        .iter()
        .flat_map(|subsystem| &subsystem.messages);
    names
        .filter_map(|name| schema.message(name))
        .filter(|message| message.is_workload())
}

/// The message of its `spec`.
pub(crate) fn spec<'a>(schema: &'a Schema, class: &Message) -> Option<&'a Message> {
    message_of(schema, class.field("spec")?)
}

/// The message of its status: `CellStatus` of `Cell`.
pub(super) fn status<'a>(schema: &'a Schema, class: &Message) -> Option<&'a Message> {
    schema.message_named(&format!("{}Status", class.qualified()))
}

/// `cell`: what a class is called where it is one of several kinds.
pub(crate) fn kind(class: &Message) -> String {
    let mut letters = class.name.chars();
    let first = letters.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// Fields of a spec that map strings to strings, with the method that sets one: `env`, `Env`.
pub(crate) fn maps(spec: &Message) -> impl Iterator<Item = (&Field, String)> {
    let maps = spec.fields.iter().filter(|field| {
        matches!(field.cardinality, Cardinality::Map(_)) && field.kind == Kind::String
    });
    maps.map(|field| (field, capital(&field.name)))
}

/// Repeated fields of a spec, with the method that adds to one: `mounts`, `Mounts`.
pub(crate) fn lists(spec: &Message) -> impl Iterator<Item = (&Field, String)> {
    let fields = spec.fields.iter();
    let lists = fields.filter(|field| field.cardinality == Cardinality::List);
    lists.map(|field| (field, capital(&field.name)))
}

/// The message of the ports that a spec publishes in its `network`, if it does: then the class has
/// `Expose`.
pub(crate) fn ports<'a>(schema: &'a Schema, spec: &'a Message) -> Option<&'a Message> {
    let network = message_of(schema, spec.field("network")?)?;
    let ports = network.field("ports")?;
    let is_list = ports.cardinality == Cardinality::List;
    message_of(schema, ports).filter(|_| is_list)
}

/// Lists of a spec without variables of its own whose items have some, as a pod's containers: then
/// the class has `Env`, which sets one in each.
pub(crate) fn with_env<'a>(schema: &'a Schema, spec: &'a Message) -> Vec<&'a Field> {
    if spec.field("env").is_some() {
        return Vec::new();
    }
    let lists = lists(spec).map(|(field, _)| field);
    let has_env = |field: &&Field| {
        let variables = message_of(schema, field).and_then(|item| item.field("env"));
        let variable = variables.and_then(|env| message_of(schema, env));
        variable.is_some_and(|it| it.field("name").is_some() && it.field("value").is_some())
    };
    lists.filter(has_env).collect()
}

fn message_of<'a>(schema: &'a Schema, field: &Field) -> Option<&'a Message> {
    match &field.kind {
        Kind::Message(name) => schema.message(name),
        _ => None,
    }
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

pub(super) fn classes(text: &mut String, schema: &Schema) {
    for class in all(schema) {
        let Some(spec) = spec(schema, class) else {
            continue;
        };
        let (name, kind) = (&class.name, kind(class));
        let spec_name = message::name_in("", spec, message::Way::In);
        let docs = doc::of_message(class);
        text.push('\n');
        doc::write(
            text,
            "",
            &format!("{docs} As `new {name}({{ … }})` takes it."),
        );
        line(
            text,
            &format!("interface {name}Data extends {spec_name} {{"),
        );
        data(text);
        text.push_str("}\n\n");
        doc::write(
            text,
            "",
            &format!("{docs}\n\nData: inert until it is handed to a subsystem."),
        );
        line(text, &format!("declare class {name} extends Workload {{"));
        line(text, &format!("  constructor(data: {name}Data);"));
        line(text, "  /** Takes back what `toJSON` gave. */");
        line(text, &format!("  static From(json: unknown): {name};"));
        line(text, &format!("  readonly kind: \"{kind}\";"));
        line(
            text,
            &format!("  toJSON(): {name}Data & {{ kind: \"{kind}\" }};"),
        );
        for (field, method) in maps(spec) {
            line(
                text,
                &format!("  /** Sets one entry of `{}`. */", field.name),
            );
            line(
                text,
                &format!("  {method}(key: string, value: string): this;"),
            );
        }
        for (field, method) in lists(spec) {
            let list = message::of_field(schema, "", field, message::Way::In);
            line(text, &format!("  /** Adds to `{}`. */", field.name));
            line(text, &format!("  {method}(...items: {list}): this;"));
        }
        for_all(text, schema, spec);
        text.push_str("}\n\n");
        line(text, &format!("interface {name} extends {spec_name} {{}}"));
    }
}

/// Methods that reach further than one field.
fn for_all(text: &mut String, schema: &Schema, spec: &Message) {
    let lists = with_env(schema, spec);
    if !lists.is_empty() {
        let names: Vec<_> = lists
            .iter()
            .map(|list| format!("`{}`", list.name))
            .collect();
        let names = names.join(" and ");
        line(
            text,
            &format!("  /** Sets a variable in each of {names}. */"),
        );
        line(text, "  Env(key: string, value: string): this;");
    }
    if let Some(port) = ports(schema, spec) {
        let port = message::name_in("", port, message::Way::In);
        line(
            text,
            "  /** Publishes ports of the node: a number leads to the same port here. */",
        );
        line(
            text,
            &format!("  Expose(...ports: (number | {port})[]): this;"),
        );
    }
}

/// What every workload is made from, beside the fields of its spec.
fn data(text: &mut String) {
    line(
        text,
        "  /** Its path: `\"web\"`, or `\"web/nginx\"` in the cell `web`. */",
    );
    line(text, "  name: string;");
    line(text, "  /** Absent: the caller's own. */");
    line(text, "  tenant?: string;");
    line(text, "  /** At most 64, as in Kubernetes. */");
    line(text, "  labels?: Record<string, string>;");
    line(
        text,
        "  /** An apply refuses to stop or to recreate it: the label `aurae.io/protect`. */",
    );
    line(text, "  protect?: boolean;");
}
