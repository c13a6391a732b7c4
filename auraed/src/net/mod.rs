// SPDX-License-Identifier: Apache-2.0
//! The network of a node whose PID 1 is `auraed`: links up, addresses by router advertisement, DHCP
//! or configuration, routes, name servers.
//!
//! One task owns it and waits for events: the kernel's (a link appeared, a cable was plugged, an
//! address passed duplicate detection) and the DHCP clients'. No step waits a fixed time, and a
//! node without any network is not an error. It is not route, which is about services, and not the
//! cells' networks.

mod advert;
mod apply;
pub(crate) mod config;
mod dhcp;
mod lease;
mod link;
mod other;
mod resolv;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{Handle, MulticastGroup, new_multicast_connection};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use kernel::netlink::Advertisement;

use self::advert::{Known, Routers};
use self::config::{Choice, LinkConfig, NetConfig};
use self::dhcp::{News, Source};
use self::lease::{Lease, NameServer};
use self::link::{Action, Link, LinkView};
use self::other::Ours;

/// The news that may wait to be applied; a client with more waits.
const NEWS_QUEUE: usize = 64;

/// How long the machine waits for leases to be given back when it goes down. It is a courtesy: a
/// server that hears nothing lets them run out.
const RELEASE_BOUND: Duration = Duration::from_secs(1);

/// The options of the network's task.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) config: NetConfig,
    /// The node's name, which is sent to DHCP servers.
    pub(crate) host_name: String,
    pub(crate) resolv_conf: PathBuf,
    /// Where other managers of links keep their state: `/run`.
    pub(crate) run: PathBuf,
    /// Where the links are noted that were taken without being configured.
    pub(crate) taken: PathBuf,
}

