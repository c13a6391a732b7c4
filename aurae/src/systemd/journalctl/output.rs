// SPDX-License-Identifier: Apache-2.0
//! Entries as journalctl(1) prints them, `--output=`.

use std::fmt::Write;

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::args::Options;
use super::entry::Entry;
use crate::failure::Failure;
use crate::output::printable;
use crate::systemd::time;

/// A message that is longer, in bytes, is shown where `--all` is given.
const LONGEST: usize = 1 << 20;

/// How entries are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Times by a pattern.
    Short(&'static str),
    /// With the unit in the identifier's place.
    WithUnit,
    Monotonic,
    Unix,
    Cat,
    Json,
    JsonPretty,
    JsonSse,
    JsonSeq,
    Export,
    Verbose,
}

/// The form of that name.
pub(super) fn form(name: &str) -> Result<Form, Failure> {
    Ok(match name {
        "short" => Form::Short("%b %d %H:%M:%S"),
        "short-precise" => Form::Short("%b %d %H:%M:%S.%6f"),
        "short-iso" => Form::Short("%Y-%m-%dT%H:%M:%S%z"),
        "short-iso-precise" => Form::Short("%Y-%m-%dT%H:%M:%S.%6f%z"),
        "short-full" => Form::Short("%a %Y-%m-%d %H:%M:%S %Z"),
        "with-unit" => Form::WithUnit,
        "short-monotonic" => Form::Monotonic,
        "short-unix" => Form::Unix,
        "cat" => Form::Cat,
        "json" => Form::Json,
        "json-pretty" => Form::JsonPretty,
        "json-sse" => Form::JsonSse,
        "json-seq" => Form::JsonSeq,
        "export" => Form::Export,
        "verbose" => Form::Verbose,
        other => return Err(Failure::new(format!("Unknown output '{other}'."))),
    })
}

/// Prints entries, one after another.
pub(super) struct Printing {
    pub(super) form: Form,
    pub(super) zone: TimeZone,
    pub(super) hostname: bool,
    pub(super) all: bool,
    pub(super) fields: Vec<String>,
    /// When this boot began, in microseconds since 1970.
    pub(super) booted: i64,
    /// Of the entry before.
    pub(super) boot: Option<String>,
    pub(super) quiet: bool,
}

impl Printing {
    pub(super) fn new(options: &Options, booted: i64) -> Result<Printing, Failure> {
        Ok(Printing {
            form: form(&options.output)?,
            zone: match options.utc {
                true => TimeZone::UTC,
                false => time::zone(),
            },
            hostname: !options.no_hostname,
            all: options.all,
            fields: options.output_fields.clone(),
            booted,
            boot: None,
            quiet: options.quiet,
        })
    }

    /// An entry's text.
    pub(super) fn show(&mut self, entry: &Entry) -> Vec<u8> {
        let mut out = self.new_boot(entry).into_bytes();
        match self.form {
            Form::Cat => out.extend(self.cat(entry)),
            Form::Export => out.extend(self.export(entry)),
            _ => out.extend(self.text(entry).into_bytes()),
        }
        out
    }

    fn text(&self, entry: &Entry) -> String {
        match self.form {
            Form::Json => format!("{}\n", Value::Object(self.object(entry))),
            Form::JsonSse => format!("data: {}\n\n", Value::Object(self.object(entry))),
            Form::JsonSeq => format!("\u{1e}{}\n", Value::Object(self.object(entry))),
            Form::JsonPretty => format!("{:#}\n", Value::Object(self.object(entry))),
            Form::Verbose => self.verbose(entry),
            _ => self.short(entry),
        }
    }

    /// A line between entries of two boots.
    fn new_boot(&mut self, entry: &Entry) -> String {
        let Some(boot) = entry.text("_BOOT_ID") else {
            return String::new();
        };
        let before = self.boot.replace(boot.clone());
        let people = matches!(
            self.form,
            Form::Short(_) | Form::WithUnit | Form::Monotonic | Form::Unix | Form::Verbose
        );
        match before {
            Some(before) if people && !self.quiet && before != boot => {
                format!("-- Boot {} --\n", printable(&boot))
            }
            _ => String::new(),
        }
    }

