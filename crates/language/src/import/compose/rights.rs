// SPDX-License-Identifier: Apache-2.0
//! What a service may do: its capabilities, its devices, and what `privileged` stands for.

use serde_json::Value;

use super::fields::{Fields, Notes, plain, scalar};
use super::service::Made;
use crate::import::NotImported;
use crate::import::write::Expression;

type Result<T> = std::result::Result<T, NotImported>;

pub(super) fn rights(service: &mut Fields, made: &mut Made, notes: &mut Notes) -> Result<()> {
    made.flag("readOnly", service.flag("read_only", notes)?);
    let privileged = service.flag("privileged", notes)?;
    let (add, drop) = (service.list("cap_add")?, service.list("cap_drop")?);
    if privileged {
        // Each is for administrators: the node says so to others.
        made.put("addCapabilities", Expression::texts(["ALL".to_owned()]));
        for all in ["unconfined", "unmasked", "allDevices"] {
            made.flag(all, true);
        }
    } else {
        for (ours, names) in [("addCapabilities", add), ("dropCapabilities", drop)] {
            if !names.is_empty() {
                made.put(ours, Expression::texts(names));
            }
        }
    }
    made.list("devices", devices(service, notes)?);
    for option in service.list("security_opt")? {
        match option.as_str() {
            "no-new-privileges" | "no-new-privileges:true" | "no-new-privileges=true" => {
                made.flag("noNewPrivileges", true);
            }
            "seccomp:unconfined" | "seccomp=unconfined" => made.flag("unconfined", !privileged),
            other => notes.add(format!(
                "security_opt {other}: a pod's containers have the node's"
            )),
        }
    }
    made.flag("stdin", service.flag("stdin_open", notes)?);
    made.flag("terminal", service.flag("tty", notes)?);
    Ok(())
}

/// `SRC[:DST[:rwm]]`, a name of the Container Device Interface, or an object of the three.
fn devices(service: &mut Fields, notes: &mut Notes) -> Result<Vec<Expression>> {
    let path = service.path("devices");
    let given = match service.take("devices") {
        Some(Value::Array(given)) => given,
        Some(one) => vec![one],
        None => Vec::new(),
    };
    let mut devices = Vec::new();
    for item in given {
        let parts = match item {
            Value::Object(_) => {
                let mut item = Fields::of(item, &path)?;
                let parts = ["source", "target", "permissions"];
                let parts = parts.map(|part| item.plain(part, notes));
                item.end("devices.", notes);
                let parts = parts.into_iter().collect::<Result<Vec<_>>>()?;
                parts.into_iter().map(Option::unwrap_or_default).collect()
            }
            text => split(&plain(&scalar(text, &path)?, "devices", notes)),
        };
        let named = ["path", "target", "access"].into_iter().zip(parts);
        let named = named.filter(|(_, part)| !part.is_empty());
        let named = named.map(|(name, part)| (name.to_owned(), Expression::Text(part)));
        devices.push(Expression::Object(named.collect()));
    }
    Ok(devices)
}

/// A name of the Container Device Interface has no parts.
fn split(text: &str) -> Vec<String> {
    match text.starts_with('/') {
        true => text.splitn(3, ':').map(str::to_owned).collect(),
        false => vec![text.to_owned()],
    }
}
