// SPDX-License-Identifier: Apache-2.0
//! `[cell_network]` of the configuration, and the settings of crate `net` that follow from it.
//!
//! The node's own ranges come from 16 bytes of chance that are kept in the state directory. Not
//! from its CA or its name: those may be replaced, and every cell would lose its addresses.

use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ::net::{MAX_PORTS, Protocol, Settings};
use model::network::PortRange;
use serde::{Deserialize, Serialize};

use crate::config::Config;

/// The network of isolated cells and containers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CellNetworkConfig {
    /// Whether cells can be attached.
    pub(crate) enabled: bool,
    /// The bridge's name, 1 to 10 bytes.
    pub(crate) bridge: String,
    /// `auto`: a unique local /64 of the node's own; a range; `none`.
    pub(crate) ipv6: String,
    /// A range; `none`.
    pub(crate) ipv4: String,
    /// Bytes of a packet. 0: the uplink's.
    pub(crate) mtu: u32,
    /// Whether what leaves the node bears the node's address.
    pub(crate) masquerade: bool,
    /// Listeners of the node that every cell may reach: `53/udp`.
    pub(crate) node_ports: Vec<String>,
    /// Ports that administrators alone publish, beside those below 1024, those of `node_ports` and
    /// the API's: `5432/tcp`, `30000-32767/udp`.
    pub(crate) reserved_ports: Vec<String>,
    /// Ranges that no cell may send to, beside link-local ones.
    pub(crate) refused: Vec<String>,
    /// The network of CNI that containers and pods are attached to unless they say otherwise.
    /// Empty: the bridge.
    pub(crate) cni: String,
    /// More networks of CNI that members may name.
    pub(crate) cni_networks: Vec<String>,
    /// The folder of CNI's configurations.
    pub(crate) cni_configurations: PathBuf,
    /// The folders of CNI's plugins, first found first taken.
    pub(crate) cni_plugins: Vec<PathBuf>,
    /// How long one plugin may take, in seconds.
    pub(crate) cni_timeout: u64,
}

impl Default for CellNetworkConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            bridge: "aurae0".to_owned(),
            ipv6: "auto".to_owned(),
            ipv4: "10.213.0.0/16".to_owned(),
            mtu: 0,
            masquerade: true,
            node_ports: Vec::new(),
            reserved_ports: Vec::new(),
            refused: Vec::new(),
            cni: String::new(),
            cni_networks: Vec::new(),
            cni_configurations: "/etc/cni/net.d".into(),
            cni_plugins: vec!["/opt/cni/bin".into(), "/usr/lib/cni".into()],
            cni_timeout: 30,
        }
    }
}

impl CellNetworkConfig {
    /// Of a node with this identity.
    ///
    /// # Errors
    /// The key that can't be worked with, and why.
    fn settings(&self, identity: &[u8]) -> Result<Settings, String> {
        let mut settings = Settings::for_node(identity);
        settings.bridge.clone_from(&self.bridge);
        match self.ipv6.as_str() {
            "auto" => {}
            "none" => settings.ipv6 = None,
            range => settings.ipv6 = Some(parsed("ipv6", range)?),
        }
        match self.ipv4.as_str() {
            "none" => settings.ipv4 = None,
            range => settings.ipv4 = Some(parsed("ipv4", range)?),
        }
        settings.mtu = Some(self.mtu).filter(|mtu| *mtu > 0);
        settings.masquerade_ipv6 = self.masquerade;
        settings.masquerade_ipv4 = self.masquerade;
        for text in &self.node_ports {
            let bad = || bad("node_ports", &"write NUMBER/tcp, /udp or /sctp");
            settings.node_ports.push(port(text).ok_or_else(bad)?);
        }
        for text in &self.reserved_ports {
            let _range: PortRange = parsed("reserved_ports", text)?;
        }
        for text in &self.refused {
            settings.refused.push(parsed("refused", text)?);
        }
        // The quotas of tenants decide.
        settings.per_tenant = MAX_PORTS;
        settings.reserve = 0;
        settings.check().map_err(|e| format!("cell_network.{e}"))?;
        if !(1..=300).contains(&self.cni_timeout) {
            return Err(bad("cni_timeout", &"must be from 1 to 300"));
        }
        Ok(settings)
    }

    /// Why it can't be worked with.
    pub(crate) fn contradiction(&self) -> Option<String> {
        self.settings(b"any").err()
    }
}

