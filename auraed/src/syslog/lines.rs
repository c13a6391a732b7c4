// SPDX-License-Identifier: Apache-2.0
//! Pieces of what a program prints, made into syslog's messages, one for each line: RFC 3164
//! without a time, which the syslog puts to it. Pure.

use model::observe::{LogData, Stream};
use schedule::unit::Printed;

/// A longer line is several messages, as journald's `LineMax=`.
const LONGEST: usize = 48 << 10;

/// The lines of one program.
pub(super) struct Lines {
    printed: Printed,
    /// What the last piece of each stream ended with.
    begun: [Vec<u8>; 2],
    /// The rest of a line whose beginning was passed over is left out.
    is_torn: [bool; 2],
}

fn slot(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

impl Lines {
    pub(super) fn new(printed: Printed) -> Lines {
        Lines {
            printed,
            begun: Default::default(),
            is_torn: [false; 2],
        }
    }

    /// The messages of a piece.
    pub(super) fn take(&mut self, piece: &LogData) -> Vec<Vec<u8>> {
        let at = slot(piece.stream);
        let mut messages = Vec::new();
        for part in piece.data.split_inclusive(|byte| *byte == b'\n') {
            let is_whole = part.ends_with(b"\n");
            let Some(begun) = self.begun.get_mut(at) else {
                return messages;
            };
            begun.extend_from_slice(part.strip_suffix(b"\n").unwrap_or(part));
            if is_whole || begun.len() >= LONGEST {
                let line = std::mem::take(begun);
                let torn = self.is_torn.get_mut(at).is_some_and(|torn| {
                    let was = *torn;
                    *torn = was && !is_whole;
                    was
                });
                if !torn {
                    messages.extend(self.messages(&line));
                }
            }
        }
        messages
    }

    fn messages(&self, line: &[u8]) -> Vec<Vec<u8>> {
        let (priority, text) = self.printed.line(line);
        let mut pieces = text.chunks(LONGEST).peekable();
        if pieces.peek().is_none() {
            return Vec::new();
        }
        pieces.map(|text| self.message(priority, text)).collect()
    }

    fn message(&self, priority: u8, text: &[u8]) -> Vec<u8> {
        let value = u16::from(self.printed.facility) * 8 + u16::from(priority);
        let mut message = format!("<{value}>{}", self.printed.tag()).into_bytes();
        message.extend_from_slice(b": ");
        message.extend_from_slice(text);
        message
    }

    /// Lines without an end, of a program that prints no more.
    pub(super) fn rest(&mut self) -> Vec<Vec<u8>> {
        let begun = std::mem::take(&mut self.begun);
        let torn = std::mem::take(&mut self.is_torn);
        let whole = begun.into_iter().zip(torn).filter(|(_, torn)| !torn);
        whole.flat_map(|(line, _)| self.messages(&line)).collect()
    }

    /// So many bytes aren't passed on. What comes next is somewhere within a line.
    pub(super) fn passed_over(&mut self, bytes: u64) -> Vec<u8> {
        self.begun = Default::default();
        self.is_torn = [true; 2];
        let warning = 4;
        let text = format!("{bytes} bytes of output were not passed on: more than the limit");
        self.message(warning, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use model::time::Timestamp;

    use super::*;

    fn lines() -> Lines {
        Lines::new(Printed {
            identifier: "web".to_owned(),
            pid: Some(7),
            facility: 3,
            level: 6,
            keeps_prefix: false,
            boot_id: String::new(),
        })
    }

    fn piece(stream: Stream, text: &str) -> LogData {
        LogData {
            stream,
            time: Timestamp(0),
            data: text.as_bytes().to_vec(),
            offset: 0,
        }
    }

    fn said(lines: &mut Lines, stream: Stream, text: &str) -> Vec<String> {
        texts(lines.take(&piece(stream, text)))
    }

    fn texts(messages: Vec<Vec<u8>>) -> Vec<String> {
        let text = |it| String::from_utf8(it).unwrap();
        messages.into_iter().map(text).collect()
    }

    #[test]
    fn each_line_is_a_message_with_the_priority_before_it() {
        let (mut lines, out) = (lines(), Stream::Stdout);
        assert_eq!(said(&mut lines, out, "one\n<3>tw"), ["<30>web[7]: one"]);
        assert_eq!(said(&mut lines, Stream::Stderr, "x\n"), ["<30>web[7]: x"]);
        assert_eq!(said(&mut lines, out, "o\n\nthree"), ["<27>web[7]: two"]);
        assert_eq!(texts(lines.rest()), ["<30>web[7]: three"]);
        assert!(lines.rest().is_empty());
    }

    #[test]
    fn a_line_that_is_too_long_is_several_messages() {
        let long = "x".repeat(LONGEST + 10);
        let said = said(&mut lines(), Stream::Stdout, &format!("{long}\n"));
        let sizes: Vec<usize> = said.iter().map(|it| it.matches('x').count()).collect();
        assert_eq!(sizes, [LONGEST, 10]);
    }

    #[test]
    fn half_a_line_is_none() {
        let (mut lines, out) = (lines(), Stream::Stdout);
        assert!(said(&mut lines, out, "beg").is_empty());
        let told = String::from_utf8(lines.passed_over(9)).unwrap();
        assert!(told.starts_with("<28>web[7]: 9 bytes"), "{told}");
        assert_eq!(
            said(&mut lines, out, "an end\nnext\n"),
            ["<30>web[7]: next"]
        );
    }
}
