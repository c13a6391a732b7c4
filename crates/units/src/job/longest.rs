// SPDX-License-Identifier: Apache-2.0
//! How long jobs take at most that wait for each other: those in a row one after the other, those
//! beside each other at the same time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::order::awaited;
use super::terms::Planned;
use crate::depend::Graph;
use crate::name::UnitName;

/// A job that isn't over.
struct Open {
    planned: Planned,
    /// For how many others it still waits.
    awaits: usize,
    /// When the last of these is over.
    from: Duration,
}

/// How long all of these jobs take, where each takes as long as `of` says. A job counts once; jobs
/// that wait for each other in a circle, which no transaction has, don't.
pub fn longest(
    graph: &Graph,
    jobs: impl IntoIterator<Item = Planned>,
    of: impl Fn(&Planned) -> Duration,
) -> Duration {
    let jobs: BTreeMap<UnitName, Planned> =
        jobs.into_iter().map(|it| (it.unit.clone(), it)).collect();
    let kind = |unit: &UnitName| jobs.get(unit).map(|it| it.kind);
    let mut holds: BTreeMap<&UnitName, Vec<&UnitName>> = BTreeMap::new();
    let mut open: BTreeMap<&UnitName, Open> = BTreeMap::new();
    for (unit, planned) in &jobs {
        let others = awaited(graph, unit, planned.kind, &kind);
        let mut awaits = 0;
        for other in others {
            holds.entry(other).or_default().push(unit);
            awaits += 1;
        }
        let (planned, from) = (planned.clone(), Duration::ZERO);
        open.insert(
            unit,
            Open {
                planned,
                awaits,
                from,
            },
        );
    }
    let free = open.iter().filter(|(_, it)| it.awaits == 0);
    let mut free: Vec<&UnitName> = free.map(|(unit, _)| *unit).collect();
    let mut all = Duration::ZERO;
    while let Some(unit) = free.pop() {
        let Some(job) = open.remove(unit) else {
            continue;
        };
        let over = job.from.saturating_add(of(&job.planned));
        all = all.max(over);
        for held in holds.remove(unit).unwrap_or_default() {
            if let Some(next) = open.get_mut(held) {
                next.from = next.from.max(over);
                next.awaits = next.awaits.saturating_sub(1);
                if next.awaits == 0 {
                    free.push(held);
                }
            }
        }
    }
    all
}
