// SPDX-License-Identifier: Apache-2.0
//! Networks of CNI: which one a cell is attached to, and the plugins' runs for it. They are
//! programs of the node's administrator, run as root in the node's namespaces; how one is run is
//! crate `net`'s, which ones and for whom is decided here (ADR 47).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::net::cni::{Added, Attachment, Cni, Namespace, Settings};
use model::error::{Error, Reason};
use model::name::{Tenant, Uid};
use model::network::{CniNetwork, FIRST_INTERFACE, Mode, Network, PublishedPort};
use programs::Apart;
use runtime::ports::Attach;
use serde_json::Map;
use tokio::sync::OnceCell;

use super::CellNetworkConfig;
use super::kept::Plugged;
use super::places::Places;
use super::words::{self, CNI, plugins_refused};

/// The argument that says whose a cell is.
const TENANT: &str = "K8S_POD_NAMESPACE";
/// The group of what plugins run in, in the node's own beside the daemon's.
const GROUP: &str = "_plugins";

/// The first of the times after which what could not be removed is tried again; then it doubles.
const AGAIN: Duration = Duration::from_secs(10);
/// The longest of them.
const AT_MOST: Duration = Duration::from_secs(600);

/// What a cell is to be attached to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The node's own network of cells.
    pub(super) bridge: bool,
    /// Networks of CNI with the names of their interfaces. Without the bridge the first one has the
    /// cell's ports.
    pub(super) cni: Vec<CniNetwork>,
}

/// See the module.
#[derive(Clone)]
pub(super) struct Plugins(Arc<Inner>);

struct Inner {
    /// Empty: the bridge.
    default: String,
    /// As configured: enough for who runs no plugin.
    settings: Settings,
    /// With the group of plugins, emptied of what an earlier daemon's have left.
    settled: OnceCell<Settings>,
    adding: Places,
    removing: Places,
}

impl Plugins {
    /// `folder`: the daemon's own, for what was added.
    pub(super) fn new(config: &CellNetworkConfig, folder: PathBuf) -> Self {
        Self(Arc::new(Inner {
            default: config.cni.clone(),
            settings: Settings {
                configurations: config.cni_configurations.clone(),
                plugins: config.cni_plugins.clone(),
                cache: folder,
                timeout: Duration::from_secs(config.cni_timeout),
                apart: None,
            },
            settled: OnceCell::new(),
            adding: Places::default(),
            removing: Places::default(),
        }))
    }

    /// What a cell that asks for this is to be attached to.
    ///
    /// # Errors
    /// It names no network where the node has no default one, or wants an address of the bridge
    /// without being at it.
    pub(super) fn plan(&self, asked: &Network) -> Result<Plan, Error> {
        let default = CniNetwork {
            name: self.0.default.clone(),
            interface: FIRST_INTERFACE.to_owned(),
        };
        let cni = asked.cni_interfaces(asked.mode == Some(Mode::Cni));
        let plan = |bridge, cni| Plan { bridge, cni };
        let plan = match asked.mode {
            Some(Mode::Cni) if !cni.is_empty() => plan(false, cni),
            Some(Mode::Cni) if default.name.is_empty() => {
                let problem = "must name a network: the node has no default one";
                return Err(Error::invalid(CNI, problem));
            }
            Some(Mode::Cni) => plan(false, vec![default]),
            Some(Mode::Bridge | Mode::None) => plan(true, cni),
            None if default.name.is_empty() => plan(true, cni),
            None => plan(false, [vec![default], cni].concat()),
        };
        match !plan.bridge && !asked.addresses.is_empty() {
            true => {
                let problem = "are the bridge's: the node's default network is one of CNI";
                let error = Error::invalid("cell.spec.network.addresses", problem);
                Err(error.hint("say mode BRIDGE (--net bridge), or no address"))
            }
            false => Ok(plan),
        }
    }

