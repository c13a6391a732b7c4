// SPDX-License-Identifier: Apache-2.0
//! Which unit depends on which, and how: what the files say, what follows from a unit's type, and
//! the graph of both directions (systemd.unit(5), "Mapping of unit properties to their inverses").

mod graph;
mod implicit;
#[cfg(test)]
mod tests;

use crate::name::UnitName;
use crate::unit::Unit;
pub use graph::{Graph, Own};
pub use implicit::{implicit, mounts_on_the_way, slice_of, triggered};

/// How one unit depends on another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Dependency {
    /// It is started along; where that fails, so does this one; where it stops, this one does.
    Requires,
    /// It must be active already.
    Requisite,
    /// It is started along.
    Wants,
    /// As `Requires`, and this one stops whenever it isn't active.
    BindsTo,
    /// This one stops and restarts with it.
    PartOf,
    /// It is started again whenever it isn't active.
    Upholds,
    /// Each stops the other.
    Conflicts,
    /// This one comes first.
    Before,
    /// This one comes second.
    After,
    /// It is started when this one fails.
    OnFailure,
    /// It is started when this one ends well.
    OnSuccess,
    /// A reload of this one reloads it.
    PropagatesReloadTo,
    /// A stop of this one stops it.
    PropagatesStopTo,
    /// They share namespaces.
    JoinsNamespaceOf,
    /// This one starts it: a socket, a timer, a path, an automount.
    Triggers,
}

/// What systemd calls dependencies as properties of a unit, and what those of other units on it; an
/// empty name: it has none (org.freedesktop.systemd1(5)).
pub const SHOWN: [(Dependency, &str, &str); 15] = [
    (Dependency::Requires, "Requires", "RequiredBy"),
    (Dependency::Requisite, "Requisite", "RequisiteOf"),
    (Dependency::Wants, "Wants", "WantedBy"),
    (Dependency::BindsTo, "BindsTo", "BoundBy"),
    (Dependency::PartOf, "PartOf", "ConsistsOf"),
    (Dependency::Upholds, "Upholds", "UpheldBy"),
    (Dependency::Conflicts, "Conflicts", "ConflictedBy"),
    (Dependency::Before, "Before", ""),
    (Dependency::After, "After", ""),
    (Dependency::OnFailure, "OnFailure", "OnFailureOf"),
    (Dependency::OnSuccess, "OnSuccess", "OnSuccessOf"),
    (
        Dependency::PropagatesReloadTo,
        "PropagatesReloadTo",
        "ReloadPropagatedFrom",
    ),
    (
        Dependency::PropagatesStopTo,
        "PropagatesStopTo",
        "StopPropagatedFrom",
    ),
    (Dependency::JoinsNamespaceOf, "JoinsNamespaceOf", ""),
    (Dependency::Triggers, "Triggers", "TriggeredBy"),
];

/// One dependency.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Edge {
    /// The kind of dependency.
    pub kind: Dependency,
    /// The unit that depends.
    pub from: UnitName,
    /// On whom.
    pub to: UnitName,
}

/// The directives and what they say. `true`: from the other one to this one.
const EXPLICIT: [(&str, Dependency, bool); 16] = [
    ("Requires", Dependency::Requires, false),
    ("Requisite", Dependency::Requisite, false),
    ("Wants", Dependency::Wants, false),
    ("BindsTo", Dependency::BindsTo, false),
    ("PartOf", Dependency::PartOf, false),
    ("Upholds", Dependency::Upholds, false),
    ("Conflicts", Dependency::Conflicts, false),
    ("Before", Dependency::Before, false),
    ("After", Dependency::After, false),
    ("OnFailure", Dependency::OnFailure, false),
    ("OnSuccess", Dependency::OnSuccess, false),
    ("PropagatesReloadTo", Dependency::PropagatesReloadTo, false),
    ("ReloadPropagatedFrom", Dependency::PropagatesReloadTo, true),
    ("PropagatesStopTo", Dependency::PropagatesStopTo, false),
    ("StopPropagatedFrom", Dependency::PropagatesStopTo, true),
    ("JoinsNamespaceOf", Dependency::JoinsNamespaceOf, false),
];

/// What a unit's files and the folders beside them say.
pub fn explicit(unit: &Unit) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (field, kind, reversed) in EXPLICIT {
        for other in unit.settings.units(field) {
            edges.push(match reversed {
                false => edge(kind, &unit.id, other),
                true => edge(kind, other, &unit.id),
            });
        }
    }
    for (links, kind) in [
        (&unit.wants, Dependency::Wants),
        (&unit.requires, Dependency::Requires),
        (&unit.upholds, Dependency::Upholds),
    ] {
        edges.extend(links.iter().map(|link| edge(kind, &unit.id, &link.unit)));
    }
    edges
}

pub(crate) fn edge(kind: Dependency, from: &UnitName, to: &UnitName) -> Edge {
    Edge {
        kind,
        from: from.clone(),
        to: to.clone(),
    }
}
