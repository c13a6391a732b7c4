// SPDX-License-Identifier: Apache-2.0
//! From descriptors to the schema.

use std::collections::BTreeSet;

use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, FileDescriptor, MessageDescriptor,
    MethodDescriptor, ServiceDescriptor,
};
use prost_types::method_options::IdempotencyLevel;

use super::{
    Cardinality, Enum, EnumValue, Field, Kind, MapKey, Message, Method, Presence, Schema,
    Subsystem, name,
};

pub(super) fn schema(pool: &DescriptorPool) -> Schema {
    let sent = reachable(pool, MethodDescriptor::input);
    let received = reachable(pool, MethodDescriptor::output);
    let messages = ours(pool)
        .flat_map(|file| all_messages(&file))
        .map(|found| {
            let full_name = found.full_name();
            let (sent, received) = (sent.contains(full_name), received.contains(full_name));
            (full_name.to_owned(), message(&found, sent, received))
        })
        .collect();
    let enums = ours(pool)
        .flat_map(|file| all_enums(&file))
        .map(|found| (found.full_name().to_owned(), enumeration(&found)))
        .collect();
    let services = pool
        .services()
        .filter(|found| is_ours(found.package_name()));
    let mut subsystems: Vec<Subsystem> = Vec::new();
    for found in services.map(|found| subsystem(pool, &found)) {
        // Services of one package are one subsystem.
        match subsystems.iter_mut().find(|it| it.name == found.name) {
            Some(known) => known.methods.extend(found.methods),
            None => subsystems.push(found),
        }
    }
    Schema {
        subsystems,
        messages,
        enums,
    }
}

fn is_ours(package: &str) -> bool {
    name::subsystem(package).is_some()
}

fn ours(pool: &DescriptorPool) -> impl Iterator<Item = FileDescriptor> {
    pool.files().filter(|file| is_ours(file.package_name()))
}

/// Messages of a file and those within them, but for what only makes maps.
fn all_messages(file: &FileDescriptor) -> Vec<MessageDescriptor> {
    let mut found = Vec::new();
    let mut open: Vec<_> = file.messages().collect();
    open.reverse();
    while let Some(message) = open.pop() {
        let mut children: Vec<_> = message.child_messages().collect();
        children.reverse();
        open.append(&mut children);
        if !message.is_map_entry() {
            found.push(message);
        }
    }
    found
}

fn all_enums(file: &FileDescriptor) -> Vec<EnumDescriptor> {
    let nested = all_messages(file)
        .into_iter()
        .flat_map(|message| message.child_enums().collect::<Vec<_>>());
    file.enums().chain(nested).collect()
}

/// Full names of all messages that some method's request (or answer) may hold.
fn reachable(
    pool: &DescriptorPool,
    end: fn(&MethodDescriptor) -> MessageDescriptor,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<MessageDescriptor> = pool
        .services()
        .flat_map(|service| service.methods().map(|m| end(&m)).collect::<Vec<_>>())
        .collect();
    while let Some(message) = open.pop() {
        if found.insert(message.full_name().to_owned()) {
            let kinds = message.fields().map(|field| field.kind());
            open.extend(kinds.filter_map(|kind| kind.as_message().cloned()));
        }
    }
    found
}

fn subsystem(pool: &DescriptorPool, service: &ServiceDescriptor) -> Subsystem {
    let package = service.package_name();
    let files: Vec<_> = pool
        .files()
        .filter(|file| file.package_name() == package)
        .collect();
    let name = name::subsystem(package).unwrap_or_default().to_owned();
    Subsystem {
        service: service.full_name().to_owned(),
        docs: docs(&service.parent_file(), service.path()),
        methods: service
            .methods()
            .map(|found| method(&name, &found))
            .collect(),
        messages: files
            .iter()
            .flat_map(all_messages)
            .map(|found| found.full_name().to_owned())
            .collect(),
        enums: files
            .iter()
            .flat_map(all_enums)
            .map(|found| found.full_name().to_owned())
            .collect(),
        name,
    }
}

fn method(subsystem: &str, method: &MethodDescriptor) -> Method {
    let service = method.parent_service();
    let options = method.method_descriptor_proto().options.as_ref();
    let reads = options
        .is_some_and(|options| options.idempotency_level() == IdempotencyLevel::NoSideEffects);
    Method {
        name: method.name().to_owned(),
        action: format!("{subsystem}.{}", method.name()),
        path: format!("/{}/{}", service.full_name(), method.name()),
        request: method.input().full_name().to_owned(),
        response: method.output().full_name().to_owned(),
        client_streams: method.is_client_streaming(),
        server_streams: method.is_server_streaming(),
        mutating: !reads,
        declares: super::declares::of(method),
        docs: docs(&method.parent_file(), method.path()),
    }
}

fn message(message: &MessageDescriptor, sent: bool, received: bool) -> Message {
    let package = message.package_name();
    let oneofs: Vec<_> = message.oneofs().filter(|one| !one.is_synthetic()).collect();
    let names: Vec<_> = oneofs.iter().map(|one| one.full_name()).collect();
    Message {
        full_name: message.full_name().to_owned(),
        subsystem: name::subsystem(package).unwrap_or_default().to_owned(),
        name: name::of_type(package, message.full_name()),
        docs: docs(&message.parent_file(), message.path()),
        fields: fields(message)
            .iter()
            .map(|found| field(found, &names))
            .collect(),
        oneofs: oneofs.iter().map(|one| one.name().to_owned()).collect(),
        sent,
        received,
    }
}

/// As declared; the descriptor gives them by number.
fn fields(message: &MessageDescriptor) -> Vec<FieldDescriptor> {
    let declared = &message.descriptor_proto().field;
    let by_name = |name| message.get_field_by_name(name);
    declared
        .iter()
        .filter_map(|field| by_name(field.name()))
        .collect()
}

fn field(field: &FieldDescriptor, oneofs: &[&str]) -> Field {
    let cardinality = match MapKey::of(field) {
        Some(key) => Cardinality::Map(key),
        None if field.is_list() => Cardinality::List,
        None => Cardinality::Single,
    };
    let presence = match field.supports_presence() {
        true => Presence::Explicit,
        false => Presence::Implicit,
    };
    let oneof = field.containing_oneof();
    Field {
        name: name::field(field).to_owned(),
        proto_name: field.name().to_owned(),
        number: field.number(),
        docs: docs(&field.parent_message().parent_file(), field.path()),
        kind: Kind::of(field),
        cardinality,
        presence,
        required: super::declares::is_required(field),
        oneof: oneof.and_then(|one| oneofs.iter().position(|name| *name == one.full_name())),
    }
}

fn enumeration(kind: &EnumDescriptor) -> Enum {
    let package = kind.package_name();
    let file = kind.parent_file();
    let values = kind.values().map(|value| EnumValue {
        name: name::enum_value(&value),
        proto_name: value.name().to_owned(),
        number: value.number(),
        docs: docs(&file, value.path()),
    });
    Enum {
        full_name: kind.full_name().to_owned(),
        subsystem: name::subsystem(package).unwrap_or_default().to_owned(),
        name: name::of_type(package, kind.full_name()),
        docs: docs(&file, kind.path()),
        values: values.collect(),
    }
}

/// The comment in front of a declaration, without the space that follows `//`.
fn docs(file: &FileDescriptor, path: &[i32]) -> String {
    let source = file.file_descriptor_proto().source_code_info.as_ref();
    let location = source.and_then(|info| info.location.iter().find(|at| at.path == path));
    let text = location.map_or("", |at| at.leading_comments());
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