    fn short(&self, entry: &Entry) -> String {
        let mut line = match self.form {
            Form::Short(pattern) => time::shown(entry.time, &self.zone, pattern),
            Form::WithUnit => time::full(entry.time, &self.zone),
            Form::Unix => {
                let (seconds, part) = (
                    entry.time.div_euclid(1_000_000),
                    entry.time.rem_euclid(1_000_000),
                );
                format!("{seconds}.{part:06}")
            }
            _ => {
                let since = self.said_at(entry);
                format!("[{:5}.{:06}]", since / 1_000_000, since % 1_000_000)
            }
        };
        if self.hostname
            && let Some(host) = entry.text("_HOSTNAME")
        {
            let _ = write!(line, " {}", printable(&host));
        }
        let names: &[&str] = match self.form {
            Form::WithUnit => &["_SYSTEMD_UNIT", "SYSLOG_IDENTIFIER", "_COMM"],
            _ => &["SYSLOG_IDENTIFIER", "_COMM"],
        };
        let name = names
            .iter()
            .find_map(|it| entry.text(it))
            .unwrap_or("unknown".to_owned());
        let _ = write!(line, " {}", printable(&name));
        if let Some(pid) = entry.text("_PID").or_else(|| entry.text("SYSLOG_PID")) {
            let _ = write!(line, "[{}]", printable(&pid));
        }
        line.push_str(": ");
        let indent = " ".repeat(line.chars().count());
        line.push_str(&self.message(entry, &indent));
        line.push('\n');
        line
    }

    /// Microseconds since the boot, by who has said it where that is told: the kernel's messages
    /// are older than the journal that reads them.
    fn said_at(&self, entry: &Entry) -> i64 {
        let told = entry.text("_SOURCE_MONOTONIC_TIMESTAMP");
        let told = told.and_then(|it| it.parse::<i64>().ok());
        let received = || entry.time.saturating_sub(self.booted);
        told.unwrap_or_else(received).max(0)
    }

    /// The message for people: further lines of it begin below the first one.
    fn message(&self, entry: &Entry, indent: &str) -> String {
        let bytes = entry.get("MESSAGE").unwrap_or_default();
        let blob = || {
            format!(
                "[{} blob data]",
                crate::quantity::show_bytes(bytes.len() as u64)
            )
        };
        let text = match std::str::from_utf8(bytes) {
            Ok(_) if bytes.len() > LONGEST && !self.all => return blob(),
            Ok(text) => text.to_owned(),
            Err(_) if self.all => String::from_utf8_lossy(bytes).into_owned(),
            Err(_) => return blob(),
        };
        let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        if text.contains(is_control) && !self.all {
            return blob();
        }
        let lines: Vec<String> = text
            .trim_end_matches('\n')
            .split('\n')
            .map(printable_line)
            .collect();
        lines.join(&format!("\n{indent}"))
    }

    fn cat(&self, entry: &Entry) -> Vec<u8> {
        let mut out = Vec::new();
        let fields = match self.fields.is_empty() {
            true => vec!["MESSAGE".to_owned()],
            false => self.fields.clone(),
        };
        for name in fields {
            if let Some(value) = entry.get(&name) {
                out.extend_from_slice(value);
                out.push(b'\n');
            }
        }
        out
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.fields.is_empty() || self.fields.iter().any(|it| it == name)
    }

    /// What comes before an entry's own fields.
    fn addresses(&self, entry: &Entry) -> [(&'static str, String); 3] {
        let since = entry.time.saturating_sub(self.booted).max(0);
        [
            ("__CURSOR", entry.cursor.clone()),
            ("__REALTIME_TIMESTAMP", entry.time.to_string()),
            ("__MONOTONIC_TIMESTAMP", since.to_string()),
        ]
    }

    fn object(&self, entry: &Entry) -> Map<String, Value> {
        let mut object = Map::new();
        for (name, value) in self.addresses(entry) {
            object.insert(name.to_owned(), value.into());
        }
        for (name, bytes) in &entry.fields {
            if !self.is_wanted(name) {
                continue;
            }
            // As a string, or a list of numbers where it is none; a list of these where there are
            // several.
            let value = match std::str::from_utf8(bytes) {
                Ok(text) => Value::from(text),
                Err(_) => Value::from(bytes.clone()),
            };
            match object.remove(name) {
                None => object.insert(name.clone(), value),
                Some(Value::Array(mut all)) if all.first().is_some_and(|it| !it.is_number()) => {
                    all.push(value);
                    object.insert(name.clone(), Value::Array(all))
                }
                Some(first) => object.insert(name.clone(), Value::Array(vec![first, value])),
            };
        }
        object
    }

    /// The Journal Export Format.
    fn export(&self, entry: &Entry) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in self.addresses(entry) {
            out.extend_from_slice(format!("{name}={value}\n").as_bytes());
        }
        for (name, value) in entry.fields.iter().filter(|(name, _)| self.is_wanted(name)) {
            let is_text = std::str::from_utf8(value)
                .is_ok_and(|it| !it.contains(|c: char| c.is_control() && c != '\t'));
            out.extend_from_slice(name.as_bytes());
            if is_text {
                out.push(b'=');
            } else {
                out.push(b'\n');
                let length = u64::try_from(value.len()).unwrap_or(u64::MAX);
                out.extend_from_slice(&length.to_le_bytes());
            }
            out.extend_from_slice(value);
            out.push(b'\n');
        }
        out.push(b'\n');
        out
    }

