// SPDX-License-Identifier: Apache-2.0
//! What the manager tells listeners: jobs that come and end, units that change. No listener is
//! waited for: who doesn't take it in time has missed some, and is told so by the channel.

use std::collections::BTreeSet;

use tokio::sync::broadcast;
use units::name::UnitName;

/// How much waits for the slowest listener.
const QUEUE: usize = 2_048;

/// Something that has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// A job is there: its number and unit.
    JobNew(u64, UnitName),
    /// One has ended, in the words of `systemctl`.
    JobRemoved(u64, UnitName, &'static str),
    /// A unit is loaded.
    UnitNew(UnitName),
    /// One is forgotten.
    UnitRemoved(UnitName),
    /// A unit's state is another.
    Changed(UnitName),
    /// All files are being read again; or they have been.
    Reloading(bool),
    /// What is enabled or masked is another.
    FilesChanged,
}

/// Where they come from.
pub(crate) struct Feed {
    sender: broadcast::Sender<News>,
    /// The jobs and the units that were told of.
    jobs: BTreeSet<u64>,
    units: BTreeSet<UnitName>,
    /// What is to be told.
    ended: Vec<(u64, UnitName, &'static str)>,
    changed: BTreeSet<UnitName>,
    /// A listener was there when it was told last.
    heard: bool,
    /// Units may have come or gone.
    pub(crate) moved: bool,
}

impl Feed {
    pub(crate) fn new() -> Feed {
        Feed {
            sender: broadcast::Sender::new(QUEUE),
            jobs: BTreeSet::new(),
            units: BTreeSet::new(),
            ended: Vec::new(),
            changed: BTreeSet::new(),
            heard: false,
            moved: true,
        }
    }

    pub(crate) fn sender(&self) -> broadcast::Sender<News> {
        self.sender.clone()
    }

    fn has_listeners(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(crate) fn changed(&mut self, unit: &UnitName) {
        if self.has_listeners() && !self.changed.contains(unit) {
            self.changed.insert(unit.clone());
        }
    }

    pub(crate) fn ended(&mut self, id: u64, unit: &UnitName, result: &'static str) {
        if self.has_listeners() {
            self.ended.push((id, unit.clone(), result));
        }
    }

    /// Tells this at once.
    pub(crate) fn tell(&self, news: News) {
        // Without a listener nothing is told.
        let _ = self.sender.send(news);
    }

    /// Tells what is another since it was told last. `jobs` and `units` are those that there are.
    pub(crate) fn publish<'a>(
        &mut self,
        jobs: impl Iterator<Item = (u64, &'a UnitName)>,
        units: impl Iterator<Item = &'a UnitName>,
    ) {
        if !self.has_listeners() {
            (self.heard, self.ended) = (false, Vec::new());
            self.changed.clear();
            (self.jobs, self.units) = Default::default();
            return;
        }
        let moved = std::mem::take(&mut self.moved) || !self.heard;
        let units: BTreeSet<UnitName> = match moved {
            true => units.cloned().collect(),
            false => std::mem::take(&mut self.units),
        };
        let jobs: Vec<(u64, UnitName)> = jobs.map(|(id, unit)| (id, unit.clone())).collect();
        let ids: BTreeSet<u64> = jobs.iter().map(|(id, _)| *id).collect();
        // Who begins to listen looks at what there is.
        if std::mem::replace(&mut self.heard, true) {
            for unit in units.difference(&self.units).filter(|_| moved) {
                self.tell(News::UnitNew(unit.clone()));
            }
            for (id, unit) in jobs.into_iter().filter(|(id, _)| !self.jobs.contains(id)) {
                self.tell(News::JobNew(id, unit));
            }
        }
        for unit in std::mem::take(&mut self.changed) {
            self.tell(News::Changed(unit));
        }
        for (id, unit, result) in std::mem::take(&mut self.ended) {
            if !self.jobs.contains(&id) {
                self.tell(News::JobNew(id, unit.clone()));
            }
            self.tell(News::JobRemoved(id, unit, result));
        }
        for unit in self.units.difference(&units) {
            self.tell(News::UnitRemoved(unit.clone()));
        }
        (self.jobs, self.units) = (ids, units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> UnitName {
        UnitName::parse(name).unwrap()
    }

    #[test]
    fn what_has_come_and_gone_is_told_in_its_order() {
        let mut feed = Feed::new();
        let (a, b) = (name("a.service"), name("b.scope"));
        // Without a listener nothing is kept.
        feed.ended(1, &a, "done");
        feed.publish(std::iter::empty(), [&a].into_iter());
        let mut told = feed.sender().subscribe();
        feed.publish([(2, &a)].into_iter(), [&a].into_iter());
        assert!(told.try_recv().is_err());
        feed.moved = true;
        feed.changed(&a);
        feed.changed(&a);
        feed.ended(2, &a, "done");
        feed.ended(3, &b, "failed");
        feed.publish(std::iter::empty(), [&a, &b].into_iter());
        let wanted = [
            News::UnitNew(b.clone()),
            News::Changed(a.clone()),
            News::JobRemoved(2, a.clone(), "done"),
            News::JobNew(3, b.clone()),
            News::JobRemoved(3, b.clone(), "failed"),
        ];
        for wanted in wanted {
            assert_eq!(told.try_recv().unwrap(), wanted);
        }
        feed.moved = true;
        feed.publish(std::iter::empty(), [&a].into_iter());
        assert_eq!(told.try_recv().unwrap(), News::UnitRemoved(b));
        assert!(told.try_recv().is_err());
    }
}
