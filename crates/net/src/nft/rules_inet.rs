// SPDX-License-Identifier: Apache-2.0
//! The table of the family `inet`: where the packets of cells may go, and which addresses they
//! bear.
//!
//! ```text
//! from a cell ─▶ the node       answers, pings, node_ports; published ports go on to their cell
//!             ├▶ another cell   of its tenant; of another one by a published port
//!             └▶ the world      all but `refused`, under the node's address
//! from the world ─▶ a cell      answers and published ports
//! from the node ──▶ a cell      everything
//! ```
//! What is refused to a cell is answered, so that a program fails at once: TCP by a reset, the rest
//! by "administratively prohibited". What the world may not is dropped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};
use model::name::Tenant;

use super::expression::Expression::{
    self, ConnectionsOver, Counter, Ct, Decide, DestinationKind, Equal, In, Map, Mask, Masquerade,
    Meta, NotEqual, Prohibit, Redirect, Reset, SetBits, SetMark, Verdict,
};
use super::expression::{self, Verdict as Is, Word};
use super::message::{Family, Hook, Set, Type, Values};
use super::rules_bridge::PUBLISHED;
use super::ruleset::{
    Chain, Table, by_a_port, destination, host, icmp, interface, of_family, port, rule, source,
    within,
};
use super::sets::{self, chain_of, members, named};
use crate::settings::Settings;

const FAMILIES: [bool; 2] = [false, true];

const fn hook(kind: &'static str, number: u32, priority: i32) -> Option<Hook> {
    Some(Hook {
        kind,
        number,
        priority,
        drop: false,
    })
}

pub(crate) fn table(settings: &Settings, drop_others: bool) -> Table {
    let at = Cells {
        settings,
        bridge: interface(&settings.bridge),
    };
    let forward = Some(Hook {
        kind: "filter",
        number: 2,
        priority: 0,
        drop: drop_others,
    });
    let chain = |name: &'static str, hook, rules| Chain {
        name: name.into(),
        hook,
        rules,
    };
    Table {
        family: Family::Inet,
        sets: sets::all(),
        chains: vec![
            // Before connections are tracked: what is dropped here costs no entry.
            chain("first", hook("filter", 0, -300), at.first()),
            chain("publish", hook("nat", 0, -100), vec![publish()]),
            chain("mark", hook("filter", 0, -99), at.mark()),
            chain("publish_node", hook("nat", 3, -100), publish_node()),
            chain("published", None, published()),
            chain("leave", hook("nat", 4, 100), at.leave()),
            chain("forward", forward, at.forward()),
            chain("from_cell", None, at.of_a_cell()),
            chain("between", None, between()),
            chain("to_cell", None, to_cell()),
            chain("input", hook("filter", 1, 0), at.input()),
            chain("to_node", None, to_node()),
            chain("output", hook("filter", 3, 0), at.output()),
        ],
    }
}

fn accept() -> Vec<Expression> {
    vec![Verdict(Is::Accept)]
}

fn dropped() -> Vec<Expression> {
    vec![Counter, Verdict(Is::Drop)]
}

/// Two rules: what holds is answered by the protocol's own word. The kernel sends one host about
/// one ICMP a second; who tries again would wait for each of the rest until its own time is up.
fn prohibited<const N: usize>(holds: [Vec<Expression>; N]) -> [Vec<Expression>; 2] {
    const TCP: u8 = 6;
    let of_tcp = vec![transport(Word(0)), Equal(Word(0), vec![TCP])];
    let holds = holds.concat();
    [
        rule([holds.clone(), of_tcp, vec![Counter, Reset]]),
        rule([holds, vec![Counter, Prohibit]]),
    ]
}

fn jump(chain: &'static str) -> Vec<Expression> {
    vec![Verdict(Is::Jump(chain.into()))]
}

/// Holds where one of these bits is set.
fn any_of(key: expression::Ct, bits: u32) -> Vec<Expression> {
    vec![
        Ct(key, Word(0)),
        Mask {
            word: Word(0),
            mask: host(bits),
        },
        NotEqual(Word(0), host(0)),
    ]
}

/// Of a connection that was let through, or about one.
fn of_a_known_connection() -> Vec<Expression> {
    const ESTABLISHED: u32 = 2;
    const RELATED: u32 = 4;
    any_of(expression::Ct::State, ESTABLISHED | RELATED)
}

fn of_no_connection() -> Vec<Expression> {
    const INVALID: u32 = 1;
    any_of(expression::Ct::State, INVALID)
}

/// Came by a published port (`IPS_DST_NAT`).
fn published_to() -> Vec<Expression> {
    any_of(expression::Ct::Status, 0x20)
}

/// What is for the node itself may be for a cell.
fn publish() -> Vec<Expression> {
    const RTN_LOCAL: u32 = 2;
    let for_the_node = vec![DestinationKind(Word(0)), Equal(Word(0), host(RTN_LOCAL))];
    rule([for_the_node, jump("published")])
}

