// SPDX-License-Identifier: Apache-2.0
//! Which entries are shown: units, priorities, identifiers, a pattern, `FIELD=VALUE`, times. All of
//! them must hold; of one kind one is enough, and `+` begins another set (journalctl(1)).

use regex::bytes::{Regex, RegexBuilder};
use units::{glob, syslog};

use super::args::Options;
use super::entry::{Entry, Printer};
use crate::failure::Failure;
use crate::systemd::{node, time};

/// The node takes no more matches.
const MOST_MATCHES: usize = 64;
/// No longer pattern is compiled, in bytes of the machine made of it.
const LARGEST: usize = 10 << 20;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) units: Vec<String>,
    identifiers: Vec<String>,
    priorities: Option<(u8, u8)>,
    facilities: Vec<u8>,
    grep: Option<Regex>,
    /// Sets, of which one must hold: each has its fields and their values.
    sets: Vec<Vec<(String, Vec<u8>)>>,
    pub(super) kernel: bool,
    pub(super) since: Option<i64>,
    pub(super) until: Option<i64>,
    pub(super) boot: Option<String>,
}

impl Filter {
    pub(super) fn of(options: &Options) -> Result<Filter, Failure> {
        let (now, zone) = (time::now(), time::zone());
        let at = |text: &Option<String>| {
            let text = text.as_deref();
            text.map(|it| time::parse(it, now, &zone).map_err(Failure::new))
                .transpose()
        };
        let units = options.units.iter().map(|it| node::whole(it));
        let filter = Filter {
            units: units.collect::<Result<_, _>>()?,
            identifiers: options.identifiers.clone(),
            priorities: options.priority.as_deref().map(range).transpose()?,
            facilities: options
                .facility
                .iter()
                .map(|it| facility(it))
                .collect::<Result<_, _>>()?,
            grep: grep(options)?,
            sets: sets(&options.matches)?,
            kernel: options.dmesg,
            since: at(&options.since)?,
            until: at(&options.until)?,
            boot: None,
        };
        match (filter.since, filter.until) {
            (Some(since), Some(until)) if since > until => {
                Err(Failure::new("--since= must be before --until=."))
            }
            _ => Ok(filter),
        }
    }

    /// Of one unit.
    pub(super) fn of_unit(unit: &str) -> Filter {
        Filter {
            units: vec![unit.to_owned()],
            ..Filter::default()
        }
    }

    /// Whether a unit's own log can have anything of this.
    pub(super) fn takes_unit(&self, unit: &str) -> bool {
        !self.kernel
            && (self.units.is_empty() || self.units.iter().any(|it| glob::matches(it, unit)))
    }

    /// Whether any line of a log can match: what all its lines have in common must. A log that
    /// can't isn't read, however long it is.
    pub(super) fn can_match(&self, printer: &Printer) -> bool {
        let common = Entry::printed(printer, 0, String::new(), b"");
        let mut others = self.clone();
        let is_a_lines = |name: &str| matches!(name, "MESSAGE" | "PRIORITY");
        for set in &mut others.sets {
            set.retain(|(name, _)| !is_a_lines(name));
        }
        (others.priorities, others.grep) = (None, None);
        (others.since, others.until) = (None, None);
        others.matches(&common)
    }

    /// What the node leaves out: all of it that it can know.
    pub(super) fn for_node(&self) -> Vec<String> {
        let mut matches = Vec::new();
        if let [set] = self.sets.as_slice() {
            let texts = set.iter().map(|(name, value)| {
                let value = std::str::from_utf8(value).ok()?;
                Some(format!("{name}={value}"))
            });
            matches.extend(texts.collect::<Option<Vec<_>>>().unwrap_or_default());
        }
        // Of one field one value is enough: these can't be told beside others of the same field.
        let is_free = |field: &str| {
            let own = format!("{field}=");
            !matches.iter().any(|it: &String| it.starts_with(&own))
        };
        let mut more = Vec::new();
        let has_pattern = self.units.iter().any(|it| glob::is_pattern(it));
        if !has_pattern && is_free("_SYSTEMD_UNIT") {
            more.extend(self.units.iter().map(|it| format!("_SYSTEMD_UNIT={it}")));
        }
        if is_free("SYSLOG_IDENTIFIER") {
            more.extend(
                self.identifiers
                    .iter()
                    .map(|it| format!("SYSLOG_IDENTIFIER={it}")),
            );
        }
        if self.kernel && is_free("_TRANSPORT") {
            more.push("_TRANSPORT=kernel".to_owned());
        }
        if let Some(boot) = self.boot.as_ref().filter(|_| is_free("_BOOT_ID")) {
            more.push(format!("_BOOT_ID={boot}"));
        }
        matches.extend(more);
        matches.truncate(MOST_MATCHES);
        matches
    }

