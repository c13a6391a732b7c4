// SPDX-License-Identifier: Apache-2.0
//! An entry: a time and fields, as systemd.journal-fields(7) names them. A line that a unit has
//! printed becomes one; so does what the journal's sockets have received.

use api::observe::v0::JournalEntry;
use units::syslog;

use crate::systemd::time;

/// The priority of a line without one: `SyslogLevel=` is `info`.
const INFO: u8 = 6;
/// The facility of what units print: `SyslogFacility=` is `daemon`.
const DAEMON: u8 = 3;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Entry {
    /// Microseconds since 1970.
    pub(super) time: i64,
    pub(super) cursor: String,
    pub(super) fields: Vec<(String, Vec<u8>)>,
}

/// What is known of a unit's executable, for each of its lines: as the unit's files were when it
/// began.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Printer {
    pub(super) unit: String,
    /// The program's name, or what `SyslogIdentifier=` calls it.
    pub(super) program: String,
    pub(super) path: String,
    pub(super) pid: Option<u32>,
    pub(super) boot_id: String,
    pub(super) host: String,
    /// The number of its facility; `daemon` where none.
    pub(super) facility: Option<u8>,
    /// The priority of a line without one; `info` where none.
    pub(super) level: Option<u8>,
    /// What looks like a priority before a line is text.
    pub(super) keeps_prefix: bool,
}

impl Entry {
    /// Of the node's journal.
    pub(super) fn received(entry: JournalEntry) -> Entry {
        Entry {
            time: entry.time.as_ref().map_or(0, time::micros),
            cursor: entry.cursor,
            fields: entry
                .fields
                .into_iter()
                .map(|it| (it.name, it.value))
                .collect(),
        }
    }

    /// A line that a unit has printed. `<N>` before it is its priority: sd-daemon(3).
    pub(super) fn printed(of: &Printer, time: i64, cursor: String, line: &[u8]) -> Entry {
        let prefixed = syslog::prefixed(line).filter(|_| !of.keeps_prefix);
        let (priority, message) = prefixed.unwrap_or((of.level.unwrap_or(INFO), line));
        let facility = of.facility.unwrap_or(DAEMON);
        let mut fields = vec![
            ("PRIORITY".to_owned(), priority.to_string().into_bytes()),
            (
                "SYSLOG_FACILITY".to_owned(),
                facility.to_string().into_bytes(),
            ),
            (
                "SYSLOG_IDENTIFIER".to_owned(),
                of.program.clone().into_bytes(),
            ),
            ("_TRANSPORT".to_owned(), b"stdout".to_vec()),
            ("_SYSTEMD_UNIT".to_owned(), of.unit.clone().into_bytes()),
            ("_AURAE_PATH".to_owned(), of.path.clone().into_bytes()),
            ("_HOSTNAME".to_owned(), of.host.clone().into_bytes()),
        ];
        if let Some(pid) = of.pid {
            fields.push(("_PID".to_owned(), pid.to_string().into_bytes()));
        }
        if !of.boot_id.is_empty() {
            fields.push(("_BOOT_ID".to_owned(), of.boot_id.clone().into_bytes()));
        }
        fields.push(("MESSAGE".to_owned(), message.to_vec()));
        Entry {
            time,
            cursor,
            fields,
        }
    }

    /// The first value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        let mut all = self.fields.iter();
        all.find(|(known, _)| known == name)
            .map(|(_, value)| value.as_slice())
    }

    /// All of them.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let all = self.fields.iter();
        all.filter(move |(known, _)| known == name)
            .map(|(_, value)| value.as_slice())
    }

    /// As text; what isn't UTF-8 is replaced.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name)
            .map(|it| String::from_utf8_lossy(it).into_owned())
    }

    /// The syslog priority; an entry without one has that of `info`.
    pub(super) fn priority(&self) -> u8 {
        let text = self.text("PRIORITY");
        text.and_then(|it| it.parse().ok())
            .filter(|it| *it < 8)
            .unwrap_or(INFO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_priority_that_is_before_it() {
        let line = |text: &str| {
            let entry = Entry::printed(&Printer::default(), 1, String::new(), text.as_bytes());
            (entry.priority(), entry.text("MESSAGE").unwrap())
        };
        assert_eq!(line("<3>it broke"), (3, "it broke".to_owned()));
        assert_eq!(line("plain"), (6, "plain".to_owned()));
        assert_eq!(line("<8>no"), (6, "<8>no".to_owned()));
        assert_eq!(line("<3"), (6, "<3".to_owned()));
        assert_eq!(line(""), (6, String::new()));
    }

    #[test]
    fn a_line_is_what_its_unit_says_that_lines_are() {
        let printer = Printer {
            program: "web".to_owned(),
            facility: Some(19),
            level: Some(4),
            keeps_prefix: true,
            ..Printer::default()
        };
        let entry = Entry::printed(&printer, 1, String::new(), b"<3>text");
        let wanted = [
            ("MESSAGE", "<3>text"),
            ("PRIORITY", "4"),
            ("SYSLOG_FACILITY", "19"),
            ("SYSLOG_IDENTIFIER", "web"),
        ];
        for (field, value) in wanted {
            assert_eq!(entry.text(field).as_deref(), Some(value), "{field}");
        }
    }
}
