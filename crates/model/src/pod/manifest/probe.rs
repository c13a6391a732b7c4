// SPDX-License-Identifier: Apache-2.0
//! Probes and hooks of a manifest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;

use super::reader::Fields;
use crate::pod::probe::{Ask, Grpc, Hook, Http, Probe, Tcp};

/// A container's ports by name.
pub(super) type Ports = BTreeMap<String, u16>;

pub(super) fn probe(fields: &mut Fields<'_>, field: &str, ports: &Ports) -> Option<Probe> {
    let mut fields = fields.object(field)?;
    let exec = fields.object("exec").map(exec);
    let http = fields
        .object("httpGet")
        .and_then(|it| self::http(it, ports));
    let tcp = fields.object("tcpSocket").and_then(|it| tcp(it, ports));
    let grpc = fields.object("grpc").and_then(|it| grpc(it, ports));
    let asks = [
        exec.map(Ask::Exec),
        http.map(Ask::Http),
        tcp.map(Ask::Tcp),
        grpc.map(Ask::Grpc),
    ];
    let ask = asks.into_iter().flatten().next();
    let seconds = |fields: &mut Fields<'_>, field: &str| {
        // 0 is the default, as Kubernetes has it.
        fields.seconds(field).filter(|time| *time > Duration::ZERO)
    };
    let probe = Probe {
        initial_delay: seconds(&mut fields, "initialDelaySeconds"),
        period: seconds(&mut fields, "periodSeconds"),
        timeout: seconds(&mut fields, "timeoutSeconds"),
        success_threshold: fields.number("successThreshold"),
        failure_threshold: fields.number("failureThreshold"),
        grace: fields.seconds("terminationGracePeriodSeconds"),
        ask: ask.unwrap_or_else(|| Ask::Tcp(Tcp::default())),
    };
    fields.end();
    Some(probe)
}

pub(super) fn hook(fields: &mut Fields<'_>, field: &str, ports: &Ports) -> Option<Hook> {
    let mut fields = fields.object(field)?;
    let exec = fields.object("exec").map(|it| Hook::Exec(exec(it)));
    let http = fields
        .object("httpGet")
        .and_then(|it| self::http(it, ports));
    let sleep = fields.object("sleep").map(|mut sleep| {
        let time = sleep.seconds("seconds").unwrap_or_default();
        sleep.end();
        Hook::Sleep(time)
    });
    let hook = exec.or(http.map(Hook::Http)).or(sleep);
    fields.end();
    hook
}

fn exec(mut fields: Fields<'_>) -> Vec<String> {
    let command = fields.list("command");
    fields.end();
    command
}

fn http(mut fields: Fields<'_>, ports: &Ports) -> Option<Http> {
    let tls = match fields.text("scheme").as_str() {
        "" | "HTTP" => false,
        "HTTPS" => true,
        _ => {
            fields.refuse("scheme", "must be HTTP or HTTPS");
            false
        }
    };
    let host = host(&mut fields);
    let header = |mut header: Fields<'_>| {
        let pair = (header.text("name"), header.text("value"));
        header.end();
        pair
    };
    let path = match fields.text("path") {
        path if path.is_empty() || path.starts_with('/') => path,
        path => format!("/{path}"),
    };
    let http = Http {
        path,
        headers: fields.each("httpHeaders", header),
        port: port(&mut fields, ports),
        tls,
        host,
    };
    fields.end();
    Some(http)
}

fn tcp(mut fields: Fields<'_>, ports: &Ports) -> Option<Tcp> {
    let tcp = Tcp {
        host: host(&mut fields),
        port: port(&mut fields, ports),
    };
    fields.end();
    Some(tcp)
}

/// Another host than the pod.
fn host(fields: &mut Fields<'_>) -> Option<IpAddr> {
    let text = fields.text("host");
    if matches!(text.as_str(), "" | "localhost" | "127.0.0.1" | "::1") {
        return None;
    }
    let address = text.parse().ok();
    if address.is_none() {
        let words = format!("is {text}: it must be an address, for no name server is asked");
        fields.refuse("host", words);
    }
    address
}

fn grpc(mut fields: Fields<'_>, ports: &Ports) -> Option<Grpc> {
    let grpc = Grpc {
        service: fields.text("service"),
        port: port(&mut fields, ports),
    };
    fields.end();
    Some(grpc)
}

/// A number, or the name of one of the container's ports. 0 is refused later, by its name.
fn port(fields: &mut Fields<'_>, ports: &Ports) -> u16 {
    let port = match fields.take("port") {
        Some(Value::String(name)) => ports.get(&name).copied().or(name.parse().ok()),
        Some(value) => value.as_u64().and_then(|port| port.try_into().ok()),
        None => None,
    };
    if port.is_none() {
        fields.refuse(
            "port",
            "must be a number, or the name of one of the container's ports",
        );
    }
    port.unwrap_or(0)
}
