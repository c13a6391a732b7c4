// SPDX-License-Identifier: Apache-2.0
//! A transaction: a job and all that it pulls in, made free of contradictions and of cycles, or
//! refused as a whole. Where something has to give way, it is a job that what was asked for doesn't
//! need.

use std::collections::{BTreeMap, BTreeSet};

use super::order::awaited;
pub use super::terms::{MOST_JOBS, Mode, Note, Planned, Refusal, Transaction};
use super::{Activity, JobType, Load, World, is_redundant, merge};
use crate::depend::Dependency;
use crate::name::UnitName;

/// Plans a job.
///
/// # Errors
/// A unit that is needed can't be started, or jobs that are needed contradict each other or wait
/// for each other.
pub fn plan(
    world: &dyn World,
    unit: &UnitName,
    kind: JobType,
    mode: Mode,
) -> Result<Transaction, Refusal> {
    plan_beside(world, unit, kind, mode, &|_| None)
}

/// The same beside jobs that are there already: a stop of what is down, and is about to be started,
/// has something to do. So `emergency.target`, which `sysinit.target` conflicts with, keeps a boot
/// from going on.
///
/// # Errors
/// As [`plan`].
pub fn plan_beside(
    world: &dyn World,
    unit: &UnitName,
    kind: JobType,
    mode: Mode,
    pending: &dyn Fn(&UnitName) -> Option<JobType>,
) -> Result<Transaction, Refusal> {
    if mode == Mode::Isolate && !world.may_isolate(unit) {
        return Err(Refusal::NotIsolated(unit.clone()));
    }
    let mut draft = Draft {
        world,
        pending,
        nodes: Vec::new(),
        by_unit: BTreeMap::new(),
        notes: Vec::new(),
        isolates: mode == Mode::Isolate,
    };
    let alone = matches!(mode, Mode::IgnoreDependencies | Mode::IgnoreRequirements);
    draft.pull(unit, kind, alone)?;
    if mode == Mode::Isolate {
        draft.isolate()?;
    }
    draft.mark_needed();
    draft.drop_redundant();
    draft.collect_garbage();
    if mode != Mode::IgnoreDependencies {
        draft.break_cycles()?;
    }
    draft.merge_all()?;
    draft.drop_redundant();
    draft.collect_garbage();
    // Of two jobs on a unit one is left now: they may wait for each other otherwise than before.
    if mode != Mode::IgnoreDependencies {
        draft.break_cycles()?;
    }
    let jobs = draft
        .by_unit
        .values()
        .flatten()
        .filter_map(|index| draft.node(*index));
    let mut jobs: Vec<Planned> = jobs.map(|it| it.planned.clone()).collect();
    jobs.sort();
    let asked = Planned {
        unit: unit.clone(),
        kind,
    };
    let anchor = jobs
        .iter()
        .find(|it| it.unit == *unit)
        .cloned()
        .unwrap_or(asked);
    Ok(Transaction {
        jobs,
        anchor,
        mode,
        notes: draft.notes,
    })
}

/// A job that is being planned.
struct Node {
    planned: Planned,
    /// Whether what was asked for needs it.
    needed: bool,
    gone: bool,
    /// The jobs that pulled it in, and whether they need it. No job pulled the first one in.
    by: Vec<(usize, bool)>,
    /// Whether it was pulled in by a conflict.
    conflicted: bool,
}

struct Draft<'a> {
    world: &'a dyn World,
    /// The job that a unit has.
    pending: &'a dyn Fn(&UnitName) -> Option<JobType>,
    nodes: Vec<Node>,
    by_unit: BTreeMap<UnitName, Vec<usize>>,
    notes: Vec<Note>,
    isolates: bool,
}

/// The job that was asked for.
const ANCHOR: usize = 0;

/// Whether a job is the contrary of the one that its unit has.
fn undoes(kind: JobType, pending: Option<JobType>) -> bool {
    pending.is_some_and(|pending| (kind == JobType::Stop) != (pending == JobType::Stop))
}

