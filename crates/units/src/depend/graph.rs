// SPDX-License-Identifier: Apache-2.0
//! The dependencies of a set of units, both ways. Units are added and taken away one by one: what
//! that costs depends on their own dependencies, and not on how many others there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Dependency, Edge, explicit, implicit, mounts_on_the_way};
use crate::name::{UnitName, UnitType};
use crate::unit::Unit;

/// What one unit says of dependencies, made once when it is loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Own {
    /// Its words, and what follows from its type.
    pub edges: Vec<Edge>,
    /// Mounts that it needs where there are such.
    pub mounts: BTreeSet<UnitName>,
    id: UnitName,
    names: BTreeSet<UnitName>,
    defaults: bool,
}

impl Own {
    /// Of this unit.
    pub fn of(unit: &Unit) -> Own {
        let mut edges = explicit(unit);
        edges.extend(implicit(unit));
        Own {
            edges,
            mounts: mounts_on_the_way(unit),
            id: unit.id.clone(),
            names: unit.names.clone(),
            defaults: unit.settings.flag("DefaultDependencies").unwrap_or(true),
        }
    }

    fn is_ordering_target(&self) -> bool {
        self.id.kind() == UnitType::Target && self.defaults
    }
}

/// Whom a unit knows, by kind.
type Others = BTreeMap<Dependency, BTreeSet<UnitName>>;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Graph {
    forward: BTreeMap<UnitName, Others>,
    backward: BTreeMap<UnitName, Others>,
    /// The units that were added, by their own names.
    units: BTreeMap<UnitName, Arc<Own>>,
    /// The other names of these.
    names: BTreeMap<UnitName, UnitName>,
    /// Who needs a mount where there is such.
    mounts: BTreeMap<UnitName, BTreeSet<UnitName>>,
}

/// By which a target comes after what it pulls in.
const PULLS: [Dependency; 5] = [
    Dependency::Requires,
    Dependency::Requisite,
    Dependency::Wants,
    Dependency::BindsTo,
    Dependency::Upholds,
];

