// SPDX-License-Identifier: Apache-2.0
//! One container of a pod, from the wire and back.

use std::net::IpAddr;

use model::error::{Error, Result, Within};
use model::pod::env::{EnvVar, Fact, From};
use model::pod::probe::{Ask, Grpc, Hook, Http, Probe, Tcp};
use model::pod::spec::{Container, Needs, Pull};
use model::pod::volume::VolumeMount;

use super::port;
use crate::convert::cell::{device, propagation, to_device, to_propagation};
use crate::convert::scalar::{duration, enumeration, maybe_duration, parse, required, to_duration};
use crate::pod::v0 as wire;

pub(super) fn container(message: wire::Container) -> Result<Container> {
    let env = message.env.into_iter().enumerate();
    let env = env.map(|(i, it)| variable(it).within(&format!("env[{i}]")));
    let probe =
        |field: &str, it: Option<wire::Probe>| it.map(self::probe).transpose().within(field);
    let hook = |field: &str, it: Option<wire::Hook>| it.map(self::hook).transpose().within(field);
    Ok(Container {
        name: message.name,
        image: message.image,
        pull: match enumeration("pull", message.pull)? {
            wire::PullPolicy::Unspecified => Pull::Usual,
            wire::PullPolicy::Always => Pull::Always,
            wire::PullPolicy::IfNotPresent => Pull::IfNotPresent,
            wire::PullPolicy::Never => Pull::Never,
        },
        entrypoint: message.entrypoint,
        args: message.args,
        env: env.collect::<Result<_>>()?,
        cwd: message.cwd,
        user: message.user,
        group: message.group,
        mounts: mounts(message.mounts)?,
        needs: needs(message.resources.unwrap_or_default()),
        startup: probe("startup", message.startup)?,
        liveness: probe("liveness", message.liveness)?,
        readiness: probe("readiness", message.readiness)?,
        pre_stop: hook("pre_stop", message.pre_stop)?,
        post_start: hook("post_start", message.post_start)?,
        sidecar: message.sidecar,
        read_only: message.read_only,
        root_bytes: message.root_bytes,
        root_on_disk: message.root_on_disk,
        non_root: message.non_root,
        seccomp_profile: message.seccomp_profile,
        add_capabilities: message.add_capabilities,
        drop_capabilities: message.drop_capabilities,
        no_new_privileges: message.no_new_privileges,
        stdin: message.stdin,
        terminal: message.terminal,
        stop_signal: message.stop_signal,
        unconfined: message.unconfined,
        devices: message.devices.into_iter().map(device).collect(),
        all_devices: message.all_devices,
        unmasked: message.unmasked,
        apparmor_profile: message.apparmor_profile,
        selinux_label: message.selinux_label,
        termination_message_path: message.termination_message_path,
        termination_message_from_log: message.termination_message_from_log,
    })
}

fn variable(message: wire::EnvVar) -> Result<EnvVar> {
    use wire::env_var::From as Wire;
    let from = match message.from {
        None => From::Value(String::new()),
        Some(Wire::Value(value)) => From::Value(value),
        Some(Wire::Fact(number)) => From::Fact(fact(number)?),
        Some(Wire::Label(key)) => From::Label(key),
        Some(Wire::Secret(value)) => From::Secret(value),
    };
    Ok(EnvVar {
        name: message.name,
        from,
    })
}

const FACTS: [(Fact, wire::Fact); 13] = [
    (Fact::PodName, wire::Fact::PodName),
    (Fact::Tenant, wire::Fact::Tenant),
    (Fact::PodUid, wire::Fact::PodUid),
    (Fact::NodeName, wire::Fact::NodeName),
    (Fact::CpuLimit, wire::Fact::CpuLimit),
    (Fact::CpuRequest, wire::Fact::CpuRequest),
    (Fact::MemoryLimit, wire::Fact::MemoryLimit),
    (Fact::MemoryRequest, wire::Fact::MemoryRequest),
    (Fact::PodIp, wire::Fact::PodIp),
    (Fact::PodIps, wire::Fact::PodIps),
    (Fact::HostIp, wire::Fact::HostIp),
    (Fact::HostIps, wire::Fact::HostIps),
    (Fact::StorageLimit, wire::Fact::StorageLimit),
];

