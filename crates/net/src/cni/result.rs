// SPDX-License-Identifier: Apache-2.0
//! What plugins say that they made: a program's words, so nothing of it is taken on trust but its
//! form.

use ipnet::IpNet;
use serde_json::Value;

use super::error::{Error, Result};

/// An interface that a plugin made, in the cell or on the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address, empty where the plugin doesn't say.
    pub mac: String,
    /// The cell's namespace as the plugin was told it; empty for one of the node's.
    pub sandbox: String,
}

/// An address of the cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// With its prefix.
    pub address: IpNet,
    /// The plugin's word for the way out, if it has one.
    pub gateway: Option<std::net::IpAddr>,
}

/// The result of the last plugin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Interfaces, the node's among them.
    pub interfaces: Vec<Interface>,
    /// Addresses of the cell.
    pub addresses: Vec<Address>,
    /// Name servers that the cell is to use.
    pub name_servers: Vec<String>,
}

impl Outcome {
    pub(super) fn read(result: &Value, network: &str) -> Result<Outcome> {
        let list = |value: Option<&Value>| -> Vec<Value> {
            value.and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let text = |value: &Value, field: &str| -> String {
            let text = value.get(field).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let interfaces = list(result.get("interfaces"))
            .iter()
            .map(|value| Interface {
                name: text(value, "name"),
                mac: text(value, "mac"),
                sandbox: text(value, "sandbox"),
            })
            .collect();
        let mut addresses = Vec::new();
        for value in list(result.get("ips")) {
            let written = text(&value, "address");
            let address = written.parse().map_err(|_| {
                let reason = format!("the plugins' result has an address {written:?}");
                Error::configuration(network, reason)
            })?;
            let gateway = text(&value, "gateway").parse().ok();
            addresses.push(Address { address, gateway });
        }
        let servers = list(result.get("dns").and_then(|dns| dns.get("nameservers")));
        let servers = servers.iter().filter_map(Value::as_str);
        Ok(Outcome {
            interfaces,
            addresses,
            name_servers: servers.map(str::to_owned).collect(),
        })
    }
}