/// The same for what the node's own programs send. To `::1` leads no way from a link: who asks
/// there is refused at once, and a program that means "localhost" goes on to 127.0.0.1. What is at
/// every address of the node isn't at 127.0.0.1 by that: programs trust who answers there.
fn publish_node() -> Vec<Vec<Expression>> {
    let to = |range: IpNet| {
        let ipv4 = matches!(range, IpNet::V4(_));
        let itself = vec![destination(ipv4, Word(0))];
        rule([of_family(ipv4), itself, within(range, Word(0))])
    };
    let loopback6 = IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST));
    vec![
        rule([to(loopback6), accept()]),
        rule([to(loopback4()), at_one(true)]),
        rule([to(loopback4()), accept()]),
        publish(),
    ]
}

/// The network that IPv4 keeps for the machine itself.
fn loopback4() -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8))
}

/// Where the cell's address and port are put.
const TARGET: Word = Word(8);

/// To what stands in [`TARGET`].
fn redirect(ipv4: bool) -> Expression {
    Redirect {
        ipv4,
        address: TARGET,
        port: Word(TARGET.0 + if ipv4 { 1 } else { 4 }),
    }
}

fn transport(to: Word) -> Expression {
    Meta(expression::Meta::Transport, to)
}

/// A port at the very address that a packet is for.
fn at_one(ipv4: bool) -> Vec<Expression> {
    let words = if ipv4 { 1 } else { 4 };
    vec![
        destination(ipv4, Word(0)),
        transport(Word(words)),
        port(Word(words + 1)),
        Map {
            key: Word(0),
            map: named(sets::PORTS_AT, ipv4),
            to: TARGET,
        },
        redirect(ipv4),
    ]
}

/// The port at one address before the port at all of them.
fn published() -> Vec<Vec<Expression>> {
    let mut rules = Vec::new();
    for ipv4 in FAMILIES {
        let at_all = vec![
            transport(Word(0)),
            port(Word(1)),
            Map {
                key: Word(0),
                map: named(sets::PORTS, ipv4),
                to: TARGET,
            },
            redirect(ipv4),
        ];
        rules.push(rule([of_family(ipv4), at_one(ipv4)]));
        rules.push(rule([of_family(ipv4), at_all]));
    }
    rules
}

/// To the chain of the tenant whose address this is.
fn tenant_by(ipv4: bool, address: fn(bool, Word) -> Expression) -> Vec<Expression> {
    let decide = Decide(Word(0), named(sets::TENANTS, ipv4));
    rule([of_family(ipv4), vec![address(ipv4, Word(0)), decide]])
}

/// What a tenant has: the bound on its connections, and the way to its own cells. It comes with the
/// tenant's first interface and goes with its last.
pub(crate) fn of_tenant(settings: &Settings, tenant: &Tenant) -> Table {
    let at = Cells {
        settings,
        bridge: interface(&settings.bridge),
    };
    let too_many = vec![ConnectionsOver(settings.connections_per_tenant)];
    let mut rules = vec![rule([too_many, dropped()])];
    for ipv4 in FAMILIES {
        let member = In(Word(0), members(tenant, ipv4));
        rules.push(rule([
            at.by_bridge(),
            at.to_bridge(),
            of_family(ipv4),
            vec![destination(ipv4, Word(0)), member],
            accept(),
        ]));
    }
    let set = |ipv4, key| Set {
        name: members(tenant, ipv4),
        key,
        value: Values::None,
    };
    Table {
        family: Family::Inet,
        sets: vec![set(false, &[Type::Ipv6]), set(true, &[Type::Ipv4])],
        chains: vec![Chain {
            name: chain_of(tenant),
            hook: None,
            rules,
        }],
    }
}

/// Between two cells that aren't of one tenant, both behind the bridge.
fn between() -> Vec<Vec<Expression>> {
    let mut rules = vec![rule([published_to(), accept()])];
    rules.extend(prohibited([]));
    rules
}

/// From elsewhere to a cell.
fn to_cell() -> Vec<Vec<Expression>> {
    vec![
        rule([of_no_connection(), dropped()]),
        rule([of_a_known_connection(), accept()]),
        tenant_by(false, destination),
        tenant_by(true, destination),
        rule([published_to(), accept()]),
        dropped(),
    ]
}

/// From a cell to the node itself.
fn to_node() -> Vec<Vec<Expression>> {
    const ICMP: u8 = 1;
    const ICMPV6: u8 = 58;
    let listener = vec![
        Meta(expression::Meta::Transport, Word(0)),
        port(Word(1)),
        In(Word(0), sets::NODE_PORTS.into()),
    ];
    let mut rules = vec![
        rule([of_no_connection(), dropped()]),
        rule([of_a_known_connection(), accept()]),
        // Neighbor solicitations and advertisements: the gateway's own address is found by them.
        rule([icmp(ICMPV6, 135), accept()]),
        rule([icmp(ICMPV6, 136), accept()]),
        tenant_by(false, source),
        tenant_by(true, source),
        rule([icmp(ICMPV6, 128), accept()]),
        rule([icmp(ICMP, 8), accept()]),
        rule([listener, accept()]),
    ];
    rules.extend(prohibited([]));
    rules
}

/// The rules that name the bridge or the ranges.
struct Cells<'a> {
    settings: &'a Settings,
    bridge: Vec<u8>,
}

