// SPDX-License-Identifier: Apache-2.0
//! The stream protocol of `/run/systemd/journal/stdout`, which systemd-cat(1) and
//! sd_journal_stream_fd(3) speak: seven lines of heading, then lines of text. Pure.

use super::entry::Entry;

/// A line that is longer is cut into several: systemd's `LineMax=`.
const LONGEST_LINE: usize = 48 << 10;
/// The heading is no longer, in bytes.
const LONGEST_HEADING: usize = 4 << 10;

/// With what the name of a connection that is kept begins.
const STREAM: &str = "stream";

/// What the heading says. Forwarding is the node's business, and which unit it is the kernel's
/// word.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Heading {
    identifier: String,
    priority: u8,
    /// Whether `<N>` before a line is its priority.
    prefixed: bool,
}

/// The text of one connection so far.
#[derive(Debug, Default)]
pub(super) struct Text {
    heading: Option<Heading>,
    rest: Vec<u8>,
}

/// The heading isn't one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

impl Text {
    /// Takes what has come; gives the entries that it ends.
    ///
    /// # Errors
    /// [`Malformed`]: the connection is of no use.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<Vec<Entry>, Malformed> {
        self.rest.extend_from_slice(piece);
        if self.heading.is_none() {
            let Some((heading, length)) = heading(&self.rest)? else {
                return Ok(Vec::new());
            };
            self.heading = Some(heading);
            self.rest.drain(..length);
        }
        let mut entries = Vec::new();
        let mut taken = 0;
        loop {
            let open = self.rest.get(taken..).unwrap_or_default();
            // A 0 ends a line, too.
            let end = open
                .iter()
                .take(LONGEST_LINE)
                .position(|it| matches!(it, b'\n' | 0));
            let (length, eaten) = match end {
                Some(end) => (end, end + 1),
                None if open.len() >= LONGEST_LINE => (LONGEST_LINE, LONGEST_LINE),
                None => break,
            };
            let line = open.get(..length).unwrap_or_default();
            entries.extend(self.heading.as_ref().and_then(|it| it.entry(line)));
            taken += eaten;
        }
        self.rest.drain(..taken);
        Ok(entries)
    }

    /// What the next daemon must know of the connection, in a word; `None` before its heading.
    pub(super) fn name(&self) -> Option<String> {
        let heading = self.heading.as_ref()?;
        let prefixed = u8::from(heading.prefixed);
        Some(format!(
            "{STREAM} {} {prefixed} {}",
            heading.priority, heading.identifier
        ))
    }

    /// A connection whose daemon has died: by [`Text::name`], at some place of its text.
    pub(super) fn resumed(name: &str) -> Option<Text> {
        let mut words = name.splitn(4, ' ');
        if words.next() != Some(STREAM) {
            return None;
        }
        let priority = words.next()?.parse().ok().filter(|it| *it < 8)?;
        let prefixed = words.next()? == "1";
        let heading = Heading {
            identifier: words.next()?.to_owned(),
            priority,
            prefixed,
        };
        Some(Text {
            heading: Some(heading),
            rest: Vec::new(),
        })
    }

    /// The last line, which has no end.
    pub(super) fn finish(&mut self) -> Option<Entry> {
        let rest = std::mem::take(&mut self.rest);
        self.heading.as_ref()?.entry(&rest)
    }
}

impl Heading {
    /// The entry of a line; an empty one is none.
    fn entry(&self, line: &[u8]) -> Option<Entry> {
        let (priority, text) = match line {
            [b'<', digit @ b'0'..=b'7', b'>', text @ ..] if self.prefixed => (digit - b'0', text),
            line => (self.priority, line),
        };
        if text.is_empty() {
            return None;
        }
        let mut entry = Entry::default();
        entry.put("PRIORITY", priority.to_string());
        if !self.identifier.is_empty() {
            entry.put("SYSLOG_IDENTIFIER", self.identifier.clone());
        }
        entry.put("MESSAGE", text);
        Some(entry)
    }
}