impl Graph {
    /// The graph of these units: their own words, what follows from their types, and the order of
    /// targets behind what they pull in.
    pub fn of<'a>(units: impl IntoIterator<Item = &'a Unit>) -> Graph {
        let mut graph = Graph::default();
        let units = units.into_iter().map(|unit| Arc::new(Own::of(unit)));
        graph.extend(&units.collect::<Vec<_>>());
        graph
    }

    /// Adds units, each over what it was before.
    pub fn extend(&mut self, units: &[Arc<Own>]) {
        for own in units {
            if self.units.contains_key(&own.id) {
                self.remove(&own.id);
            }
            self.name(own);
            self.units.insert(own.id.clone(), own.clone());
        }
        for own in units {
            for Edge { kind, from, to } in &own.edges {
                let (from, to) = (self.id(from), self.id(to));
                self.add(*kind, &from, &to);
            }
            self.mount(own);
        }
        for own in units {
            self.order(&own.id);
            for kind in PULLS {
                for target in self.of_others(&own.id, kind) {
                    self.order(&target);
                }
            }
        }
    }

    /// An edge to another name of a unit is one to the unit.
    fn name(&mut self, own: &Own) {
        for name in own.names.iter().filter(|name| **name != own.id) {
            self.names.insert(name.clone(), own.id.clone());
            let (forward, backward) = (self.forward.remove(name), self.backward.remove(name));
            for (kind, to) in flat(forward) {
                forget(&mut self.backward, &to, kind, name);
                self.add(kind, &own.id, &to);
            }
            for (kind, from) in flat(backward) {
                forget(&mut self.forward, &from, kind, name);
                self.add(kind, &from, &own.id);
            }
        }
    }

    fn id(&self, name: &UnitName) -> UnitName {
        self.names.get(name).unwrap_or(name).clone()
    }

    /// The mounts that it needs and that are there, and those who need it where it is one.
    fn mount(&mut self, own: &Own) {
        for mount in &own.mounts {
            let users = self.mounts.entry(mount.clone()).or_default();
            users.insert(own.id.clone());
            let id = self.id(mount);
            if self.units.contains_key(&id) {
                self.need(&own.id, &id);
            }
        }
        if own.id.kind() != UnitType::Mount {
            return;
        }
        let users = own.names.iter().filter_map(|name| self.mounts.get(name));
        let users: Vec<UnitName> = users.flatten().cloned().collect();
        for user in users {
            self.need(&user, &own.id);
        }
    }

    fn need(&mut self, user: &UnitName, mount: &UnitName) {
        self.add(Dependency::Requires, user, mount);
        self.add(Dependency::After, user, mount);
    }

    /// systemd.target(5): a target comes after what it pulls in, unless the order is said to be the
    /// other way round, or one of them has no default dependencies.
    fn order(&mut self, target: &UnitName) {
        let orders = |own: &Arc<Own>| own.is_ordering_target();
        if !self.units.get(target).is_some_and(orders) {
            return;
        }
        for kind in PULLS {
            for other in self.on(target, kind) {
                let defaults = self.units.get(&other).is_some_and(|it| it.defaults);
                if defaults && !self.has(Dependency::Before, target, &other) {
                    self.add(Dependency::Before, &other, target);
                }
            }
        }
    }

    /// Takes a unit away. What others say of it stays.
    pub fn remove(&mut self, id: &UnitName) {
        let Some(own) = self.units.remove(id) else {
            return;
        };
        for name in &own.names {
            self.names.remove(name);
        }
        for mount in &own.mounts {
            if let Some(users) = self.mounts.get_mut(mount) {
                users.remove(id);
            }
        }
        let mut others = BTreeSet::new();
        for (kind, to) in flat(self.forward.remove(id)) {
            forget(&mut self.backward, &to, kind, id);
            others.insert(to);
        }
        for (kind, from) in flat(self.backward.remove(id)) {
            forget(&mut self.forward, &from, kind, id);
            others.insert(from);
        }
        let others = others.iter().filter_map(|it| self.units.get(it).cloned());
        for other in others.collect::<Vec<_>>() {
            let of = |it: &&Edge| own.names.contains(&it.from) || own.names.contains(&it.to);
            for Edge { kind, from, to } in other.edges.iter().filter(of) {
                let (from, to) = (self.id(from), self.id(to));
                self.add(*kind, &from, &to);
            }
        }
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

    /// On which units a unit depends in this way.
    pub fn on(&self, unit: &UnitName, kind: Dependency) -> Vec<UnitName> {
        self.each_on(unit, kind).cloned().collect()
    }

    /// The same, to look at.
    pub fn each_on<'a>(
        &'a self,
        unit: &UnitName,
        kind: Dependency,
    ) -> impl Iterator<Item = &'a UnitName> + use<'a> {
        match kind {
            Dependency::After => look(&self.backward, unit, Dependency::Before),
            _ => look(&self.forward, unit, kind),
        }
    }

    /// Which units depend on a unit in this way.
    pub fn of_others(&self, unit: &UnitName, kind: Dependency) -> Vec<UnitName> {
        self.each_of_others(unit, kind).cloned().collect()
    }

    /// The same, to look at.
    pub fn each_of_others<'a>(
        &'a self,
        unit: &UnitName,
        kind: Dependency,
    ) -> impl Iterator<Item = &'a UnitName> + use<'a> {
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
                    .map(move |to| super::edge(kind, from, to))
                    .collect::<Vec<_>>()
            };
            kinds.iter().flat_map(of)
        })
    }
}

fn look<'a>(
    map: &'a BTreeMap<UnitName, Others>,
    unit: &UnitName,
    kind: Dependency,
) -> impl Iterator<Item = &'a UnitName> + use<'a> {
    let found = map.get(unit).and_then(|it| it.get(&kind));
    found.into_iter().flatten()
}

fn flat(others: Option<Others>) -> impl Iterator<Item = (Dependency, UnitName)> {
    let all = others.into_iter().flatten();
    all.flat_map(|(kind, units)| units.into_iter().map(move |unit| (kind, unit)))
}

/// Takes one direction of an edge away, and what is empty then.
fn forget(
    map: &mut BTreeMap<UnitName, Others>,
    unit: &UnitName,
    kind: Dependency,
    other: &UnitName,
) {
    let Some(kinds) = map.get_mut(unit) else {
        return;
    };
    if let Some(units) = kinds.get_mut(&kind) {
        units.remove(other);
        if units.is_empty() {
            kinds.remove(&kind);
        }
    }
    if kinds.is_empty() {
        map.remove(unit);
    }
}
