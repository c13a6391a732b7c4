// SPDX-License-Identifier: Apache-2.0
//! The one that speaks with the kernel: it owns the sockets, the pool and what is attached, and
//! does one request after the other, on a thread that stays in the node's network namespace.
//!
//! Whatever fails or is cut short leaves nothing: a failed step takes back what was before it, and
//! what a killed process left is found by the next one: a port by its group, a neighbor by its
//! link, an element because the tables are replaced as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use model::name::{Tenant, Uid};

use crate::addresses::{Pool, Refused};
use crate::conversation::{Conversation, LinkNews};
use crate::error::Step;
use crate::inner::{self, Inside};
use crate::links::Link;
use crate::nft::elements;
use crate::nft::message::commit;
use crate::nft::{self, rules_inet, ruleset};
use crate::node::Node;
use crate::port::{Attach, Attached, alias};
use crate::settings::Settings;
use crate::{Error, Result, claims, conntrack, links};

/// An interface of a cell: its uid, and the interface's name in it.
pub(crate) type Key = (Uid, String);

pub(crate) struct Worker {
    pub(crate) settings: Settings,
    /// The namespace that the thread belongs in.
    pub(crate) here: OwnedFd,
    pub(crate) route: Conversation,
    pub(crate) netfilter: Conversation,
    pub(crate) sockets: Conversation,
    pub(crate) news: LinkNews,
    pub(crate) node: Node,
    pub(crate) drop_others: bool,
    pub(crate) pool: Pool,
    pub(crate) cells: BTreeMap<Key, Attached>,
    /// Numbers that were given back, and whose connections the kernel may still track. Looking
    /// through all of them takes milliseconds: it is done when a number is given out again.
    pub(crate) tracked: BTreeSet<u32>,
    /// Set where the thread could not come back from a cell's namespace: it must do nothing more.
    pub(crate) stranded: bool,
}

/// Errnos that say that what is to be removed is gone already.
const GONE: [i32; 4] = [
    2,  // ENOENT
    19, // ENODEV
    99, // EADDRNOTAVAIL
    22, // EINVAL: an entry of a bridge's port that is none any more
];

/// Errnos of a transaction that met other tables than ours: `ENOENT`, `EBUSY`, `EEXIST`.
const NOT_AS_WE_LEFT_IT: [i32; 3] = [2, 16, 17];

impl Worker {
    /// Attaches one interface; on an error, nothing of it is left.
    pub(crate) fn attach(&mut self, uid: Uid, attach: &Attach) -> Result<Attached> {
        attach.check()?;
        self.is_a_cell_s(&attach.netns)?;
        let key = (uid, attach.name.clone());
        if self.cells.contains_key(&key) {
            return Err(Error::Attached {
                uid,
                name: attach.name.clone(),
            });
        }
        claims::ports_are_free(&mut self.sockets, &attach.host_ports, &self.cells)?;
        let number = self.number_for(attach)?;
        let attached = Attached::of(attach, number, &self.settings, self.node.mtu);
        if let Err(error) = self.build(&key, attach, &attached) {
            self.cells.remove(&key);
            // The first error is the one that says why. A number whose link is there still stays
            // taken until the next start.
            if self.tear_down(&attached).is_ok() {
                self.pool.give_back(number, Instant::now());
            }
            return Err(error);
        }
        Ok(attached)
    }

    /// The number of the wanted addresses, or a free one.
    fn number_for(&mut self, attach: &Attach) -> Result<u32> {
        let tenant = &attach.tenant;
        let refused = |refused| match refused {
            Refused::Tenant { used, limit } => Error::TenantFull {
                tenant: tenant.clone(),
                used,
                limit,
            },
            Refused::Full { used, limit } => Error::Full { used, limit },
            Refused::Taken | Refused::Outside => Error::Ended,
        };
        let Some(wanted) = attach.addresses.first().copied() else {
            return self.pool.take(tenant, Instant::now()).map_err(refused);
        };
        let number = self.settings.number(wanted);
        let number = number.filter(|number| self.pool.range().contains(number));
        let number = number.ok_or_else(|| self.outside(wanted))?;
        let all = self.settings.addresses(number);
        if let Some(other) = attach.addresses.iter().find(|it| !all.contains(it)) {
            let texts: Vec<_> = all.iter().map(IpAddr::to_string).collect();
            let texts = texts.join(" and ");
            let reason = format!("{other} doesn't go with {wanted}: a cell has {texts}");
            let field = "addresses";
            return Err(Error::Request { field, reason });
        }
        let taken = self.pool.take_this(number, tenant, Instant::now());
        taken.map(|()| number).map_err(|why| match why {
            Refused::Taken | Refused::Outside => Error::AddressTaken { address: wanted },
            other => refused(other),
        })
    }

