// SPDX-License-Identifier: Apache-2.0
//! The descriptors of one subsystem, for programs that make a call or two: the whole API takes
//! milliseconds to decode and a megabyte to keep, a subsystem a fraction of both. Messages of two
//! pools are of different types, so a caller that hands messages from one subsystem to another
//! takes [`crate::descriptor_pool`].

use std::collections::BTreeSet;

use prost::Message;
use prost_reflect::{DescriptorError, DescriptorPool};

use crate::FILE_DESCRIPTOR_SET;

/// A `FileDescriptorSet` whose files are left as they are: our options are in them, and
/// `prost_types` has no place for those.
#[derive(Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    file: Vec<Vec<u8>>,
}

/// The beginning of a `FileDescriptorProto`.
#[derive(Message)]
struct Head {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(string, repeated, tag = "3")]
    dependency: Vec<String>,
}

/// The descriptors of the subsystem's services and of all that they speak of; none of a subsystem
/// that there isn't.
///
/// # Errors
/// Only when the built-in descriptors are broken, which a test of this crate excludes.
pub fn of_subsystem(subsystem: &str) -> Result<Option<DescriptorPool>, DescriptorError> {
    let Ok(files) = Files::decode(FILE_DESCRIPTOR_SET) else {
        // It says what is broken.
        return DescriptorPool::decode(FILE_DESCRIPTOR_SET).map(Some);
    };
    let heads = files.file.iter();
    let heads: Vec<Head> = heads
        .map(|file| Head::decode(file.as_slice()).unwrap_or_default())
        .collect();
    let package = format!("aurae.{subsystem}.v0");
    let mut wanted = BTreeSet::new();
    // Each file stands behind those that it imports.
    for head in heads.iter().rev() {
        if head.package == package || wanted.contains(&head.name) {
            wanted.insert(head.name.clone());
            wanted.extend(head.dependency.iter().cloned());
        }
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    let mut pool = DescriptorPool::new();
    let wanted = files
        .file
        .iter()
        .zip(&heads)
        .filter(|(_, head)| wanted.contains(&head.name));
    for (file, _) in wanted {
        pool.decode_file_descriptor_proto(file.as_slice())?;
    }
    Ok(Some(pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subsystem_has_the_services_messages_and_options_of_the_whole() {
        let whole = crate::descriptor_pool().unwrap();
        for service in whole.services() {
            let subsystem = service.package_name().split('.').nth(1).unwrap();
            let part = of_subsystem(subsystem).unwrap().unwrap();
            let same = part.get_service_by_name(service.full_name()).unwrap();
            for (method, whole) in same.methods().zip(service.methods()) {
                assert_eq!(method.full_name(), whole.full_name());
                assert_eq!(method.input().full_name(), whole.input().full_name());
                let (said, all) = (method.options(), whole.options());
                assert_eq!(said.encode_to_vec(), all.encode_to_vec());
            }
        }
        let node = of_subsystem("node").unwrap().unwrap();
        assert!(node.files().count() < whole.files().count());
        assert!(of_subsystem("nosuch").unwrap().is_none());
    }
}