/// Why the network can't be managed at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetError {
    #[error("cannot listen to the kernel's network events")]
    Listen(#[source] std::io::Error),
    #[error("cannot ask the kernel for the {0}")]
    Ask(&'static str, #[source] rtnetlink::Error),
    #[error("the kernel's network events ended")]
    Ended,
    #[error("cannot read router advertisements")]
    Routers(#[source] std::io::Error),
}

enum Event {
    Kernel(NetlinkMessage<RouteNetlinkMessage>),
    News(News),
    Advertised(Advertisement),
    AdvertisementExpired,
    Shutdown,
}

struct Network {
    options: Options,
    handle: Handle,
    links: BTreeMap<u32, Link>,
    /// Links that are not ours.
    others: BTreeSet<u32>,
    ours: Ours,
    leases: BTreeMap<(u32, Source), Lease>,
    clients: BTreeMap<(u32, Source), AbortHandle>,
    tasks: JoinSet<()>,
    news: mpsc::Sender<News>,
    leaving: watch::Sender<bool>,
    advertised: Known,
}

/// Manages the network until `shutdown`, which is the machine's: leases are given back then. A
/// daemon that ends while the machine goes on just drops this future, and its successor finds the
/// network as it was.
///
/// Returns earlier only with an error.
pub(crate) async fn run(
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<(), NetError> {
    let groups = [MulticastGroup::Link, MulticastGroup::Ipv6Ifaddr];
    let (connection, handle, mut kernel) =
        new_multicast_connection(&groups).map_err(NetError::Listen)?;
    let mut routers = Routers::listen().map_err(NetError::Listen)?;
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let (news, mut inbox) = mpsc::channel(NEWS_QUEUE);
    let mut network = Network::new(options, handle, news);
    network.write_resolv_conf();
    network.look_around().await?;
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let expiry = network.advertised.next_expiry();
        let event = tokio::select! {
            message = kernel.next() => Event::Kernel(message.ok_or(NetError::Ended)?.0),
            news = inbox.recv() => Event::News(news.ok_or(NetError::Ended)?),
            advertisement = routers.next() => {
                Event::Advertised(advertisement.map_err(NetError::Routers)?)
            }
            () = at(expiry) => Event::AdvertisementExpired,
            () = &mut shutdown => Event::Shutdown,
        };
        match event {
            Event::Kernel(message) => network.on_kernel(message).await?,
            Event::News((index, source, lease)) => network.on_news(index, source, lease).await,
            Event::Advertised(advertisement) => network.on_advertisement(advertisement).await,
            Event::AdvertisementExpired => network.on_advertisement_expired().await,
            Event::Shutdown => {
                network.release().await;
                return Ok(());
            }
        }
    }
}

/// Waits for that moment; for ever where there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

impl Network {
    fn new(options: Options, handle: Handle, news: mpsc::Sender<News>) -> Self {
        Self {
            ours: Ours::read(options.taken.clone()),
            others: BTreeSet::new(),
            options,
            handle,
            news,
            links: BTreeMap::new(),
            leases: BTreeMap::new(),
            clients: BTreeMap::new(),
            tasks: JoinSet::new(),
            leaving: watch::Sender::new(false),
            advertised: Known::default(),
        }
    }

    /// Gives the leases back.
    async fn release(mut self) {
        self.leaving.send_replace(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(RELEASE_BOUND, ended).await.is_err() {
            tracing::warn!("network: leases were not released in time");
        }
    }

    async fn on_advertisement(&mut self, advertisement: Advertisement) {
        let index = advertisement.link;
        let Some(link) = self.links.get(&index).filter(|link| link.config.slaac) else {
            return;
        };
        self.advertised
            .observe(advertisement, &link.view.name, Instant::now());
        self.set_advertised(index).await;
    }

    async fn on_advertisement_expired(&mut self) {
        for index in self.advertised.expire(Instant::now()) {
            self.set_advertised(index).await;
        }
    }

    async fn set_advertised(&mut self, index: u32) {
        let lease = self.advertised.lease(index);
        self.set_lease(index, Source::Advertised, lease).await;
    }

    /// Reads everything that is there: at the start, and when the kernel had more messages than fit
    /// its queue.
    async fn look_around(&mut self) -> Result<(), NetError> {
        let links: Vec<_> = self
            .handle
            .link()
            .get()
            .execute()
            .try_collect()
            .await
            .map_err(|e| NetError::Ask("links", e))?;
        for message in links {
            self.on_link(&message).await?;
        }
        let addresses: Vec<_> = self
            .handle
            .address()
            .get()
            .execute()
            .try_collect()
            .await
            .map_err(|e| NetError::Ask("addresses", e))?;
        for message in addresses {
            self.on_address(&message, true).await;
        }
        Ok(())
    }

    async fn on_kernel(
        &mut self,
        message: NetlinkMessage<RouteNetlinkMessage>,
    ) -> Result<(), NetError> {
        match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                self.on_link(&link).await?;
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                self.on_link_gone(link.header.index);
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(address)) => {
                self.on_address(&address, true).await;
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelAddress(address)) => {
                self.on_address(&address, false).await;
            }
            NetlinkPayload::Overrun(_) => self.look_around().await?,
            _ => {}
        }
        Ok(())
    }

    async fn on_link(&mut self, message: &LinkMessage) -> Result<(), NetError> {
        let view = view_of(message);
        let index = view.index;
        let actions = match self.links.get_mut(&index) {
            Some(link) => link.observe(view),
            None => match self.take(&view, message).await? {
                Some(config) => {
                    let (link, actions) = Link::new(view, config);
                    self.links.insert(index, link);
                    actions
                }
                None => Vec::new(),
            },
        };
        self.act(index, actions).await;
        Ok(())
    }

    /// The settings of a link that is seen for the first time; `None`: not ours.
    async fn take(
        &mut self,
        view: &LinkView,
        message: &LinkMessage,
    ) -> Result<Option<LinkConfig>, NetError> {
        if self.others.contains(&view.index) {
            return Ok(None);
        }
        let config = match self.options.config.for_link(&view.name) {
            Choice::Ours(config) => return Ok(Some(config)),
            Choice::IfFree(config) if view.loopback || self.ours.has(view.index) => {
                return Ok(Some(config));
            }
            Choice::IfFree(config) => config,
            Choice::Not => {
                self.others.insert(view.index);
                return Ok(None);
            }
        };
        let other = other::manager(&self.handle, view, message, &self.options.run).await?;
        if let Some(why) = other {
            tracing::info!(link = %view.name, why, "network: the link is left to another manager");
            self.others.insert(view.index);
            return Ok(None);
        }
        self.ours.take(view.index);
        Ok(Some(config))
    }

    fn on_link_gone(&mut self, index: u32) {
        self.others.remove(&index);
        self.ours.forget(index);
        self.links.remove(&index);
        self.leases.retain(|(of, _), _| *of != index);
        self.advertised.forget(index);
        self.stop_clients(index);
        self.write_resolv_conf();
    }

    async fn on_address(&mut self, message: &AddressMessage, present: bool) {
        let Some(address) = usable_link_local(message) else {
            return;
        };
        let index = message.header.index;
        let Some(link) = self.links.get_mut(&index) else {
            return;
        };
        let actions = link.observe_link_local(present.then_some(address));
        self.act(index, actions).await;
    }

    async fn on_news(&mut self, index: u32, source: Source, lease: Option<Lease>) {
        // News of a client that was stopped meanwhile are no news.
        if !self.clients.contains_key(&(index, source)) {
            return;
        }
        self.set_lease(index, source, lease.unwrap_or_default())
            .await;
    }

    async fn set_lease(&mut self, index: u32, source: Source, lease: Lease) {
        let old = self
            .leases
            .insert((index, source), lease.clone())
            .unwrap_or_default();
        if old != lease {
            tracing::info!(index, ?source, addresses = ?lease.addresses, "network: lease");
        }
        // Also when it is the same: the lifetimes of a renewed lease must be set again.
        apply::replace(&self.handle, index, &old, &lease).await;
        self.write_resolv_conf();
    }

    async fn act(&mut self, index: u32, actions: Vec<Action>) {
        for action in actions {
            let Some(link) = self.links.get(&index) else {
                return;
            };
            let (view, config) = (link.view.clone(), link.config.clone());
            match action {
                Action::Tune => {
                    if let Err(error) = apply::tune(&view.name, &config) {
                        tracing::warn!(link = %view.name, %error, "network: cannot tune IPv6");
                    }
                }
                Action::SetUp => {
                    if let Err(error) = apply::set_up(&self.handle, index).await {
                        tracing::warn!(link = %view.name, %error, "network: cannot bring it up");
                    }
                }
                Action::ApplyStatic => {
                    self.set_lease(index, Source::Static, Lease::of_config(&config))
                        .await;
                }
                Action::StartDhcp4 => {
                    let host = self.options.host_name.clone();
                    let (news, leaving) = (self.news.clone(), self.leaving.subscribe());
                    let client = dhcp::run4(view, host, config.metric, news, leaving);
                    self.start(index, Source::Dhcp4, client);
                }
                Action::StartDhcp6(local) => {
                    let (news, leaving) = (self.news.clone(), self.leaving.subscribe());
                    let client = dhcp::run6(view, local, news, leaving);
                    self.start(index, Source::Dhcp6, client);
                }
                Action::StopClients => self.lose_carrier(index).await,
            }
        }
    }

    fn start(
        &mut self,
        index: u32,
        source: Source,
        client: impl Future<Output = ()> + Send + 'static,
    ) {
        // Those that were stopped since.
        while self.tasks.try_join_next().is_some() {}
        let handle = self.tasks.spawn(client);
        if let Some(earlier) = self.clients.insert((index, source), handle) {
            earlier.abort();
        }
    }

    async fn lose_carrier(&mut self, index: u32) {
        self.stop_clients(index);
        self.advertised.forget(index);
        for source in [Source::Dhcp4, Source::Dhcp6, Source::Advertised] {
            if self.leases.contains_key(&(index, source)) {
                self.set_lease(index, source, Lease::default()).await;
                self.leases.remove(&(index, source));
            }
        }
    }

    fn stop_clients(&mut self, index: u32) {
        self.clients.retain(|(of, _), client| {
            if *of == index {
                client.abort();
            }
            *of != index
        });
    }

    fn write_resolv_conf(&self) {
        let leases = || self.leases.values();
        let config = &self.options.config;
        if config.dns.is_empty() && leases().all(|lease| lease.dns.is_empty()) {
            // No lease named a name server: what the image came with stays.
            return;
        }
        let configured = config.dns.iter().map(|address| NameServer::from(*address));
        let leased = leases().flat_map(|lease| lease.dns.clone());
        let servers: Vec<NameServer> = configured.chain(leased).collect();
        let domains = config
            .search
            .iter()
            .chain(leases().flat_map(|lease| &lease.search));
        let path = &self.options.resolv_conf;
        if let Err(error) = resolv::write(path, &resolv::render(servers.iter(), domains)) {
            tracing::warn!(path = %path.display(), %error, "network: cannot write name servers");
        }
    }
}

fn view_of(message: &LinkMessage) -> LinkView {
    let flags = message.header.flags;
    let mut view = LinkView {
        index: message.header.index,
        name: String::new(),
        mac: Vec::new(),
        up: flags.contains(LinkFlags::Up),
        carrier: flags.contains(LinkFlags::LowerUp),
        loopback: flags.contains(LinkFlags::Loopback),
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => view.name.clone_from(name),
            LinkAttribute::Address(mac) => view.mac.clone_from(mac),
            _ => {}
        }
    }
    view
}

/// The link-local address that the message is about, unless duplicate detection may still find it
/// on another machine.
fn usable_link_local(message: &AddressMessage) -> Option<Ipv6Addr> {
    let flags = message.header.flags;
    let unusable = AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed;
    if message.header.family != AddressFamily::Inet6 || flags.intersects(unusable) {
        return None;
    }
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            AddressAttribute::Address(IpAddr::V6(a)) if a.is_unicast_link_local() => Some(*a),
            _ => None,
        })
}

#[cfg(test)]
mod tests;
