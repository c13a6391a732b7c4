// SPDX-License-Identifier: Apache-2.0
//! What of a `config.json` can't work together, or isn't supported: refused before anything is
//! made. Each refusal names the field.

use std::path::Path;

use kernel::namespace::Namespaces;
use kernel::sysctl;

use super::{Process, Spec};
use crate::error::{Error, Result, refuse};

/// What a container is refused for.
pub(crate) fn spec(spec: &Spec) -> Result<()> {
    version(&spec.oci_version)?;
    let Some(root) = &spec.root else {
        return refuse("root: a container needs a root folder");
    };
    if root.path.as_os_str().is_empty() {
        return refuse("root.path: a container needs a root folder");
    }
    if let Some(process) = &spec.process {
        self::process(process)?;
    }
    namespaces(spec)?;
    mounts(spec)?;
    sysctls(spec)?;
    let linux = &spec.linux;
    let scheduled = spec
        .process
        .as_ref()
        .is_some_and(|process| process.scheduler.is_some());
    if scheduled && !linux.resources.cpu.cpus.is_empty() {
        return refuse("process scheduler can't be used together with AllowedCPUs");
    }
    if !linux.mount_label.is_empty() && !Path::new("/sys/fs/selinux/enforce").exists() {
        return refuse("linux.mountLabel: selinux is disabled or not supported");
    }
    if linux.intel_rdt.is_some() {
        return refuse("linux.intelRdt: not supported");
    }
    net_devices(spec)?;
    if linux.resources.network.is_some() {
        return refuse("linux.resources.network: cgroup v2 has no such controllers");
    }
    Ok(())
}

/// Major version 1, as `1.2.0` and `1.0.2-dev`.
fn version(version: &str) -> Result<()> {
    match version.split('.').next() {
        Some("1") => Ok(()),
        _ => refuse(format!(
            "ociVersion: {version:?} isn't supported; it has to be 1.x.y"
        )),
    }
}

/// What a process is refused for, of a container or an executed one.
pub(crate) fn process(process: &Process) -> Result<()> {
    if process.cwd.is_empty() {
        return refuse("Cwd property must not be empty");
    }
    if !Path::new(&process.cwd).is_absolute() {
        return refuse("Cwd must be an absolute path");
    }
    if process.args.is_empty() {
        return refuse("args must not be empty");
    }
    if let Some(score) = process.oom_score_adj
        && !(-1000..=1000).contains(&score)
    {
        return refuse("process.oomScoreAdj: not from -1000 to 1000");
    }
    Ok(())
}

fn namespaces(spec: &Spec) -> Result<()> {
    let namespaces = &spec.linux.namespaces;
    let has = |kind: &str| namespaces.iter().any(|n| n.kind == kind);
    for (at, namespace) in namespaces.iter().enumerate() {
        let again = namespaces.iter().take(at).any(|n| n.kind == namespace.kind);
        if again {
            return refuse(format!(
                "malformed spec file: duplicated ns {:?}",
                namespace.kind
            ));
        }
        if crate::container::namespaces::kind(&namespace.kind).is_none() {
            return refuse(format!("namespace {:?} does not exist", namespace.kind));
        }
    }
    let both = !spec.linux.uid_mappings.is_empty() && !spec.linux.gid_mappings.is_empty();
    let mapped = !spec.linux.uid_mappings.is_empty() || !spec.linux.gid_mappings.is_empty();
    let user = namespaces.iter().find(|n| n.kind == "user");
    match user {
        None if mapped => {
            return refuse(
                "User namespace mappings specified, but USER namespace isn't enabled in the config",
            );
        }
        Some(user) if user.path.as_os_str().is_empty() && !both => {
            return refuse("linux.uidMappings, linux.gidMappings: a new user namespace needs both");
        }
        _ => {}
    }
    if !spec.hostname.is_empty() && !has("uts") {
        return refuse("unable to set hostname without a private UTS namespace");
    }
    if !spec.domainname.is_empty() && !has("uts") {
        return refuse("unable to set domainname without a private UTS namespace");
    }
    if !spec.linux.time_offsets.is_empty() && !has("time") {
        return refuse(
            "time namespace offsets specified, but time namespace isn't enabled in the config",
        );
    }
    let restricted = !spec.linux.masked_paths.is_empty() || !spec.linux.readonly_paths.is_empty();
    if restricted && !has("mount") {
        return refuse("unable to restrict sys entries without a private MNT namespace");
    }
    Ok(())
}

fn net_devices(spec: &Spec) -> Result<()> {
    let devices = &spec.linux.net_devices;
    let has_network = spec.linux.namespaces.iter().any(|n| n.kind == "network");
    if !devices.is_empty() && !has_network {
        return refuse("linux.netDevices: unable to move network devices without a NET namespace");
    }
    let renamed = devices.values().map(|device| &device.name);
    let names = devices
        .keys()
        .chain(renamed.filter(|name| !name.is_empty()));
    for name in names {
        if !is_device_name(name) {
            return refuse(format!(
                "linux.netDevices: invalid network device name {name:?}"
            ));
        }
    }
    Ok(())
}

