// SPDX-License-Identifier: Apache-2.0
//! The DHCP clients of one link (`mozim`, RFC 2131 and RFC 8415), each a task that sends every new
//! lease to the network's loop, and `None` when it has none any more. They retry for as long as
//! they live, backing off as the RFCs say; their starter ends them by dropping the handle,
//! or has them give their lease back first.

use std::net::Ipv6Addr;
use std::time::Duration;

use mozim::{
    DhcpError, DhcpV4Client, DhcpV4Config, DhcpV4State, DhcpV6Client, DhcpV6Config, DhcpV6Mode,
    DhcpV6State,
};
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;

use super::lease::Lease;
use super::link::LinkView;

/// The source of a link's addresses and routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Static,
    Dhcp4,
    Dhcp6,
    Advertised,
}

/// A client's news: its link, itself, and what it has now.
pub(super) type News = (u32, Source, Option<Lease>);

/// Becomes true when leases are to be given back: the machine goes down.
pub(super) type Leaving = watch::Receiver<bool>;

/// How long a client that failed (the link went away, a socket was refused) pauses before it starts
/// again. mozim has its own back-off for servers that don't answer; this one bounds how fast local
/// failures repeat.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Keeps a DHCPv4 lease for a link.
pub(super) async fn run4(
    link: LinkView,
    host_name: String,
    metric: u32,
    news: Sender<News>,
    mut leaving: Leaving,
) {
    let reporter = Reporter {
        link,
        source: Source::Dhcp4,
        news,
    };
    loop {
        let ended = keep4(&reporter, &host_name, metric, &mut leaving).await;
        if !reporter.goes_on(ended, &leaving).await {
            return;
        }
    }
}

async fn keep4(
    reporter: &Reporter,
    host_name: &str,
    metric: u32,
    leaving: &mut Leaving,
) -> Result<(), DhcpError> {
    let link = &reporter.link;
    let mut config = DhcpV4Config::new(&link.name);
    config
        .set_iface_index(link.index)
        .set_iface_mac_raw(&link.mac)?;
    config.set_host_name(host_name).use_mac_as_client_id();
    let mut client = DhcpV4Client::init(config, None).await?;
    let mut held = None;
    loop {
        let state = tokio::select! {
            state = client.run() => state?,
            _ = leaving.changed() => return match &held {
                Some(lease) => client.release(lease).await,
                None => Ok(()),
            },
        };
        let news = match state {
            DhcpV4State::Done(lease) => {
                let ours = Lease::of_dhcp4(&lease, metric);
                held = Some(*lease);
                Some(ours)
            }
            // Back at the beginning with a lease in hand: the server took it back, or it ran out.
            DhcpV4State::InitReboot if held.is_some() => {
                held = None;
                None
            }
            _ => continue,
        };
        if reporter.tell(news).await.is_err() {
            return Ok(());
        }
    }
}

/// Keeps a DHCPv6 lease for a link, from its link-local address.
pub(super) async fn run6(
    link: LinkView,
    local: Ipv6Addr,
    news: Sender<News>,
    mut leaving: Leaving,
) {
    let reporter = Reporter {
        link,
        source: Source::Dhcp6,
        news,
    };
    loop {
        let ended = keep6(&reporter, local, &mut leaving).await;
        if !reporter.goes_on(ended, &leaving).await {
            return;
        }
    }
}

async fn keep6(
    reporter: &Reporter,
    local: Ipv6Addr,
    leaving: &mut Leaving,
) -> Result<(), DhcpError> {
    let link = &reporter.link;
    let mut config = DhcpV6Config::new(&link.name, DhcpV6Mode::NonTemporaryAddresses);
    config
        .set_iface_index(link.index)
        .set_link_local_ip(local)
        .set_duid_by_iface_mac(&link.mac);
    let mut client = DhcpV6Client::init(config, None).await?;
    let mut held = None;
    loop {
        let state = tokio::select! {
            state = client.run() => state?,
            _ = leaving.changed() => return match &held {
                Some(lease) => client.release(lease).await,
                None => Ok(()),
            },
        };
        let news = match state {
            DhcpV6State::Done(lease) => {
                let ours = Lease::of_dhcp6(&lease, &link.name);
                held = Some(*lease);
                Some(ours)
            }
            DhcpV6State::Solicit if held.is_some() => {
                held = None;
                None
            }
            _ => continue,
        };
        if reporter.tell(news).await.is_err() {
            return Ok(());
        }
    }
}

/// The loop that wanted the news has ended.
struct Gone;

/// Shared by both clients: the channel that they report to, and how they start again.
struct Reporter {
    link: LinkView,
    source: Source,
    news: Sender<News>,
}

impl Reporter {
    async fn tell(&self, lease: Option<Lease>) -> Result<(), Gone> {
        let news = (self.link.index, self.source, lease);
        self.news.send(news).await.map_err(|_| Gone)
    }

    /// Of a client that has ended: whether there is to be another one, once that is due.
    async fn goes_on(&self, ended: Result<(), DhcpError>, leaving: &Leaving) -> bool {
        if let Err(error) = ended {
            tracing::warn!(link = %self.link.name, source = ?self.source, %error, "network: DHCP failed");
        }
        let is_leaving = *leaving.borrow();
        if is_leaving || self.tell(None).await.is_err() {
            return false;
        }
        // What failed locally may fail at once again, and gives no sign when it won't.
        tokio::time::sleep(AFTER_FAILURE).await;
        true
    }
}
