// SPDX-License-Identifier: Apache-2.0
//! A module's text that can be read: its present one, or the last that parsed where that doesn't,
//! with the way of places from one to the other. What was changed since has no place in the other;
//! nothing is asked or told of it. Made by `Project::readable`.

use crate::source::{Source, Span};

/// A text that parses, unless none ever did.
pub(super) struct Readable {
    pub(super) source: Source,
    /// What is alike at the beginning of this text and the present one, in bytes.
    before: u32,
    /// And at their ends.
    after: u32,
    present: u32,
}

impl Readable {
    /// The text that stands for the present one.
    pub(super) fn new(source: Source, present: &Source) -> Self {
        let (old, new) = (source.text().as_bytes(), present.text().as_bytes());
        let alike = |(one, other): &(&u8, &u8)| one == other;
        let before = old.iter().zip(new).take_while(alike).count();
        let rest = old.len().min(new.len()) - before;
        let ends = old.iter().rev().zip(new.iter().rev());
        let after = ends.take(rest).take_while(alike).count();
        let present = length(present.text().len());
        Self {
            source,
            before: length(before),
            after: length(after),
            present,
        }
    }

    /// Where a place of the present text lies in this one.
    pub(super) fn then(&self, offset: u32) -> Option<u32> {
        self.shifted(offset, self.present, self.length())
    }

    /// Where a part of this text lies in the present one.
    pub(super) fn now(&self, span: Span) -> Option<Span> {
        let place = |offset| self.shifted(offset, self.length(), self.present);
        let (start, end) = (place(span.start)?, place(span.end)?);
        // With something new in its middle it is another.
        (end.checked_sub(start)? == span.end - span.start).then(|| Span::new(start, end))
    }

    fn length(&self) -> u32 {
        length(self.source.text().len())
    }

    fn shifted(&self, offset: u32, from: u32, to: u32) -> Option<u32> {
        if offset <= self.before {
            return Some(offset);
        }
        let rest = from.checked_sub(offset)?;
        (rest <= self.after).then(|| to.saturating_sub(rest))
    }
}

/// Sources are at most 4 MiB.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(old: &str, new: &str) -> Readable {
        let source = |text: &str| Source::new("a.ts", text);
        Readable::new(source(old), &source(new))
    }

    #[test]
    fn places_before_and_after_a_change_are_found_again() {
        let it = readable("abc def", "abc (x def");
        assert_eq!(
            [0, 3, 4, 6, 7, 10].map(|at| it.then(at)),
            [Some(0), Some(3), Some(4), None, Some(4), Some(7)]
        );
        assert_eq!(it.now(Span::new(0, 3)), Some(Span::new(0, 3)));
        assert_eq!(it.now(Span::new(5, 7)), Some(Span::new(8, 10)));
        assert_eq!(it.now(Span::new(0, 7)), None);
    }

    #[test]
    fn what_was_taken_out_or_written_twice_is_nowhere_or_somewhere_but_not_beyond() {
        for (old, new) in [
            ("aaaa", "aa"),
            ("aa", "aaaa"),
            ("", "ab"),
            ("ab", ""),
            ("ä", "ö"),
        ] {
            let it = readable(old, new);
            for at in 0..=length(new.len()) {
                assert!(
                    it.then(at).is_none_or(|at| at <= length(old.len())),
                    "{old} {new}"
                );
            }
            for at in 0..=length(old.len()) {
                let now = it.now(Span::new(at, at));
                assert!(
                    now.is_none_or(|it| it.end <= length(new.len())),
                    "{old} {new}"
                );
            }
        }
    }
}
