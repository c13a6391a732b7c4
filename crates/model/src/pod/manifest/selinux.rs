// SPDX-License-Identifier: Apache-2.0
//! `seLinuxOptions` of pods and containers. A part of a label that isn't given is what the
//! reference policy has for containers, as container runtimes do it; the files of a pod get the
//! level of its programs, so that those reach them.

use super::super::spec::Draft;
use super::reader::Fields;

/// The labels of a pod's or a container's programs, and of files for them.
pub(super) struct Labels {
    pub(super) program: String,
    pub(super) files: String,
}

/// What is said; `None`: nothing.
pub(super) fn labels(fields: &mut Fields<'_>) -> Option<Labels> {
    let mut given = fields.object("seLinuxOptions")?;
    let mut part = |name, usual: &str| match given.text(name) {
        text if text.is_empty() => usual.to_owned(),
        text => text,
    };
    let user = part("user", "system_u");
    let role = part("role", "system_r");
    let kind = part("type", "container_t");
    let level = part("level", "s0");
    given.end();
    Some(Labels {
        program: format!("{user}:{role}:{kind}:{level}"),
        files: files(&level),
    })
}

fn files(level: &str) -> String {
    format!("system_u:object_r:container_file_t:{level}")
}

/// Labels the files of a pod of which only containers say something: at the lowest level, which
/// programs of every level reach.
pub(super) fn label_files(draft: &mut Draft) {
    let containers = draft.init_containers.iter().chain(&draft.containers);
    let mut labels = containers.map(|container| &container.selinux_label);
    if draft.selinux_file_label.is_empty() && labels.any(|label| !label.is_empty()) {
        draft.selinux_file_label = files("s0");
    }
}
