// SPDX-License-Identifier: Apache-2.0
//! The whole ruleset as data, and the transaction that puts it in the place of what was there.
//!
//! One table per family, both with the bridge's name: `bridge` says what a port may send
//! ([`super::rules_bridge`]), `inet` where packets may go ([`super::rules_inet`]). Tables of
//! other programs aren't touched.

use std::collections::BTreeSet;

use ipnet::IpNet;
use model::name::Tenant;

use super::elements::Placed;
use super::expression::Expression::{Equal, Mask, Meta, Payload};
use super::expression::{self, Expression, Header, Name, Word};
use super::message::{Family, Hook, Message, Set};
use super::{rules_bridge, rules_inet};
use crate::settings::{DYING, Settings};

/// A chain and its rules.
pub(crate) struct Chain {
    pub(crate) name: Name,
    pub(crate) hook: Option<Hook>,
    pub(crate) rules: Vec<Vec<Expression>>,
}

/// A table with all that it has but the elements.
pub(crate) struct Table {
    pub(crate) family: Family,
    pub(crate) sets: Vec<Set>,
    pub(crate) chains: Vec<Chain>,
}

/// Both tables.
pub(crate) fn tables(settings: &Settings, drop_others: bool) -> Vec<Table> {
    vec![
        rules_bridge::table(settings.group()),
        rules_inet::table(settings, drop_others),
    ]
}

/// The transaction that removes our tables if they are there.
pub(crate) fn removal(name: &str) -> Vec<Message> {
    [Family::Bridge, Family::Inet]
        .into_iter()
        // To remove what may not be there, it is made first.
        .flat_map(|family| {
            [
                Message::new_table(family, name),
                Message::delete_table(family, name),
            ]
        })
        .collect()
}

/// The transaction that makes the tables so, with these elements, whatever was in them before.
pub(crate) fn replacement(
    settings: &Settings,
    drop_others: bool,
    tenants: &BTreeSet<Tenant>,
    elements: &[Placed],
) -> Vec<Message> {
    let name = settings.bridge.as_str();
    let mut messages = removal(name);
    for mut table in tables(settings, drop_others) {
        messages.push(Message::new_table(table.family, name));
        if table.family == Family::Inet {
            for tenant in tenants {
                let own = rules_inet::of_tenant(settings, tenant);
                table.sets.extend(own.sets);
                table.chains.extend(own.chains);
            }
        }
        messages.extend(contents(name, &table));
    }
    messages.extend(change(name, elements, true));
    messages
}

/// The messages that make sets, chains and rules of a table that is there.
pub(crate) fn contents(name: &str, table: &Table) -> Vec<Message> {
    let family = table.family;
    let mut messages = Vec::new();
    for (id, set) in (1..).zip(&table.sets) {
        messages.push(Message::new_set(family, name, set, id));
    }
    // All chains before any rule: rules jump to chains that come later.
    for chain in &table.chains {
        messages.push(Message::new_chain(family, name, &chain.name, chain.hook));
    }
    for chain in &table.chains {
        let rules = chain.rules.iter();
        messages.extend(rules.map(|rule| Message::new_rule(family, name, &chain.name, rule)));
    }
    messages
}

/// The messages that remove them.
pub(crate) fn without(name: &str, table: &Table) -> Vec<Message> {
    let family = table.family;
    let chains = table.chains.iter();
    let chains = chains.map(|chain| Message::delete_chain(family, name, &chain.name));
    let sets = table.sets.iter();
    let sets = sets.map(|set| Message::delete_set(family, name, &set.name));
    chains.chain(sets).collect()
}

/// The messages that add elements to their sets, or remove them.
pub(crate) fn change(table: &str, elements: &[Placed], add: bool) -> Vec<Message> {
    let mut sets: Vec<(Family, &Name)> = elements.iter().map(|p| (p.family, &p.set)).collect();
    sets.sort_unstable();
    sets.dedup();
    let mut messages = Vec::new();
    for (family, set) in sets {
        let mine: Vec<_> = elements
            .iter()
            .filter(|placed| (placed.family, &placed.set) == (family, set))
            .map(|placed| placed.element.clone())
            .collect();
        messages.extend(Message::elements(family, table, set, &mine, add));
    }
    messages
}

/// A name of an interface as a register holds it.
pub(crate) fn interface(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(16, 0);
    bytes
}

/// A register's words in the order of this machine.
pub(crate) fn host(number: u32) -> Vec<u8> {
    number.to_ne_bytes().to_vec()
}

