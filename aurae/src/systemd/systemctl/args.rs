// SPDX-License-Identifier: Apache-2.0
//! systemctl's command line: options anywhere, a verb, and what it is done to (systemctl(1)).

use std::path::PathBuf;

use crate::failure::Failure;
use crate::systemd::node::Among;
use crate::systemd::time::Style;
use crate::systemd::{left, refused};

/// Query or send control commands to the unit manager of this node
#[derive(Clone, Debug, clap::Parser)]
#[command(
    name = "systemctl",
    disable_version_flag = true,
    disable_help_subcommand = true
)]
#[command(
    override_usage = "systemctl [OPTIONS...] COMMAND ...",
    max_term_width = 100
)]
#[command(after_help = "Done by Aurae's node. docs/guide/commands.md says which flags are.")]
pub(super) struct Options {
    /// The system's manager: the only one
    #[arg(long)]
    pub(super) system: bool,
    /// Refused: there are no managers of users
    #[arg(long)]
    pub(super) user: bool,
    /// Refused: use `aurae --node`
    #[arg(short = 'H', long, value_name = "HOST")]
    pub(super) host: Option<String>,
    /// Refused
    #[arg(short = 'M', long, value_name = "CONTAINER")]
    pub(super) machine: Option<String>,
    /// Units of these types
    #[arg(short = 't', long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub(super) kinds: Vec<String>,
    /// Units with one of these states
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',')]
    pub(super) states: Vec<String>,
    /// The same as --state=failed
    #[arg(long)]
    pub(super) failed: bool,
    /// Only these properties
    #[arg(
        short = 'p',
        long = "property",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(super) properties: Vec<String>,
    /// The same as --value --property=NAME
    #[arg(short = 'P', value_name = "NAME", value_delimiter = ',')]
    pub(super) values_of: Vec<String>,
    /// All properties, and units that aren't active
    #[arg(short = 'a', long)]
    pub(super) all: bool,
    /// Whole lines: they never are shortened
    #[arg(short = 'l', long)]
    pub(super) full: bool,
    /// Units of machines, too: there are none
    #[arg(short = 'r', long)]
    pub(super) recursive: bool,
    /// What depends on the unit
    #[arg(long)]
    pub(super) reverse: bool,
    /// Units ordered before
    #[arg(long)]
    pub(super) before: bool,
    /// Units ordered after
    #[arg(long)]
    pub(super) after: bool,
    /// replace, fail, isolate, ignore-dependencies, ignore-requirements
    #[arg(long, value_name = "MODE", default_value = "replace")]
    pub(super) job_mode: String,
    /// The same as --job-mode=fail
    #[arg(long)]
    pub(super) fail: bool,
    /// Print values alone
    #[arg(long)]
    pub(super) value: bool,
    /// Which processes get the signal: main, control, all
    #[arg(
        long,
        value_name = "WHOM",
        visible_alias = "kill-who",
        default_value = "all"
    )]
    pub(super) kill_whom: String,
    /// Which signal
    #[arg(short = 's', long, value_name = "SIGNAL", default_value = "TERM")]
    pub(super) signal: String,
    /// Start or stop units, too
    #[arg(long)]
    pub(super) now: bool,
    /// Say nothing of what is done
    #[arg(short = 'q', long)]
    pub(super) quiet: bool,
    /// Say nothing where there is nothing to say
    #[arg(long)]
    pub(super) no_warn: bool,
    /// Wait until units have ended again, or the machine is up
    #[arg(long)]
    pub(super) wait: bool,
    /// Don't wait for the end of jobs
    #[arg(long)]
    pub(super) no_block: bool,
    /// No message to users: none is sent
    #[arg(long)]
    pub(super) no_wall: bool,
    /// Don't read units again after a change of links
    #[arg(long)]
    pub(super) no_reload: bool,
    /// No header and no count
    #[arg(long)]
    pub(super) no_legend: bool,
    /// Whether there are a header and a count
    #[arg(long, value_name = "BOOL")]
    pub(super) legend: Option<String>,
    /// No pager: there is none
    #[arg(long)]
    pub(super) no_pager: bool,
    /// No password: none is asked for
    #[arg(long)]
    pub(super) no_ask_password: bool,
    /// Links that are gone after a reboot
    #[arg(long)]
    pub(super) runtime: bool,
    /// Units of users: with --root, the links of all users alone
    #[arg(long)]
    pub(super) global: bool,
    /// End the node at once
    #[arg(short = 'f', long, action = clap::ArgAction::Count)]
    pub(super) force: u8,
    /// full, enable-only, disable-only
    #[arg(long, value_name = "MODE", default_value = "full")]
    pub(super) preset_mode: String,
    /// Change the files below that folder, without a node
    #[arg(long, value_name = "PATH")]
    pub(super) root: Option<PathBuf>,
    /// How many lines of the log
    #[arg(short = 'n', long, value_name = "INTEGER", default_value = "10")]
    pub(super) lines: u64,
    /// How lines of the log, and lists, are printed
    #[arg(short = 'o', long, value_name = "STRING")]
    pub(super) output: Option<String>,
    /// Inhibitors: there are none
    #[arg(short = 'i', long)]
    pub(super) ignore_inhibitors: bool,
    /// The same
    #[arg(long, value_name = "MODE")]
    pub(super) check_inhibitors: Option<String>,
    /// A list without dots
    #[arg(long)]
    pub(super) plain: bool,
    /// How times are printed: pretty, us, utc, us+utc, unix
    #[arg(long, value_name = "FORMAT")]
    pub(super) timestamp: Option<String>,
    /// Show what was started and stopped
    #[arg(short = 'T', long)]
    pub(super) show_transaction: bool,
    /// A message to users: none is sent
    #[arg(long, value_name = "MESSAGE")]
    pub(super) message: Option<String>,
    /// Say what would be done: the machine goes on
    #[arg(long)]
    pub(super) dry_run: bool,
    /// With reload-or-restart: the units that are marked (set-property UNIT Markers=...)
    #[arg(long)]
    pub(super) marked: bool,
    /// The verb, and its words
    #[arg(value_name = "COMMAND", allow_hyphen_values = false)]
    pub(super) words: Vec<String>,
}

