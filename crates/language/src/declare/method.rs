// SPDX-License-Identifier: Apache-2.0
//! Subsystems and methods as types: every method an interface with call signatures and an action.

use super::message::{self, Way, name_in};
use super::{doc, interface as interface_of, line, workload};
use crate::prelude::Friendly;
use crate::schema::{Cardinality, Field, Kind, Message, Method, Schema, Subsystem};

/// What names an object.
const REFERENCE: &str = "aurae.runtime.v0.ObjectRef";
/// What holds an object of any kind.
const OBJECT: &str = "aurae.runtime.v0.Object";

/// The field by which a request names its object: `ref`, or `refs`. A target may stand in its
/// place.
pub(crate) fn target_field(request: &Message) -> Option<&Field> {
    let named = |name, cardinality| {
        let field = request.field(name)?;
        let fits =
            field.kind == Kind::Message(REFERENCE.into()) && field.cardinality == cardinality;
        fits.then_some(field)
    };
    named("ref", Cardinality::Single).or_else(|| named("refs", Cardinality::List))
}

/// The answer is an object of any kind, of which a class's own status can be taken.
pub(crate) fn unwraps(method: &Method) -> bool {
    method.response == OBJECT && !method.server_streams && !method.client_streams
}

/// The interface of a subsystem's object.
pub(super) fn subsystem(
    text: &mut String,
    schema: &Schema,
    subsystem: &Subsystem,
    friendly: Option<&Friendly>,
) {
    doc::write(text, "  ", &doc::of_service(subsystem));
    line(text, &format!("  interface {} {{", interface_of(subsystem)));
    line(
        text,
        "    /** For grants: every method of the subsystem. */",
    );
    line(
        text,
        &format!("    readonly action: \"{}\";", subsystem.name),
    );
    for method in &subsystem.methods {
        doc::write(text, "    ", &doc::of_method(method));
        line(text, &format!("    readonly {}: {0}Method;", method.name));
    }
    if runs(schema, subsystem).next().is_some() {
        line(text, "    /** Runs a workload, or several, of any kind. */");
        line(text, "    readonly Run: RunMethod;");
    }
    let raw = |name: &str| subsystem.methods.iter().any(|method| method.name == name);
    for member in friendly.iter().flat_map(|found| &found.members) {
        if member.name != "Run" && !raw(&member.name) {
            line(text, &indent(&member.text, "    "));
        }
    }
    line(text, "  }");
    if runs(schema, subsystem).next().is_some() {
        run_method(text, schema, subsystem, friendly);
    }
}

/// Methods that run a workload, with its message, of every subsystem: what `Run` of a subsystem
/// with such methods by name (`RunCell`) takes. None of one that has none.
fn runs<'a>(
    schema: &'a Schema,
    subsystem: &'a Subsystem,
) -> impl Iterator<Item = (&'a Method, &'a Message)> {
    let of_class = |method: &Method| {
        let name = method.name.strip_prefix("Run");
        name.is_some_and(|name| workload::all(schema).any(|class| class.name == name))
    };
    let has = subsystem.methods.iter().any(of_class);
    let all = schema.subsystems.iter().filter(move |_| has);
    all.flat_map(|one| &one.methods).filter_map(|method| {
        let request = schema.message(&method.request)?;
        let (_, class) = workload_field(schema, request)?;
        Some((method, class))
    })
}

/// `Run`: an overload per class, and the friendly layer's own.
fn run_method(
    text: &mut String,
    schema: &Schema,
    subsystem: &Subsystem,
    friendly: Option<&Friendly>,
) {
    text.push_str("\n  interface RunMethod {\n");
    line(
        text,
        "    /** For grants: every method that runs something. */",
    );
    line(text, "    readonly actions: readonly string[];");
    let members = friendly.iter().flat_map(|found| &found.members);
    let own: Vec<_> = members.filter(|member| member.name == "Run").collect();
    // The one of any workload comes last: of overloads the first that fits is taken.
    let (any, others): (Vec<_>, Vec<_>) = own
        .into_iter()
        .partition(|member| member.signature.contains("(workload: Workload,"));
    for member in others {
        line(text, &indent(&member.signature, "    "));
    }
    for (method, class) in runs(schema, subsystem) {
        doc::write(text, "    ", &doc::of_method(method));
        let answer = answer(schema, &subsystem.name, method);
        let (of, _) = method.action.split_once('.').unwrap_or_default();
        let within = match of == subsystem.name {
            true => String::new(),
            false => format!("{of}."),
        };
        line(
            text,
            &format!(
                "    (workload: {}, options?: {within}{}Options, context?: Context): {answer};",
                class.name, method.name
            ),
        );
    }
    for member in any {
        line(text, &indent(&member.signature, "    "));
    }
    line(text, "  }");
}

