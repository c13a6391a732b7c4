// SPDX-License-Identifier: Apache-2.0
//! The sets of the table `inet`: their names and kinds. [`super::elements`] fills them, and
//! [`super::rules_inet`] asks them.

use model::name::Tenant;

use super::expression::Name;
use super::message::{Set, Type, Values};

/// To the chain of the tenant that has an address.
pub(crate) const TENANTS: [&str; 2] = ["tenants6", "tenants4"];
/// Each address with itself: a cell that reaches itself by a port of the node.
pub(crate) const SELVES: [&str; 2] = ["selves6", "selves4"];
/// Published ports, at every address of the node.
pub(crate) const PORTS: [&str; 2] = ["ports6", "ports4"];
/// Published ports, at one address of the node.
pub(crate) const PORTS_AT: [&str; 2] = ["ports6_at", "ports4_at"];
/// Listeners of the node that cells reach.
pub(crate) const NODE_PORTS: &str = "node_ports";

/// The set of a tenant's addresses of one family.
pub(crate) fn members(tenant: &Tenant, ipv4: bool) -> Name {
    let family = if ipv4 { 4 } else { 6 };
    Name::Owned(format!("members{family}_{tenant}"))
}

/// The chain of a tenant.
pub(crate) fn chain_of(tenant: &Tenant) -> Name {
    Name::Owned(format!("tenant_{tenant}"))
}

/// The one for this family.
pub(crate) fn named(names: [&'static str; 2], ipv4: bool) -> &'static str {
    let [six, four] = names;
    if ipv4 { four } else { six }
}

/// All but those of tenants.
pub(crate) fn all() -> Vec<Set> {
    let mut all = Vec::new();
    let mut set = |name: &'static str, key, value| {
        all.push(Set {
            name: name.into(),
            key,
            value,
        });
    };
    use Type::{Ipv4, Ipv6, Port, Protocol};
    set(named(TENANTS, true), &[Ipv4], Values::Verdicts);
    set(named(TENANTS, false), &[Ipv6], Values::Verdicts);
    set(named(SELVES, true), &[Ipv4, Ipv4], Values::None);
    set(named(SELVES, false), &[Ipv6, Ipv6], Values::None);
    let (to4, to6) = (Values::Of(&[Ipv4, Port]), Values::Of(&[Ipv6, Port]));
    set(named(PORTS, true), &[Protocol, Port], to4);
    set(named(PORTS, false), &[Protocol, Port], to6);
    set(named(PORTS_AT, true), &[Ipv4, Protocol, Port], to4);
    set(named(PORTS_AT, false), &[Ipv6, Protocol, Port], to6);
    set(NODE_PORTS, &[Protocol, Port], Values::None);
    all
}