/// Holds for IPv4 packets, or for IPv6 ones.
pub(crate) fn of_family(ipv4: bool) -> Vec<Expression> {
    let number = if ipv4 { 2 } else { 10 };
    vec![
        Meta(expression::Meta::Family, Word(0)),
        Equal(Word(0), vec![number]),
    ]
}

/// Loads the source address.
pub(crate) fn source(ipv4: bool, to: Word) -> Expression {
    let (at, length) = if ipv4 { (12, 4) } else { (8, 16) };
    let from = Header::Network;
    Payload {
        from,
        at,
        length,
        to,
    }
}

/// Loads the destination address.
pub(crate) fn destination(ipv4: bool, to: Word) -> Expression {
    let (at, length) = if ipv4 { (16, 4) } else { (24, 16) };
    let from = Header::Network;
    Payload {
        from,
        at,
        length,
        to,
    }
}

/// Loads the destination's port.
pub(crate) fn port(to: Word) -> Expression {
    Payload {
        from: Header::Transport,
        at: 2,
        length: 2,
        to,
    }
}

/// Holds where the loaded address is in the range.
pub(crate) fn within(range: IpNet, loaded: Word) -> Vec<Expression> {
    let (mask, network) = match range {
        IpNet::V4(range) => (
            range.netmask().octets().to_vec(),
            range.network().octets().to_vec(),
        ),
        IpNet::V6(range) => (
            range.netmask().octets().to_vec(),
            range.network().octets().to_vec(),
        ),
    };
    vec![Mask { word: loaded, mask }, Equal(loaded, network)]
}

/// Holds for packets of a protocol whose first byte, its kind, is this: ICMP and ICMPv6.
pub(crate) fn icmp(protocol: u8, kind: u8) -> Vec<Expression> {
    vec![
        Meta(expression::Meta::Transport, Word(0)),
        Equal(Word(0), vec![protocol]),
        Payload {
            from: Header::Transport,
            at: 0,
            length: 1,
            to: Word(0),
        },
        Equal(Word(0), vec![kind]),
    ]
}

/// Loads the group of the link that a frame comes by, or leaves by, without the bit of those that
/// are being removed.
pub(crate) fn group_of(link: expression::Meta) -> Vec<Expression> {
    let mask = Mask {
        word: Word(0),
        mask: host(!DYING),
    };
    vec![Meta(link, Word(0)), mask]
}

/// Holds for frames that come by one of our ports.
pub(crate) fn by_a_port(group: u32) -> Vec<Expression> {
    let ours = vec![Equal(Word(0), host(group))];
    rule([group_of(expression::Meta::InGroup), ours])
}

/// Parts of a rule, one behind the other.
pub(crate) fn rule<const N: usize>(parts: [Vec<Expression>; N]) -> Vec<Expression> {
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nft::expression::Verdict;

    /// Every set and chain that a rule names is in its table.
    #[test]
    fn rules_name_what_is_there() {
        let settings = Settings::for_node(b"x");
        for mut table in tables(&settings, true) {
            if table.family == Family::Inet {
                let own = rules_inet::of_tenant(&settings, &"a-b".parse().unwrap());
                table.sets.extend(own.sets);
                table.chains.extend(own.chains);
            }
            let sets: Vec<_> = table.sets.iter().map(|set| set.name.clone()).collect();
            let chains: Vec<_> = table
                .chains
                .iter()
                .map(|chain| chain.name.clone())
                .collect();
            let mut used: Vec<Name> = Vec::new();
            for expression in table.chains.iter().flat_map(|c| c.rules.iter().flatten()) {
                match expression {
                    Expression::In(_, set) => used.push(set.clone()),
                    Expression::NotIn(_, set)
                    | Expression::Decide(_, set)
                    | Expression::Map { map: set, .. } => used.push((*set).into()),
                    Expression::Verdict(Verdict::Jump(chain)) => {
                        assert!(chains.contains(chain), "{chain}");
                    }
                    _ => {}
                }
            }
            assert!(used.iter().all(|set| sets.contains(set)), "{used:?}");
            assert!(sets.iter().all(|set| used.contains(set)), "{sets:?}");
        }
    }

    /// A family that the settings leave out has no rules that would masquerade it.
    #[test]
    fn a_range_is_masked_by_its_length() {
        let rule = within("10.213.0.0/16".parse().unwrap(), Word(3));
        let mask = Mask {
            word: Word(3),
            mask: vec![255, 255, 0, 0],
        };
        assert_eq!(rule, [mask, Equal(Word(3), vec![10, 213, 0, 0])]);
    }
}
