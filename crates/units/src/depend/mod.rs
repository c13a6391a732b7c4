// SPDX-License-Identifier: Apache-2.0
//! Which unit depends on which, and how: what the files say, what follows from a unit's type, and
//! the graph of both directions (systemd.unit(5), "Mapping of unit properties to their inverses").

mod implicit;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::name::UnitName;
use crate::unit::Unit;
pub use implicit::{implicit, mounts_on_the_way, triggered};

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

/// One dependency.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Edge {
    /// How.
    pub kind: Dependency,
    /// Whose.
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

/// What a graph must know of a unit to order it among others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Node {
    defaults: bool,
    is_target: bool,
}

/// All dependencies of a set of units, both ways.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Graph {
    forward: BTreeMap<UnitName, BTreeMap<Dependency, BTreeSet<UnitName>>>,
    backward: BTreeMap<UnitName, BTreeMap<Dependency, BTreeSet<UnitName>>>,
}

impl Graph {
    /// The graph of these units: their own words, what follows from their types, and the order of
    /// targets behind what they pull in.
    pub fn of<'a>(units: impl IntoIterator<Item = &'a Unit>) -> Graph {
        let units: Vec<&Unit> = units.into_iter().collect();
        let mut graph = Graph::default();
        let mut nodes = BTreeMap::new();
        // An edge to another name of a unit is one to the unit.
        let ids: BTreeMap<&UnitName, &UnitName> = units
            .iter()
            .flat_map(|unit| unit.names.iter().map(|name| (name, &unit.id)))
            .collect();
        let id = |name: &UnitName| {
            ids.get(name)
                .map_or_else(|| name.clone(), |id| (*id).clone())
        };
        for unit in &units {
            for Edge { kind, from, to } in explicit(unit).into_iter().chain(implicit(unit, &units))
            {
                graph.add(kind, &id(&from), &id(&to));
            }
            let defaults = unit.settings.flag("DefaultDependencies").unwrap_or(true);
            let is_target = unit.kind() == crate::name::UnitType::Target;
            nodes.insert(
                unit.id.clone(),
                Node {
                    defaults,
                    is_target,
                },
            );
        }
        graph.order_targets(&nodes);
        graph
    }

    /// Adds one; a unit depends never on itself.
    pub fn add(&mut self, kind: Dependency, from: &UnitName, to: &UnitName) {
        // One of the two orders is kept.
        let (kind, from, to) = match kind {
            Dependency::After => (Dependency::Before, to, from),
            _ => (kind, from, to),
        };
        if from == to {
            return;
        }
        let forward = self.forward.entry(from.clone()).or_default();
        forward.entry(kind).or_default().insert(to.clone());
        let backward = self.backward.entry(to.clone()).or_default();
        backward.entry(kind).or_default().insert(from.clone());
    }

    /// systemd.target(5): a target comes after what it pulls in, unless the order is said to be the
    /// other way round, or one of them has no default dependencies.
    fn order_targets(&mut self, nodes: &BTreeMap<UnitName, Node>) {
        use Dependency::{Before, BindsTo, Requires, Requisite, Upholds, Wants};
        let targets = nodes
            .iter()
            .filter(|(_, node)| node.is_target && node.defaults);
        for (target, _) in targets {
            for kind in [Requires, Requisite, Wants, BindsTo, Upholds] {
                for other in self.on(target, kind) {
                    let defaults = nodes.get(&other).is_some_and(|it| it.defaults);
                    if defaults && !self.has(Before, target, &other) {
                        self.add(Before, &other, target);
                    }
                }
            }
        }
    }

    /// On which units a unit depends in this way.
    pub fn on(&self, unit: &UnitName, kind: Dependency) -> Vec<UnitName> {
        match kind {
            Dependency::After => look(&self.backward, unit, Dependency::Before),
            _ => look(&self.forward, unit, kind),
        }
    }

    /// Which units depend on a unit in this way.
    pub fn of_others(&self, unit: &UnitName, kind: Dependency) -> Vec<UnitName> {
        match kind {
            Dependency::After => look(&self.forward, unit, Dependency::Before),
            _ => look(&self.backward, unit, kind),
        }
    }

    /// Whether there is such a dependency.
    pub fn has(&self, kind: Dependency, from: &UnitName, to: &UnitName) -> bool {
        let (kind, from, to) = match kind {
            Dependency::After => (Dependency::Before, to, from),
            _ => (kind, from, to),
        };
        let kinds = self.forward.get(from);
        kinds
            .and_then(|it| it.get(&kind))
            .is_some_and(|it| it.contains(to))
    }

    /// Every dependency, in order; of the two orders `Before`.
    pub fn edges(&self) -> impl Iterator<Item = Edge> {
        self.forward.iter().flat_map(|(from, kinds)| {
            let of = move |(kind, to): (&Dependency, &BTreeSet<UnitName>)| {
                let kind = *kind;
                to.iter()
                    .map(move |to| edge(kind, from, to))
                    .collect::<Vec<_>>()
            };
            kinds.iter().flat_map(of)
        })
    }
}

fn look(
    map: &BTreeMap<UnitName, BTreeMap<Dependency, BTreeSet<UnitName>>>,
    unit: &UnitName,
    kind: Dependency,
) -> Vec<UnitName> {
    let found = map.get(unit).and_then(|it| it.get(&kind));
    found.into_iter().flatten().cloned().collect()
}
