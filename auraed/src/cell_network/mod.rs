// SPDX-License-Identifier: Apache-2.0
//! Wires the network of cells (crate `net`) to the runtime: it is begun when the first cell wants
//! it, counts in the tenants' quotas, and is found again by the next daemon (ADR 38). Networks of
//! CNI stand beside it, or in its place ([`plugins`], ADR 47). Links and addresses of the machine
//! itself are the module `net`'s.
//!
//! A node none of whose cells was attached is left as it was: no bridge, no rules, no forwarding.

mod claims;
mod kept;
mod names;
mod places;
mod plugins;
mod settings;
mod words;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::net::cni::Namespace;
use ::net::{Network, Started};
use futures_util::future::BoxFuture;
use model::error::{Error, Reason};
use model::name::{Tenant, Uid};
use model::network::{Attached, Network as Asked};
use model::quota::Quota;
use runtime::ports::{Attach, Networks, NodeNames};
use tenants::{Pool, Taken, Tenants};

use crate::config::Config;
use claims::{By, Claim, Claims};
use kept::{Has, Kept};
use plugins::{Plan, Plugins};
use settings::Wanted;
pub(crate) use settings::{CellNetworkConfig, open_networks, reserved_ports};
use words::{DISABLED, no_network, refused, request, said, shown};

/// A network that could not be begun is tried again after this, where a cell wants it.
const AGAIN: Duration = Duration::from_secs(10);

/// For how long a cell's end waits for its plugins. They go on beside it.
const HELD: Duration = Duration::from_secs(10);

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
    plugins: Plugins,
    claims: Claims,
    addresses: Pool,
    ports: Pool,
}

/// What a cell has.
struct Cell {
    has: Has,
    /// The cell is no more. What it had counts until it is away.
    ended: bool,
    bridge: Share,
    plugins: Share,
    /// For its plugins: one that something else holds doesn't go with the cell's processes, and
    /// what is in it doesn't either. None where it could not be opened again after a restart.
    netns: Option<OwnedFd>,
}

