// SPDX-License-Identifier: Apache-2.0
//! Wires the network of cells (crate `net`) to the runtime: it is begun when the first cell wants
//! it, counts in the tenants' quotas, and is found again by the next daemon (ADR 38). Links and
//! addresses of the machine itself are the module `net`'s.
//!
//! A node none of whose cells was attached is left as it was: no bridge, no rules, no forwarding.

mod kept;
mod names;
mod settings;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::net::{Network, Started};
use futures_util::future::BoxFuture;
use model::error::{Error, Reason};
use model::name::Uid;
use model::network::{Attached, Interface, Protocol, PublishedPort};
use model::quota::Quota;
use runtime::ports::{Attach, Networks, NodeNames};
use tenants::{Pool, Taken, Tenants};

use crate::config::Config;
use kept::Kept;
use settings::Wanted;
pub(crate) use settings::{CellNetworkConfig, reserved_ports};

/// The interface of a cell, by custom.
const NAME: &str = "eth0";
/// A network that could not be begun is tried again after this, where a cell wants it.
const AGAIN: Duration = Duration::from_secs(10);

/// The network of the node's cells. Clones share it.
#[derive(Clone)]
pub(crate) struct CellNetwork(Arc<Inner>);

struct Inner {
    wanted: Wanted,
    kept: Kept,
    /// Set once it works, for as long as the daemon lives.
    network: tokio::sync::OnceCell<Network>,
    /// Why it could not be begun, and when that was seen.
    failed: Mutex<Option<(String, Instant)>>,
    cells: Mutex<HashMap<Uid, Cell>>,
    addresses: Pool,
    ports: Pool,
}

/// What a cell has; none where its interface was lost.
struct Cell {
    attached: Option<::net::Attached>,
    /// The cell is no more. What it had counts until it is away.
    ended: bool,
    _taken: Vec<Taken>,
}

impl CellNetwork {
    /// Finds what an earlier daemon has attached. The kernel is looked at where there is something
    /// of it: the folder is there once a network was begun.
    ///
    /// # Errors
    /// The configuration can't be worked with, or the daemon's own folder can't be read.
    pub(crate) async fn open(config: &Config, tenants: &Tenants) -> anyhow::Result<Self> {
        let run = &config.paths.run;
        let network = Self(Arc::new(Inner {
            wanted: Wanted::of(config),
            kept: Kept::new(run.join("networks"), run.join("cells")),
            network: tokio::sync::OnceCell::new(),
            failed: Mutex::default(),
            cells: Mutex::default(),
            addresses: Pool::new(tenants, Quota::Addresses),
            ports: Pool::new(tenants, Quota::Ports),
        }));
        if !network.0.kept.is_begun() {
            return Ok(network);
        }
        for (uid, attached) in network.0.kept.living()? {
            let cell = network.counted(attached);
            network.cells().insert(uid, cell);
        }
        // Also where no cell is to be attached any more: what is there ends with its cells.
        if let Err(error) = network.works().await {
            tracing::error!(%error, "cells have no network that this daemon knows");
        }
        Ok(network)
    }

