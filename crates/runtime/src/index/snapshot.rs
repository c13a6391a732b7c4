// SPDX-License-Identifier: Apache-2.0
//! Walking over the index a few objects at a time: no reader holds the lock longer than [`STEP`]
//! looks take, however many objects there are and however many readers. Pages and watchers walk so.
//!
//! What changes between two steps is seen by the later steps and not by the earlier ones.
//! [`Snapshot`] knows which, so that a watcher that goes on with the ring is told of each change
//! once, and never of one that is older than what it was told.

use std::sync::Arc;

use model::request::{Filter, Scope};
use model::status::Object;

use super::ring::{Change, Missed, Token};
use super::{Index, Key, list};

/// Objects, or changes, that are looked at while the lock is held once.
pub(crate) const STEP: usize = 64;

/// What one step came by.
pub(crate) struct Step {
    /// At most [`STEP`] objects of the filter's tenant or cell; its other wishes aren't looked at.
    pub(crate) objects: Vec<Arc<Object>>,
    /// The objects end here.
    pub(crate) is_last: bool,
    /// The newest change at that moment.
    pub(crate) newest: Token,
}

impl Index {
    /// Looks at the objects that come after that name.
    pub(crate) fn step(&self, filter: &Filter, after: Option<&Key>) -> Step {
        let inner = self.lock();
        let mut objects = inner.from(filter, after);
        let some = objects.by_ref().take(STEP);
        let some: Vec<_> = some.map(|(_, object)| object.clone()).collect();
        #[cfg(test)]
        inner.looked.set(inner.looked.get() + some.len());
        Step {
            is_last: objects.next().is_none(),
            objects: some,
            newest: inner.ring.token(inner.ring.newest()),
        }
    }

    /// How many objects [`Index::step`] has looked at.
    #[cfg(test)]
    pub(crate) fn looked(&self) -> usize {
        self.lock().looked.get()
    }

    /// The newest change.
    pub(crate) fn newest(&self) -> Token {
        let inner = self.lock();
        inner.ring.token(inner.ring.newest())
    }

    /// At most [`STEP`] changes of the scope after that one, and the last change that was looked at
    /// for them.
    pub(crate) fn changes(
        &self,
        after: u64,
        scope: &Scope,
    ) -> Result<(Vec<(Token, Change)>, u64), Missed> {
        let inner = self.lock();
        let (mut changes, mut place) = (Vec::new(), after);
        while changes.len() < STEP {
            let Some((next, change)) = inner.ring.after(place, scope)? else {
                place = inner.ring.newest();
                break;
            };
            changes.push((inner.ring.token(next), change.clone()));
            place = next;
        }
        Ok((changes, place))
    }
}

/// Which changes a snapshot that is taken in steps holds.
pub(crate) struct Snapshot {
    /// The newest change when it began.
    began: Token,
    /// The last name of each step with the newest change at that moment; of the last step no name.
    /// Steps between which nothing changed are one.
    steps: Vec<(Option<Key>, u64)>,
}

impl Snapshot {
    pub(crate) fn begin(newest: Token) -> Self {
        let steps = Vec::new();
        Self {
            began: newest,
            steps,
        }
    }

    /// Where a watcher is to go on that has the whole of it.
    pub(crate) fn began(&self) -> Token {
        self.began
    }

    /// Whether every object was looked at.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.steps.last(), Some((None, _)))
    }

    /// The name after which it goes on.
    pub(crate) fn after(&self) -> Option<&Key> {
        self.steps.last().and_then(|(name, _)| name.as_ref())
    }

    /// A step was taken.
    pub(crate) fn took(&mut self, step: &Step) {
        let last = step.objects.last().filter(|_| !step.is_last);
        let last = last.map(|object| Key::of(object));
        let newest = step.newest.sequence;
        if let Some((name, at)) = self.steps.last_mut()
            && *at == newest
        {
            *name = last;
        } else {
            self.steps.push((last, newest));
        }
    }

    /// Whether the object was looked at after that change.
    pub(crate) fn holds(&self, change: &Change, sequence: u64) -> bool {
        let key = Key::of(&change.object);
        let before = |(last, _): &(Option<Key>, u64)| last.as_ref().is_some_and(|l| *l < key);
        let step = self.steps.get(self.steps.partition_point(before));
        step.is_some_and(|(_, newest)| sequence <= *newest)
    }

    /// Whether later changes need not be asked for.
    pub(crate) fn is_behind(&self, sequence: u64) -> bool {
        let newest = self.steps.last().map(|(_, newest)| *newest);
        newest.is_none_or(|newest| sequence >= newest)
    }
}