/// The node's own ports, whether anything listens there yet or not.
pub(crate) fn reserved_ports(config: &Config) -> Vec<PortRange> {
    let own = &config.cell_network;
    let texts = own.reserved_ports.iter().chain(&own.node_ports);
    // They were read when the configuration was.
    let named = texts.filter_map(|text| text.parse().ok());
    let api = config.api.listen.iter().map(|address| PortRange {
        protocol: model::network::Protocol::Tcp,
        first: address.port(),
        last: address.port(),
    });
    named.chain(api).collect()
}

/// Networks of CNI that members may name: the default one, and those that the node says so of.
pub(crate) fn open_networks(config: &Config) -> Vec<String> {
    let own = &config.cell_network;
    let default = Some(&own.cni).filter(|name| !name.is_empty());
    default
        .into_iter()
        .chain(&own.cni_networks)
        .cloned()
        .collect()
}

fn bad(key: &str, why: &dyn Display) -> String {
    format!("cell_network.{key}: {why}")
}

fn parsed<T: FromStr<Err: Display>>(key: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error| bad(key, &error))
}

fn port(text: &str) -> Option<(Protocol, u16)> {
    let (number, protocol) = text.split_once('/')?;
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        _ => return None,
    };
    let number: u16 = number.parse().ok()?;
    (number > 0).then_some((protocol, number))
}

/// What is wanted, and where the node's identity is kept.
pub(super) struct Wanted {
    pub(super) enabled: bool,
    config: CellNetworkConfig,
    identity: PathBuf,
}

impl Wanted {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            enabled: config.cell_network.enabled,
            config: config.cell_network.clone(),
            identity: config.paths.state.join("network"),
        }
    }

    /// # Errors
    /// The identity can't be read or made.
    pub(super) fn settings(&self) -> Result<Settings, String> {
        let path = &self.identity;
        let identity = identity(path).map_err(|e| format!("{}: {e}", path.display()))?;
        self.config.settings(&identity)
    }
}

/// Bytes of the node's own, made at the first time.
fn identity(path: &Path) -> std::io::Result<Vec<u8>> {
    const LENGTH: usize = 16;
    match std::fs::read(path) {
        Ok(bytes) if bytes.len() == LENGTH => return Ok(bytes),
        Ok(_) => {
            let what = "it has not 16 bytes: remove it, and the cells get other addresses";
            return Err(std::io::Error::other(what));
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let mut bytes = vec![0; LENGTH];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let draft = path.with_extension("new");
    std::fs::write(&draft, &bytes)?;
    std::fs::File::open(&draft)?.sync_all()?;
    std::fs::rename(&draft, path)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_can_t_be_worked_with_is_named() {
        let said = |change: fn(&mut CellNetworkConfig)| {
            let mut config = CellNetworkConfig::default();
            change(&mut config);
            config.contradiction().unwrap_or_default()
        };
        assert_eq!(said(|_| {}), "");
        assert!(said(|c| c.ipv4 = "10.0.0.0".into()).starts_with("cell_network.ipv4:"));
        assert!(said(|c| c.bridge = "a b".into()).starts_with("cell_network.bridge:"));
        assert!(said(|c| c.node_ports = vec!["53".into()]).starts_with("cell_network.node_ports:"));
        assert!(said(|c| c.cni_timeout = 0).starts_with("cell_network.cni_timeout:"));
        assert!(said(|c| c.reserved_ports = vec!["9".into()]).contains("reserved_ports:"));
        assert!(said(|c| (c.ipv4, c.ipv6) = ("none".into(), "none".into())).contains("ipv6"));
    }

    #[test]
    fn the_apis_port_is_the_nodes_own() {
        let mut config = Config::default();
        config.api.listen = vec!["[::]:7443".parse().unwrap()];
        config.cell_network.reserved_ports = vec!["5432-5433/tcp".to_owned()];
        config.cell_network.node_ports = vec!["5353/udp".to_owned()];
        let ports = reserved_ports(&config);
        let ends: Vec<_> = ports.iter().map(|it| (it.first, it.last)).collect();
        assert_eq!(ends, [(5432, 5433), (5353, 5353), (7443, 7443)]);
    }

    #[test]
    fn the_identity_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network");
        let first = identity(&path).unwrap();
        assert_eq!(identity(&path).unwrap(), first);
        std::fs::write(&path, b"short").unwrap();
        identity(&path).unwrap_err();
    }
}