    /// Why cells can't be attached, as far as it is known: for the node's features.
    pub(crate) fn state(&self) -> Result<(), String> {
        if !self.0.wanted.enabled {
            return Err(DISABLED.to_owned());
        }
        match &*self.failed() {
            Some((why, _)) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// What lives counts, also beyond a quota that was lowered meanwhile.
    fn counted(&self, attached: Option<::net::Attached>) -> Cell {
        let mut taken = Vec::new();
        if let Some(attached) = &attached {
            let ports = attached.host_ports.len() as u64;
            taken.push(self.0.addresses.count(&attached.tenant, 1));
            taken.push(self.0.ports.count(&attached.tenant, ports));
        }
        Cell {
            attached,
            ended: false,
            _taken: taken,
        }
    }

    /// The network for who wants to be attached, begun where it isn't.
    async fn begun(&self) -> Result<Network, Error> {
        match self.0.wanted.enabled {
            true => self.works().await.map_err(|why| no_network(&why)),
            false => Err(no_network(DISABLED)),
        }
    }

    /// The network, begun where it isn't, whether cells may be attached or not.
    async fn works(&self) -> Result<Network, String> {
        if let Some(network) = self.0.network.get() {
            return Ok(network.clone());
        }
        let begun = self.0.network.get_or_try_init(|| async {
            // Those that have waited for another one's try have its answer.
            if let Some((why, when)) = &*self.failed()
                && when.elapsed() < AGAIN
            {
                return Err(why.clone());
            }
            let begun = self.begin().await;
            if let Err(why) = &begun {
                tracing::error!(why, "the network of cells can't be begun");
                *self.failed() = Some((why.clone(), Instant::now()));
            }
            begun
        });
        let network = begun.await.cloned()?;
        tokio::spawn(self.clone().sweep(network.clone()));
        Ok(network)
    }

    /// Detaches the cells that ended while the network was being begun, or could not be.
    async fn sweep(self, network: Network) {
        let ended: Vec<Uid> = {
            let cells = self.cells();
            let ended = cells.iter().filter(|(_, cell)| cell.ended);
            ended.map(|(uid, _)| *uid).collect()
        };
        for uid in ended {
            self.take_away(&network, uid).await;
        }
    }

    async fn begin(&self) -> Result<Network, String> {
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", self.0.kept.folder().display());
        self.0.kept.begin().map_err(|e| failed(&e))?;
        let settings = self.0.wanted.settings()?;
        let living: Vec<(Uid, ::net::Attached)> = {
            let cells = self.cells();
            let living = cells.iter().filter(|(_, cell)| !cell.ended);
            let has = |(uid, cell): (&Uid, &Cell)| Some((*uid, cell.attached.clone()?));
            living.filter_map(has).collect()
        };
        let begun = Network::start(settings, None, living).await;
        let (network, started) = begun.map_err(|error| said(&error))?;
        *self.failed() = None;
        self.note(started);
        Ok(network)
    }

    /// What a start found, in the log; interfaces that are lost are their cells' no more.
    fn note(&self, started: Started) {
        for change in &started.changed {
            tracing::info!(
                ?change,
                "a kernel setting was changed for the network of cells"
            );
        }
        for (uid, name, error) in started.lost {
            tracing::error!(%uid, name, %error, "an interface of a cell is lost");
            if let Some(cell) = self.cells().get_mut(&uid) {
                cell.attached = None;
            }
            if let Err(error) = self.0.kept.put(uid, None) {
                tracing::warn!(%uid, %error, "that an interface is lost is not kept");
            }
        }
        tracing::info!(
            adopted = started.adopted.len(),
            removed = started.removed.len(),
            "the network of cells works"
        );
    }

    async fn attach_now(self, attach: Attach) -> Result<Attached, Error> {
        let (uid, tenant) = (attach.uid, attach.tenant.clone());
        let network = self.begun().await?;
        let mut taken = vec![self.0.addresses.take(&tenant, 1)?];
        if !attach.ports.is_empty() {
            let count = attach.ports.len() as u64;
            taken.push(self.0.ports.take(&tenant, count)?);
        }
        let attached = network.attach(request(attach)).await.map_err(refused)?;
        if let Err(error) = self.0.kept.put(uid, Some(&attached)) {
            let _ = network.detach(uid).await;
            let message = format!("the cell's network can't be kept: {error}");
            return Err(Error::new(Reason::Degraded, message));
        }
        let shown = shown(Some(&attached));
        let cell = Cell {
            attached: Some(attached),
            ended: false,
            _taken: taken,
        };
        self.cells().insert(uid, cell);
        Ok(shown)
    }

    async fn detach_now(self, uid: Uid) {
        // Nobody else has this uid: what isn't there was never attached. It is noted before the
        // network is looked for: one that is being begun meanwhile sees it afterwards.
        match self.cells().get_mut(&uid) {
            Some(cell) => cell.ended = true,
            None => return,
        }
        match self.works().await {
            Ok(network) => self.take_away(&network, uid).await,
            // Its file stays, and what it has counts: the next try takes it away, or the next
            // daemon, to which a cell without a socket is none.
            Err(error) => tracing::error!(%uid, error, "the network of a cell stays behind"),
        }
    }

    async fn take_away(&self, network: &Network, uid: Uid) {
        if let Err(error) = network.detach(uid).await {
            // Its addresses stay taken, in `net` and here, and the next daemon removes it.
            tracing::error!(%uid, %error, "the network of a cell stays behind");
            return;
        }
        self.0.kept.remove(uid);
        self.cells().remove(&uid);
    }

    fn cells(&self) -> MutexGuard<'_, HashMap<Uid, Cell>> {
        self.0.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, Option<(String, Instant)>> {
        self.0.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Networks for CellNetwork {
    fn absent(&self) -> BoxFuture<'static, Option<Error>> {
        let network = self.clone();
        Box::pin(async move { network.begun().await.err() })
    }

    fn attach(&self, attach: Attach) -> BoxFuture<'static, Result<Attached, Error>> {
        Box::pin(self.clone().attach_now(attach))
    }

    fn detach(&self, uid: Uid) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().detach_now(uid))
    }

