// SPDX-License-Identifier: Apache-2.0
//! Compiles `proto/` into stubs and a descriptor set, without `protoc`.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};
use prost_types::method_options::IdempotencyLevel;
use prost_types::{FileDescriptorSet, MethodDescriptorProto};

const ROOT: &str = "../../proto";
const FILES: [&str; 12] = [
    "aurae/runtime/v0/object.proto",
    "aurae/runtime/v0/errors.proto",
    "aurae/runtime/v0/runtime.proto",
    "aurae/observe/v0/observe.proto",
    "aurae/identity/v0/identity.proto",
    "aurae/node/v0/node.proto",
    "aurae/tenant/v0/tenant.proto",
    "aurae/sets/v0/sets.proto",
    "aurae/image/v0/image.proto",
    "aurae/pod/v0/pod.proto",
    "aurae/schedule/v0/schedule.proto",
    "aurae/schedule/v0/unit.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let files = protox::compile(FILES, [ROOT])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let whole = whole()?;
    std::fs::write(out.join("aurae.bin"), with_source_of(&whole, "")?)?;
    std::fs::write(out.join("documented.bin"), with_source_of(&whole, "aurae")?)?;
    std::fs::write(out.join("actions.rs"), actions(&files))?;
    tonic_prost_build::configure()
        .btree_map(".")
        .codec_path("crate::codec::SmallCodec")
        .compile_fds(files)?;
    Ok(())
}

/// The files, what they import, and our own method options: `prost_types` has no place for those.
fn whole() -> Result<Vec<u8>, protox::Error> {
    let mut compiler = protox::Compiler::new([ROOT])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES)?;
    Ok(compiler.encode_file_descriptor_set())
}

/// The descriptor set with the comments and positions of `package`'s files alone, or of none: what
/// Google says of a timestamp isn't ours to repeat, and without any it is half the size.
fn with_source_of(whole: &[u8], package: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let pool = DescriptorPool::global();
    let of = pool
        .get_message_by_name("google.protobuf.FileDescriptorSet")
        .ok_or("no descriptor of descriptors")?;
    let mut set = DynamicMessage::decode(of, whole)?;
    let files = set.get_field_by_name_mut("file");
    let files = files.and_then(Value::as_list_mut).ok_or("no files")?;
    for file in files.iter_mut().filter_map(Value::as_message_mut) {
        let name = file.get_field_by_name("package");
        let name = name.as_ref().and_then(|name| name.as_str()).unwrap_or("");
        if package.is_empty() || name.split('.').next() != Some(package) {
            file.clear_field_by_name("source_code_info");
        }
    }
    Ok(set.encode_to_vec())
}

/// One line of Rust per method: the table of actions, and a constant each.
fn actions(files: &FileDescriptorSet) -> String {
    let mut table = String::new();
    // By subsystem: one may have several services.
    let mut groups: BTreeMap<&str, String> = BTreeMap::new();
    for file in &files.file {
        // `aurae.runtime.v0` is the subsystem `runtime`.
        let package = file.package();
        let Some(group) = package.split('.').nth(1) else {
            continue;
        };
        for service in &file.service {
            let constants = groups.entry(group).or_default();
            for method in &service.method {
                let name = method.name();
                let constant = screaming(name);
                constants.push_str(&format!(
                    "/// `{group}.{name}`.\npub const {constant}: &str = \"{group}.{name}\";\n"
                ));
                table.push_str(&format!(
                    "Action {{ name: {group}::{constant}, group: \"{group}\", \
                     rpc: \"/{package}.{}/{name}\", client_streams: {}, server_streams: {}, \
                     changes: {} }},\n",
                    service.name(),
                    method.client_streaming(),
                    method.server_streaming(),
                    changes(method),
                ));
            }
        }
    }
    let module = |(group, constants): (&&str, &String)| {
        format!("/// Actions on `{group}`.\npub mod {group} {{\n{constants}}}\n")
    };
    let constants: String = groups.iter().map(module).collect();
    format!("{constants}\n/// Every method.\npub const ACTIONS: &[Action] = &[\n{table}];\n")
}

/// Everything that isn't marked `NO_SIDE_EFFECTS`.
fn changes(method: &MethodDescriptorProto) -> bool {
    let level = method.options.as_ref().map(|it| it.idempotency_level());
    level != Some(IdempotencyLevel::NoSideEffects)
}

/// `RunCell` → `RUN_CELL`.
fn screaming(name: &str) -> String {
    let mut text = String::new();
    for (i, c) in name.char_indices() {
        // `WhoAmI` is `WHO_AM_I`, too: every capital begins a word.
        if i > 0 && c.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(c.to_ascii_uppercase());
    }
    text
}