    fn outside(&self, wanted: IpAddr) -> Error {
        let of_family = |number: u32| {
            let all = self.settings.addresses(number);
            let found = all.iter().find(|it| it.is_ipv4() == wanted.is_ipv4());
            found.map(IpAddr::to_string)
        };
        let range = self.pool.range();
        let ends = of_family(*range.start()).zip(of_family(*range.end()));
        let reason = match ends {
            Some((first, last)) => format!("{wanted} isn't one of {first} to {last}"),
            None => format!("{wanted}: the node's network of cells has no such family"),
        };
        let field = "addresses";
        Error::Request { field, reason }
    }

    /// The node's own links are no cell's to have.
    fn is_a_cell_s(&self, netns: &OwnedFd) -> Result<()> {
        let identity = |fd| kernel::namespace::identity(fd).step("looking at a namespace");
        if identity(netns)? == identity(&self.here)? {
            return Err(Error::Request {
                field: "netns",
                reason: "it is the node's own network namespace".to_owned(),
            });
        }
        Ok(())
    }

    fn build(&mut self, key: &Key, attach: &Attach, attached: &Attached) -> Result<()> {
        let (uid, _) = key;
        let (bridge, group) = (self.node.bridge, self.settings.group());
        let pair = links::make_pair(attached, bridge, group, attach.netns.as_fd());
        self.route.ask(vec![pair])?;
        let port = inner::find(&mut self.route, "looking for the port", &attached.veth)?;
        let mut steps = links::settle_port(port, attached, &alias(*uid, &attached.name));
        steps.extend(links::know(port, bridge, attached));
        // It passes nothing: the rules don't know it yet.
        steps.extend(links::bring_up(port, &attached.veth, attached.mtu));
        self.route.ask(steps)?;
        let mut inside = self.configure_inside(attach, attached)?;
        if self.tracked.contains(&attached.number) {
            for address in &attached.addresses {
                conntrack::forget(&mut self.netfilter, *address)?;
            }
            self.tracked.remove(&attached.number);
        }
        let first = !self.has_others(&attached.tenant);
        self.cells.insert(key.clone(), attached.clone());
        self.add_rules(attached, first)?;
        let veth = &attached.veth;
        inner::await_link(&mut self.route, &self.news, veth, |port| port.forwards)?;
        let works = |link: &Link| link.works;
        // The bridge itself works when its first port does.
        let bridge = &self.settings.bridge;
        inner::await_link(&mut self.route, &self.news, bridge, works)?;
        inner::await_link(&mut inside.route, &inside.news, &attached.name, works)
    }

    fn configure_inside(&mut self, attach: &Attach, attached: &Attached) -> Result<Inside> {
        let (inside, back) = inner::open(attach.netns.as_fd(), &self.here);
        if let Err(error) = back {
            self.stranded = true;
            return Err(error);
        }
        let mut inside = inside?;
        inner::configure(&mut inside.route, attached)?;
        Ok(inside)
    }

