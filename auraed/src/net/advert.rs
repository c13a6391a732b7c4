// SPDX-License-Identifier: Apache-2.0
//! The options of router advertisements that are for programs: name servers and search domains (RFC
//! 8106), each with a lifetime. The kernel itself makes addresses and routes of the rest.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use kernel::netlink::{Advertised, Advertisement, Advertisements};
use runtime::watched::watch;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::lease::{Lease, NameServer};

/// The most entries that are kept of one link: any host on it can send advertisements.
const MAX_ENTRIES: usize = 16;

/// The advertisements, as they come.
pub(super) struct Routers(AsyncFd<Advertisements>);

impl Routers {
    /// Listens, in the network namespace of the calling thread.
    pub(super) fn listen() -> io::Result<Self> {
        watch(Advertisements::open()?, Interest::READABLE).map(Self)
    }

    /// Waits for the next advertisement. Cancel-safe.
    pub(super) async fn next(&mut self) -> io::Result<Advertisement> {
        loop {
            let mut ready = self.0.readable_mut().await?;
            match ready.get_inner_mut().receive() {
                Ok(Some(advertisement)) => return Ok(advertisement),
                Ok(None) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// One name server or domain.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Server(NameServer),
    Domain(String),
}

/// The advertisements that hold now, of all links.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<u32, Vec<(Item, Option<Instant>)>>);

impl Known {
    /// Takes in an advertisement about the link of that name.
    pub(super) fn observe(&mut self, advertisement: Advertisement, name: &str, now: Instant) {
        let entries = self.0.entry(advertisement.link).or_default();
        let until = match advertisement.lifetime_s {
            u32::MAX => None,
            seconds => Some(now + Duration::from_secs(seconds.into())),
        };
        for item in items(advertisement.says, name) {
            entries.retain(|(known, _)| *known != item);
            if until != Some(now) && entries.len() < MAX_ENTRIES {
                entries.push((item, until));
            }
        }
    }

    /// Forgets what no longer holds; the links that this is about.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<u32> {
        let mut changed = Vec::new();
        for (link, entries) in &mut self.0 {
            let before = entries.len();
            entries.retain(|(_, until)| until.is_none_or(|until| until > now));
            if entries.len() != before {
                changed.push(*link);
            }
        }
        changed
    }

    /// Forgets the advertisements of a link.
    pub(super) fn forget(&mut self, link: u32) {
        self.0.remove(&link);
    }

    /// When something stops to hold next.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.0
            .values()
            .flatten()
            .filter_map(|(_, until)| *until)
            .min()
    }

    /// The name servers and domains of one link.
    pub(super) fn lease(&self, link: u32) -> Lease {
        let mut lease = Lease::default();
        for (item, _) in self.0.get(&link).into_iter().flatten() {
            match item {
                Item::Server(server) => lease.dns.push(server.clone()),
                Item::Domain(domain) => lease.search.push(domain.clone()),
            }
        }
        lease
    }
}

fn items(says: Advertised, name: &str) -> Vec<Item> {
    match says {
        Advertised::NameServers(servers) => servers
            .into_iter()
            .map(|server| Item::Server(NameServer::on_link(IpAddr::V6(server), name)))
            .collect(),
        Advertised::SearchDomains(domains) => domains.into_iter().map(Item::Domain).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(list: &[&str], lifetime_s: u32) -> Advertisement {
        let list = list.iter().map(|s| s.parse().unwrap()).collect();
        Advertisement {
            link: 2,
            lifetime_s,
            says: Advertised::NameServers(list),
        }
    }

    fn shown(known: &Known) -> Vec<String> {
        known.lease(2).dns.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_server_holds_for_its_lifetime_and_a_link_local_one_is_of_its_link() {
        let (mut known, start) = (Known::default(), Instant::now());
        known.observe(servers(&["2001:db8::53", "fe80::1"], 60), "eth0", start);
        assert_eq!(shown(&known), ["2001:db8::53", "fe80::1%eth0"]);
        assert_eq!(known.next_expiry(), Some(start + Duration::from_secs(60)));
        // Said again: for longer. Said with no lifetime: no more.
        known.observe(servers(&["2001:db8::53"], 600), "eth0", start);
        known.observe(servers(&["fe80::1"], 0), "eth0", start);
        assert_eq!(shown(&known), ["2001:db8::53"]);
        assert_eq!(known.expire(start + Duration::from_secs(60)), [0; 0]);
        assert_eq!(known.expire(start + Duration::from_secs(600)), [2]);
        assert!(shown(&known).is_empty() && known.next_expiry().is_none());
    }

    #[test]
    fn a_flood_is_bounded() {
        let mut known = Known::default();
        for n in 0..100 {
            let one = format!("2001:db8::{n:x}");
            known.observe(servers(&[&one], u32::MAX), "eth0", Instant::now());
        }
        assert_eq!(shown(&known).len(), MAX_ENTRIES);
        assert_eq!(known.next_expiry(), None);
        known.forget(2);
        assert!(shown(&known).is_empty());
    }
}
