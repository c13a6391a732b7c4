// SPDX-License-Identifier: Apache-2.0
//! journalctl's command line (journalctl(1)).

use std::ffi::OsString;

use crate::failure::Failure;
use crate::systemd::refused;

/// Query what units, the kernel and everybody who logs have said
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "journalctl", disable_version_flag = true, max_term_width = 100)]
#[command(override_usage = "journalctl [OPTIONS...] [MATCHES...]")]
pub(super) struct Options {
    /// The system's journal: the only one
    #[arg(long)]
    pub(super) system: bool,
    /// Refused: there is no journal of users
    #[arg(long)]
    pub(super) user: bool,
    /// Refused
    #[arg(short = 'M', long)]
    pub(super) machine: Option<String>,
    /// All journals: there is one
    #[arg(short = 'm', long)]
    pub(super) merge: bool,
    /// Refused: files of systemd's journal
    #[arg(short = 'D', long)]
    pub(super) directory: Option<String>,
    /// Refused
    #[arg(long)]
    pub(super) file: Vec<String>,
    /// Refused
    #[arg(long)]
    pub(super) root: Option<String>,
    /// Refused
    #[arg(long)]
    pub(super) image: Option<String>,
    /// Refused
    #[arg(long)]
    pub(super) namespace: Option<String>,
    /// Not older than that
    #[arg(short = 'S', long, value_name = "DATE", allow_hyphen_values = true)]
    pub(super) since: Option<String>,
    /// Not newer than that
    #[arg(short = 'U', long, value_name = "DATE", allow_hyphen_values = true)]
    pub(super) until: Option<String>,
    /// Refused: a cursor is of one log
    #[arg(short = 'c', long)]
    pub(super) cursor: Option<String>,
    /// Refused
    #[arg(long)]
    pub(super) after_cursor: Option<String>,
    /// Refused
    #[arg(long)]
    pub(super) cursor_file: Option<String>,
    /// Of a boot: this one, or as --list-boots has it
    #[arg(long, value_name = "ID", require_equals = true)]
    pub(super) boot: Option<String>,
    /// Of units
    #[arg(short = 'u', long = "unit", value_name = "UNIT")]
    pub(super) units: Vec<String>,
    /// Refused
    #[arg(long)]
    pub(super) user_unit: Vec<String>,
    /// With one of these identifiers
    #[arg(short = 't', long = "identifier", value_name = "STRING")]
    pub(super) identifiers: Vec<String>,
    /// Of that priority and more important ones, or of a range
    #[arg(short = 'p', long, value_name = "RANGE")]
    pub(super) priority: Option<String>,
    /// With one of these facilities
    #[arg(long, value_name = "FACILITY", value_delimiter = ',')]
    pub(super) facility: Vec<String>,
    /// Whose message a pattern matches
    #[arg(short = 'g', long, value_name = "PATTERN")]
    pub(super) grep: Option<String>,
    /// Whether the pattern tells capitals apart
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "yes")]
    pub(super) case_sensitive: Option<String>,
    /// The kernel's of this boot
    #[arg(short = 'k', long, visible_alias = "kernel")]
    pub(super) dmesg: bool,
    /// How entries are printed
    #[arg(short = 'o', long, value_name = "STRING", default_value = "short")]
    pub(super) output: String,
    /// Only these fields, in json, export and verbose
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) output_fields: Vec<String>,
    /// How many entries: the newest ones
    #[arg(short = 'n', long, value_name = "INTEGER", num_args = 0..=1,
          default_missing_value = "10")]
    pub(super) lines: Option<String>,
    /// The newest first
    #[arg(short = 'r', long)]
    pub(super) reverse: bool,
    /// Refused: a cursor is of one log
    #[arg(long)]
    pub(super) show_cursor: bool,
    /// Times in UTC
    #[arg(long)]
    pub(super) utc: bool,
    /// Explanations: there are none
    #[arg(short = 'x', long)]
    pub(super) catalog: bool,
    /// Without the host's name
    #[arg(long)]
    pub(super) no_hostname: bool,
    /// Lines are never shortened
    #[arg(long)]
    pub(super) no_full: bool,
    /// The same
    #[arg(short = 'l', long)]
    pub(super) full: bool,
    /// Also what can't be printed
    #[arg(short = 'a', long)]
    pub(super) all: bool,
    /// Go on with what comes
    #[arg(short = 'f', long)]
    pub(super) follow: bool,
    /// All, and what comes
    #[arg(long)]
    pub(super) no_tail: bool,
    /// Say nothing beside entries
    #[arg(short = 'q', long)]
    pub(super) quiet: bool,
    /// There is no pager
    #[arg(long)]
    pub(super) no_pager: bool,
    /// The end: the newest 1,000
    #[arg(short = 'e', long)]
    pub(super) pager_end: bool,
    /// The names of all fields
    #[arg(short = 'N', long)]
    pub(super) fields: bool,
    /// All values of a field
    #[arg(short = 'F', long, value_name = "FIELD")]
    pub(super) field: Option<String>,
    /// The boots of which there are entries
    #[arg(long)]
    pub(super) list_boots: bool,
    /// How much is stored
    #[arg(long)]
    pub(super) disk_usage: bool,
    /// Refused: logs.max_size says what is kept
    #[arg(long)]
    pub(super) vacuum_size: Option<String>,
    /// Refused
    #[arg(long)]
    pub(super) vacuum_files: Option<String>,
    /// Refused: logs.max_age says what is kept
    #[arg(long)]
    pub(super) vacuum_time: Option<String>,
    /// Refused
    #[arg(long)]
    pub(super) verify: bool,
    /// Return when everything that was said before is on the disk
    #[arg(long)]
    pub(super) sync: bool,
    /// Nothing: all logs are on the disk, and none in memory alone
    #[arg(long)]
    pub(super) flush: bool,
    /// Refused
    #[arg(long)]
    pub(super) rotate: bool,
    /// Refused
    #[arg(long)]
    pub(super) header: bool,
    /// `FIELD=VALUE`, `+`, or the path of a program
    #[arg(value_name = "MATCHES")]
    pub(super) matches: Vec<String>,
}