    /// Whether the node leaves out all that this does, so that a number of entries is the same for
    /// both.
    pub(super) fn is_known_to_node(&self) -> bool {
        let plain = self.priorities.is_none() && self.facilities.is_empty() && self.grep.is_none();
        let has_pattern = self.units.iter().any(|it| glob::is_pattern(it));
        let alone = self.sets.is_empty()
            || self.units.is_empty() && self.identifiers.is_empty() && self.boot.is_none();
        plain
            && !has_pattern
            && alone
            && self.sets.len() <= 1
            && self.for_node().len() < MOST_MATCHES
    }

    /// Whether all lines of a unit's log are wanted.
    pub(super) fn takes_all_lines(&self) -> bool {
        self.sets.is_empty()
            && self.identifiers.is_empty()
            && self.boot.is_none()
            && self.priorities.is_none()
            && self.facilities.is_empty()
            && self.grep.is_none()
    }

    pub(super) fn matches(&self, entry: &Entry) -> bool {
        self.since.is_none_or(|at| entry.time >= at)
            && self.until.is_none_or(|at| entry.time <= at)
            && self.boot_matches(entry)
            && self.unit_matches(entry)
            && (!self.kernel || entry.get("_TRANSPORT") == Some(b"kernel"))
            && self.words_match(entry)
            && self.set_matches(entry)
            && self.grep_matches(entry)
    }

    fn boot_matches(&self, entry: &Entry) -> bool {
        let boot = self.boot.as_ref();
        boot.is_none_or(|boot| entry.get("_BOOT_ID") == Some(boot.as_bytes()))
    }

    fn unit_matches(&self, entry: &Entry) -> bool {
        let unit = entry.text("_SYSTEMD_UNIT").unwrap_or_default();
        self.units.is_empty() || self.units.iter().any(|it| glob::matches(it, &unit))
    }

    fn words_match(&self, entry: &Entry) -> bool {
        let priority = entry.priority();
        let in_range = |(from, to): (u8, u8)| (from..=to).contains(&priority);
        let identifier = entry.text("SYSLOG_IDENTIFIER").unwrap_or_default();
        let facility = entry.text("SYSLOG_FACILITY").and_then(|it| it.parse().ok());
        self.priorities.is_none_or(in_range)
            && (self.identifiers.is_empty() || self.identifiers.contains(&identifier))
            && (self.facilities.is_empty()
                || facility.is_some_and(|it| self.facilities.contains(&it)))
    }

    fn set_matches(&self, entry: &Entry) -> bool {
        let one = |set: &Vec<(String, Vec<u8>)>| {
            set.iter().all(|(name, _)| {
                let mut wanted = set.iter().filter(|(other, _)| other == name);
                wanted.any(|(_, value)| entry.all(name).any(|it| it == value.as_slice()))
            })
        };
        self.sets.is_empty() || self.sets.iter().any(one)
    }

    fn grep_matches(&self, entry: &Entry) -> bool {
        let message = entry.get("MESSAGE").unwrap_or_default();
        self.grep.as_ref().is_none_or(|it| it.is_match(message))
    }
}

/// `err`, `3`, `warning..err`.
fn range(text: &str) -> Result<(u8, u8), Failure> {
    let one = |word: &str| {
        let word = match word {
            "error" => "err",
            "warn" => "warning",
            "panic" => "emerg",
            word => word,
        };
        syslog::level(word).ok_or_else(|| Failure::new(format!("Unknown log level {word}")))
    };
    let (from, to) = match text.split_once("..") {
        Some((from, to)) => (one(from)?, one(to)?),
        None => (0, one(text)?),
    };
    Ok((from.min(to), from.max(to)))
}

fn facility(text: &str) -> Result<u8, Failure> {
    syslog::facility(text)
        .ok_or_else(|| Failure::new(format!("Bad --facility= argument \"{text}\".")))
}

/// A pattern in small letters alone doesn't tell capitals apart, unless it is said.
fn grep(options: &Options) -> Result<Option<Regex>, Failure> {
    let Some(pattern) = &options.grep else {
        return Ok(None);
    };
    let tells_apart = match options.case_sensitive.as_deref() {
        Some("yes" | "true" | "1" | "on") => true,
        Some("no" | "false" | "0" | "off") => false,
        Some(other) => {
            return Err(Failure::new(format!(
                "Bad --case-sensitive= argument \"{other}\""
            )));
        }
        None => pattern.chars().any(char::is_uppercase),
    };
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(!tells_apart).size_limit(LARGEST);
    let wrong = |problem| Failure::new(format!("Bad pattern \"{pattern}\": {problem}"));
    builder.build().map(Some).map_err(wrong)
}

