// SPDX-License-Identifier: Apache-2.0
//! The table of the family `bridge`: what a port may send at all. A cell's root may give its
//! interface any address, hardware address or packet; by its port passes what is the cell's.
//!
//! ```text
//! port of ours ─▶ hardware address ─▶ ARP   sender's both addresses
//!                 is the port's    ├▶ IPv4  source
//!                                  ├▶ IPv6  source; no router's words; neighbor's about itself
//!                                  └▶ all else is dropped
//! ```
//! Ports of other bridges aren't looked at.

use super::expression::Expression::{
    self, Counter, Equal, In, Mask, Meta, NotEqual, NotIn, Payload, Verdict,
};
use super::expression::{self, Header, Name, Verdict as Is, Word};
use super::message::{Family, Hook, Set, Type, Values};
use super::ruleset::{Chain, Table, by_a_port, group_of, host, icmp, rule, source};

/// The hardware addresses of ports.
pub(crate) const MACS: &str = "macs";
/// The IPv4 addresses that ports may send from.
pub(crate) const SOURCES4: &str = "sources4";
/// The IPv6 addresses that ports may send from, and speak about.
pub(crate) const SOURCES6: &str = "sources6";

/// The bit of a packet's mark that says that it came by a published port. It is none of those that
/// Kubernetes, Cilium and Tailscale use.
pub(crate) const PUBLISHED: u32 = 0x1000;

const ICMPV6: u8 = 58;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

/// Before the bridge looks where a frame goes, and before it hands it to the rules of IP.
const PINNING: Hook = Hook {
    kind: "filter",
    number: 0,
    priority: -200,
    drop: false,
};

const FORWARDING: Hook = Hook {
    kind: "filter",
    number: 2,
    priority: -200,
    drop: false,
};

pub(crate) fn table(group: u32) -> Table {
    let set = |name, key| Set {
        name: Name::Borrowed(name),
        key,
        value: Values::None,
    };
    Table {
        family: Family::Bridge,
        sets: vec![
            set(MACS, &[Type::Interface, Type::Ether]),
            set(SOURCES4, &[Type::Interface, Type::Ipv4]),
            set(SOURCES6, &[Type::Interface, Type::Ipv6]),
        ],
        chains: vec![
            chain("pin", Some(PINNING), pin(group)),
            chain("arp", None, arp()),
            chain("six", None, six()),
            chain("apart", Some(FORWARDING), apart(group)),
        ],
    }
}

fn chain(name: &'static str, hook: Option<Hook>, rules: Vec<Vec<Expression>>) -> Chain {
    let name = Name::Borrowed(name);
    Chain { name, hook, rules }
}

/// Loads the port's name and a value behind it: the key of all three sets.
fn key(value: Expression) -> Vec<Expression> {
    vec![Meta(expression::Meta::InName, Word(0)), value]
}

fn ether_type(number: u16) -> Vec<Expression> {
    vec![
        Meta(expression::Meta::Protocol, Word(0)),
        Equal(Word(0), number.to_be_bytes().to_vec()),
    ]
}

fn load(from: Header, at: u32, length: u32) -> Expression {
    Payload {
        from,
        at,
        length,
        to: Word(4),
    }
}

fn dropped() -> Vec<Expression> {
    vec![Counter, Verdict(Is::Drop)]
}

fn pin(group: u32) -> Vec<Vec<Expression>> {
    let another = vec![NotEqual(Word(0), host(group)), Verdict(Is::Accept)];
    let not_ours = rule([group_of(expression::Meta::InGroup), another]);
    let its_own = vec![NotIn(Word(0), MACS)];
    let accept = |set: &'static str| vec![In(Word(0), set.into()), Verdict(Is::Accept)];
    let jump = |chain: &'static str| vec![Verdict(Is::Jump(chain.into()))];
    vec![
        not_ours,
        rule([key(load(Header::Link, 6, 6)), its_own, dropped()]),
        rule([ether_type(0x0806), jump("arp")]),
        rule([
            ether_type(0x0800),
            key(source(true, Word(4))),
            accept(SOURCES4),
        ]),
        rule([ether_type(0x86dd), jump("six")]),
        dropped(),
    ]
}

/// Ethernet and IPv4 alone, since the places of the addresses follow from that.
fn arp() -> Vec<Vec<Expression>> {
    let other_kind = vec![
        load(Header::Network, 0, 6),
        NotEqual(Word(4), vec![0, 1, 8, 0, 6, 4]),
    ];
    let foreign_mac = rule([key(load(Header::Network, 8, 6)), vec![NotIn(Word(0), MACS)]]);
    let own = rule([
        key(load(Header::Network, 14, 4)),
        vec![In(Word(0), SOURCES4.into()), Verdict(Is::Accept)],
    ]);
    vec![
        rule([other_kind, dropped()]),
        rule([foreign_mac, dropped()]),
        own,
        dropped(),
    ]
}

fn six() -> Vec<Vec<Expression>> {
    let foreign = vec![NotIn(Word(0), SOURCES6)];
    // The target of the advertisement, behind kind, code, checksum and flags.
    let about_another = rule([
        key(load(Header::Transport, 8, 16)),
        vec![NotIn(Word(0), SOURCES6)],
    ]);
    vec![
        rule([key(source(false, Word(4))), foreign, dropped()]),
        rule([icmp(ICMPV6, ROUTER_ADVERTISEMENT), dropped()]),
        rule([icmp(ICMPV6, REDIRECT), dropped()]),
        rule([
            icmp(ICMPV6, NEIGHBOR_ADVERTISEMENT),
            about_another,
            dropped(),
        ]),
        vec![Verdict(Is::Accept)],
    ]
}

/// From port to port passes nothing: cells reach each other by the node alone, whose rules decide.
///
/// But where the machine has `br_netfilter` on, a packet to a published port is redirected while it
/// is in the bridge, and goes on to its cell in the bridge. The rules of IP have marked it, and
/// judge it there too. That is why the ports aren't isolated by the bridge itself.
fn apart(group: u32) -> Vec<Vec<Expression>> {
    let ours = vec![Equal(Word(0), host(group))];
    let to_a_port = rule([group_of(expression::Meta::OutGroup), ours]);
    let marked = vec![
        Meta(expression::Meta::Mark, Word(0)),
        Mask {
            word: Word(0),
            mask: host(PUBLISHED),
        },
        NotEqual(Word(0), host(0)),
    ];
    let ours = || rule([by_a_port(group), to_a_port.clone()]);
    vec![
        rule([ours(), marked, vec![Verdict(Is::Accept)]]),
        rule([ours(), dropped()]),
    ]
}