    /// Has a network's plugins add an interface to a cell. Nothing of it is left where they fail,
    /// or it is kept in mind.
    pub(super) async fn add(
        &self,
        attach: &Attach,
        wanted: &CniNetwork,
        first: bool,
    ) -> Result<Plugged, Error> {
        let name = &wanted.name;
        let refused = |error: ::net::cni::Error| plugins_refused(name, &error);
        let _turn = self.0.adding.take(&attach.tenant).await;
        let settings = self.settled().await.map_err(refused)?;
        let network = Cni::named(settings, name).await.map_err(refused)?;
        let network = network.map_err(|rejected| self.no_network(name, &rejected))?;
        let ports = match first {
            true => attach.network.ports.clone(),
            false => Vec::new(),
        };
        if !ports.is_empty() && !network.publishes() {
            let message = format!("no plugin of the network {name} publishes ports");
            return Err(Error::new(Reason::Unsupported, message).field("cell.spec.network.ports"));
        }
        let netns = attach.netns.try_clone();
        let netns = netns.map_err(|e| Error::internal(format!("the cell's network: {e}")))?;
        let attachment = Attachment {
            container: attach.uid.to_string(),
            interface: wanted.interface.clone(),
            netns: Namespace::Fd(netns),
            host_ports: ports
                .iter()
                .map(|port| words::host_port(port, attach.on_loopback))
                .collect(),
            arguments: vec![
                ("IgnoreUnknown".to_owned(), "1".to_owned()),
                (TENANT.to_owned(), attach.tenant.to_string()),
                ("K8S_POD_UID".to_owned(), attach.uid.to_string()),
            ],
            capabilities: Map::new(),
        };
        let outcome = network.add(&attachment).await.map_err(refused)?;
        Ok(Plugged {
            interface: words::interface(name, &wanted.interface, &outcome),
            ports,
        })
    }

    /// What is wrong with files of others is the administrator's to read, not the asker's.
    fn no_network(&self, name: &str, rejected: &[::net::cni::Rejected]) -> Error {
        for file in rejected {
            let (error, file) = (words::said(&file.error), file.file.display());
            tracing::warn!(%file, error, "a configuration of CNI can't be worked with");
        }
        let folder = self.0.settings.configurations.display();
        let mut message = format!("no file in {folder} has a network {name} of CNI");
        if !rejected.is_empty() {
            message.push_str("; some can't be worked with: the node's log says which");
        }
        Error::new(Reason::Unsupported, message).field(CNI)
    }

    /// Has plugins remove all that they have added to a cell that is no more, or is to be none.
    pub(super) async fn remove(
        &self,
        tenant: &Tenant,
        uid: Uid,
        netns: &Namespace,
    ) -> ::net::cni::Result<()> {
        let _turn = self.0.removing.take(tenant).await;
        let added = Added::open(self.settled().await?)?;
        added.remove(&uid.to_string(), netns).await
    }

    /// The same, until it is done.
    pub(super) async fn remove_at_last(&self, tenant: &Tenant, uid: Uid, netns: &Namespace) {
        let mut pause = AGAIN;
        while let Err(error) = self.remove(tenant, uid, netns).await {
            let error = words::said(&error);
            tracing::error!(%uid, error, "the plugins of a cell's network can't remove it yet");
            // A plugin that could not do it doesn't say when it can.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AT_MOST);
        }
    }

    /// The cells that have something of plugins, or half of it.
    pub(super) fn cells(&self) -> ::net::cni::Result<Vec<Uid>> {
        if !self.0.settings.cache.is_dir() {
            return Ok(Vec::new());
        }
        let cells = Added::open(self.0.settings.clone())?.cells()?;
        Ok(cells.iter().filter_map(|id| id.parse().ok()).collect())
    }

    /// Whose a cell was that isn't there any more, how many interfaces it has, and its ports.
    pub(super) fn owed(&self, uid: Uid) -> Owed {
        let added = Added::open(self.0.settings.clone());
        let kept = added.and_then(|added| added.kept(&uid.to_string()));
        let kept = kept.inspect_err(|error| tracing::error!(%uid, %error, "networks of CNI"));
        let kept = kept.unwrap_or_default();
        let arguments = kept.iter().flat_map(|it| &it.arguments);
        let mut tenants = arguments.filter(|(key, _)| key == TENANT);
        let tenant = tenants.find_map(|(_, value)| value.parse().ok());
        Owed {
            tenant: tenant.unwrap_or_else(Tenant::system),
            interfaces: kept.len() as u64,
            ports: kept
                .iter()
                .flat_map(|it| &it.ports)
                .filter_map(words::of_mapping)
                .collect(),
        }
    }