/// `StopMethod`, and `StopOptions` where a target may take the request's place.
pub(super) fn interface(
    text: &mut String,
    schema: &Schema,
    method: &Method,
    friendly: Option<&Friendly>,
) {
    let Some(request) = schema.message(&method.request) else {
        return;
    };
    let namespace = method.action.split('.').next().unwrap_or_default();
    let workload = workload_field(schema, request).map(|(field, _)| field);
    let skipped = target_field(request).or(workload);
    if let Some(skipped) = skipped.filter(|_| !method.client_streams) {
        options(text, schema, method, request, skipped);
    }
    line(text, &format!("  interface {}Method {{", method.name));
    line(text, "    /** For grants. */");
    line(
        text,
        &format!("    readonly action: \"{}\";", method.action),
    );
    let members = friendly.iter().flat_map(|found| &found.members);
    for member in members.filter(|member| member.name == method.name) {
        line(text, &indent(&member.signature, "    "));
    }
    for signature in signatures(schema, namespace, method, request) {
        doc::write(text, "    ", &doc::of_method(method));
        line(text, &format!("    {signature};"));
    }
    line(text, "  }");
}

/// The request without what the first argument says.
fn options(text: &mut String, schema: &Schema, method: &Method, request: &Message, skip: &Field) {
    let name = format!("{}Options", method.name);
    let rest: Vec<_> = request
        .fields
        .iter()
        .filter(|field| field.number != skip.number)
        .collect();
    doc::write(
        text,
        "  ",
        &format!("What `{}` takes beside its object.", method.name),
    );
    line(text, &format!("  interface {name} {{"));
    if rest.is_empty() {
        line(text, "    [field: string]: never;");
    }
    for field in rest {
        doc::write(text, "    ", &doc::spelled(schema.field_docs(field)));
        let written = message::of_field(schema, &request.subsystem, field, Way::In);
        line(text, &format!("    {}?: {written};", field.name));
    }
    line(text, "  }\n");
}

/// The workload that a request takes, with its class: a declaration may stand in the request's
/// place. None where there are several.
pub(crate) fn workload_field<'a>(
    schema: &'a Schema,
    request: &'a Message,
) -> Option<(&'a Field, &'a Message)> {
    let mut found = request.fields.iter().filter_map(|field| match &field.kind {
        Kind::Message(full) if field.cardinality == Cardinality::Single => {
            let class = schema
                .message(full)
                .filter(|message| message.is_workload())?;
            Some((field, class))
        }
        _ => None,
    });
    found.next().filter(|_| found.next().is_none())
}

fn signatures(schema: &Schema, namespace: &str, method: &Method, request: &Message) -> Vec<String> {
    let answer = answer(schema, namespace, method);
    if method.client_streams {
        return vec![format!("(context?: Context): {answer}")];
    }
    let mut all = Vec::new();
    let rest = format!("options?: {}Options, context?: Context", method.name);
    match target_field(request).map(|field| field.cardinality) {
        Some(Cardinality::Single) => {
            let classes = workload::all(schema).filter(|class| class.subsystem == namespace);
            for class in classes.filter(|_| unwraps(method)) {
                let status = workload::status(schema, class);
                let status = status.map(|status| name_in(namespace, status, Way::Out));
                let status = status.unwrap_or_else(|| "unknown".into());
                all.push(format!(
                    "(target: {}, {rest}): Promise<{status}>",
                    class.name
                ));
            }
            all.push(format!("(target: Target, {rest}): {answer}"));
        }
        Some(_) => all.push(format!(
            "(target: Target | readonly Target[], {rest}): {answer}"
        )),
        None => {
            if let Some((_, class)) = workload_field(schema, request) {
                all.push(format!("(workload: {}, {rest}): {answer}", class.name));
            }
        }
    }
    let mark = if may_be_left_out(method, request) {
        "?"
    } else {
        ""
    };
    let given = name_in(namespace, request, Way::In);
    all.push(format!(
        "(request{mark}: {given}, context?: Context): {answer}"
    ));
    all
}

/// Reading without saying what reads everything; other requests mean nothing when they are empty.
fn may_be_left_out(method: &Method, request: &Message) -> bool {
    let named = target_field(request).is_some_and(|field| field.cardinality == Cardinality::Single);
    request.fields.is_empty() || (!method.mutating && !named)
}

fn answer(schema: &Schema, namespace: &str, method: &Method) -> String {
    let given = |name: &str, way| {
        let message = schema.message(name);
        message.map_or_else(|| "unknown".into(), |found| name_in(namespace, found, way))
    };
    let (request, response) = (
        given(&method.request, Way::In),
        given(&method.response, Way::Out),
    );
    match (method.client_streams, method.server_streams) {
        (true, _) => format!("BidiStream<{request}, {response}>"),
        (false, true) => format!("ServerStream<{response}>"),
        (false, false) => format!("Promise<{response}>"),
    }
}

fn indent(text: &str, by: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| format!("{by}{line}")).collect();
    lines.join("\n")
}
