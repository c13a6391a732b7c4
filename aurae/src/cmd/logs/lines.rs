// SPDX-License-Identifier: Apache-2.0
//! Pieces of output made into lines. A piece may hold half a line, many lines, or parts of a
//! character.

/// The longest line that is shown as one, in bytes; a longer one is shown in parts.
const LONGEST: usize = 1 << 20;

/// One stream's unfinished line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Takes a piece; gives the lines that it ends, without their line feeds.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(end) => {
                    self.rest.extend_from_slice(end);
                    lines.push(std::mem::take(&mut self.rest));
                }
                None => self.rest.extend_from_slice(part),
            }
            if self.rest.len() > LONGEST {
                lines.push(std::mem::take(&mut self.rest));
            }
        }
        lines
    }

    /// The bytes since the last line feed, if there are any.
    pub(crate) fn finish(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.rest)).filter(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_lines_are_joined_and_the_last_one_needs_no_end() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"a"), Vec::<Vec<u8>>::new());
        assert_eq!(
            lines.push(b"b\n\nc\nd"),
            [b"ab".to_vec(), b"".to_vec(), b"c".to_vec()]
        );
        assert_eq!(lines.finish(), Some(b"d".to_vec()));
        assert_eq!(lines.finish(), None);
    }

    #[test]
    fn a_line_without_end_is_not_held_for_ever() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 600 << 10];
        assert!(lines.push(&piece).is_empty());
        assert_eq!(lines.push(&piece).len(), 1);
    }
}