    fn verbose(&self, entry: &Entry) -> String {
        let at = time::shown(entry.time, &self.zone, "%a %Y-%m-%d %H:%M:%S.%6f %Z");
        let mut text = format!("{at} [{}]\n", printable(&entry.cursor));
        let mut fields: Vec<&(String, Vec<u8>)> = entry.fields.iter().collect();
        fields.sort();
        for (name, value) in fields.into_iter().filter(|(name, _)| self.is_wanted(name)) {
            let shown = match std::str::from_utf8(value) {
                Ok(value) => printable_line(value),
                Err(_) => format!("[{} blob data]", value.len()),
            };
            let _ = writeln!(text, "    {name}={shown}");
        }
        text
    }
}

fn printable_line(line: &str) -> String {
    printable(line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let field = |(name, value): (&str, &[u8])| (name.to_owned(), value.to_vec());
        Entry {
            time: 1_353_669_133_123_456,
            cursor: "c".to_owned(),
            fields: [
                ("_HOSTNAME", &b"box"[..]),
                ("SYSLOG_IDENTIFIER", b"web"),
                ("_PID", b"7"),
                ("MESSAGE", b"one\ntwo"),
            ]
            .map(field)
            .to_vec(),
        }
    }

    fn shown(name: &str, entry: &Entry) -> String {
        let mut printing = Printing {
            form: form(name).unwrap(),
            zone: TimeZone::UTC,
            hostname: true,
            all: false,
            fields: Vec::new(),
            booted: 1_353_669_130_000_000,
            boot: None,
            quiet: false,
        };
        String::from_utf8(printing.show(entry)).unwrap()
    }

    #[test]
    fn entries_are_printed_as_the_manual_shows_them() {
        let entry = entry();
        assert_eq!(
            shown("short", &entry),
            "Nov 23 11:12:13 box web[7]: one\n                            two\n"
        );
        let first = |name: &str| shown(name, &entry).lines().next().unwrap().to_owned();
        assert_eq!(
            first("short-precise"),
            "Nov 23 11:12:13.123456 box web[7]: one"
        );
        assert_eq!(
            first("short-iso"),
            "2012-11-23T11:12:13+0000 box web[7]: one"
        );
        assert_eq!(
            first("short-full"),
            "Fri 2012-11-23 11:12:13 UTC box web[7]: one"
        );
        assert_eq!(first("short-unix"), "1353669133.123456 box web[7]: one");
        assert_eq!(first("short-monotonic"), "[    3.123456] box web[7]: one");
        let mut older = self::entry();
        let told = (
            "_SOURCE_MONOTONIC_TIMESTAMP".to_owned(),
            b"1500000".to_vec(),
        );
        older.fields.push(told);
        let line = shown("short-monotonic", &older);
        assert!(line.starts_with("[    1.500000] box web[7]: one"), "{line}");
        assert_eq!(shown("cat", &entry), "one\ntwo\n");
        assert_eq!(
            shown("json", &entry),
            "{\"__CURSOR\":\"c\",\"__REALTIME_TIMESTAMP\":\"1353669133123456\",\
             \"__MONOTONIC_TIMESTAMP\":\"3123456\",\"_HOSTNAME\":\"box\",\
             \"SYSLOG_IDENTIFIER\":\"web\",\"_PID\":\"7\",\"MESSAGE\":\"one\\ntwo\"}\n"
        );
        assert!(first("verbose").starts_with("Fri 2012-11-23 11:12:13.123456 UTC [c]"));
        assert!(form("loud").is_err());
    }

    #[test]
    fn export_frames_what_is_no_line() {
        let bytes = shown("export", &entry());
        assert!(bytes.contains("_PID=7\n"), "{bytes}");
        let framed = "MESSAGE\n\u{7}\0\0\0\0\0\0\0one\ntwo\n\n";
        assert!(bytes.ends_with(framed), "{bytes:?}");
    }

    #[test]
    fn nothing_that_moves_a_terminals_cursor_is_printed() {
        let mut entry = entry();
        entry.fields = vec![("MESSAGE".to_owned(), b"a\x1b[2Jb".to_vec())];
        assert!(shown("short", &entry).ends_with("unknown: [6B blob data]\n"));
    }
}