impl Cells<'_> {
    fn by_bridge(&self) -> Vec<Expression> {
        vec![
            Meta(expression::Meta::InName, Word(0)),
            Equal(Word(0), self.bridge.clone()),
        ]
    }

    fn to_bridge(&self) -> Vec<Expression> {
        vec![
            Meta(expression::Meta::OutName, Word(0)),
            Equal(Word(0), self.bridge.clone()),
        ]
    }

    fn not_to_bridge(&self) -> Vec<Expression> {
        vec![
            Meta(expression::Meta::OutName, Word(0)),
            NotEqual(Word(0), self.bridge.clone()),
        ]
    }

    /// Neither from a cell nor from the node itself.
    fn by_another(&self) -> Vec<Expression> {
        vec![
            Meta(expression::Meta::InName, Word(0)),
            NotEqual(Word(0), self.bridge.clone()),
            NotEqual(Word(0), interface("lo")),
        ]
    }

    /// The ranges of cells, with whether they are masqueraded.
    fn ranges(&self) -> Vec<(IpNet, bool)> {
        let six = self.settings.ipv6.map(IpNet::V6);
        let four = self.settings.ipv4.map(IpNet::V4);
        let six = six.map(|range| (range, self.settings.masquerade_ipv6));
        let four = four.map(|range| (range, self.settings.masquerade_ipv4));
        six.into_iter().chain(four).collect()
    }

    fn first(&self) -> Vec<Vec<Expression>> {
        // A frame to an address that bridges keep for themselves (01:80:c2:00:00:0x) is taken by
        // the port, not by the bridge: it must not pass for the node's own.
        let mut rules = vec![rule([by_a_port(self.settings.group()), dropped()])];
        // The bridge routes 127.0.0.0/8, for published ports on the node itself; not for cells.
        rules.push(rule([
            self.by_bridge(),
            of_family(true),
            vec![destination(true, Word(0))],
            within(loopback4(), Word(0)),
            dropped(),
        ]));
        for (range, _) in self.ranges() {
            let ipv4 = matches!(range, IpNet::V4(_));
            rules.push(rule([
                self.by_another(),
                of_family(ipv4),
                vec![source(ipv4, Word(0))],
                within(range, Word(0)),
                dropped(),
            ]));
        }
        rules
    }

    /// What a cell sends to a published port, for the bridge's own rules.
    fn mark(&self) -> Vec<Vec<Expression>> {
        let mark = vec![
            Meta(expression::Meta::Mark, Word(0)),
            SetBits {
                word: Word(0),
                bits: PUBLISHED,
            },
            SetMark(Word(0)),
        ];
        vec![rule([self.by_bridge(), published_to(), mark])]
    }

    fn leave(&self) -> Vec<Vec<Expression>> {
        let masquerade = || vec![Masquerade];
        let mut rules = Vec::new();
        for (range, outside) in self.ranges() {
            let ipv4 = matches!(range, IpNet::V4(_));
            // An answer to the node's loopback address, or to the cell's own, would not come back.
            let itself = vec![
                source(ipv4, Word(0)),
                destination(ipv4, Word(if ipv4 { 1 } else { 4 })),
                In(Word(0), named(sets::SELVES, ipv4).into()),
            ];
            let from = |range| rule([vec![source(ipv4, Word(0))], within(range, Word(0))]);
            if ipv4 {
                rules.push(rule([
                    self.to_bridge(),
                    of_family(ipv4),
                    from(loopback4()),
                    masquerade(),
                ]));
            }
            rules.push(rule([
                self.to_bridge(),
                of_family(ipv4),
                itself,
                masquerade(),
            ]));
            if outside {
                rules.push(rule([
                    self.not_to_bridge(),
                    of_family(ipv4),
                    from(range),
                    masquerade(),
                ]));
            }
        }
        rules
    }

    fn forward(&self) -> Vec<Vec<Expression>> {
        vec![
            rule([self.by_bridge(), jump("from_cell")]),
            rule([self.to_bridge(), jump("to_cell")]),
        ]
    }

    fn of_a_cell(&self) -> Vec<Vec<Expression>> {
        let mut rules = vec![
            rule([of_no_connection(), dropped()]),
            rule([of_a_known_connection(), accept()]),
        ];
        for range in &self.settings.refused {
            let ipv4 = matches!(range, IpNet::V4(_));
            rules.extend(prohibited([
                of_family(ipv4),
                vec![destination(ipv4, Word(0))],
                within(*range, Word(0)),
            ]));
        }
        rules.push(tenant_by(false, source));
        rules.push(tenant_by(true, source));
        rules.push(rule([self.to_bridge(), jump("between")]));
        rules.push(accept());
        rules
    }

    fn input(&self) -> Vec<Vec<Expression>> {
        vec![rule([self.by_bridge(), jump("to_node")])]
    }

    /// A cell is never told of a shorter way: there is none past the node.
    fn output(&self) -> Vec<Vec<Expression>> {
        vec![
            rule([self.to_bridge(), icmp(1, 5), dropped()]),
            rule([self.to_bridge(), icmp(58, 137), dropped()]),
        ]
    }
}
