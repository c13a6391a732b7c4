// SPDX-License-Identifier: Apache-2.0
//! The ports of a service: ports of the node that lead to the pod.

use std::net::IpAddr;

use serde_json::Value;

use super::fields::{Fields, Notes, plain, scalar};
use crate::import::NotImported;
use crate::import::write::Expression;

/// One entry, as far as it can be read.
#[derive(Default)]
struct Entry {
    address: String,
    published: String,
    target: String,
    protocol: String,
}

/// What of `ports` a pod can have; the rest is told.
pub(super) fn ports(
    service: &mut Fields,
    project: &str,
    notes: &mut Notes,
) -> Result<Vec<Expression>, NotImported> {
    let path = service.path("ports");
    let Some(Value::Array(items)) = service.take("ports") else {
        return Ok(Vec::new());
    };
    let mut ports = Vec::new();
    for item in items {
        let entry = match item {
            Value::Object(_) => {
                let mut long = Fields::of(item, &path)?;
                Entry {
                    address: long.plain("host_ip", notes)?.unwrap_or_default(),
                    published: long.plain("published", notes)?.unwrap_or_default(),
                    target: long.plain("target", notes)?.unwrap_or_default(),
                    protocol: long.plain("protocol", notes)?.unwrap_or_default(),
                }
            }
            short => short_form(&plain(&scalar(short, &path)?, "ports", notes)),
        };
        match entry.published() {
            Some(port) => ports.push(port),
            None => notes.add(entry.why(project)),
        }
    }
    Ok(ports)
}

/// `[[ADDRESS:]PORT:]PORT[/PROTOCOL]`.
fn short_form(text: &str) -> Entry {
    let (numbers, protocol) = text.split_once('/').unwrap_or((text, ""));
    let (rest, target) = numbers.rsplit_once(':').unwrap_or(("", numbers));
    let (address, published) = rest.rsplit_once(':').unwrap_or(("", rest));
    Entry {
        address: address.trim_matches(['[', ']']).to_owned(),
        published: published.to_owned(),
        target: target.to_owned(),
        protocol: protocol.to_owned(),
    }
}

impl Entry {
    /// A port of the node that is said; `None`: none is, or not one alone.
    fn published(&self) -> Option<Expression> {
        let number = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
        let mut fields = vec![
            ("hostPort", number(&self.published)?),
            ("port", number(&self.target)?),
        ]
        .into_iter()
        .map(|(name, port)| (name.to_owned(), Expression::Number(port.into())))
        .collect::<Vec<_>>();
        if !self.address.is_empty() {
            let address: IpAddr = self.address.parse().ok()?;
            let text = Expression::Text(address.to_string());
            fields.push(("address".to_owned(), text));
        }
        match self.protocol.as_str() {
            "" | "tcp" => {}
            other @ ("udp" | "sctp") => {
                let text = Expression::Text(other.to_owned());
                fields.push(("protocol".to_owned(), text));
            }
            _ => return None,
        }
        Some(Expression::Object(fields))
    }

    fn why(&self, project: &str) -> String {
        let target = &self.target;
        if self.published.is_empty() {
            return format!(
                "ports {target}: no port of the node is named, and none is chosen; from your \
                 machine: `aurae pod port-forward {project} {target}:{target}`"
            );
        }
        let published = &self.published;
        format!("ports {published}:{target}: a pod names each port of the node: `network.ports`")
    }
}
