// SPDX-License-Identifier: Apache-2.0
//! Sets a link's addresses and routes in the kernel, by rtnetlink. A step that fails is logged and
//! the others go on: a bad route must not cost the node its address.

use std::io;
use std::net::IpAddr;

use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage, CacheInfo};
use rtnetlink::packet_route::route::RouteProtocol;
use rtnetlink::{AddressMessageBuilder, Handle, LinkUnspec, RouteMessageBuilder};

use super::config::LinkConfig;
use super::lease::{Address, Lease, Route};

/// Brings a link up.
pub(super) async fn set_up(handle: &Handle, index: u32) -> Result<(), rtnetlink::Error> {
    handle
        .link()
        .change(LinkUnspec::new_with_index(index).up().build())
        .execute()
        .await
}

/// Sets the MTU of a link, in bytes.
pub(super) async fn set_mtu(handle: &Handle, index: u32, mtu: u32) -> Result<(), rtnetlink::Error> {
    handle
        .link()
        .change(LinkUnspec::new_with_index(index).mtu(mtu).build())
        .execute()
        .await
}

/// Router advertisements on or off. Where IPv6 is off in the kernel there is nothing to set.
pub(super) fn tune(name: &str, config: &LinkConfig) -> io::Result<()> {
    let folder = std::path::Path::new("/proc/sys/net/ipv6/conf").join(name);
    if !folder.is_dir() {
        return Ok(());
    }
    // 2: also where the node forwards for its cells.
    std::fs::write(
        folder.join("accept_ra"),
        if config.slaac { "2" } else { "0" },
    )?;
    std::fs::write(
        folder.join("autoconf"),
        if config.slaac { "1" } else { "0" },
    )
}

/// Replaces what one source gave a link before with what it gives now.
pub(super) async fn replace(handle: &Handle, index: u32, old: &Lease, new: &Lease) {
    for address in &old.addresses {
        if !new
            .addresses
            .iter()
            .any(|kept| kept.prefix == address.prefix)
        {
            tell(
                "remove",
                index,
                address,
                remove_address(handle, index, address).await,
            );
        }
    }
    for route in old
        .routes
        .iter()
        .filter(|route| !new.routes.contains(route))
    {
        // The kernel may have dropped it together with its address: that it is gone is all we want.
        let _gone = remove_route(handle, index, route).await;
    }
    if let Some(mtu) = new.mtu {
        tell(
            "set the MTU",
            index,
            &mtu,
            set_mtu(handle, index, mtu).await,
        );
    }
    for address in &new.addresses {
        tell(
            "add",
            index,
            address,
            add_address(handle, index, address).await,
        );
    }
    for route in &new.routes {
        tell("add", index, route, add_route(handle, index, route).await);
    }
}

fn tell(
    what: &str,
    index: u32,
    about: &(dyn std::fmt::Debug + Sync),
    result: Result<(), rtnetlink::Error>,
) {
    if let Err(error) = result {
        tracing::warn!(index, %error, "network: cannot {what} {about:?}");
    }
}

async fn add_address(handle: &Handle, index: u32, a: &Address) -> Result<(), rtnetlink::Error> {
    let mut request = handle
        .address()
        .add(index, a.prefix.address, a.prefix.length)
        .replace();
    if a.valid.is_some() || a.preferred.is_some() {
        let mut lifetime = CacheInfo::default();
        lifetime.ifa_valid = a.valid.unwrap_or(u32::MAX);
        lifetime.ifa_preferred = a.preferred.unwrap_or(u32::MAX);
        request
            .message_mut()
            .attributes
            .push(AddressAttribute::CacheInfo(lifetime));
    }
    request.execute().await
}

async fn remove_address(handle: &Handle, index: u32, a: &Address) -> Result<(), rtnetlink::Error> {
    handle
        .address()
        .del(address_message(index, a))
        .execute()
        .await
}

fn address_message(index: u32, a: &Address) -> AddressMessage {
    match a.prefix.address {
        IpAddr::V4(address) => AddressMessageBuilder::<std::net::Ipv4Addr>::new()
            .index(index)
            .address(address, a.prefix.length)
            .build(),
        IpAddr::V6(address) => AddressMessageBuilder::<std::net::Ipv6Addr>::new()
            .index(index)
            .address(address, a.prefix.length)
            .build(),
    }
}

async fn add_route(handle: &Handle, index: u32, route: &Route) -> Result<(), rtnetlink::Error> {
    handle
        .route()
        .add(route_message(index, route)?)
        .replace()
        .execute()
        .await
}

async fn remove_route(handle: &Handle, index: u32, route: &Route) -> Result<(), rtnetlink::Error> {
    handle
        .route()
        .del(route_message(index, route)?)
        .execute()
        .await
}

fn route_message(
    index: u32,
    route: &Route,
) -> Result<rtnetlink::packet_route::route::RouteMessage, rtnetlink::Error> {
    let mut builder = RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(route.to.address, route.to.length)
        .map_err(|_| rtnetlink::Error::RequestFailed)?
        .output_interface(index)
        .priority(route.metric)
        .protocol(RouteProtocol::Static);
    if let Some(via) = route.via {
        builder = builder
            .gateway(via)
            .map_err(|_| rtnetlink::Error::RequestFailed)?;
    }
    Ok(builder.build())
}