/// Every object that may be meant, step by step.
pub(crate) struct Walk<'a> {
    index: &'a Index,
    filter: &'a Filter,
    after: Option<Key>,
    is_over: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(index: &'a Index, filter: &'a Filter, after: Option<Key>) -> Self {
        let is_over = false;
        Self {
            index,
            filter,
            after,
            is_over,
        }
    }

    /// Those of the next step that are meant; `None` after the last.
    pub(crate) fn next(&mut self) -> Option<Vec<Arc<Object>>> {
        if self.is_over {
            return None;
        }
        let Step {
            mut objects,
            is_last,
            ..
        } = self.index.step(self.filter, self.after.as_ref());
        self.is_over = is_last;
        self.after = objects.last().map(|object| Key::of(object));
        objects.retain(|object| list::matches(self.filter, object));
        Some(objects)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::lifecycle::State;
    use model::name::Uid;
    use proptest::prelude::*;

    use super::super::tests::{all, cell, everything, index, key};
    use super::super::watch::{WatchEvent, WatchKind, Watcher};
    use super::*;

    fn uid(n: u16) -> Uid {
        let mut uid = [0; 16];
        uid[..2].copy_from_slice(&n.to_be_bytes());
        Uid(uid)
    }

    fn numbered(n: u16, state: State) -> Object {
        let mut object = cell(&format!("c{n:04}"), 0, state);
        object.meta_mut().uid = uid(n);
        object
    }

    /// The next event, where there is one.
    fn next(watcher: &mut Watcher) -> Option<WatchEvent> {
        futures_util::FutureExt::now_or_never(watcher.next())
    }

    fn watch(index: &Arc<Index>) -> Watcher {
        Watcher::new(index.clone(), everything(), all(), None)
    }

    /// A hundred begin while there are a thousand objects: none looks at more than a step of them
    /// before a writer has its turn, or keeps more than a step for its client.
    #[test]
    fn a_writer_waits_for_one_step_of_however_many_watchers() {
        let index = index();
        for n in 0..1000 {
            assert!(index.publish_known(numbered(n, State::Exited)));
        }
        let mut watchers: Vec<_> = (0..100).map(|_| watch(&index)).collect();
        assert_eq!(
            index.looked(),
            0,
            "nothing is looked at before it is asked for"
        );
        for turn in 0..20 {
            for watcher in &mut watchers {
                let before = index.looked();
                assert!(next(watcher).is_some());
                assert!(index.looked() - before <= STEP);
                assert!(watcher.is_ready_with() <= STEP);
            }
            assert!(index.publish_known(numbered(2000 + turn, State::Exited)));
        }
        let mut told = 0;
        while let Some(event) = next(&mut watchers[0]) {
            told += usize::from(event.kind == WatchKind::Added);
        }
        assert_eq!(
            told, 1000,
            "the thousand and 20 new ones, less 20 told before"
        );
    }

    #[test]
    fn a_page_is_looked_for_in_steps() {
        let index = index();
        for n in 0..200 {
            index.publish_known(numbered(n, State::Exited));
        }
        let filter = everything();
        let mut walk = Walk::new(&index, &filter, Some(key("c0099")));
        let mut found = Vec::new();
        while let Some(some) = walk.next() {
            assert!(some.len() <= STEP);
            found.extend(some.iter().map(|object| object.meta().path.to_string()));
        }
        let expected: Vec<_> = (100..200).map(|n| format!("c{n:04}")).collect();
        assert_eq!(found, expected);
    }

    #[derive(Clone, Copy, Debug)]
    enum Doing {
        Put(u16),
        Remove(u16),
        Next,
    }

    fn doings() -> impl Strategy<Value = Vec<Doing>> {
        let doing = prop_oneof![
            (0_u16..300).prop_map(Doing::Put),
            (0_u16..300).prop_map(Doing::Remove),
            Just(Doing::Next),
            Just(Doing::Next),
        ];
        proptest::collection::vec(doing, 0..600)
    }

    /// What a client believes there is, which must never go back.
    #[derive(Default)]
    struct Client(BTreeMap<Uid, u64>);

    impl Client {
        fn hear(&mut self, event: &WatchEvent) -> Result<(), TestCaseError> {
            let Some(object) = &event.object else {
                return Ok(());
            };
            let (uid, revision) = (object.meta().uid, object.meta().revision);
            let known = self.0.get(&uid).copied();
            match event.kind {
                WatchKind::Removed => {
                    prop_assert!(known.is_some(), "removed without having been told of");
                    self.0.remove(&uid);
                }
                _ => {
                    prop_assert!(
                        known.is_none_or(|known| known < revision),
                        "told of the past"
                    );
                    self.0.insert(uid, revision);
                }
            }
            Ok(())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_watcher_is_told_of_everything_once_and_in_order(doings in doings()) {
            let index = index();
            for n in 0..150 {
                index.publish_known(numbered(n, State::Running));
            }
            let mut watcher = watch(&index);
            let mut client = Client::default();
            for doing in doings {
                match doing {
                    Doing::Put(n) => {
                        let object = || numbered(n, State::Running);
                        if !index.publish_known(object()) {
                            index.publish(object());
                        }
                    }
                    Doing::Remove(n) => drop(index.remove(uid(n))),
                    Doing::Next => {
                        if let Some(event) = next(&mut watcher) {
                            client.hear(&event)?;
                        }
                    }
                }
            }
            while let Some(event) = next(&mut watcher) {
                client.hear(&event)?;
            }
            let filter = everything();
            let mut there = BTreeMap::new();
            let mut walk = Walk::new(&index, &filter, None);
            while let Some(some) = walk.next() {
                there.extend(some.iter().map(|o| (o.meta().uid, o.meta().revision)));
            }
            prop_assert_eq!(client.0, there);
        }
    }
}
