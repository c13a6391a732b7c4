// SPDX-License-Identifier: Apache-2.0
//! Pieces of a run's log, made into lines, each with the time at which it began. Pure.

use model::observe::LogData;
use model::time::Timestamp;

use crate::read::slot;

/// A longer line is several, as journald's `LineMax=`.
const LONGEST: usize = 48 << 10;

/// A line without its line feed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) time: Timestamp,
    /// The offset behind it in the run's output: no other line of the run has it.
    pub(super) behind: u64,
    pub(super) text: Vec<u8>,
}

/// What has come of each stream.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: [Begun; 2],
    /// Bytes before the first that are not looked at.
    skipped: u64,
    /// Of the last piece.
    time: Timestamp,
}

#[derive(Debug, Default)]
struct Begun {
    text: Vec<u8>,
    time: Timestamp,
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Lines {
    /// Of a log that is read from an offset on.
    pub(super) fn behind(skipped: u64) -> Lines {
        Lines {
            skipped,
            ..Lines::default()
        }
    }

    /// The lines that end in a piece.
    pub(super) fn take(&mut self, piece: &LogData) -> Vec<Line> {
        self.time = piece.time;
        let skipped = std::mem::take(&mut self.skipped);
        let mut lines: Vec<Line> = told(skipped, piece.time, piece.offset)
            .into_iter()
            .collect();
        let Some(begun) = self.begun.get_mut(slot(piece.stream)) else {
            return lines;
        };
        let mut behind = piece.offset;
        for part in piece.data.split_inclusive(|byte| *byte == b'\n') {
            let mut rest = part;
            while !rest.is_empty() {
                if begun.text.is_empty() {
                    begun.time = piece.time;
                }
                let room = LONGEST.saturating_sub(begun.text.len());
                let (now, later) = rest.split_at(room.min(rest.len()));
                begun.text.extend_from_slice(now);
                behind = behind.saturating_add(size(now.len()));
                rest = later;
                let is_whole = now.ends_with(b"\n");
                if is_whole || begun.text.len() >= LONGEST {
                    lines.push(begun.end(behind));
                }
            }
        }
        lines
    }

    /// So many bytes of the log are not there.
    pub(super) fn missing(&mut self, bytes: u64, behind: u64) -> Option<Line> {
        self.skipped = 0;
        told(bytes, self.time, behind)
    }

    /// Lines without an end, of a log that is over.
    pub(super) fn rest(&mut self, behind: u64) -> Vec<Line> {
        let begun = self.begun.iter_mut().filter(|it| !it.text.is_empty());
        // Both streams may have one, and no two lines the same place.
        let places = behind.saturating_add(1)..;
        begun.zip(places).map(|(it, at)| it.end(at)).collect()
    }
}

impl Begun {
    fn end(&mut self, behind: u64) -> Line {
        let mut text = std::mem::take(&mut self.text);
        if text.last() == Some(&b'\n') {
            text.pop();
        }
        Line {
            time: self.time,
            behind,
            text,
        }
    }
}

/// What a reader is told of bytes that are not there: a warning, as sd-daemon(3) has them.
fn told(bytes: u64, time: Timestamp, behind: u64) -> Option<Line> {
    (bytes > 0).then(|| Line {
        time,
        behind,
        text: format!("<4>{bytes} bytes of output are not there").into_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use model::observe::Stream;

    use super::*;

    fn piece(stream: Stream, offset: u64, text: &str) -> LogData {
        LogData {
            stream,
            time: Timestamp(offset),
            data: text.as_bytes().to_vec(),
            offset,
        }
    }

    fn texts(lines: &[Line]) -> Vec<(u64, u64, String)> {
        let text = |it: &Line| String::from_utf8_lossy(&it.text).into_owned();
        lines
            .iter()
            .map(|it| (it.time.0, it.behind, text(it)))
            .collect()
    }

    fn is(lines: &[Line], wanted: &[(u64, u64, &str)]) {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(time, behind, text)| (*time, *behind, (*text).to_owned()))
            .collect();
        assert_eq!(texts(lines), wanted);
    }

    #[test]
    fn lines_of_two_streams_are_apart_and_each_has_the_time_of_its_beginning() {
        let mut lines = Lines::default();
        is(
            &lines.take(&piece(Stream::Stdout, 0, "one\ntw")),
            &[(0, 4, "one")],
        );
        is(
            &lines.take(&piece(Stream::Stderr, 6, "bad\n\n")),
            &[(6, 10, "bad"), (6, 11, "")],
        );
        is(
            &lines.take(&piece(Stream::Stdout, 11, "o\nthree")),
            &[(0, 13, "two")],
        );
        lines.take(&piece(Stream::Stderr, 18, "four"));
        is(&lines.rest(22), &[(11, 23, "three"), (18, 24, "four")]);
        is(&lines.rest(22), &[]);
    }

    #[test]
    fn a_line_that_is_too_long_is_several() {
        let mut lines = Lines::default();
        let long = "x".repeat(2 * LONGEST + 7);
        let taken = lines.take(&piece(Stream::Stdout, 0, &format!("{long}\n")));
        let sizes: Vec<usize> = taken.iter().map(|it| it.text.len()).collect();
        assert_eq!(sizes, [LONGEST, LONGEST, 7]);
        assert_eq!(taken.last().unwrap().behind, size(long.len()) + 1);
    }

    #[test]
    fn what_is_not_there_is_told() {
        let mut lines = Lines::behind(100);
        let first = "<4>100 bytes of output are not there";
        is(
            &lines.take(&piece(Stream::Stdout, 100, "a\n")),
            &[(100, 100, first), (100, 102, "a")],
        );
        let gap = lines.missing(9, 111).unwrap();
        is(&[gap], &[(100, 111, "<4>9 bytes of output are not there")]);
    }
}
