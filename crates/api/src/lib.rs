// SPDX-License-Identifier: Apache-2.0
//! The wire: generated stubs, conversion to and from `model`, status details. Every message that
//! crosses a socket is defined here; no crate below this one knows protobuf. The daemon's `rpc/`
//! and every client use it.

pub mod action;
pub mod codec;
pub mod convert;
pub mod limits;
pub mod part;
pub mod standing;
pub mod status;

use std::sync::LazyLock;

use prost_reflect::{DescriptorError, DescriptorPool};

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated from the .proto files, whose comments become the documentation"
)]
mod generated {
    pub mod runtime {
        pub mod v0 {
            tonic::include_proto!("aurae.runtime.v0");
        }
    }
    pub mod observe {
        pub mod v0 {
            tonic::include_proto!("aurae.observe.v0");
        }
    }
    pub mod identity {
        pub mod v0 {
            tonic::include_proto!("aurae.identity.v0");
        }
    }
    pub mod node {
        pub mod v0 {
            tonic::include_proto!("aurae.node.v0");
        }
    }
    pub mod tenant {
        pub mod v0 {
            tonic::include_proto!("aurae.tenant.v0");
        }
    }
    pub mod sets {
        pub mod v0 {
            tonic::include_proto!("aurae.sets.v0");
        }
    }
    pub mod pod {
        pub mod v0 {
            tonic::include_proto!("aurae.pod.v0");
        }
    }
    pub mod schedule {
        pub mod v0 {
            tonic::include_proto!("aurae.schedule.v0");
        }
    }
    pub mod image {
        pub mod v0 {
            tonic::include_proto!("aurae.image.v0");
        }
    }
}

pub use generated::{identity, image, node, observe, pod, runtime, schedule, sets, tenant};
pub use model::{capability, label, quantity, quota, selector};

/// The descriptors of all services and messages, as an encoded `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/aurae.bin"));

/// The same with the comments of the .proto files, for the generators of types and documents. A
/// constant, so that only a binary which uses it carries it.
pub const DOCUMENTED_DESCRIPTORS: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/documented.bin"));

/// The same for the `google.rpc` messages that errors carry as details, so that tools can show
/// them.
pub use tonic_types::pb::FILE_DESCRIPTOR_SET as ERROR_DETAILS_DESCRIPTOR_SET;

static POOL: LazyLock<Result<DescriptorPool, DescriptorError>> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET));

/// The same for reflection. It is decoded at the first call (about a millisecond), not before.
///
/// # Errors
/// Only when the built-in descriptors are broken, which a test of this crate excludes.
pub fn descriptor_pool() -> Result<&'static DescriptorPool, &'static DescriptorError> {
    POOL.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_descriptors_name_every_service() {
        let pool = descriptor_pool().expect("decodes");
        let mut names: Vec<_> = pool.services().map(|s| s.full_name().to_owned()).collect();
        names.sort();
        assert_eq!(
            names,
            [
                "aurae.identity.v0.Identity",
                "aurae.image.v0.Images",
                "aurae.node.v0.Node",
                "aurae.observe.v0.Observe",
                "aurae.pod.v0.Pods",
                "aurae.runtime.v0.Runtime",
                "aurae.schedule.v0.Schedules",
                "aurae.schedule.v0.Units",
                "aurae.sets.v0.Sets",
                "aurae.tenant.v0.Tenant",
            ]
        );
    }
}
