// SPDX-License-Identifier: Apache-2.0
//! Compiles `proto/` into stubs and a descriptor set, without `protoc`.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;
use prost_types::FileDescriptorSet;

const ROOT: &str = "../../proto";
const FILES: [&str; 6] = [
    "aurae/runtime/v0/object.proto",
    "aurae/runtime/v0/errors.proto",
    "aurae/runtime/v0/runtime.proto",
    "aurae/observe/v0/observe.proto",
    "aurae/identity/v0/identity.proto",
    "aurae/node/v0/node.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let files = protox::compile(FILES, [ROOT])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("aurae.bin"), encode_without_source(&files))?;
    tonic_prost_build::configure()
        .btree_map(".")
        .compile_fds(files)?;
    Ok(())
}

/// The descriptor set that is built into the binaries carries no comments or positions: half the size.
fn encode_without_source(files: &FileDescriptorSet) -> Vec<u8> {
    let mut files = files.clone();
    for file in &mut files.file {
        file.source_code_info = None;
    }
    files.encode_to_vec()
}
