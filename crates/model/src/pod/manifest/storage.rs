// SPDX-License-Identifier: Apache-2.0
//! Whether what a pod writes is on the node's disk. In Kubernetes it is, and nothing but an
//! eviction bounds it; a pod of ours keeps it in memory, with a bound, unless an annotation says
//! that it is to be on the disk, with the same bound.

use std::collections::BTreeMap;

use super::super::spec::Draft;
use super::super::volume::{DEFAULT_EMPTY_BYTES, Empty, Medium};
use super::reader::Fields;

/// `disk` or `memory`: of the roots of all containers, and of every `emptyDir` that names no
/// medium.
const STORAGE: &str = "pod.aurae/storage";

/// Whether the annotations ask for the disk.
pub(super) fn is_on_disk(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(STORAGE).is_some_and(|text| text == "disk")
}

/// An `emptyDir` on the disk: where it says no size, it has that of one in memory.
pub(super) fn empty(size_bytes: Option<u64>) -> Empty {
    Empty {
        medium: Medium::Disk,
        size_bytes: size_bytes.or(Some(DEFAULT_EMPTY_BYTES)),
    }
}

/// Has the roots of all containers on the disk where the annotation says so, and names it where it
/// says something else.
pub(super) fn roots(
    fields: &mut Fields<'_>,
    draft: &mut Draft,
    annotations: &BTreeMap<String, String>,
) {
    match annotations.get(STORAGE).map(String::as_str) {
        None | Some("memory") => return,
        Some("disk") => {}
        Some(other) => {
            let words = format!("the annotation {STORAGE} is {other:?}: it is disk or memory");
            return fields.refuse("containers", words);
        }
    }
    let containers = draft
        .init_containers
        .iter_mut()
        .chain(&mut draft.containers);
    for container in containers {
        container.root_on_disk = !container.read_only;
    }
}