pub(super) fn fact(number: i32) -> Result<Fact> {
    let wire: wire::Fact = enumeration("fact", number)?;
    let found = FACTS.iter().find(|(_, it)| *it == wire);
    let fact = found.map(|(fact, _)| *fact);
    fact.ok_or_else(|| Error::invalid("fact", "must not be unspecified"))
}

fn mounts(messages: Vec<wire::VolumeMount>) -> Result<Vec<VolumeMount>> {
    let each = messages.into_iter().enumerate();
    each.map(|(i, it)| mount(it).within(&format!("mounts[{i}]")))
        .collect()
}

fn mount(message: wire::VolumeMount) -> Result<VolumeMount> {
    Ok(VolumeMount {
        volume: message.volume,
        path: message.path,
        sub_path: message.sub_path,
        sub_path_expr: message.sub_path_expr,
        read_only: message.read_only,
        propagation: propagation(message.propagation)?,
    })
}

fn needs(message: wire::Needs) -> Needs {
    Needs {
        cpu_request_millis: message.cpu_request_millis,
        cpu_limit_millis: message.cpu_limit_millis,
        memory_request_bytes: message.memory_request_bytes,
        memory_limit_bytes: message.memory_limit_bytes,
    }
}

/// Checks what a probe is made of; its times are the model's to check.
pub(in crate::convert) fn probe(message: wire::Probe) -> Result<Probe> {
    use wire::probe::Ask as Wire;
    let ask = match required("ask", message.ask)? {
        Wire::Exec(exec) => Ask::Exec(exec.argv),
        Wire::Http(it) => Ask::Http(http(it).within("http")?),
        Wire::Tcp(tcp) => Ask::Tcp(Tcp {
            port: port("tcp.port", tcp.port)?,
            host: host("tcp.host", &tcp.host)?,
        }),
        Wire::Grpc(grpc) => Ask::Grpc(Grpc {
            port: port("grpc.port", grpc.port)?,
            service: grpc.service,
        }),
    };
    Ok(Probe {
        ask,
        initial_delay: maybe_duration("initial_delay", message.initial_delay.as_ref())?,
        period: maybe_duration("period", message.period.as_ref())?,
        timeout: maybe_duration("timeout", message.timeout.as_ref())?,
        success_threshold: message.success_threshold,
        failure_threshold: message.failure_threshold,
        grace: maybe_duration("grace", message.grace.as_ref())?,
    })
}

fn host(field: &str, text: &str) -> Result<Option<IpAddr>> {
    match text {
        "" => Ok(None),
        text => parse(field, text).map(Some),
    }
}

fn to_host(host: Option<IpAddr>) -> String {
    host.map(|it| it.to_string()).unwrap_or_default()
}

fn http(message: wire::HttpAction) -> Result<Http> {
    let headers = message.headers.into_iter();
    Ok(Http {
        port: port("port", message.port)?,
        path: message.path,
        headers: headers.map(|it| (it.name, it.value)).collect(),
        tls: message.tls,
        host: host("host", &message.host)?,
    })
}

fn hook(message: wire::Hook) -> Result<Hook> {
    use wire::hook::What;
    Ok(match required("what", message.what)? {
        What::Exec(exec) => Hook::Exec(exec.argv),
        What::Http(it) => Hook::Http(http(it).within("http")?),
        What::Sleep(sleep) => {
            let time = required("sleep.duration", sleep.duration)?;
            Hook::Sleep(duration("sleep.duration", &time)?)
        }
    })
}