/// A field and its value.
type Pair = (String, Vec<u8>);

fn sets(words: &[String]) -> Result<Vec<Vec<Pair>>, Failure> {
    let mut sets = vec![Vec::new()];
    for word in words {
        let pair = match (word.as_str(), word.split_once('=')) {
            ("+", _) => {
                sets.push(Vec::new());
                continue;
            }
            (path, None) if path.starts_with('/') => {
                let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
                (
                    "_EXE".to_owned(),
                    path.into_os_string().into_encoded_bytes(),
                )
            }
            (_, Some((name, value))) if is_field(name) => (name.to_owned(), value.into()),
            _ => {
                return Err(Failure::new(format!(
                    "Failed to add match '{word}': Invalid argument"
                )));
            }
        };
        if let Some(set) = sets.last_mut() {
            set.push(pair);
        }
    }
    if sets.iter().any(Vec::is_empty) && sets.len() > 1 {
        return Err(Failure::new("\"+\" can only be used between terms"));
    }
    sets.retain(|it| !it.is_empty());
    Ok(sets)
}

fn is_field(name: &str) -> bool {
    let is = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty() && name.len() <= 64 && name.chars().all(is)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn filter(words: &[&str]) -> Result<Filter, Failure> {
        let all = ["journalctl"].iter().chain(words);
        let words: Vec<OsString> = all.map(OsString::from).collect();
        Filter::of(&crate::systemd::parse(&words)?)
    }

    fn entry(fields: &[(&str, &str)]) -> Entry {
        let field = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        Entry {
            time: 5,
            fields: fields.iter().map(field).collect(),
            ..Entry::default()
        }
    }

    #[test]
    fn a_log_of_which_no_line_can_match_is_not_read() {
        let printer = Printer {
            unit: "web.service".to_owned(),
            program: "nginx".to_owned(),
            pid: Some(7),
            ..Printer::default()
        };
        let can = |words: &[&str]| filter(words).unwrap().can_match(&printer);
        for yes in [
            &[][..],
            &["-t", "nginx"],
            &["-p", "err"],
            &["-g", "x"],
            &["MESSAGE=x"],
            &["_PID=7", "PRIORITY=3"],
            &["_PID=8", "+", "MESSAGE=x"],
            &["-S", "now"],
        ] {
            assert!(can(yes), "{yes:?}");
        }
        for no in [
            &["-t", "cron"][..],
            &["-u", "db"],
            &["_PID=8"],
            &["--facility", "kern"],
            &["_TRANSPORT=syslog", "MESSAGE=x"],
        ] {
            assert!(!can(no), "{no:?}");
        }
    }

    #[test]
    fn entries_are_chosen_as_the_manual_says() {
        let entry = entry(&[
            ("MESSAGE", "It broke"),
            ("PRIORITY", "3"),
            ("SYSLOG_IDENTIFIER", "web"),
            ("SYSLOG_FACILITY", "3"),
            ("_SYSTEMD_UNIT", "web.service"),
            ("_PID", "7"),
        ]);
        let takes = |words: &[&str]| filter(words).unwrap().matches(&entry);
        for yes in [
            &[][..],
            &["-u", "web"],
            &["-u", "w*"],
            &["-u", "db", "-u", "web"],
            &["-p", "err"],
            &["-p", "4"],
            &["-p", "crit..warning"],
            &["-t", "web"],
            &["--facility", "daemon"],
            &["-g", "broke"],
            &["-g", "it BROKE", "--case-sensitive=no"],
            &["-g", "it"],
            &["_PID=7", "_PID=8"],
            &["_PID=8", "+", "PRIORITY=3"],
        ] {
            assert!(takes(yes), "{yes:?}");
        }
        for no in [
            &["-u", "db"][..],
            &["-p", "crit"],
            &["-t", "db"],
            &["--facility", "kern"],
            &["-g", "IT"],
            &["_PID=7", "PRIORITY=4"],
            &["-k"],
            &["-S", "now"],
        ] {
            assert!(!takes(no), "{no:?}");
        }
        for wrong in [
            &["-p", "loud"][..],
            &["nonsense"],
            &["+"],
            &["_PID=7", "+"],
            &["-g", "("],
            &["--facility", "x"],
            &["-S", "soon"],
        ] {
            assert!(filter(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_a_sender_says_of_a_unit_does_not_count_as_its_log() {
        let forged = entry(&[("MESSAGE", "x"), ("UNIT", "web.service")]);
        assert!(!filter(&["-u", "web"]).unwrap().matches(&forged));
    }
}
