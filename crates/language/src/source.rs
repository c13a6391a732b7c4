// SPDX-License-Identifier: Apache-2.0
//! A piece of source text and places in it. Offsets are of UTF-8 bytes; lines and columns, which
//! people and editors count, are made from them here and nowhere else.

use std::sync::Arc;

/// From a byte to another, the end excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From `start` to `end`.
    pub fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }
}

/// A place as people count: both from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in Unicode scalar values.
    pub column: u32,
}

/// One file's text under the name that people see.
#[derive(Clone, Debug)]
pub struct Source {
    name: Arc<str>,
    text: Arc<str>,
    /// Where each line begins.
    lines: Arc<[u32]>,
}

impl Source {
    /// A source of at most 4 GiB; what is longer is cut by the limits long before (`limits`).
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        let text: Arc<str> = text.into();
        let breaks = text.bytes().zip(1u32..).filter(|(byte, _)| *byte == b'\n');
        let lines = std::iter::once(0)
            .chain(breaks.map(|(_, next)| next))
            .collect();
        Self {
            name: name.into(),
            text,
            lines,
        }
    }

    /// The path as it was given, relative to the root for modules; `<eval>` and the like for
    /// others.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column of a byte offset; one past the end is the end.
    pub fn position(&self, offset: u32) -> Position {
        let offset = offset.min(self.text.len().try_into().unwrap_or(u32::MAX));
        let index = self.lines.partition_point(|start| *start <= offset);
        let start = self.line_start(index);
        let before = self.text.get(start as usize..offset as usize);
        let column = before.map_or(0, |text| text.chars().count());
        Position {
            line: index.try_into().unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX).saturating_add(1),
        }
    }

    /// The text of a line, counted from 1, without its end.
    pub fn line(&self, line: u32) -> Option<&str> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let start = *self.lines.get(index)? as usize;
        let end = self
            .lines
            .get(index + 1)
            .map_or(self.text.len(), |next| *next as usize);
        Some(self.text.get(start..end)?.trim_end_matches(['\n', '\r']))
    }

    /// The byte offset of a position; a column past the line's end is the line's end.
    pub fn offset(&self, position: Position) -> Option<u32> {
        let text = self.line(position.line)?;
        let wanted = usize::try_from(position.column).ok()?.saturating_sub(1);
        let within = text
            .char_indices()
            .nth(wanted)
            .map_or(text.len(), |(at, _)| at);
        let start = self.line_start(usize::try_from(position.line).ok()?);
        Some(start.saturating_add(u32::try_from(within).ok()?))
    }

    fn line_start(&self, line: usize) -> u32 {
        let index = line.saturating_sub(1);
        self.lines.get(index).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters_from_one() {
        let source = Source::new("a.ts", "ä = 1\r\nb\n");
        assert_eq!(source.position(0), Position { line: 1, column: 1 });
        assert_eq!(source.position(2), Position { line: 1, column: 2 });
        assert_eq!(source.position(8), Position { line: 2, column: 1 });
        assert_eq!(source.position(999), Position { line: 3, column: 1 });
        assert_eq!(source.line(1), Some("ä = 1"));
        assert_eq!(source.offset(Position { line: 1, column: 2 }), Some(2));
        assert_eq!(source.offset(Position { line: 2, column: 9 }), Some(9));
    }
}