/// `-b` may stand alone, or before what names a boot: `-b`, `-b -1`, `-b-1`, `-xb`.
pub(super) fn with_boot(words: &[OsString]) -> Vec<OsString> {
    let is_boot = |word: &str| {
        let digits = word.trim_start_matches(['-', '+']);
        let hexadecimal = word.len() >= 32 && word.chars().all(|c| c.is_ascii_hexdigit());
        hexadecimal || !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
    };
    let mut out = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        let flags = match text.as_ref() {
            "--boot" => Some(""),
            text => text.strip_prefix('-').and_then(|it| it.strip_suffix('b')),
        };
        let plain = |it: &&str| it.chars().all(|c| "aefkmqrxl".contains(c));
        if let Some(flags) = flags.filter(plain) {
            if !flags.is_empty() {
                out.push(format!("-{flags}").into());
            }
            let next = rest.next_if(|it| is_boot(&it.to_string_lossy()));
            let next = next.map_or_else(|| "0".into(), |it| it.to_string_lossy());
            out.push(format!("--boot={next}").into());
        } else if let Some(id) = text.strip_prefix("-b").filter(|it| is_boot(it)) {
            out.push(format!("--boot={id}").into());
        } else {
            out.push(word.clone());
        }
    }
    out
}

/// Entries of `-e`.
const LAST: usize = 1000;
/// Entries that are shown before what is followed.
const BEFORE: usize = 10;

impl Options {
    /// Refuses by name what there is not.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let limits = "logs.max_size and logs.max_age of the node's configuration say what is kept";
        let asked = [
            (self.user, "--user: a journal of users".to_owned()),
            (self.machine.is_some(), "--machine".to_owned()),
            (
                self.directory.is_some(),
                "--directory: systemd's own files".to_owned(),
            ),
            (
                !self.file.is_empty(),
                "--file: systemd's own files".to_owned(),
            ),
            (
                self.root.is_some() || self.image.is_some(),
                "--root, --image".to_owned(),
            ),
            (self.namespace.is_some(), "--namespace".to_owned()),
            (
                self.cursor.is_some() || self.after_cursor.is_some(),
                "--cursor".to_owned(),
            ),
            (
                self.cursor_file.is_some() || self.show_cursor,
                "--show-cursor".to_owned(),
            ),
            (!self.user_unit.is_empty(), "--user-unit".to_owned()),
            (
                self.vacuum_size.is_some(),
                format!("--vacuum-size: {limits}. It"),
            ),
            (
                self.vacuum_files.is_some(),
                format!("--vacuum-files: {limits}. It"),
            ),
            (
                self.vacuum_time.is_some(),
                format!("--vacuum-time: {limits}. It"),
            ),
            (
                self.verify || self.header || self.rotate,
                "Its own files".to_owned(),
            ),
        ];
        match asked.into_iter().find(|(asked, _)| *asked) {
            Some((_, what)) => Err(refused(&what)),
            None => Ok(()),
        }
    }

    /// How many entries; `None`: all.
    pub(super) fn count(&self) -> Result<Option<usize>, Failure> {
        match self.lines.as_deref() {
            Some("all") => Ok(None),
            Some(text) => {
                let wrong = |_| Failure::new(format!("Failed to parse lines '{text}'"));
                text.parse().map(Some).map_err(wrong)
            }
            None if self.pager_end => Ok(Some(LAST)),
            None if self.follow && !self.no_tail => Ok(Some(BEFORE)),
            None => Ok(None),
        }
    }
}
