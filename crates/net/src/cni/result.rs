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
    /// Reads the result for the cell's interface of that name.
    pub(super) fn read(result: &Value, interface: &str, network: &str) -> Result<Outcome> {
        let list = |value: Option<&Value>| -> Vec<Value> {
            value.and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let text = |value: &Value, field: &str| -> String {
            let text = value.get(field).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let interfaces: Vec<Interface> = list(result.get("interfaces"))
            .iter()
            .map(|value| Interface {
                name: text(value, "name"),
                mac: text(value, "mac"),
                sandbox: text(value, "sandbox"),
            })
            .collect();
        let mut addresses = Vec::new();
        for value in list(result.get("ips")) {
            // Where the plugin says whose it is, and that is another one: not the cell's.
            let place = value.get("interface").and_then(Value::as_u64);
            let whose = place.and_then(|place| interfaces.get(usize::try_from(place).ok()?));
            if whose.is_some_and(|it| it.name != interface || it.sandbox.is_empty()) {
                continue;
            }
            let written = text(&value, "address");
            let address = written.parse().map_err(|_| {
                let reason = format!("the plugins' result has an address {written:?}");
                Error::configuration(network, reason)
            })?;
            let gateway = text(&value, "gateway").parse().ok();
            addresses.push(Address { address, gateway });
        }
        // As everywhere else. Those of one family stay as the plugin has them.
        addresses.sort_by_key(|it: &Address| it.address.addr().is_ipv4());
        let servers = list(result.get("dns").and_then(|dns| dns.get("nameservers")));
        let servers = servers.iter().filter_map(Value::as_str);
        Ok(Outcome {
            interfaces,
            addresses,
            name_servers: servers.map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_are_the_interfaces_own_ipv6_first() {
        let result = json!({
            "interfaces": [{"name": "pods0"}, {"name": "eth0", "sandbox": "/proc/1/fd/3"},
                {"name": "eth0"}],
            "ips": [{"address": "10.9.0.1/24", "interface": 0}, {"address": "10.9.0.2/24"},
                {"address": "fd99::2/64", "interface": 1}, {"address": "fd99::3/64", "interface": 2},
                {"address": "fd99::4/64", "interface": 9}],
        });
        let read = Outcome::read(&result, "eth0", "pods").unwrap();
        let texts = read.addresses.iter().map(|it| it.address.to_string());
        let texts: Vec<String> = texts.collect();
        assert_eq!(texts, ["fd99::2/64", "fd99::4/64", "10.9.0.2/24"]);
        let bad = json!({"ips": [{"address": "x"}]});
        Outcome::read(&bad, "eth0", "pods").unwrap_err();
    }
}