/// What the kernel takes as the name of a device of the network, but for `%`, by which it counts.
fn is_device_name(name: &str) -> bool {
    let odd = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | ':' | '%' | '\0');
    !matches!(name, "" | "." | "..") && name.len() < 16 && !name.contains(odd)
}

fn mounts(spec: &Spec) -> Result<()> {
    for mount in &spec.mounts {
        if mount.destination.as_os_str().is_empty() {
            return refuse("mounts: one has no destination");
        }
        let bytes = mount.destination.as_os_str().as_encoded_bytes();
        if bytes.contains(&0) || mount.source.contains('\0') {
            return refuse("mounts: a NUL in a path");
        }
    }
    Ok(())
}

/// Those of namespaces that the container has; those of the node are refused.
fn sysctls(spec: &Spec) -> Result<()> {
    let namespaces = &spec.linux.namespaces;
    let has = |kind: &str| namespaces.iter().any(|n| n.kind == kind);
    let kinds = [
        (Namespaces::IPC, "ipc"),
        (Namespaces::NET, "network"),
        (Namespaces::UTS, "uts"),
        (Namespaces::USER, "user"),
    ];
    for key in spec.linux.sysctl.keys() {
        let namespace = sysctl::namespace(key);
        let kind = kinds.iter().find(|(one, _)| Some(*one) == namespace);
        let Some((_, of)) = kind else {
            return refuse(format!(
                "sysctl {key:?} is not in a separate kernel namespace"
            ));
        };
        if !has(of) {
            return refuse(format!(
                "sysctl {key:?} is not allowed in the hosts {of} namespace"
            ));
        }
        if sysctl::dotted(key) == "kernel.hostname" {
            return Err(Error::new(format!(
                "sysctl {key:?} is not allowed as it conflicts with the OCI \"hostname\" field"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(linux: &str) -> Result<()> {
        let text =
            format!(r#"{{"ociVersion":"1.2.0","root":{{"path":"rootfs"}},"linux":{linux}}}"#);
        spec(&Spec::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_sysctl_needs_the_namespace_that_it_is_of() {
        let sysctl = r#"{"namespaces":[{"type":"network"}],"sysctl":{"KEY":"1"}}"#;
        assert!(with(&sysctl.replace("KEY", "net.core.somaxconn")).is_ok());
        for key in [
            "kernel.sem",
            "kernel.panic",
            "vm.swappiness",
            "fs.mqueue.msg_max",
        ] {
            let refused = with(&sysctl.replace("KEY", key));
            assert!(refused.is_err(), "{key} is the node's");
        }
    }

    #[test]
    fn what_needs_a_namespace_is_refused_without_it() {
        let map = r#"[{"containerID":0,"hostID":1000,"size":1}]"#;
        for linux in [
            r#"{"maskedPaths":["/proc/kcore"]}"#.to_owned(),
            r#"{"timeOffsets":{"boottime":{"secs":1}}}"#.to_owned(),
            r#"{"namespaces":[{"type":"pid"},{"type":"pid"}]}"#.to_owned(),
            r#"{"namespaces":[{"type":"moon"}]}"#.to_owned(),
            r#"{"namespaces":[{"type":"user"}]}"#.to_owned(),
            format!(r#"{{"uidMappings":{map},"gidMappings":{map}}}"#),
            r#"{"intelRdt":{}}"#.to_owned(),
        ] {
            assert!(with(&linux).is_err(), "{linux}");
        }
    }

    #[test]
    fn a_network_device_needs_a_namespace_and_a_name_of_the_kernel_s() {
        let inside = |device: &str| {
            with(&format!(
                r#"{{"namespaces":[{{"type":"network"}}],"netDevices":{{{device}}}}}"#
            ))
        };
        assert!(inside(r#""eth1":{}"#).is_ok());
        assert!(inside(r#""eth1":{"name":"uplink"}"#).is_ok());
        for wrong in [
            r#""":{}"#,
            r#""..":{}"#,
            r#""a/b":{}"#,
            r#""eth1":{"name":"eth%d"}"#,
            r#""eth1":{"name":"sixteen-letters-"}"#,
        ] {
            assert!(inside(wrong).is_err(), "{wrong}");
        }
        assert!(with(r#"{"netDevices":{"eth1":{}}}"#).is_err());
    }

    #[test]
    fn a_document_of_another_major_version_is_refused() {
        let text = r#"{"ociVersion":"2.0.0","root":{"path":"rootfs"}}"#;
        assert!(spec(&Spec::parse(text.as_bytes()).unwrap()).is_err());
    }
}