pub(super) fn to_container(container: &Container) -> wire::Container {
    let pull = match container.pull {
        Pull::Usual => wire::PullPolicy::Unspecified,
        Pull::Always => wire::PullPolicy::Always,
        Pull::IfNotPresent => wire::PullPolicy::IfNotPresent,
        Pull::Never => wire::PullPolicy::Never,
    };
    let needs = container.needs;
    let resources = (needs != Needs::default()).then_some(wire::Needs {
        cpu_request_millis: needs.cpu_request_millis,
        cpu_limit_millis: needs.cpu_limit_millis,
        memory_request_bytes: needs.memory_request_bytes,
        memory_limit_bytes: needs.memory_limit_bytes,
    });
    wire::Container {
        name: container.name.clone(),
        image: container.image.clone(),
        pull: pull.into(),
        entrypoint: container.entrypoint.clone(),
        args: container.args.clone(),
        env: container.env.iter().map(to_variable).collect(),
        cwd: container.cwd.clone(),
        user: container.user.clone(),
        group: container.group.clone(),
        mounts: container.mounts.iter().map(to_mount).collect(),
        resources,
        startup: container.startup.as_ref().map(to_probe),
        liveness: container.liveness.as_ref().map(to_probe),
        readiness: container.readiness.as_ref().map(to_probe),
        pre_stop: container.pre_stop.as_ref().map(to_hook),
        post_start: container.post_start.as_ref().map(to_hook),
        sidecar: container.sidecar,
        read_only: container.read_only,
        root_bytes: container.root_bytes,
        root_on_disk: container.root_on_disk,
        non_root: container.non_root,
        seccomp_profile: container.seccomp_profile.clone(),
        add_capabilities: container.add_capabilities.clone(),
        drop_capabilities: container.drop_capabilities.clone(),
        no_new_privileges: container.no_new_privileges,
        stdin: container.stdin,
        terminal: container.terminal,
        stop_signal: container.stop_signal.clone(),
        unconfined: container.unconfined,
        devices: container.devices.iter().map(to_device).collect(),
        all_devices: container.all_devices,
        unmasked: container.unmasked,
        apparmor_profile: container.apparmor_profile.clone(),
        selinux_label: container.selinux_label.clone(),
        termination_message_path: container.termination_message_path.clone(),
        termination_message_from_log: container.termination_message_from_log,
    }
}

fn to_variable(variable: &EnvVar) -> wire::EnvVar {
    use wire::env_var::From as Wire;
    let from = match &variable.from {
        From::Value(text) => Wire::Value(text.clone()),
        From::Secret(_) => Wire::Value(crate::convert::HIDDEN.to_owned()),
        From::Label(key) => Wire::Label(key.clone()),
        From::Fact(fact) => Wire::Fact(to_fact(*fact).into()),
    };
    wire::EnvVar {
        name: variable.name.clone(),
        from: Some(from),
    }
}

pub(super) fn to_fact(fact: Fact) -> wire::Fact {
    let found = FACTS.iter().find(|(it, _)| *it == fact);
    found.map_or(wire::Fact::Unspecified, |(_, it)| *it)
}

fn to_mount(mount: &VolumeMount) -> wire::VolumeMount {
    wire::VolumeMount {
        volume: mount.volume.clone(),
        path: mount.path.clone(),
        sub_path: mount.sub_path.clone(),
        sub_path_expr: mount.sub_path_expr.clone(),
        read_only: mount.read_only,
        propagation: to_propagation(mount.propagation).into(),
    }
}

pub(in crate::convert) fn to_probe(probe: &Probe) -> wire::Probe {
    use wire::probe::Ask as Wire;
    let ask = match &probe.ask {
        Ask::Exec(argv) => Wire::Exec(wire::ExecAction { argv: argv.clone() }),
        Ask::Http(http) => Wire::Http(to_http(http)),
        Ask::Tcp(tcp) => Wire::Tcp(wire::TcpAction {
            port: tcp.port.into(),
            host: to_host(tcp.host),
        }),
        Ask::Grpc(grpc) => Wire::Grpc(wire::GrpcAction {
            port: grpc.port.into(),
            service: grpc.service.clone(),
        }),
    };
    wire::Probe {
        ask: Some(ask),
        initial_delay: probe.initial_delay.map(to_duration),
        period: probe.period.map(to_duration),
        timeout: probe.timeout.map(to_duration),
        success_threshold: probe.success_threshold,
        failure_threshold: probe.failure_threshold,
        grace: probe.grace.map(to_duration),
    }
}

fn to_http(http: &Http) -> wire::HttpAction {
    let headers = http.headers.iter().map(|(name, value)| wire::HttpHeader {
        name: name.clone(),
        value: value.clone(),
    });
    wire::HttpAction {
        port: http.port.into(),
        path: http.path.clone(),
        headers: headers.collect(),
        tls: http.tls,
        host: to_host(http.host),
    }
}

fn to_hook(hook: &Hook) -> wire::Hook {
    use wire::hook::What;
    let what = match hook {
        Hook::Exec(argv) => What::Exec(wire::ExecAction { argv: argv.clone() }),
        Hook::Http(http) => What::Http(to_http(http)),
        Hook::Sleep(time) => What::Sleep(wire::SleepAction {
            duration: Some(to_duration(*time)),
        }),
    };
    wire::Hook { what: Some(what) }
}