/// The heading and its length; `None`: it isn't whole.
fn heading(bytes: &[u8]) -> Result<Option<(Heading, usize)>, Malformed> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let Some((last, _)) = ends.take(7).nth(6) else {
        return match bytes.len() > LONGEST_HEADING {
            true => Err(Malformed),
            false => Ok(None),
        };
    };
    let text = bytes.get(..last).ok_or(Malformed)?;
    let text = std::str::from_utf8(text).map_err(|_| Malformed)?;
    let mut lines = text.split('\n');
    let (identifier, _unit) = (lines.next(), lines.next());
    let number = |line: Option<&str>| line.and_then(|it| it.parse::<u8>().ok());
    let priority = number(lines.next())
        .filter(|it| *it <= 191)
        .ok_or(Malformed)?;
    let mut flags = [false; 4];
    for flag in &mut flags {
        *flag = match lines.next() {
            Some("1") => true,
            Some("0") => false,
            _ => return Err(Malformed),
        };
    }
    let [prefixed, ..] = flags;
    let heading = Heading {
        identifier: identifier.unwrap_or_default().to_owned(),
        priority: priority & 7,
        prefixed,
    };
    Ok(Some((heading, last + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(entries: &[Entry]) -> Vec<(String, String)> {
        let text = |entry: &Entry, name: &str| {
            String::from_utf8_lossy(entry.get(name).unwrap_or_default()).into_owned()
        };
        let both = |it: &Entry| (text(it, "PRIORITY"), text(it, "MESSAGE"));
        entries.iter().map(both).collect()
    }

    fn pair(priority: &str, message: &str) -> (String, String) {
        (priority.to_owned(), message.to_owned())
    }

    #[test]
    fn lines_come_after_the_heading_however_they_are_cut() {
        let whole = b"web\nforged.service\n6\n1\n0\n0\n0\n<3>it broke\n\nplain\nlast";
        for size in [1, 7, whole.len()] {
            let mut text = Text::default();
            let mut entries = Vec::new();
            for piece in whole.chunks(size) {
                entries.extend(text.take(piece).unwrap());
            }
            entries.extend(text.finish());
            let expected = [pair("3", "it broke"), pair("6", "plain"), pair("6", "last")];
            assert_eq!(messages(&entries), expected, "{size}");
            assert_eq!(entries[0].get("SYSLOG_IDENTIFIER"), Some(&b"web"[..]));
            assert!(entries.iter().all(|it| it.get("UNIT").is_none()));
        }
    }

    #[test]
    fn the_next_daemon_goes_on_with_what_the_heading_said() {
        let mut text = Text::default();
        assert_eq!(text.name(), None);
        text.take(b"a name\n\n3\n1\n0\n0\n0\nfirst\n").unwrap();
        let mut next = Text::resumed(&text.name().unwrap()).unwrap();
        let entries = next.take(b"second\n<4>third\n").unwrap();
        assert_eq!(
            messages(&entries),
            [pair("3", "second"), pair("4", "third")]
        );
        assert_eq!(entries[0].get("SYSLOG_IDENTIFIER"), Some(&b"a name"[..]));
        for other in ["", "socket", "stream", "stream 9 1 x", "stream x 1 x"] {
            assert!(Text::resumed(other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn without_prefixes_they_are_text_and_a_long_line_is_cut() {
        let mut text = Text::default();
        let entries = text.take(b"\n\n5\n0\n0\n0\n0\n<3>x\n").unwrap();
        assert_eq!(messages(&entries), [pair("5", "<3>x")]);
        let entries = text.take(&vec![b'a'; 2 * LONGEST_LINE + 1]).unwrap();
        assert_eq!(entries.len(), 2);
        assert!(text.rest.len() <= LONGEST_LINE);
    }

    #[test]
    fn a_heading_that_is_none_ends_the_connection() {
        for wrong in [
            "a\nb\nx\n1\n0\n0\n0\n",
            "a\nb\n6\n2\n0\n0\n0\n",
            "a\nb\n200\n1\n0\n0\n0\n",
        ] {
            assert_eq!(
                Text::default().take(wrong.as_bytes()),
                Err(Malformed),
                "{wrong:?}"
            );
        }
        assert_eq!(
            Text::default().take(&vec![b'a'; LONGEST_HEADING + 1]),
            Err(Malformed)
        );
    }
}