    /// What plugins are run with. At the first time what an earlier daemon's have left is killed
    /// and waited for: they would go on beside those that are to remove it.
    async fn settled(&self) -> ::net::cni::Result<Settings> {
        let settled = self.0.settled.get_or_try_init(|| async {
            let made = tokio::task::spawn_blocking(|| crate::reserve::programs(GROUP)).await;
            let failed = |source| ::net::cni::Error::Io {
                path: GROUP.into(),
                what: "making the group of plugins, or emptying it",
                source,
            };
            let made = made.map_err(|error| failed(std::io::Error::other(error)))?;
            let group = made.map_err(|error| failed(std::io::Error::other(error)))?;
            Added::open(self.0.settings.clone())?.remove_partial()?;
            let parent = std::process::id().to_string();
            let starter = ["/proc/self/exe", "plugin", "--parent", &parent];
            Ok(Settings {
                apart: Some(Apart {
                    group: group.map(Arc::new),
                    starter: starter.map(Into::into).to_vec(),
                }),
                ..self.0.settings.clone()
            })
        });
        settled.await.cloned()
    }
}

/// What is of a cell that is no more, and is to be removed yet.
pub(super) struct Owed {
    pub(super) tenant: Tenant,
    pub(super) interfaces: u64,
    pub(super) ports: Vec<PublishedPort>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugins(default: &str) -> Plugins {
        let config = CellNetworkConfig {
            cni: default.to_owned(),
            ..CellNetworkConfig::default()
        };
        Plugins::new(&config, PathBuf::new())
    }

    fn cni(names: &[&str]) -> Vec<CniNetwork> {
        let network = |name: &&str| CniNetwork {
            name: (*name).to_owned(),
            ..CniNetwork::default()
        };
        names.iter().map(network).collect()
    }

    #[test]
    fn the_first_interface_is_the_bridges_or_the_default_networks() {
        let planned = |default: &str, mode, names: &[&str]| {
            let asked = Network {
                mode,
                cni: cni(names),
                ..Network::default()
            };
            let plan = plugins(default).plan(&asked).ok()?;
            let texts = plan
                .cni
                .iter()
                .map(|it| format!("{}={}", it.interface, it.name));
            Some((plan.bridge, texts.collect::<Vec<_>>().join(" ")))
        };
        let is = |bridge, text: &str| Some((bridge, text.to_owned()));
        assert_eq!(planned("", None, &[]), is(true, ""));
        assert_eq!(planned("", None, &["lan"]), is(true, "net1=lan"));
        assert_eq!(planned("pods", None, &[]), is(false, "eth0=pods"));
        assert_eq!(
            planned("pods", None, &["lan"]),
            is(false, "eth0=pods net1=lan")
        );
        let (bridge, alone) = (Some(Mode::Bridge), Some(Mode::Cni));
        assert_eq!(planned("pods", bridge, &["lan"]), is(true, "net1=lan"));
        assert_eq!(planned("pods", alone, &[]), is(false, "eth0=pods"));
        assert_eq!(planned("", alone, &["a", "b"]), is(false, "eth0=a net1=b"));
        assert_eq!(planned("", alone, &[]), None);
    }

    #[test]
    fn an_address_is_the_bridges() {
        let mut asked = Network {
            addresses: vec![[10, 213, 0, 9].into()],
            ..Network::default()
        };
        let error = plugins("pods").plan(&asked).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("cell.spec.network.addresses"));
        assert!(plugins("").plan(&asked).unwrap().bridge);
        asked.mode = Some(Mode::Bridge);
        assert!(plugins("pods").plan(&asked).unwrap().bridge);
    }
}
