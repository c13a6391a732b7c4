// SPDX-License-Identifier: Apache-2.0
//! Compiles `proto/` into stubs and a descriptor set, without `protoc`.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;
use prost_types::FileDescriptorSet;

const ROOT: &str = "../../proto";
const FILES: [&str; 7] = [
    "aurae/runtime/v0/object.proto",
    "aurae/runtime/v0/errors.proto",
    "aurae/runtime/v0/runtime.proto",
    "aurae/observe/v0/observe.proto",
    "aurae/identity/v0/identity.proto",
    "aurae/node/v0/node.proto",
    "aurae/tenant/v0/tenant.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let files = protox::compile(FILES, [ROOT])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("aurae.bin"), encode_without_source(&files))?;
    std::fs::write(out.join("documented.bin"), encode_with_our_source(&files))?;
    std::fs::write(out.join("actions.rs"), actions(&files))?;
    tonic_prost_build::configure()
        .btree_map(".")
        .compile_fds(files)?;
    Ok(())
}

/// The descriptor set that is built into the binaries carries no comments or positions: half the
/// size.
fn encode_without_source(files: &FileDescriptorSet) -> Vec<u8> {
    let mut files = files.clone();
    for file in &mut files.file {
        file.source_code_info = None;
    }
    files.encode_to_vec()
}

/// With the comments of our own files; what Google says of a timestamp isn't ours to repeat.
fn encode_with_our_source(files: &FileDescriptorSet) -> Vec<u8> {
    let mut files = files.clone();
    for file in &mut files.file {
        if !file.package().starts_with("aurae.") {
            file.source_code_info = None;
        }
    }
    files.encode_to_vec()
}

/// One line of Rust per method: the table of actions, and a constant each.
fn actions(files: &FileDescriptorSet) -> String {
    let mut table = String::new();
    let mut constants = String::new();
    for file in &files.file {
        // `aurae.runtime.v0` is the subsystem `runtime`.
        let package = file.package();
        let Some(group) = package.split('.').nth(1) else {
            continue;
        };
        for service in &file.service {
            constants.push_str(&format!("/// Actions on `{group}`.\npub mod {group} {{\n"));
            for method in &service.method {
                let name = method.name();
                let constant = screaming(name);
                constants.push_str(&format!(
                    "/// `{group}.{name}`.\npub const {constant}: &str = \"{group}.{name}\";\n"
                ));
                table.push_str(&format!(
                    "Action {{ name: {group}::{constant}, group: \"{group}\", \
                     rpc: \"/{package}.{}/{name}\", client_streams: {}, server_streams: {} }},\n",
                    service.name(),
                    method.client_streaming(),
                    method.server_streaming(),
                ));
            }
            constants.push_str("}\n");
        }
    }
    format!("{constants}\n/// Every method.\npub const ACTIONS: &[Action] = &[\n{table}];\n")
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
