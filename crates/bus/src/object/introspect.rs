// SPDX-License-Identifier: Apache-2.0
//! What there is at an object, as XML (D-Bus Specification, "Introspection Data Format"). Types of
//! properties are those of their values.

use std::fmt::Write as _;

use super::{METHODS, Properties, all_of};
use crate::error::Failure;
use crate::manager;
use crate::path::Object;
use crate::serve::{Answer, Caller, Service, unknown};
use crate::wire::message::{Body, Message};

const HEAD: &str = "<!DOCTYPE node PUBLIC \
    \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"\n\
    \"https://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n<node>\n";
/// What every object has.
const USUAL: &str = " <interface name=\"org.freedesktop.DBus.Peer\">\n  <method name=\"Ping\"/>\n  \
    <method name=\"GetMachineId\"><arg type=\"s\" direction=\"out\"/></method>\n </interface>\n \
    <interface name=\"org.freedesktop.DBus.Introspectable\">\n  <method name=\"Introspect\">\
    <arg type=\"s\" direction=\"out\"/></method>\n </interface>\n \
    <interface name=\"org.freedesktop.DBus.Properties\">\n  <method name=\"Get\">\
    <arg type=\"s\" direction=\"in\"/><arg type=\"s\" direction=\"in\"/>\
    <arg type=\"v\" direction=\"out\"/></method>\n  <method name=\"GetAll\">\
    <arg type=\"s\" direction=\"in\"/><arg type=\"a{sv}\" direction=\"out\"/></method>\n  \
    <signal name=\"PropertiesChanged\"><arg type=\"s\"/><arg type=\"a{sv}\"/><arg type=\"as\"/>\
    </signal>\n </interface>\n";

/// The single types of a signature.
fn types(signature: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    for (at, c) in signature.char_indices() {
        match c {
            'a' => continue,
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            all.extend(signature.get(start..=at));
            start = at + 1;
        }
    }
    all
}

fn method(text: &mut String, (name, arguments, answer): (&str, &str, &str)) {
    let _ = write!(text, "  <method name=\"{name}\">");
    for (signature, direction) in [(arguments, "in"), (answer, "out")] {
        for one in types(signature) {
            let _ = write!(text, "<arg type=\"{one}\" direction=\"{direction}\"/>");
        }
    }
    text.push_str("</method>\n");
}

const OF_JOBS: &[(&str, &str, &str)] = &[("Cancel", "", "")];
const OF_SCOPES: &[(&str, &str, &str)] = &[("Abandon", "", "")];

fn methods_of(interface: &str) -> &'static [(&'static str, &'static str, &'static str)] {
    match interface {
        manager::INTERFACE => manager::METHODS,
        super::UNIT => METHODS,
        super::JOB => OF_JOBS,
        "org.freedesktop.systemd1.Scope" => OF_SCOPES,
        _ => &[],
    }
}

fn interface(text: &mut String, name: &str, properties: &Properties) {
    let _ = writeln!(text, " <interface name=\"{name}\">");
    for known in methods_of(name) {
        method(text, *known);
    }
    let signals = if name == manager::INTERFACE {
        manager::SIGNALS
    } else {
        &[]
    };
    for (name, arguments) in signals {
        let _ = write!(text, "  <signal name=\"{name}\">");
        for one in types(arguments) {
            let _ = write!(text, "<arg type=\"{one}\"/>");
        }
        text.push_str("</signal>\n");
    }
    for (name, value) in properties {
        let kind = value.value_signature().to_string();
        let access = match super::is_settable(name) {
            true => "readwrite",
            false => "read",
        };
        let _ = writeln!(
            text,
            "  <property name=\"{name}\" type=\"{kind}\" access=\"{access}\"/>"
        );
    }
    text.push_str(" </interface>\n");
}

/// The names of what is right below an object.
async fn below(
    service: &Service,
    caller: &Caller,
    object: &Object,
    path: &str,
) -> Result<Vec<String>, Failure> {
    let names = match object {
        Object::Way => {
            let rest = crate::path::MANAGER.strip_prefix(path).unwrap_or_default();
            let next = rest.trim_start_matches('/').split('/').next();
            let beside = (path == "/org/freedesktop").then_some("LogControl1");
            next.into_iter().chain(beside).map(str::to_owned).collect()
        }
        Object::Manager => vec!["unit".to_owned(), "job".to_owned()],
        Object::Units => {
            let permit = service.permit(caller, "schedule.ListUnits", "").await?;
            let units = service.units.list(&permit, false).await?;
            let paths = units.iter().map(|it| crate::path::of_unit(&it.name));
            paths
                .filter_map(|it| Some(it.rsplit_once('/')?.1.to_owned()))
                .collect()
        }
        Object::Jobs => {
            let permit = service.permit(caller, "schedule.ListUnits", "").await?;
            let jobs = service.units.jobs(&permit).await?;
            jobs.iter().map(|it| it.id.to_string()).collect()
        }
        Object::Unit(_) | Object::OwnUnit | Object::Job(_) | Object::Log => Vec::new(),
    };
    Ok(names)
}

/// `org.freedesktop.DBus.Introspectable`.
pub(crate) async fn answer(
    service: &Service,
    caller: &Caller,
    call: &Message,
    object: &Object,
) -> Answer {
    if call.member != "Introspect" {
        return Err(unknown(call));
    }
    let mut text = HEAD.to_owned();
    text.push_str(USUAL);
    for (name, properties) in all_of(service, caller, object).await? {
        interface(&mut text, &name, &properties);
    }
    for name in below(service, caller, object, &call.path).await? {
        let _ = writeln!(text, " <node name=\"{name}\"/>");
    }
    text.push_str("</node>\n");
    Ok(Body::of(&(text,))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_taken_apart() {
        assert_eq!(types("ssa(sv)a(sa(sv))"), ["s", "s", "a(sv)", "a(sa(sv))"]);
        assert_eq!(types("asasb"), ["as", "as", "b"]);
        assert_eq!(types(""), [""; 0]);
    }
}
