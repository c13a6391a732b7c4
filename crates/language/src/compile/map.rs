// SPDX-License-Identifier: Apache-2.0
//! From places in generated code back to places in the source, in byte offsets. The printer counts
//! lines and UTF-16 units, the engine lines and bytes, people lines and characters; here is where
//! the first two meet, and `Source` does the third.

/// Pairs of offsets, ascending by the generated one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    pairs: Vec<(u32, u32)>,
}

impl Map {
    /// A map that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// From pairs of (line, column), both from 0 and the column in UTF-16 units, as the printer
    /// gives them: generated first, source second.
    pub(super) fn from_lines(
        code: &str,
        source: &str,
        pairs: impl Iterator<Item = ((u32, u32), (u32, u32))>,
    ) -> Self {
        let code = Lines::new(code);
        let source = Lines::new(source);
        let mut pairs: Vec<_> = pairs
            .filter_map(|(made, written)| Some((code.offset(made)?, source.offset(written)?)))
            .collect();
        pairs.sort_by_key(|(made, _)| *made);
        Self { pairs }
    }

    /// The source's offset for a place in `code`: line and column from 1, the column in bytes. The
    /// nearest thing before it on the line, else the first on the line, else what came before.
    pub(super) fn original(&self, code: &str, line: u32, column: u32) -> Option<u32> {
        let (start, end) = line_of(code, line)?;
        let offset = offset(code, line, column)?;
        let after = self.pairs.partition_point(|(made, _)| *made <= offset);
        let before = after.checked_sub(1).and_then(|at| self.pairs.get(at));
        let next = self.pairs.get(after).filter(|(made, _)| *made < end);
        let pair = match (before, next) {
            (Some(before), Some(next)) if before.0 < start => next,
            (Some(before), _) => before,
            (None, next) => next?,
        };
        Some(pair.1)
    }

    /// The source's offset for the nearest pair at or before an offset of the code.
    pub(super) fn at(&self, offset: u32) -> Option<u32> {
        let after = self.pairs.partition_point(|(made, _)| *made <= offset);
        let before = self.pairs.get(after.checked_sub(1)?);
        before.map(|(_, written)| *written)
    }

    /// The same map after `edits` of the generated code: (offset, bytes gone, bytes come),
    /// ascending.
    pub(super) fn after_edits(&self, edits: &[(u32, u32, u32)]) -> Self {
        let mut edits = edits.iter().peekable();
        let mut shift = 0i64;
        let pairs = self.pairs.iter().map(|&(made, written)| {
            while let Some((_, gone, come)) = edits.next_if(|(at, ..)| *at <= made) {
                shift += i64::from(*come) - i64::from(*gone);
            }
            let made = (i64::from(made) + shift).clamp(0, i64::from(u32::MAX));
            (u32::try_from(made).unwrap_or(u32::MAX), written)
        });
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_by_key(|(made, _)| *made);
        Self { pairs }
    }

    /// The same map for a source that had `bytes` more at its beginning when it was compiled.
    pub(super) fn without_prefix(&self, bytes: u32) -> Self {
        let pairs = self.pairs.iter();
        let pairs = pairs.map(|&(made, written)| (made, written.saturating_sub(bytes)));
        Self {
            pairs: pairs.collect(),
        }
    }
}

/// The byte at a line and a column, both from 1, the column in bytes.
pub(super) fn offset(code: &str, line: u32, column: u32) -> Option<u32> {
    let (start, end) = line_of(code, line)?;
    Some(start.checked_add(column.max(1) - 1)?.min(end))
}

/// Where a line, counted from 1, begins and ends, in bytes.
fn line_of(code: &str, line: u32) -> Option<(u32, u32)> {
    let above = usize::try_from(line).ok()?.checked_sub(1)?;
    let start = match above {
        0 => 0,
        _ => code.match_indices('\n').nth(above - 1)?.0 + 1,
    };
    let text = code.get(start..)?;
    let end = u32::try_from(start + text.find('\n').unwrap_or(text.len())).ok()?;
    Some((u32::try_from(start).ok()?, end))
}

/// Where lines begin as the printer counts them (after LF, CR, CRLF and the two Unicode
/// separators), and where characters are that UTF-8 and UTF-16 count differently.
struct Lines {
    /// Each line's beginning: UTF-16 units and bytes from the text's beginning.
    starts: Vec<(u32, u32)>,
    /// The end of each character that isn't ASCII, as in `starts`.
    wide: Vec<(u32, u32)>,
}

impl Lines {
    fn new(text: &str) -> Self {
        let mut lines = Self {
            starts: vec![(0, 0)],
            wide: Vec::new(),
        };
        let (mut units, mut bytes) = (0u32, 0u32);
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            units = units.saturating_add(if character.len_utf16() == 1 { 1 } else { 2 });
            bytes = bytes.saturating_add(u32::try_from(character.len_utf8()).unwrap_or(4));
            if !character.is_ascii() {
                lines.wide.push((units, bytes));
            }
            match character {
                '\r' if characters.peek() == Some(&'\n') => {}
                '\n' | '\r' | '\u{2028}' | '\u{2029}' => lines.starts.push((units, bytes)),
                _ => {}
            }
        }
        lines
    }

    fn offset(&self, (line, column): (u32, u32)) -> Option<u32> {
        let (units, bytes) = *self.starts.get(usize::try_from(line).ok()?)?;
        let wanted = units.checked_add(column)?;
        let after = self.wide.partition_point(|(end, _)| *end <= wanted);
        let wide = after.checked_sub(1).and_then(|at| self.wide.get(at));
        let nearest = match wide {
            Some(&(end, _)) if end < units => (units, bytes),
            Some(&wide) => wide,
            None => (units, bytes),
        };
        nearest.1.checked_add(wanted - nearest.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_any_width_come_back_to_the_same_character() {
        let code = "let s = \"😀ä\"; f();\n";
        let source = "let s: string = \"😀ä\";\nf();";
        let pairs = [((0, 0), (0, 0)), ((0, 15), (1, 0))];
        let map = Map::from_lines(code, source, pairs.into_iter());
        let column = u32::try_from(code.find("f()").unwrap() + 1).unwrap();
        let offset = map.original(code, 1, column).unwrap();
        assert_eq!(source.get(offset as usize..), Some("f();"));
    }
}