    /// Removes the links of several cells at once, before each is detached: the kernel waits for
    /// all processors when it removes one, and not longer when it removes many.
    pub(crate) fn unlink_together(&mut self, uids: &[Uid]) -> Result<()> {
        let dying = self.settings.dying_group();
        let theirs = self.cells.iter().filter(|((uid, _), _)| uids.contains(uid));
        let steps: Vec<_> = theirs
            .map(|(_, attached)| links::regroup(&attached.veth, dying))
            .collect();
        // What is gone already is no error, and the steps behind it were done.
        for outcome in [
            self.route.ask(steps),
            self.route.ask(vec![links::remove_group(dying)]),
        ] {
            match outcome {
                Err(Error::Kernel { errno, .. }) if GONE.contains(&errno) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Detaches all interfaces of a cell. What is gone already is no error; what fails doesn't keep
    /// the rest from being done.
    pub(crate) fn detach(&mut self, uid: Uid) -> Result<()> {
        let first = (uid, String::new());
        let keys: Vec<Key> = self
            .cells
            .range(first..)
            .map(|(key, _)| key.clone())
            .take_while(|(of, _)| *of == uid)
            .collect();
        let mut outcome = Ok(());
        for key in keys {
            if let Some(attached) = self.cells.remove(&key) {
                let done = self.tear_down(&attached);
                // An address whose removal failed may still be in use: it stays taken until the
                // next start, which looks at the kernel.
                if done.is_ok() {
                    self.pool.give_back(attached.number, Instant::now());
                }
                outcome = outcome.and(done);
            }
        }
        outcome
    }

    /// Removes what [`Worker::build`] makes, as far as it is there.
    fn tear_down(&mut self, attached: &Attached) -> Result<()> {
        let rules = self.remove_rules(attached);
        let link = self.gone(links::remove(&attached.veth));
        let mut outcome = rules.and(link);
        for address in &attached.addresses {
            let forgotten = self.gone(links::forget(self.node.bridge, *address));
            outcome = outcome.and(forgotten);
            // A client that goes on sending to a published port must reach its next owner.
            if !attached.host_ports.is_empty() {
                let answered = conntrack::forget_answered_by(&mut self.netfilter, *address);
                outcome = outcome.and(answered);
            }
        }
        self.tracked.insert(attached.number);
        outcome
    }

    /// Does a step that removes something; that it is gone is as good.
    pub(crate) fn gone(&mut self, step: crate::conversation::RouteStep) -> Result<()> {
        match self.route.ask(vec![step]) {
            Err(Error::Kernel { errno, .. }) if GONE.contains(&errno) => Ok(()),
            other => other,
        }
    }

    /// Whether the tenant has an interface among those that are known.
    fn has_others(&self, tenant: &Tenant) -> bool {
        self.cells
            .values()
            .any(|attached| attached.tenant == *tenant)
    }

    fn add_rules(&mut self, attached: &Attached, first: bool) -> Result<()> {
        let name = &self.settings.bridge;
        let mut messages = Vec::new();
        if first {
            let own = rules_inet::of_tenant(&self.settings, &attached.tenant);
            messages = ruleset::contents(name, &own);
        }
        messages.extend(ruleset::change(
            name,
            &elements::of_interface(attached),
            true,
        ));
        self.commit_or_replace(&messages)
    }

    /// Removes the rules of an interface that isn't among those that are known any more.
    fn remove_rules(&mut self, attached: &Attached) -> Result<()> {
        let name = &self.settings.bridge;
        let mut messages = ruleset::change(name, &elements::of_interface(attached), false);
        if !self.has_others(&attached.tenant) {
            let own = rules_inet::of_tenant(&self.settings, &attached.tenant);
            messages.extend(ruleset::without(name, &own));
        }
        self.commit_or_replace(&messages)
    }

    /// Where the tables aren't what we left, because another program has changed or flushed them,
    /// or because a step before failed, they are put in place anew.
    fn commit_or_replace(&mut self, messages: &[nft::message::Message]) -> Result<()> {
        match commit(&mut self.netfilter, messages) {
            Err(Error::Kernel { errno, .. }) if NOT_AS_WE_LEFT_IT.contains(&errno) => {
                self.replace()
            }
            other => other,
        }
    }

    /// Puts our tables in place anew, with all that is attached.
    pub(crate) fn replace(&mut self) -> Result<()> {
        let mut all = elements::of_settings(&self.settings);
        for attached in self.cells.values() {
            all.extend(elements::of_interface(attached));
        }
        let tenants: BTreeSet<Tenant> = self.cells.values().map(|a| a.tenant.clone()).collect();
        let messages = ruleset::replacement(&self.settings, self.drop_others, &tenants, &all);
        commit(&mut self.netfilter, &messages)
    }

    /// Removes everything: all interfaces, the bridge, the tables. The kernel settings stay.
    pub(crate) fn remove_all(&mut self) -> Result<()> {
        let uids: Vec<Uid> = self.cells.keys().map(|(uid, _)| *uid).collect();
        let mut outcome = Ok(());
        for uid in uids {
            outcome = outcome.and(self.detach(uid));
        }
        let bridge = self.settings.bridge.clone();
        outcome = outcome.and(self.gone(links::remove(&bridge)));
        let messages = ruleset::removal(&bridge);
        outcome.and(commit(&mut self.netfilter, &messages))
    }

    /// The addresses that cells have.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.cells
            .values()
            .flat_map(|attached| attached.addresses.iter().copied())
            .collect()
    }
}
