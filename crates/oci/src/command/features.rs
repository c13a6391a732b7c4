// SPDX-License-Identifier: Apache-2.0
//! `features`: what this runtime can do, as the specification's features.md has it. From the same
//! tables that the runtime itself reads.

use kernel::caps::CapabilitySet;
use serde_json::json;

use super::SPECIFICATION;
use crate::container::{memory_policy, namespaces, seccomp};
use crate::error::Result;
use crate::root::options;

pub(super) fn print() -> Result<()> {
    let capabilities: Vec<String> = CapabilitySet::ALL.iter().map(|c| c.to_string()).collect();
    let architectures = seccomp::ARCHITECTURES.map(|(word, _)| word);
    let features = json!({
        "ociVersionMin": "1.0.0",
        "ociVersionMax": SPECIFICATION,
        "hooks": [
            "prestart",
            "createRuntime",
            "createContainer",
            "startContainer",
            "poststart",
            "poststop",
        ],
        "mountOptions": options::words(),
        "linux": {
            "namespaces": namespaces::words(),
            "capabilities": capabilities,
            "cgroup": {
                "v1": false,
                "v2": true,
                "systemd": true,
                "systemdUser": true,
                "rdma": true,
            },
            "seccomp": {
                "enabled": true,
                "actions": seccomp::ACTIONS,
                "operators": seccomp::OPERATORS,
                "archs": architectures,
                "knownFlags": seccomp::FLAGS,
                "supportedFlags": seccomp::FLAGS,
            },
            "apparmor": { "enabled": true },
            "selinux": { "enabled": true },
            "intelRdt": { "enabled": false },
            "memoryPolicy": {
                "modes": memory_policy::MODES.map(|(word, ..)| word),
                "flags": memory_policy::FLAGS.map(|(word, _)| word),
            },
            "netDevices": { "enabled": true },
            "mountExtensions": { "idmap": { "enabled": true } },
        },
        "annotations": { "io.aurae.oci.version": env!("CARGO_PKG_VERSION") },
        "potentiallyUnsafeConfigAnnotations": [],
    });
    println!("{}", serde_json::to_string_pretty(&features)?);
    Ok(())
}