impl Draft<'_> {
    fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index).filter(|it| !it.gone)
    }

    /// Adds the job and, one after the other, what it pulls in. What can't be added takes away who
    /// needs it, and so on; in the end maybe what was asked for.
    fn pull(&mut self, unit: &UnitName, kind: JobType, alone: bool) -> Result<(), Refusal> {
        let (anchor, _) = self.add(unit, kind, None, false)?;
        let mut todo = if alone { vec![] } else { vec![anchor] };
        while let Some(subject) = todo.pop() {
            let Some(node) = self.node(subject) else {
                continue;
            };
            for pulled in pulled_in(self.world, &node.planned) {
                let by = Some((subject, pulled.needed));
                match self.add(&pulled.unit, pulled.kind, by, pulled.conflict) {
                    // What has nothing to do goes again, with what it alone has pulled in: among
                    // many units that are up a start costs what it needs itself. An isolation
                    // keeps what that needs.
                    Ok((index, true)) if self.isolates || !self.is_idle(index) => todo.push(index),
                    Ok(_) => {}
                    Err(problem) if !pulled.needed => {
                        self.notes
                            .push(Note::LeftOut(pulled.unit, problem.to_string()));
                    }
                    Err(Refusal::TooLarge) => return Err(Refusal::TooLarge),
                    Err(problem) => {
                        self.delete(subject, &problem.to_string());
                        if self.node(ANCHOR).is_none() {
                            return Err(problem);
                        }
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a job that another job has pulled in has nothing to do.
    fn is_idle(&self, index: usize) -> bool {
        let job = self.node(index).map(|it| &it.planned);
        let done = |it: &Planned| {
            let activity = self.world.activity(&it.unit);
            is_redundant(it.kind, activity) && !undoes(it.kind, (self.pending)(&it.unit))
        };
        index != ANCHOR && job.is_none_or(done)
    }

    /// Adds a job or finds it; whether it is new.
    fn add(
        &mut self,
        unit: &UnitName,
        kind: JobType,
        by: Option<(usize, bool)>,
        conflict: bool,
    ) -> Result<(usize, bool), Refusal> {
        if kind != JobType::Stop {
            match self.world.load(unit) {
                Load::Loaded => {}
                Load::NotFound => return Err(Refusal::NotFound(unit.clone())),
                Load::Masked => return Err(Refusal::Masked(unit.clone())),
                Load::Bad => return Err(Refusal::Bad(unit.clone())),
            }
        }
        let same = |index: &&usize| {
            self.nodes
                .get(**index)
                .is_some_and(|it| !it.gone && it.planned.kind == kind)
        };
        let found = self
            .by_unit
            .get(unit)
            .and_then(|all| all.iter().find(same))
            .copied();
        let index = found.unwrap_or(self.nodes.len());
        if let Some(node) = self.nodes.get_mut(index) {
            node.by.extend(by);
            node.conflicted |= conflict;
            return Ok((index, false));
        }
        if self.nodes.len() >= MOST_JOBS {
            return Err(Refusal::TooLarge);
        }
        self.nodes.push(Node {
            planned: Planned {
                unit: unit.clone(),
                kind,
            },
            needed: false,
            gone: false,
            by: by.into_iter().collect(),
            conflicted: conflict,
        });
        self.by_unit.entry(unit.clone()).or_default().push(index);
        Ok((index, true))
    }

    /// Takes a job away, and those that need it.
    fn delete(&mut self, index: usize, why: &str) {
        let mut todo = vec![index];
        while let Some(index) = todo.pop() {
            let Some(node) = self.nodes.get_mut(index).filter(|it| !it.gone) else {
                continue;
            };
            node.gone = true;
            let unit = node.planned.unit.clone();
            todo.extend(
                node.by
                    .iter()
                    .filter(|(_, needs)| *needs)
                    .map(|(subject, _)| *subject),
            );
            if let Some(all) = self.by_unit.get_mut(&unit) {
                all.retain(|it| *it != index);
            }
            self.notes.push(Note::LeftOut(unit, why.to_owned()));
        }
    }

    /// What isn't pulled in and is up is stopped.
    fn isolate(&mut self) -> Result<(), Refusal> {
        let graph = self.world.graph();
        for unit in self.world.up() {
            let planned = |it: &UnitName| self.by_unit.get(it).is_some_and(|all| !all.is_empty());
            let triggered = graph.of_others(&unit, Dependency::Triggers);
            let kept = self.world.ignores_isolation(&unit)
                || planned(&unit)
                || triggered.iter().any(planned);
            if !kept {
                self.add(&unit, JobType::Stop, Some((ANCHOR, true)), false)?;
            }
        }
        Ok(())
    }

    /// What the first one needs, what that needs, and so on.
    fn mark_needed(&mut self) {
        let mut needs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (object, node) in self.nodes.iter().enumerate() {
            for (subject, _) in node.by.iter().filter(|(_, needs)| *needs) {
                needs.entry(*subject).or_default().push(object);
            }
        }
        let mut todo = vec![ANCHOR];
        while let Some(index) = todo.pop() {
            if let Some(node) = self.nodes.get_mut(index)
                && !node.needed
            {
                node.needed = true;
                todo.extend(needs.get(&index).into_iter().flatten());
            }
        }
    }

    /// Jobs that have nothing to do go, but for the one that was asked for.
    fn drop_redundant(&mut self) {
        for (unit, all) in &mut self.by_unit {
            let (activity, pending) = (self.world.activity(unit), (self.pending)(unit));
            let nodes = &mut self.nodes;
            let done = |kind| is_redundant(kind, activity) && !undoes(kind, pending);
            let idle = |index: &usize| {
                let kind = nodes.get(*index).map(|it| it.planned.kind);
                *index != ANCHOR && kind.is_none_or(done)
            };
            if all.iter().all(idle) {
                for index in std::mem::take(all) {
                    if let Some(node) = nodes.get_mut(index) {
                        node.gone = true;
                    }
                }
            }
        }
    }

    /// Jobs that no other job has pulled in any more go. In an isolation they stay: what a target
    /// wants that is up is wanted, too, as after a repair, where only some of a boot has come up.
    fn collect_garbage(&mut self) {
        while !self.isolates {
            let gone: BTreeSet<usize> = self
                .nodes
                .iter()
                .enumerate()
                .filter(|(_, it)| it.gone)
                .map(|(i, _)| i)
                .collect();
            let mut changed = false;
            for (index, node) in self.nodes.iter_mut().enumerate() {
                let orphan = index != ANCHOR
                    && !node.gone
                    && node.by.iter().all(|(subject, _)| gone.contains(subject));
                if orphan {
                    node.gone = true;
                    changed = true;
                    if let Some(all) = self.by_unit.get_mut(&node.planned.unit) {
                        all.retain(|it| *it != index);
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// The job of a unit as far as its order goes.
    fn job(&self, unit: &UnitName) -> Option<JobType> {
        let first = self.by_unit.get(unit)?.first()?;
        Some(self.node(*first)?.planned.kind)
    }

    fn break_cycles(&mut self) -> Result<(), Refusal> {
        while let Some(cycle) = self.find_cycle() {
            let planned: Vec<Planned> = cycle
                .iter()
                .filter_map(|unit| {
                    Some(Planned {
                        unit: unit.clone(),
                        kind: self.job(unit)?,
                    })
                })
                .collect();
            let is_needed = |unit: &UnitName| {
                let all = self.by_unit.get(unit).into_iter().flatten();
                all.filter_map(|it| self.node(*it)).any(|it| it.needed)
            };
            let Some(victim) = planned.iter().find(|it| !is_needed(&it.unit)).cloned() else {
                return Err(Refusal::Cycle(planned));
            };
            self.notes.push(Note::CycleBroken(planned, victim.clone()));
            let all = self.by_unit.get(&victim.unit).cloned().unwrap_or_default();
            let before = self.notes.len();
            for index in all {
                self.delete(index, "it was in a cycle of jobs that wait for each other");
            }
            self.notes.truncate(before);
            self.collect_garbage();
        }
        Ok(())
    }

    /// Units whose jobs wait for each other in a circle, if there are any: as they are now, or
    /// once the restarts have stopped their units and are starts.
    fn find_cycle(&self) -> Option<Vec<UnitName>> {
        let restarted = |unit: &UnitName| match self.job(unit)? {
            JobType::Restart => Some(JobType::Start),
            kind => Some(kind),
        };
        self.cycle_of(&|unit| self.job(unit))
            .or_else(|| self.cycle_of(&restarted))
    }

    fn cycle_of(&self, job: &dyn Fn(&UnitName) -> Option<JobType>) -> Option<Vec<UnitName>> {
        let graph = self.world.graph();
        let mut done: BTreeSet<UnitName> = BTreeSet::new();
        for start in self.by_unit.keys() {
            // The way to where we are, each with what it still waits for.
            let mut way: Vec<(UnitName, Vec<UnitName>)> = Vec::new();
            let mut next = Some(start.clone());
            loop {
                if let Some(unit) = next.take() {
                    if let Some(at) = way.iter().position(|(it, _)| *it == unit) {
                        return Some(way.into_iter().skip(at).map(|(it, _)| it).collect());
                    }
                    if let Some(own) = job(&unit).filter(|_| !done.contains(&unit)) {
                        let waits = awaited(graph, &unit, own, job).cloned().collect();
                        way.push((unit, waits));
                    }
                }
                let Some((unit, waits)) = way.last_mut() else {
                    break;
                };
                next = waits.pop();
                if next.is_none() {
                    done.insert(unit.clone());
                    way.pop();
                }
            }
        }
        None
    }

    /// One job for each unit. Of two that exclude each other one goes that isn't needed: a start
    /// where the stop comes from a conflict, otherwise the stop.
    fn merge_all(&mut self) -> Result<(), Refusal> {
        let units: Vec<UnitName> = self.by_unit.keys().cloned().collect();
        for unit in units {
            let activity = self.world.activity(&unit);
            while let Some((one, other)) = self.two_of(&unit) {
                self.merge_two(one, other, activity)?;
            }
        }
        self.collect_garbage();
        Ok(())
    }

    fn two_of(&self, unit: &UnitName) -> Option<(usize, usize)> {
        let all = self.by_unit.get(unit)?;
        Some((*all.first()?, *all.get(1)?))
    }

    fn merge_two(&mut self, one: usize, other: usize, activity: Activity) -> Result<(), Refusal> {
        let (Some(first), Some(second)) = (self.node(one), self.node(other)) else {
            return Ok(());
        };
        let (a, b) = (first.planned.kind, second.planned.kind);
        let unit = first.planned.unit.clone();
        if let Some(kind) = merge(a, b, activity) {
            let (needed, by) = (second.needed, second.by.clone());
            if let Some(second) = self.nodes.get_mut(other) {
                second.gone = true;
            }
            for node in &mut self.nodes {
                node.by
                    .iter_mut()
                    .filter(|it| it.0 == other)
                    .for_each(|it| it.0 = one);
            }
            if let Some(first) = self.nodes.get_mut(one) {
                first.planned.kind = kind;
                first.needed |= needed;
                first.by.extend(by);
            }
            if let Some(all) = self.by_unit.get_mut(&unit) {
                all.retain(|it| *it != other);
            }
            return Ok(());
        }
        let conflict = |node: &Node| node.planned.kind == JobType::Stop && node.conflicted;
        let victim = match (first.needed, second.needed) {
            (true, true) => return Err(Refusal::Contradiction(unit, a, b)),
            (true, false) => other,
            (false, true) => one,
            (false, false) if conflict(first) => other,
            (false, false) if conflict(second) => one,
            (false, false) if a == JobType::Stop => one,
            (false, false) => other,
        };
        let planned = self.node(victim).map(|it| it.planned.clone());
        self.notes.extend(planned.map(Note::Contradiction));
        self.delete(victim, "it contradicts another job on the same unit");
        Ok(())
    }
}

/// A job that another one pulls in.
struct Pulled {
    unit: UnitName,
    kind: JobType,
    needed: bool,
    conflict: bool,
}

/// What a job pulls in (systemd.unit(5), `Requires=` and what follows it there).
fn pulled_in(world: &dyn World, job: &Planned) -> Vec<Pulled> {
    use Dependency::{
        BindsTo, Conflicts, PartOf, PropagatesReloadTo, PropagatesStopTo, Requires, Requisite,
        Upholds, Wants,
    };
    let graph = world.graph();
    let mut all = Vec::new();
    let mut pull = |units: Vec<UnitName>, kind, needed, conflict| {
        all.extend(units.into_iter().map(|unit| Pulled {
            unit,
            kind,
            needed,
            conflict,
        }));
    };
    let starts = matches!(job.kind, JobType::Start | JobType::Restart);
    if starts {
        for (kind, needed) in [
            (Requires, true),
            (BindsTo, true),
            (Wants, false),
            (Upholds, false),
        ] {
            pull(graph.on(&job.unit, kind), JobType::Start, needed, false);
        }
        pull(
            graph.on(&job.unit, Requisite),
            JobType::VerifyActive,
            true,
            false,
        );
        pull(graph.on(&job.unit, Conflicts), JobType::Stop, true, true);
        pull(
            graph.of_others(&job.unit, Conflicts),
            JobType::Stop,
            false,
            false,
        );
    }
    if matches!(job.kind, JobType::Stop | JobType::Restart) {
        let mut others = Vec::new();
        for kind in [Requires, Requisite, BindsTo, PartOf] {
            others.extend(graph.of_others(&job.unit, kind));
        }
        others.extend(graph.on(&job.unit, PropagatesStopTo));
        let kind = job.kind;
        // A restart restarts those that are up, or are about to be, and leaves the others alone.
        let is_up = |it: &UnitName| {
            let activity = world.activity(it);
            activity.is_up() && activity != Activity::Deactivating
        };
        others.retain(|it| kind == JobType::Stop || is_up(it));
        pull(others, kind, true, false);
    }
    if job.kind == JobType::Reload {
        let mut others = graph.on(&job.unit, PropagatesReloadTo);
        others.retain(|it| world.activity(it).is_active());
        pull(others, JobType::Reload, false, false);
    }
    all
}
