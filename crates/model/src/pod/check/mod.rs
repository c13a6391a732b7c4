// SPDX-License-Identifier: Apache-2.0
//! What a pod's spec may not say. Every refusal names the field by its path.

mod volumes;

use std::collections::BTreeSet;

use super::env::EnvVar;
use super::spec::{Container, Draft, MAX_CONTAINERS, MAX_WEIGHT};
use crate::cell::{DEFAULT_ID_RANGE, TERMINATION_LOG, check_target};
use crate::error::{Error, Result, Within};
use crate::executable::{self, ExecutableSpec, MAX_STOP_GRACE};
use crate::name::Label;
use crate::text::{check_count, check_length, check_printable, check_relative_path};
use volumes::{check_mounts, check_volumes};

/// The most volumes of a pod, mounts and variables of a container, files of a volume.
const MAX_LIST: usize = 64;

pub(super) fn check(draft: &Draft) -> Result<()> {
    if draft.containers.is_empty() {
        return Err(Error::invalid("containers", "must have at least one"));
    }
    let count = draft.containers.len() + draft.init_containers.len();
    if count > MAX_CONTAINERS {
        let problem = format!("are {count} with the init containers; at most {MAX_CONTAINERS}");
        return Err(Error::invalid("containers", problem));
    }
    if draft.stop_grace.is_some_and(|grace| grace > MAX_STOP_GRACE) {
        return Err(Error::invalid("stop_grace", "must be at most 1 h"));
    }
    let shortest = std::time::Duration::from_secs(1);
    if draft.active_deadline.is_some_and(|it| it < shortest) {
        return Err(Error::invalid("active_deadline", "must be at least 1 s"));
    }
    if !draft.hostname.is_empty() {
        crate::cell::check_hostname(&draft.hostname)?;
    }
    super::network::check(draft)?;
    if draft.share_processes && draft.host_pid {
        let problem = "has no meaning with host_pid: the pod has the node's processes";
        return Err(Error::invalid("share_processes", problem));
    }
    check_sysctls(draft)?;
    check_volumes(draft)?;
    if draft
        .fs_group
        .is_some_and(|group| group >= DEFAULT_ID_RANGE)
    {
        let problem = format!("must be below {DEFAULT_ID_RANGE}, the number of a pod's ids");
        return Err(Error::invalid("fs_group", problem));
    }
    crate::selinux::check("selinux_file_label", &draft.selinux_file_label)?;
    let mut names = BTreeSet::new();
    let init = draft.init_containers.iter().enumerate();
    let init = init.map(|(i, it)| (format!("init_containers[{i}]"), it, true));
    let apps = draft.containers.iter().enumerate();
    let apps = apps.map(|(i, it)| (format!("containers[{i}]"), it, false));
    for (at, container, is_init) in init.chain(apps) {
        if !names.insert(&container.name) {
            let problem = format!("is {}, as another container's", container.name);
            return Err(Error::invalid(format!("{at}.name"), problem));
        }
        check_container(draft, container, is_init).within(&at)?;
    }
    check_weight(draft)
}

fn check_weight(draft: &Draft) -> Result<()> {
    let weight = serde_json::to_vec(draft).map_or(usize::MAX, |json| json.len());
    if weight <= MAX_WEIGHT {
        return Ok(());
    }
    let problem = format!("takes {weight} bytes; at most {MAX_WEIGHT} are kept of a pod");
    Err(Error::invalid("", problem).hint("put large files into an image or a folder of the node"))
}

fn check_label(field: &str, text: &str) -> Result<()> {
    let parsed = text.parse::<Label>();
    parsed.map(drop).map_err(|e| Error::invalid(field, e))
}

/// Which parameters there are is the node's to say.
fn check_sysctls(draft: &Draft) -> Result<()> {
    crate::cell::check_sysctls(&draft.sysctls)?;
    let of_network = |name: &str| name.starts_with("net.") || name.starts_with("net/");
    for name in draft.sysctls.keys() {
        let of_node = match of_network(name) {
            true if draft.host_network => "network",
            false if draft.host_ipc => "IPC",
            true | false => continue,
        };
        let problem = format!("would change the node's own {of_node}, which the pod has");
        return Err(Error::invalid(format!("sysctls[{name:?}]"), problem));
    }
    Ok(())
}

fn check_container(pod: &Draft, container: &Container, is_init: bool) -> Result<()> {
    check_label("name", &container.name)?;
    check_length("image", &container.image, 512)?;
    check_printable("image", &container.image)?;
    check_program(container)?;
    check_env(&container.env)?;
    super::env::expand(container, &super::env::Facts::default())?;
    check_mounts(pod, &container.mounts)?;
    check_message(container)?;
    check_filter(container)?;
    super::user::check(pod, container)?;
    check_needs(container)?;
    check_probes(container)?;
    if container.sidecar && !is_init {
        let problem = "is for init containers: others follow the pod's restart_policy";
        return Err(Error::invalid("sidecar", problem));
    }
    let ends = is_init && !container.sidecar;
    let asks = [
        ("startup", container.startup.is_some()),
        ("liveness", container.liveness.is_some()),
        ("readiness", container.readiness.is_some()),
        ("pre_stop", container.pre_stop.is_some()),
        ("post_start", container.post_start.is_some()),
    ];
    match asks.iter().find(|(_, there)| ends && *there) {
        Some((field, _)) => {
            let problem = "is for containers that go on running, and sidecars";
            Err(Error::invalid(*field, problem))
        }
        None => Ok(()),
    }
}

