// SPDX-License-Identifier: Apache-2.0
//! `spec`: a `config.json` to begin with, as confined as a container usually is.

use std::fs::OpenOptions;
use std::io::Write;

use kernel::process;
use serde_json::{Value, json};

use super::SPECIFICATION;
use crate::args;
use crate::error::{Doing, Result, refuse};

pub(super) fn run(asked: &args::Spec) -> Result<()> {
    let path = asked.bundle.join("config.json");
    let mut document = document();
    if asked.rootless {
        rootless(&mut document);
    }
    let text = serde_json::to_string_pretty(&document)?;
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    match file {
        Ok(mut file) => writeln!(file, "{text}").doing_on("write", &path),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            refuse(format!("File {} exists. Remove it first", path.display()))
        }
        Err(error) => Err(error).doing_on("write", &path),
    }
}

fn document() -> Value {
    let few = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"];
    json!({
        "ociVersion": SPECIFICATION,
        "process": {
            "terminal": true,
            "user": { "uid": 0, "gid": 0 },
            "args": ["sh"],
            "env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "TERM=xterm",
            ],
            "cwd": "/",
            "capabilities": { "bounding": few, "effective": few, "permitted": few },
            "rlimits": [{ "type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024 }],
            "noNewPrivileges": true,
        },
        "root": { "path": "rootfs", "readonly": true },
        "hostname": "aurae",
        "mounts": mounts(),
        "linux": {
            "resources": { "devices": [{ "allow": false, "access": "rwm" }] },
            "namespaces": [
                { "type": "pid" },
                { "type": "network" },
                { "type": "ipc" },
                { "type": "uts" },
                { "type": "mount" },
                { "type": "cgroup" },
            ],
            "maskedPaths": [
                "/proc/acpi",
                "/proc/asound",
                "/proc/interrupts",
                "/proc/kcore",
                "/proc/keys",
                "/proc/latency_stats",
                "/proc/timer_list",
                "/proc/timer_stats",
                "/proc/sched_debug",
                "/sys/firmware",
                "/sys/devices/virtual/powercap",
                "/proc/scsi",
            ],
            "readonlyPaths": [
                "/proc/bus",
                "/proc/fs",
                "/proc/irq",
                "/proc/sys",
                "/proc/sysrq-trigger",
            ],
        },
    })
}

fn mounts() -> Value {
    let mount = |destination: &str, kind: &str, source: &str, options: &[&str]| {
        let mut mount = json!({ "destination": destination, "type": kind, "source": source });
        if let (Some(mount), false) = (mount.as_object_mut(), options.is_empty()) {
            mount.insert("options".into(), json!(options));
        }
        mount
    };
    let quiet = ["nosuid", "noexec", "nodev"];
    let pts = [
        "nosuid",
        "noexec",
        "newinstance",
        "ptmxmode=0666",
        "mode=0620",
        "gid=5",
    ];
    let shm = ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"];
    json!([
        mount("/proc", "proc", "proc", &[]),
        mount(
            "/dev",
            "tmpfs",
            "tmpfs",
            &["nosuid", "strictatime", "mode=755", "size=65536k"]
        ),
        mount("/dev/pts", "devpts", "devpts", &pts),
        mount("/dev/shm", "tmpfs", "shm", &shm),
        mount("/dev/mqueue", "mqueue", "mqueue", &quiet),
        mount(
            "/sys",
            "sysfs",
            "sysfs",
            &["nosuid", "noexec", "nodev", "ro"]
        ),
        mount(
            "/sys/fs/cgroup",
            "cgroup",
            "cgroup",
            &["nosuid", "noexec", "nodev", "relatime", "ro"]
        ),
    ])
}

/// What an ordinary user may have: a user namespace of one id, the node's network, no limits.
fn rootless(document: &mut Value) {
    let map = |id: u32| json!([{ "containerID": 0, "hostID": id, "size": 1 }]);
    let Some(linux) = document
        .pointer_mut("/linux")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    linux.remove("resources");
    linux.insert("uidMappings".into(), map(process::effective_uid()));
    linux.insert("gidMappings".into(), map(process::effective_gid()));
    if let Some(namespaces) = linux.get_mut("namespaces").and_then(Value::as_array_mut) {
        namespaces.retain(|namespace| namespace["type"] != "network");
        namespaces.push(json!({ "type": "user" }));
    }
    let Some(mounts) = document
        .pointer_mut("/mounts")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    for mount in mounts {
        if mount["destination"] == "/sys" {
            // A sysfs shows a network namespace, and that is the node's.
            *mount = json!({
                "destination": "/sys",
                "type": "none",
                "source": "/sys",
                "options": ["rbind", "nosuid", "noexec", "nodev", "ro"],
            });
        }
        if let Some(options) = mount.get_mut("options").and_then(Value::as_array_mut) {
            options.retain(|option| {
                let text = option.as_str().unwrap_or_default();
                !text.starts_with("gid=") && !text.starts_with("uid=")
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Spec, check};

    #[test]
    fn what_is_written_can_be_run() {
        let mut document = document();
        let read = |document: &Value| Spec::parse(document.to_string().as_bytes()).unwrap();
        check::spec(&read(&document)).unwrap();
        for word in document["process"]["capabilities"]["bounding"]
            .as_array()
            .unwrap()
        {
            let capability = word.as_str().unwrap().parse().unwrap();
            assert!(kernel::caps::CapabilitySet::CONTAINER.has(capability));
        }
        rootless(&mut document);
        let spec = read(&document);
        check::spec(&spec).unwrap();
        assert!(spec.linux.namespaces.iter().any(|n| n.kind == "user"));
        assert!(!spec.linux.namespaces.iter().any(|n| n.kind == "network"));
    }
}