/// What one part of a cell's network counts for, until that part is away.
#[derive(Default)]
struct Share {
    taken: Vec<Taken>,
    claim: Option<Claim>,
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
            plugins: Plugins::new(&config.cell_network, run.join("cni")),
            claims: Claims::default(),
            addresses: Pool::new(tenants, Quota::Addresses),
            ports: Pool::new(tenants, Quota::Ports),
        }));
        if network.0.kept.is_begun() {
            for (uid, has) in network.0.kept.living()? {
                let cell = network.counted(uid, has);
                network.cells().insert(uid, cell);
            }
        }
        network.collect();
        let has_bridge = |cell: &Cell| cell.has.bridge.is_some();
        let is_begun = network.0.kept.bridge_is_begun() || network.cells().values().any(has_bridge);
        // Also where no cell is to be attached any more: what is there ends with its cells.
        if is_begun && let Err(error) = network.works().await {
            tracing::error!(%error, "cells have no network that this daemon knows");
        }
        Ok(network)
    }

    /// Has plugins remove what they have added to cells that aren't there any more, or were in the
    /// making when the last daemon died. Nothing waits for it: ids of cells are never given again.
    /// It counts for its tenant until it is done.
    fn collect(&self) {
        let found = self.0.plugins.cells();
        let found = found.inspect_err(|error| tracing::error!(%error, "networks of CNI"));
        let living = self.cells();
        let gone = found.unwrap_or_default().into_iter();
        for uid in gone.filter(|uid| living.get(uid).is_none_or(|cell| cell.has.cni.is_empty())) {
            tracing::info!(%uid, "plugins remove a cell's network that is of no living cell");
            let owed = self.0.plugins.owed(uid);
            let share = self.share(&owed.tenant, owed.interfaces, owed.ports.len());
            // A cell of the bridge that lives has its own claim by that uid.
            let claim = (!owed.ports.is_empty())
                .then(|| self.0.claims.of_living(uid, By::Plugins, owed.ports));
            let share = Share { claim, ..share };
            self.clone()
                .unplug(owed.tenant, uid, Namespace::Gone, share);
        }
    }

    /// Beside, until it is done.
    fn unplug(self, tenant: Tenant, uid: Uid, netns: Namespace, share: Share) {
        tokio::spawn(async move {
            self.0.plugins.remove_at_last(&tenant, uid, &netns).await;
            drop(share);
        });
    }

    /// What is there counts, also beyond a quota.
    fn share(&self, tenant: &Tenant, interfaces: u64, ports: usize) -> Share {
        Share {
            taken: vec![
                self.0.addresses.count(tenant, interfaces),
                self.0.ports.count(tenant, ports as u64),
            ],
            claim: None,
        }
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
    fn counted(&self, uid: Uid, has: Has) -> Cell {
        let (ports, by) = (has.ports(), by_of(&has));
        let of = |part: By| if by == part { ports.len() } else { 0 };
        let on_bridge = u64::from(has.bridge.is_some());
        let mut bridge = self.share(&has.tenant, on_bridge, of(By::Bridge));
        let mut plugins = self.share(&has.tenant, has.cni.len() as u64, of(By::Plugins));
        let leads = match by {
            By::Bridge => &mut bridge,
            By::Plugins => &mut plugins,
        };
        leads.claim = Some(self.0.claims.of_living(uid, by, ports));
        Cell {
            has,
            ended: false,
            bridge,
            plugins,
            netns: None,
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
        tokio::spawn(self.clone().detach_ended(network.clone()));
        Ok(network)
    }

    /// Detaches the cells that ended while the network was being begun, or could not be.
    async fn detach_ended(self, network: Network) {
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
        self.0.kept.begin_bridge().map_err(|e| failed(&e))?;
        let settings = self.0.wanted.settings()?;
        let living: Vec<(Uid, ::net::Attached)> = {
            let cells = self.cells();
            let living = cells.iter().filter(|(_, cell)| !cell.ended);
            let has = |(uid, cell): (&Uid, &Cell)| Some((*uid, cell.has.bridge.clone()?));
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
            let kept = match self.cells().get_mut(&uid) {
                Some(cell) => {
                    cell.has.bridge = None;
                    self.0.kept.put(uid, &cell.has)
                }
                None => Ok(()),
            };
            if let Err(error) = kept {
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
        let plan = self.0.plugins.plan(&attach.network)?;
        let (bridge, plugins) = self.shares(&attach, &plan)?;
        if !plan.bridge {
            claims::check_plugins(&attach.network.ports, attach.on_loopback).await?;
        }
        let netns = match plan.cni.is_empty() {
            true => None,
            false => Some(attach.netns.try_clone()),
        };
        let netns = netns.transpose();
        let netns = netns.map_err(|e| Error::internal(format!("the cell's network: {e}")))?;
        let has = match self.make(attach, plan).await {
            Ok(has) => has,
            Err(error) => {
                // What plugins could not take back at once goes on to count.
                self.clone().give_up(tenant, uid, netns, plugins);
                return Err(error);
            }
        };
        let shown = shown(&has);
        let cell = Cell {
            has,
            ended: false,
            bridge,
            plugins,
            netns,
        };
        self.cells().insert(uid, cell);
        Ok(shown)
    }

    /// Takes what the two parts of a cell's network count for.
    fn shares(&self, attach: &Attach, plan: &Plan) -> Result<(Share, Share), Error> {
        let (mut bridge, mut plugins) = (Share::default(), Share::default());
        let (tenant, ports) = (&attach.tenant, &attach.network.ports);
        if plan.bridge {
            bridge.taken.push(self.0.addresses.take(tenant, 1)?);
        }
        if !plan.cni.is_empty() {
            let count = plan.cni.len() as u64;
            plugins.taken.push(self.0.addresses.take(tenant, count)?);
        }
        let (leads, by) = match plan.bridge {
            true => (&mut bridge, By::Bridge),
            false => (&mut plugins, By::Plugins),
        };
        if !ports.is_empty() {
            leads
                .taken
                .push(self.0.ports.take(tenant, ports.len() as u64)?);
        }
        leads.claim = Some(self.0.claims.take(attach.uid, by, ports.clone())?);
        Ok((bridge, plugins))
    }

    /// Makes the interfaces, and keeps what they are.
    async fn make(&self, attach: Attach, plan: Plan) -> Result<Has, Error> {
        let uid = attach.uid;
        let mut has = Has {
            tenant: attach.tenant.clone(),
            bridge: None,
            cni: Vec::new(),
        };
        let kept = |e: std::io::Error| {
            let message = format!("the cell's network can't be kept: {e}");
            Error::new(Reason::Degraded, message)
        };
        self.0.kept.begin().map_err(kept)?;
        if plan.bridge {
            let network = self.begun().await?;
            let attached = network.attach(request(&attach)?).await.map_err(refused)?;
            has.bridge = Some(attached);
        }
        let plugged = self.plug(&attach, &plan, &mut has).await;
        if let Err(error) = plugged.and_then(|()| self.0.kept.put(uid, &has).map_err(kept)) {
            if let Some(network) = self.0.network.get() {
                let _ = network.detach(uid).await;
            }
            return Err(error);
        }
        Ok(has)
    }

    /// Has plugins make what is theirs.
    async fn plug(&self, attach: &Attach, plan: &Plan, has: &mut Has) -> Result<(), Error> {
        for (place, wanted) in plan.cni.iter().enumerate() {
            let first = place == 0 && !plan.bridge;
            let plugged = self.0.plugins.add(attach, wanted, first).await?;
            has.cni.push(plugged);
        }
        Ok(())
    }

    /// Has plugins take back what a failed attachment has left, which counts until then.
    fn give_up(self, tenant: Tenant, uid: Uid, netns: Option<OwnedFd>, share: Share) {
        // What can't be looked at may have left something.
        let found = self.0.plugins.cells();
        if !found.is_ok_and(|all| !all.contains(&uid)) {
            self.unplug(tenant, uid, namespace(netns), share);
        }
    }

    async fn detach_now(self, uid: Uid) {
        // No other cell has this uid: what isn't there was never attached. It is noted before the
        // network is looked for: one that is being begun meanwhile sees it afterwards.
        let (has, netns) = match self.cells().get_mut(&uid) {
            Some(cell) => {
                cell.ended = true;
                (cell.has.clone(), cell.netns.take())
            }
            None => return,
        };
        // The bridge's part waits for no plugin: its addresses and ports are free without them.
        let bridge = self.without_bridge(uid, &has);
        let plugins = self.without_plugins(uid, &has, netns);
        tokio::join!(bridge, plugins);
    }

    /// Has plugins remove what is theirs. It goes on beside when it takes long or fails; its file
    /// stays until then, and what it has counts.
    async fn without_plugins(&self, uid: Uid, has: &Has, netns: Option<OwnedFd>) {
        if has.cni.is_empty() {
            self.is_without(uid, |_| {});
            return;
        }
        let (network, tenant) = (self.clone(), has.tenant.clone());
        let tried = tokio::spawn(async move {
            let netns = namespace(netns);
            let is_gone = |cell: &mut Cell| {
                cell.has.cni.clear();
                cell.plugins = Share::default();
            };
            let removed = network.0.plugins.remove(&tenant, uid, &netns).await;
            let Err(error) = removed else {
                network.is_without(uid, is_gone);
                return;
            };
            let error = said(&error);
            tracing::error!(%uid, error, "plugins can't remove the network of a cell yet");
            tokio::spawn(async move {
                let plugins = &network.0.plugins;
                plugins.remove_at_last(&tenant, uid, &netns).await;
                network.is_without(uid, is_gone);
            });
        });
        if tokio::time::timeout(HELD, tried).await.is_err() {
            tracing::warn!(%uid, "the cell's end doesn't wait for its network's plugins");
        }
    }

    async fn without_bridge(&self, uid: Uid, has: &Has) {
        if has.bridge.is_none() {
            return;
        }
        match self.works().await {
            Ok(network) => self.take_away(&network, uid).await,
            // Its file stays, and what it has counts: the next try takes it away, or the next
            // daemon, to which a cell without a socket is none.
            Err(error) => tracing::error!(%uid, error, "the network of a cell stays behind"),
        }
    }

    /// A part of an ended cell's network is away; with the last one it is forgotten.
    fn is_without(&self, uid: Uid, note: impl FnOnce(&mut Cell)) {
        let is_over = match self.cells().get_mut(&uid) {
            Some(cell) => {
                note(cell);
                cell.has.bridge.is_none() && cell.has.cni.is_empty()
            }
            None => false,
        };
        if is_over {
            self.forget(uid);
        }
    }

    async fn take_away(&self, network: &Network, uid: Uid) {
        if let Err(error) = network.detach(uid).await {
            // Its addresses stay taken, in `net` and here, and the next daemon removes it.
            tracing::error!(%uid, %error, "the network of a cell stays behind");
            return;
        }
        self.is_without(uid, |cell| {
            cell.has.bridge = None;
            cell.bridge = Share::default();
        });
    }

    fn forget(&self, uid: Uid) {
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

fn namespace(netns: Option<OwnedFd>) -> Namespace {
    netns.map_or(Namespace::Gone, Namespace::Fd)
}

fn by_of(has: &Has) -> By {
    match has.bridge {
        Some(_) => By::Bridge,
        None => By::Plugins,
    }
}

impl Networks for CellNetwork {
    fn absent(&self, asked: &Asked) -> BoxFuture<'static, Option<Error>> {
        let network = self.clone();
        let plan = self.0.plugins.plan(asked);
        Box::pin(async move {
            match plan {
                // What is wrong with it is said when it is attached.
                Ok(plan) if plan.bridge => network.begun().await.err(),
                Ok(_) | Err(_) if network.0.wanted.enabled => None,
                Ok(_) | Err(_) => Some(no_network(DISABLED)),
            }
        })
    }

    fn attach(&self, attach: Attach) -> BoxFuture<'static, Result<Attached, Error>> {
        Box::pin(self.clone().attach_now(attach))
    }

    fn adopted(&self, uid: Uid, netns: OwnedFd) {
        // The bridge's part needs none. One that ends just now has gone without.
        if let Some(cell) = self.cells().get_mut(&uid)
            && !cell.has.cni.is_empty()
            && !cell.ended
        {
            cell.netns = Some(netns);
        }
    }

    fn detach(&self, uid: Uid) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().detach_now(uid))
    }

    fn attached(&self, uid: Uid) -> Option<Attached> {
        let cells = self.cells();
        cells.get(&uid).map(|cell| shown(&cell.has))
    }

    fn names(&self) -> NodeNames {
        names::of_node()
    }
}
