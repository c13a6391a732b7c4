// SPDX-License-Identifier: Apache-2.0
//! `linux.netDevices`: devices of the node's network that become the container's.
//!
//! A device goes down, changes its namespace and its name in one step, and comes up with the
//! addresses that it was given: the kernel drops them on the way. The runtime does it, with a
//! socket in each of the two namespaces, before the container's process goes on. Where `create`
//! fails later, each goes back ([`Moved`]); a namespace that ends with its container gives devices
//! back by itself, as far as the kernel does that (not virtual ones).

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use kernel::namespace::{self, Namespaces};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_sys::{Socket, SocketAddr};

use crate::cgroup::is_root_of_node;
use crate::config::Spec;
use crate::error::{Doing, Error, Result, refuse};
use crate::log;

/// `NETLINK_ROUTE` of `linux/netlink.h`.
const ROUTE: isize = 0;

/// Devices that are in the container's namespace by now; dropped, they go back.
pub(crate) struct Moved {
    sides: Option<(Side, Side)>,
    /// The names here and there.
    devices: Vec<(String, String)>,
}

impl Moved {
    /// Moves what the configuration names to the namespace of the process.
    pub(crate) fn all(spec: &Spec, pid: i32) -> Result<Moved> {
        let mut moved = Moved {
            sides: None,
            devices: Vec::new(),
        };
        let wanted = &spec.linux.net_devices;
        if wanted.is_empty() {
            return Ok(moved);
        }
        if !is_root_of_node() {
            return refuse(
                "linux.netDevices: network devices are not supported for rootless containers",
            );
        }
        let sides = sides(pid).doing("linux.netDevices")?;
        let (here, there) = moved.sides.insert(sides);
        for (name, device) in wanted {
            let inside = match device.name.as_str() {
                "" => name.as_str(),
                other => other,
            };
            pass(here, there, name, inside)
                .doing(format_args!("linux.netDevices: move {name} as {inside}"))?;
            moved.devices.push((name.clone(), inside.to_owned()));
        }
        Ok(moved)
    }

    /// They are the container's.
    pub(crate) fn keep(mut self) {
        self.devices.clear();
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        let Some((here, there)) = &mut self.sides else {
            return;
        };
        for (name, inside) in self.devices.drain(..) {
            if let Err(error) = pass(there, here, &inside, &name) {
                log::warn(format!("linux.netDevices: take {name} back: {error}"));
            }
        }
    }
}

/// This process's network namespace, and that of the container's process.
fn sides(pid: i32) -> Result<(Side, Side)> {
    let own = namespace::open(Path::new("/proc/self/ns/net"))?;
    let theirs = namespace::open(Path::new(&format!("/proc/{pid}/ns/net")))?;
    let here = Route::open().doing("socket(NETLINK_ROUTE)");
    namespace::join(&theirs, Namespaces::NET)?;
    let there = Route::open().doing("socket(NETLINK_ROUTE)");
    // Where this fails, all that follows would be done in the wrong place: the command ends.
    namespace::join(&own, Namespaces::NET)?;
    let side = |namespace, route| Side { namespace, route };
    Ok((side(own, here?), side(theirs, there?)))
}

/// Takes the device `name` from one side to the other, where it is called `new`.
fn pass(from: &mut Side, to: &mut Side, name: &str, new: &str) -> Result<()> {
    let index = from.index(name)?;
    let addresses = from.addresses(index)?;
    from.route.ask(set_up(index, false)).doing("take it down")?;
    let mut change = LinkMessage::default();
    change.header.index = index;
    change.attributes = vec![
        LinkAttribute::IfName(new.to_owned()),
        LinkAttribute::NetNsFd(to.namespace.as_raw_fd()),
    ];
    let message = RouteNetlinkMessage::SetLink(change);
    from.route.ask((0, message)).doing("change its namespace")?;
    let index = to.index(new)?;
    for address in addresses {
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let message = RouteNetlinkMessage::NewAddress(again(address, index));
        to.route
            .ask((flags, message))
            .doing("give it its address")?;
    }
    to.route.ask(set_up(index, true)).doing("bring it up")
}

/// A namespace, and a socket that was opened in it.
struct Side {
    namespace: OwnedFd,
    route: Route,
}

impl Side {
    fn index(&self, name: &str) -> Result<u32> {
        rustix::net::netdevice::name_to_index(&self.route.0, name)
            .doing(format_args!("link not found for interface {name}"))
    }

    /// Those that were given to it and mean the same elsewhere: no leases, and none of a link or
    /// the node itself.
    fn addresses(&mut self, link: u32) -> Result<Vec<AddressMessage>> {
        let list = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self
            .route
            .exchange(NLM_F_DUMP, list)
            .doing("list addresses")?;
        let ours = answers.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewAddress(address) => Some(address),
            _ => None,
        });
        let keeps = |address: &AddressMessage| {
            let header = &address.header;
            let lasts = header.flags.contains(AddressHeaderFlags::Permanent);
            header.index == link && lasts && header.scope == AddressScope::Universe
        };
        Ok(ours.filter(keeps).collect())
    }
}

fn set_up(index: u32, up: bool) -> (u16, RouteNetlinkMessage) {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.change_mask = LinkFlags::Up;
    if up {
        message.header.flags = LinkFlags::Up;
    }
    (0, RouteNetlinkMessage::SetLink(message))
}

/// The address, for a link: without its old label and times.
fn again(mut address: AddressMessage, index: u32) -> AddressMessage {
    address.header.index = index;
    address.header.flags = AddressHeaderFlags::empty();
    address.attributes.retain(|attribute| {
        use AddressAttribute::{Address, Broadcast, Local};
        matches!(attribute, Local(_) | Address(_) | Broadcast(_))
    });
    address
}

/// A socket of the routing protocol.
struct Route(Socket);

impl Route {
    fn open() -> std::io::Result<Route> {
        let mut socket = Socket::new(ROUTE)?;
        socket.bind_auto()?;
        // A connected socket takes messages of the kernel alone.
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Route(socket))
    }

    fn ask(&mut self, (flags, message): (u16, RouteNetlinkMessage)) -> Result<()> {
        self.exchange(flags, message).map(drop)
    }

    /// Sends the message and reads all that the kernel answers: it works in `send`, so that every
    /// answer, or the first part of a list, waits when that returns.
    fn exchange(
        &mut self,
        flags: u16,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.0.recv_from_full()?;
            if read(&datagram, &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// The messages of a datagram; whether it was the last.
fn read(mut datagram: &[u8], answers: &mut Vec<RouteNetlinkMessage>) -> Result<bool> {
    while !datagram.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram)
            .map_err(|error| Error::new(format!("netlink: {error}")))?;
        let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
        match message.payload {
            NetlinkPayload::Error(error) => {
                return match error.code {
                    None => Ok(true),
                    Some(_) => Err(error.to_io().into()),
                };
            }
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::InnerMessage(inner) => answers.push(inner),
            _ => {}
        }
        let next = length.max(1).next_multiple_of(4);
        datagram = datagram.get(next..).unwrap_or_default();
    }
    Ok(false)
}

impl std::fmt::Debug for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.devices).finish()
    }
}