impl Options {
    /// Refuses what would be for another manager; lists of words are the original's.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let is_help = |words: &[String]| words.iter().any(|it| it == "help");
        if is_help(&self.kinds) || is_help(&self.states) || self.signal == "help" {
            return Err(left("A list of types, states or signals"));
        }
        let asked = [
            (self.user, "--user: a manager of a user's units"),
            (
                self.global && self.root.is_none(),
                "--global without --root: units of users",
            ),
            (self.machine.is_some(), "--machine"),
        ];
        if self.host.is_some() {
            return Err(left("--host"));
        }
        match asked.iter().find(|(asked, _)| *asked) {
            Some((_, what)) => Err(refused(what)),
            None => Ok(()),
        }
    }

    /// Which units a pattern means.
    pub(super) fn among(&self) -> Among {
        match self.all || self.failed || !self.states.is_empty() {
            true => Among::Loaded,
            false => Among::Up,
        }
    }

    /// The states that units must have one of.
    pub(super) fn wanted_states(&self) -> Vec<&str> {
        let failed = self.failed.then_some("failed");
        self.states
            .iter()
            .map(String::as_str)
            .chain(failed)
            .collect()
    }

    /// Which properties are shown; none: all.
    pub(super) fn shown(&self) -> Vec<&str> {
        let both = self.properties.iter().chain(&self.values_of);
        both.map(String::as_str).collect()
    }

    /// How times are printed.
    pub(super) fn style(&self) -> Result<Style, Failure> {
        let word = self.timestamp.as_deref().unwrap_or("pretty");
        let wrong = || Failure::new(format!("Failed to parse timestamp style: {word}"));
        Style::of(word).ok_or_else(wrong)
    }

    /// Whether lists have a header and a count.
    pub(super) fn has_legend(&self) -> bool {
        let no = ["no", "false", "off", "0", "n", "f"];
        let said = self.legend.as_deref();
        !self.no_legend && !said.is_some_and(|it| no.contains(&it))
    }

    pub(super) fn only_values(&self) -> bool {
        self.value || !self.values_of.is_empty()
    }

    /// `-o json`, or `json-pretty`.
    pub(super) fn json(&self) -> Option<bool> {
        match self.output.as_deref() {
            Some("json") => Some(false),
            Some("json-pretty") => Some(true),
            _ => None,
        }
    }
}
