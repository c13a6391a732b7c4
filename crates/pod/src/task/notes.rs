// SPDX-License-Identifier: Apache-2.0
//! What has happened to a pod, for people: a few lines, of which the oldest go.

use std::collections::VecDeque;

use model::pod::status::{Event, MAX_EVENTS};

use crate::kept::KEPT_EVENTS;

/// The longest message, in characters: a probe's answer is the workload's. It has no control
/// character: those take more in a record than others, and move terminals.
const LONGEST: usize = 160;

/// See the module.
pub(super) struct Notes(VecDeque<Event>);

impl Notes {
    /// With what an earlier daemon has kept.
    pub(super) fn new(kept: &[Event]) -> Self {
        Self(kept.iter().cloned().collect())
    }

    /// The same once more is counted, not told again. An empty name: the pod.
    pub(super) fn add(&mut self, container: &str, message: impl Into<String>) {
        let message = message.into();
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let message: String = message.chars().map(plain).take(LONGEST).collect();
        let at = runtime::now();
        if let Some(last) = self.0.back_mut()
            && last.container == container
            && last.message == message
        {
            last.at = at;
            last.count = last.count.saturating_add(1);
            return;
        }
        if self.0.len() >= MAX_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(Event {
            at,
            container: container.to_owned(),
            message,
            count: 1,
        });
    }

    pub(super) fn all(&self) -> Vec<Event> {
        self.0.iter().cloned().collect()
    }

    /// Those that the next daemon is told.
    pub(super) fn kept(&self) -> Vec<Event> {
        let older = self.0.len().saturating_sub(KEPT_EVENTS);
        self.0.iter().skip(older).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_a_few_and_the_same_is_counted() {
        let mut notes = Notes::new(&[]);
        notes.add("app", "started");
        notes.add("app", "\u{1b}".to_owned() + &"x".repeat(4096));
        notes.add("app", "\u{1b}".to_owned() + &"x".repeat(4096));
        assert_eq!(notes.all()[1].count, 2);
        assert_eq!(notes.all()[1].message.len(), LONGEST);
        assert!(notes.all()[1].message.starts_with(" x"));
        for i in 0..100 {
            notes.add("", i.to_string());
        }
        assert_eq!(
            (notes.all().len(), notes.kept().len()),
            (MAX_EVENTS, KEPT_EVENTS)
        );
        assert_eq!(notes.kept().last().unwrap().message, "99");
        assert_eq!(Notes::new(&notes.kept()).all(), notes.kept());
    }
}