    fn attached(&self, uid: Uid) -> Option<Attached> {
        let cells = self.cells();
        cells.get(&uid).map(|cell| shown(cell.attached.as_ref()))
    }

    fn names(&self) -> NodeNames {
        names::of_node()
    }
}

const DISABLED: &str = "cell_network.enabled is false in the node's configuration";

fn no_network(why: &str) -> Error {
    let message = format!("this node has no network of cells: {why}");
    Error::new(Reason::Unsupported, message)
        .hint("leave the cell without one (--net none); `aurae node info` says what the node lacks")
}

/// What failed, with its causes: `Display` says the first alone.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}

/// In the words of the API. What another tenant has is said without its name.
fn refused(error: ::net::Error) -> Error {
    const PORTS: &str = "cell.spec.network.ports";
    use ::net::Error as Net;
    match &error {
        Net::PortTaken { port, .. } => {
            let message = format!("port {port} of the node leads to another cell");
            Error::new(Reason::Conflict, message)
                .field(PORTS)
                .hint("publish another port, or stop the cell that has it")
        }
        Net::PortInUse { port } => {
            let message = format!("a program of the node listens on its port {port}");
            Error::new(Reason::Conflict, message)
                .field(PORTS)
                .hint("publish another port")
        }
        Net::Request { reason, .. } => Error::invalid(PORTS, reason.clone()),
        Net::Full { .. } | Net::TenantFull { .. } => {
            Error::new(Reason::LimitExceeded, error.to_string())
        }
        _ => {
            let message = format!(
                "the cell can't be attached to the network: {}",
                said(&error)
            );
            Error::new(Reason::Internal, message).errno(error.errno())
        }
    }
}

fn request(attach: Attach) -> ::net::Attach {
    ::net::Attach {
        uid: attach.uid,
        tenant: attach.tenant,
        netns: attach.netns,
        name: NAME.to_owned(),
        default_route: true,
        host_ports: attach
            .ports
            .iter()
            .map(|port| host_port(port, attach.on_loopback))
            .collect(),
    }
}

fn host_port(port: &PublishedPort, on_loopback: bool) -> ::net::HostPort {
    ::net::HostPort {
        protocol: match port.protocol {
            Protocol::Tcp => ::net::Protocol::Tcp,
            Protocol::Udp => ::net::Protocol::Udp,
            Protocol::Sctp => ::net::Protocol::Sctp,
        },
        address: port.address,
        host_port: port.host_port,
        port: port.port,
        on_loopback,
    }
}

fn published(port: &::net::HostPort) -> PublishedPort {
    PublishedPort {
        protocol: match port.protocol {
            ::net::Protocol::Tcp => Protocol::Tcp,
            ::net::Protocol::Udp => Protocol::Udp,
            ::net::Protocol::Sctp => Protocol::Sctp,
        },
        address: port.address,
        host_port: port.host_port,
        port: port.port,
    }
}

/// What clients see of it.
fn shown(attached: Option<&::net::Attached>) -> Attached {
    let Some(attached) = attached else {
        return Attached::default();
    };
    Attached {
        interfaces: vec![Interface {
            name: attached.name.clone(),
            addresses: attached.addresses.clone(),
            gateways: attached.gateways.clone(),
            mac: attached.mac.to_string(),
        }],
        ports: attached.host_ports.iter().map(published).collect(),
    }
}
