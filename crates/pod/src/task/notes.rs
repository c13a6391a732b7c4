// SPDX-License-Identifier: Apache-2.0
//! What has happened to a pod, for people: a few lines, of which the oldest go.

use std::collections::VecDeque;

use model::pod::status::{Event, MAX_EVENTS};

use crate::kept::KEPT_EVENTS;

/// The longest message, in characters: a probe's answer is the workload's. It has no control
/// character: those take more in a record than others, and move terminals.
pub(crate) const LONGEST: usize = 160;

/// See the module.
pub(crate) struct Notes(VecDeque<Event>);

impl Notes {
    /// With what an earlier daemon has kept.
    pub(crate) fn new(kept: &[Event]) -> Self {
        Self(kept.iter().cloned().collect())
    }

    /// The same once more is counted, not told again. An empty name: the pod.
    pub(crate) fn add(&mut self, container: &str, message: impl Into<String>) {
        let message = plain(&message.into(), LONGEST);
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

    /// What goes on is told once, however often it is seen.
    pub(crate) fn add_once(&mut self, message: String) {
        let told = self
            .0
            .back()
            .is_some_and(|last| last.message == plain(&message, LONGEST));
        if !told {
            self.add("", message);
        }
    }

    pub(crate) fn all(&self) -> Vec<Event> {
        self.0.iter().cloned().collect()
    }

    /// Those that the next daemon is told.
    pub(crate) fn kept(&self) -> Vec<Event> {
        let older = self.0.len().saturating_sub(KEPT_EVENTS);
        self.0.iter().skip(older).cloned().collect()
    }
}

/// Without characters that move a terminal, and no longer than that many.
pub(crate) fn plain(message: &str, most: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    message.chars().map(plain).take(most).collect()
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
