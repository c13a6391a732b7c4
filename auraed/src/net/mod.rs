// SPDX-License-Identifier: Apache-2.0
//! The network of a node whose PID 1 we are: links up, addresses by router advertisement, DHCP or configuration,
//! routes, name servers.
//!
//! One task owns it and waits for events: the kernel's (a link appeared, a cable was plugged, an address passed
//! duplicate detection) and the DHCP clients'. Nothing here sleeps until something has surely happened, and a node
//! without any network is not an error. It is not route, which is about services, and not the cells' networks.

mod apply;
pub(crate) mod config;
mod dhcp;
mod lease;
mod link;
mod resolv;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use futures_util::{StreamExt, TryStreamExt};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{Handle, MulticastGroup, new_multicast_connection};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use self::config::NetConfig;
use self::dhcp::{News, Source};
use self::lease::Lease;
use self::link::{Action, Link, LinkView};

/// The news that may wait to be applied; a client with more waits.
const NEWS_QUEUE: usize = 64;

/// What the network needs to know beside its configuration.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) config: NetConfig,
    /// Told to DHCP servers.
    pub(crate) host_name: String,
    pub(crate) resolv_conf: PathBuf,
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
}

enum Event {
    Kernel(NetlinkMessage<RouteNetlinkMessage>),
    News(News),
}

struct Network {
    options: Options,
    handle: Handle,
    links: BTreeMap<u32, Link>,
    leases: BTreeMap<(u32, Source), Lease>,
    clients: BTreeMap<(u32, Source), AbortHandle>,
    tasks: JoinSet<()>,
    news: mpsc::Sender<News>,
}

/// Manages the network until dropped. Returns only with an error.
pub(crate) async fn run(options: Options) -> Result<(), NetError> {
    let groups = [MulticastGroup::Link, MulticastGroup::Ipv6Ifaddr];
    let (connection, handle, mut kernel) =
        new_multicast_connection(&groups).map_err(NetError::Listen)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let (news, mut inbox) = mpsc::channel(NEWS_QUEUE);
    let (links, leases, clients) = Default::default();
    let mut network = Network {
        options,
        handle,
        links,
        leases,
        clients,
        tasks,
        news,
    };
    network.write_resolv_conf();
    network.look_around().await?;
    loop {
        let event = tokio::select! {
            message = kernel.next() => Event::Kernel(message.ok_or(NetError::Ended)?.0),
            news = inbox.recv() => Event::News(news.ok_or(NetError::Ended)?),
        };
        match event {
            Event::Kernel(message) => network.on_kernel(message).await?,
            Event::News((index, source, lease)) => network.on_news(index, source, lease).await,
        }
    }
}

impl Network {
    /// Sees everything that is there: at the start, and when the kernel had more to tell than fits its queue.
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
            self.on_link(&message).await;
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
                self.on_link(&link).await;
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

    async fn on_link(&mut self, message: &LinkMessage) {
        let view = view_of(message);
        let index = view.index;
        let actions = match self.links.get_mut(&index) {
            Some(link) => link.observe(view),
            None => match self.options.config.for_link(&view.name) {
                Some(config) => {
                    let (link, actions) = Link::new(view, config);
                    self.links.insert(index, link);
                    actions
                }
                None => Vec::new(),
            },
        };
        self.act(index, actions).await;
    }

    fn on_link_gone(&mut self, index: u32) {
        self.links.remove(&index);
        self.leases.retain(|(of, _), _| *of != index);
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
        // Also when it is the same: a renewed lease has its lifetimes to be set anew.
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
                    let client = dhcp::run4(view, host, config.metric, self.news.clone());
                    self.start(index, Source::Dhcp4, client);
                }
                Action::StartDhcp6(local) => {
                    let client = dhcp::run6(view, local, self.news.clone());
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
        let handle = self.tasks.spawn(client);
        if let Some(earlier) = self.clients.insert((index, source), handle) {
            earlier.abort();
        }
    }

    async fn lose_carrier(&mut self, index: u32) {
        self.stop_clients(index);
        for source in [Source::Dhcp4, Source::Dhcp6] {
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
            // Nobody told us of a name server: what the image came with stays.
            return;
        }
        let servers = config
            .dns
            .iter()
            .chain(leases().flat_map(|lease| &lease.dns));
        let domains = config
            .search
            .iter()
            .chain(leases().flat_map(|lease| &lease.search));
        let path = &self.options.resolv_conf;
        if let Err(error) = resolv::write(path, &resolv::render(servers, domains)) {
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

/// The link-local address that the message is about, unless it may still turn out to be somebody else's.
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