fn check_program(container: &Container) -> Result<()> {
    let words = container.entrypoint.iter().chain(&container.args);
    if container.image.is_empty() {
        if container.entrypoint.first().is_none_or(String::is_empty) {
            let problem = "must name a program, where there is no image";
            return Err(Error::invalid("entrypoint", problem));
        }
        if container.pull != super::spec::Pull::Usual {
            return Err(Error::invalid("pull", "has a meaning only with an image"));
        }
        for (field, given) in [
            ("root_bytes", container.root_bytes.is_some()),
            ("root_on_disk", container.root_on_disk),
            ("devices", !container.devices.is_empty()),
            ("all_devices", container.all_devices),
            ("unmasked", container.unmasked),
        ] {
            if given {
                return Err(Error::invalid(field, "has a meaning only with an image"));
            }
        }
    }
    if let Some(root) = container.root() {
        root.check()?;
    }
    // The rules for executables, with the names that both have.
    let program = executable::Draft {
        argv: std::iter::once(&"program".to_owned())
            .chain(words)
            .cloned()
            .collect(),
        cwd: container.cwd.clone(),
        user: container.user.clone(),
        group: container.group.clone(),
        stop_signal: container.stop_signal.clone(),
        apparmor_profile: container.apparmor_profile.clone(),
        selinux_label: container.selinux_label.clone(),
        ..executable::Draft::default()
    };
    ExecutableSpec::try_from(program)?;
    for (field, names) in [
        ("add_capabilities", &container.add_capabilities),
        ("drop_capabilities", &container.drop_capabilities),
    ] {
        check_count(field, names.len(), MAX_LIST)?;
        for (i, name) in names.iter().enumerate() {
            let parsed = name.parse::<crate::capability::CapabilitySet>();
            parsed.map(drop).within(&format!("{field}[{i}]"))?;
        }
    }
    Ok(())
}

fn check_env(env: &[EnvVar]) -> Result<()> {
    check_count("env", env.len(), 512)?;
    let mut names = BTreeSet::new();
    for (i, variable) in env.iter().enumerate() {
        let field = format!("env[{i}].name");
        if variable.name.is_empty() || variable.name.contains(['=', '\0']) {
            return Err(Error::invalid(field, "must be a name without '='"));
        }
        check_printable(&field, &variable.name)?;
        if !names.insert(&variable.name) {
            return Err(Error::invalid(field, "is given twice"));
        }
        if let super::env::From::Label(key) = &variable.from {
            let labels = std::iter::once((key.clone(), String::new()));
            crate::label::Labels::new(labels.collect()).map_err(|error| {
                let field = format!("env[{i}].label");
                Error::invalid(field, error.message.clone())
            })?;
        }
        if let super::env::From::Value(text) | super::env::From::Secret(text) = &variable.from
            && text.contains('\0')
        {
            return Err(Error::invalid(
                format!("env[{i}].value"),
                "contains a NUL byte",
            ));
        }
    }
    Ok(())
}

fn check_filter(container: &Container) -> Result<()> {
    let field = "seccomp_profile";
    match container.seccomp_profile.as_str() {
        "" => Ok(()),
        _ if container.unconfined => {
            let problem = "has no meaning for a container without a filter (`unconfined`)";
            Err(Error::invalid(field, problem))
        }
        name => check_relative_path(field, name),
    }
}

fn check_message(container: &Container) -> Result<()> {
    let field = "termination_message_path";
    let path = container.termination_message_path.as_str();
    if path == TERMINATION_LOG && container.image.is_empty() {
        let problem = "can't be in /dev without an image: name a path below /run or /tmp";
        return Err(Error::invalid(field, problem));
    }
    if !path.is_empty() && path != TERMINATION_LOG {
        check_target(field, path)?;
    }
    match container.mounts.iter().any(|mount| mount.path == path) {
        true => Err(Error::invalid(field, "is the path of a mount")),
        false => Ok(()),
    }
}

fn check_needs(container: &Container) -> Result<()> {
    let needs = &container.needs;
    let pairs = [
        ("cpu", needs.cpu_request_millis, needs.cpu_limit_millis),
        (
            "memory",
            needs.memory_request_bytes,
            needs.memory_limit_bytes,
        ),
    ];
    for (what, request, limit) in pairs {
        if request
            .zip(limit)
            .is_some_and(|(request, limit)| request > limit)
        {
            let problem = format!("has more {what} as request than as limit");
            return Err(Error::invalid("resources", problem));
        }
    }
    if needs
        .cpu_limit_millis
        .is_some_and(|n| !(10..=1_024_000).contains(&n))
    {
        let problem = "must be from 10 to 1024000";
        return Err(Error::invalid("resources.cpu_limit_millis", problem));
    }
    if needs.memory_limit_bytes.is_some_and(|n| n < 1 << 20) {
        let problem = "must be at least 1 MiB";
        return Err(Error::invalid("resources.memory_limit_bytes", problem));
    }
    Ok(())
}

fn check_probes(container: &Container) -> Result<()> {
    let probes = [
        ("startup", &container.startup, true),
        ("liveness", &container.liveness, true),
        ("readiness", &container.readiness, false),
    ];
    for (field, probe, once) in probes {
        if let Some(probe) = probe {
            probe.check(once).within(field)?;
        }
    }
    let hooks = [
        ("pre_stop", &container.pre_stop),
        ("post_start", &container.post_start),
    ];
    for (field, hook) in hooks {
        if let Some(hook) = hook {
            hook.check().within(field)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
