// SPDX-License-Identifier: Apache-2.0
//! Addresses that the outside must not make the node connect to. A registry chooses where it
//! redirects to and where its tokens are; without this check it could choose the node's loopback,
//! a cloud's metadata service or a neighbour. Names are resolved here and checked afterwards, so a
//! name that resolves to another address the second time gains nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Whether an address is one of the public internet, by the special-purpose registries of IANA
/// (RFC 6890 and what came after it).
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || matches!(
            (a, b, c),
            (0 | 240.., ..) | (100, 64..=127, _) | (192, 0, 0) | (198, 18 | 19, _)
        );
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = embedded_v4(address) {
        return is_public_v4(inner);
    }
    let [first, second, ..] = address.segments();
    // Only 2000::/3 is given out; in it 2001::/23 is for protocols and 2001:db8::/32, 3fff::/20 for
    // examples.
    let given_out = first & 0xe000 == 0x2000;
    let special = (first == 0x2001 && (second < 0x0200 || second == 0x0db8))
        || (first == 0x3fff && second < 0x1000);
    given_out && !special
}

/// The IPv4 address that a mapped, translated (RFC 6052) or 6to4 address leads to.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let (high, low) = match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => (g, h),
        (0x2002, ..) => (b, c),
        _ => return None,
    };
    Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

/// A name had no public address.
#[derive(Debug)]
pub(crate) struct PrivateAddress;

impl fmt::Display for PrivateAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is at a private address")
    }
}

impl std::error::Error for PrivateAddress {}

/// Resolves names to their public addresses alone.
#[derive(Debug)]
pub(crate) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|it| is_public(it.ip())).collect();
            if public.is_empty() {
                return Err(PrivateAddress.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// Resolves names to all of their addresses. `localhost` is this machine without a question (RFC
/// 6761, section 6.3): a small node may have no `/etc/hosts`.
#[derive(Debug)]
pub(crate) struct Anywhere;

impl Resolve for Anywhere {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            if is_localhost(name.as_str()) {
                let own = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
                let own = own.map(|address: IpAddr| SocketAddr::new(address, 0));
                return Ok(Box::new(own.into_iter()) as Addrs);
            }
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(found.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn localhost_is_this_machine_without_a_question() {
        for name in ["localhost", "LocalHost.", "registry.localhost"] {
            let found = Anywhere.resolve(name.parse().unwrap()).await.unwrap();
            assert!(found.into_iter().all(|it| it.ip().is_loopback()), "{name}");
        }
        for other in ["localhost.example", "notlocalhost"] {
            assert!(!is_localhost(other), "{other}");
        }
    }

    #[test]
    fn special_addresses_are_not_public() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "3fff::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::",
            "fec0::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        for address in [
            "1.1.1.1",
            "9.9.9.9",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "64:ff9b::1.1.1.1",
            "::ffff:1.1.1.1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[tokio::test]
    async fn a_name_of_the_loopback_has_no_public_address() {
        let resolved = PublicOnly.resolve("localhost".parse().unwrap()).await;
        let problem = resolved.err().unwrap();
        assert!(
            problem.downcast_ref::<PrivateAddress>().is_some(),
            "{problem}"
        );
    }
}
