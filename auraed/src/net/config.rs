// SPDX-License-Identifier: Apache-2.0
//! `[network]` of the configuration: which links the node manages, and how each gets its addresses.
//!
//! A link takes the first `[[network.link]]` whose `name` matches it; without one it gets the
//! defaults unless another manager has it, so that a node with an empty configuration comes up
//! wherever a cable carries DHCP or router advertisements.

use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The table `[network]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NetConfig {
    pub(crate) manage: Manage,
    pub(crate) links: Links,
    /// Name servers that come before what DHCP offers.
    pub(crate) dns: Vec<IpAddr>,
    /// Search domains that come before what DHCP offers.
    pub(crate) search: Vec<String>,
    pub(crate) link: Vec<LinkConfig>,
}

/// Whether the node's links are ours to configure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Manage {
    /// As PID 1 of a machine; elsewhere the machine's own network manager does.
    #[default]
    Auto,
    Always,
    Never,
}

/// Which links are ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Links {
    /// Those that a `[[network.link]]` names, and those that no other manager has.
    #[default]
    Free,
    /// Those that a `[[network.link]]` names.
    Configured,
    /// Every link of the machine.
    All,
}

/// Whether a link is ours.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Choice {
    Ours(LinkConfig),
    /// If no other manager has it.
    IfFree(LinkConfig),
    Not,
}

/// One `[[network.link]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LinkConfig {
    /// The interface's name; a `*` at the end matches the rest. Default `*`.
    pub(crate) name: String,
    /// Leave the link alone.
    pub(crate) ignore: bool,
    pub(crate) dhcp4: bool,
    pub(crate) dhcp6: bool,
    /// Addresses and routes from router advertisements.
    pub(crate) slaac: bool,
    /// Static addresses with their prefixes: `192.0.2.7/24`, `2001:db8::7/64`.
    pub(crate) address: Vec<Prefix>,
    /// Addresses of default routers.
    pub(crate) gateway: Vec<IpAddr>,
    pub(crate) route: Vec<RouteConfig>,
    /// The largest packet, in bytes. `None`: the link's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mtu: Option<u32>,
    /// Of the default routes of this link. Smaller wins.
    pub(crate) metric: u32,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            name: "*".to_owned(),
            ignore: false,
            dhcp4: true,
            dhcp6: true,
            slaac: true,
            address: Vec::new(),
            gateway: Vec::new(),
            route: Vec::new(),
            mtu: None,
            metric: 1024,
        }
    }
}

/// One `[[network.link.route]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteConfig {
    pub(crate) to: Prefix,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) via: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metric: Option<u32>,
}

/// An address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Prefix {
    pub(crate) address: IpAddr,
    pub(crate) length: u8,
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || format!("{text:?} is not an address with a prefix, such as 192.0.2.7/24");
        let (address, length) = text.split_once('/').ok_or_else(fail)?;
        let address: IpAddr = address.parse().map_err(|_| fail())?;
        let length: u8 = length.parse().map_err(|_| fail())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        if length > longest {
            return Err(format!(
                "{text:?}: the prefix is longer than {longest} bits"
            ));
        }
        Ok(Self { address, length })
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        format!("{}/{}", prefix.address, prefix.length)
    }
}

impl NetConfig {
    /// Whether a link of that name is ours, with its settings.
    pub(super) fn for_link(&self, name: &str) -> Choice {
        let found = self.link.iter().find(|link| matches(&link.name, name));
        match (found, self.links) {
            (Some(link), _) if link.ignore => Choice::Not,
            (Some(link), _) => Choice::Ours(link.clone()),
            (None, Links::All) => Choice::Ours(LinkConfig::default()),
            (None, Links::Free) => Choice::IfFree(LinkConfig::default()),
            (None, Links::Configured) => Choice::Not,
        }
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_match_decides() {
        let config: NetConfig = toml::from_str(
            "[[link]]\nname = 'eth1'\nignore = true\n[[link]]\nname = 'eth*'\ndhcp4 = false\n",
        )
        .unwrap();
        assert_eq!(config.for_link("eth1"), Choice::Not);
        let eth0 = config.for_link("eth0");
        assert!(matches!(eth0, Choice::Ours(link) if !link.dhcp4));
        let free = |config: &NetConfig| config.for_link("wlan0");
        assert_eq!(free(&config), Choice::IfFree(LinkConfig::default()));
        let links = |links| NetConfig {
            links,
            ..config.clone()
        };
        assert_eq!(free(&links(Links::Configured)), Choice::Not);
        let all = free(&links(Links::All));
        assert_eq!(all, Choice::Ours(LinkConfig::default()));
    }

    #[test]
    fn prefixes_are_checked_where_they_are_read() {
        assert!("192.0.2.7/24".parse::<Prefix>().is_ok());
        for wrong in [
            "192.0.2.7",
            "192.0.2.7/33",
            "2001:db8::/129",
            "x/1",
            "192.0.2.7/-1",
        ] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }
}
