// SPDX-License-Identifier: Apache-2.0
//! The commands that are called by systemd's names: `aurae`, executed as `systemctl`, `journalctl`,
//! `shutdown` and so on, does what systemd 252's manual pages say of these, by the API of the node
//! of this machine. Where another PID 1 runs the machine, the original is executed instead; it is,
//! too, for what we don't do and it does by `org.freedesktop.systemd1`, which the node serves.
//!
//! It decides nothing about units: the node does. It isn't `aurae unit`, whose words and flags are
//! ours.

mod analyze;
mod apart;
mod journalctl;
mod node;
mod power;
mod run;
mod systemctl;
mod time;
mod unitfiles;
mod words;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::ErrorKind;

use crate::failure::{FAILED, Failure};
use crate::output::{hold, note, print_line, release};
use crate::threads;

/// A name by which the binary may be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    Systemctl,
    Journalctl,
    Run,
    Analyze,
    Shutdown,
    Reboot,
    Poweroff,
    Halt,
    Telinit,
    Init,
    Runlevel,
}

const NAMES: [(&str, Name); 11] = [
    ("systemctl", Name::Systemctl),
    ("journalctl", Name::Journalctl),
    ("systemd-run", Name::Run),
    ("systemd-analyze", Name::Analyze),
    ("shutdown", Name::Shutdown),
    ("reboot", Name::Reboot),
    ("poweroff", Name::Poweroff),
    ("halt", Name::Halt),
    ("telinit", Name::Telinit),
    // `/sbin/init` stays systemd, which executes systemctl by its name where it isn't PID 1.
    ("init", Name::Init),
    ("runlevel", Name::Runlevel),
];

/// systemd's version that is spoken. Scripts compare it.
const VERSION: &str = "systemd 252 (aurae ";

impl Name {
    fn as_str(self) -> &'static str {
        let mut all = NAMES.iter();
        all.find(|(_, name)| *name == self).map_or("", |it| it.0)
    }
}

/// The command that the first word of the command line means, if it is one of systemd's.
pub(crate) fn called_as(word: &OsStr) -> Option<Name> {
    let name = Path::new(word).file_name()?.to_str()?;
    let mut all = NAMES.iter();
    all.find(|(text, _)| *text == name).map(|(_, name)| *name)
}

/// Runs the command; gives its exit status.
pub(crate) fn main(name: Name, words: Vec<OsString>) -> u8 {
    let done = match apart::is_ours(name) {
        true => ours(name, &words),
        false => apart::original(name, &words),
    };
    match done {
        Ok(status) => status,
        // Refusals come before anything is done.
        Err(failure) if failure.is_for_original() && apart::has_original(name) => {
            let failed = apart::original(name, &words).err();
            let failure = failed.unwrap_or(failure);
            failure.report_plainly();
            failure.status
        }
        Err(failure) => {
            failure.report_plainly();
            failure.status
        }
    }
}

fn ours(name: Name, words: &[OsString]) -> Result<u8, Failure> {
    // The others follow what comes, or say one line.
    if name == Name::Systemctl {
        hold();
    }
    let done = run(name, words);
    release();
    done
}

fn run(name: Name, words: &[OsString]) -> Result<u8, Failure> {
    if words.iter().skip(1).any(|it| it == "--version") {
        print_line(&format!("{VERSION}{})", env!("CARGO_PKG_VERSION")))?;
        return Ok(0);
    }
    let runtime =
        threads::two().map_err(|problem| Failure::new(format!("Can't start: {problem}")))?;
    let done = runtime.block_on(async {
        match name {
            Name::Systemctl => systemctl::run(words).await,
            Name::Journalctl => journalctl::run(words).await,
            Name::Run => run::run(words).await,
            Name::Analyze => analyze::run(words),
            Name::Shutdown => power::shutdown(words).await,
            Name::Reboot | Name::Poweroff | Name::Halt => power::halt(name, words).await,
            Name::Telinit | Name::Init => power::telinit(words).await,
            Name::Runlevel => power::runlevel().await,
        }
    });
    runtime.shutdown_background();
    done
}

/// Reads the command line by a grammar of clap's. systemd's programs end with 1 for a wrong one.
fn parse<T: clap::Parser>(words: &[OsString]) -> Result<T, Failure> {
    T::try_parse_from(words).map_err(|problem| {
        if problem.use_stderr() {
            let text = problem.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            let failure = Failure::new(text);
            return match problem.kind() {
                ErrorKind::UnknownArgument => failure.or_by_original(),
                _ => failure,
            };
        }
        // Help. A reader that has gone away is no failure.
        let _ = problem.print();
        Failure::new("").with_status(0)
    })
}

/// Refuses what there is not, by its name.
fn refused(what: &str) -> Failure {
    Failure::new(format!("{what} isn't done by Aurae.")).with_status(FAILED)
}

/// The same, but that the original does it by the bus, where that is there.
fn left(what: &str) -> Failure {
    refused(what).or_by_original()
}

/// A hint for a person that goes to standard error, unless it is quiet.
fn tell(quiet: bool, text: &str) {
    if !quiet {
        note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_by_the_last_part_of_its_path() {
        let called = |word: &str| called_as(OsStr::new(word));
        assert_eq!(called("/usr/bin/systemctl"), Some(Name::Systemctl));
        assert_eq!(called("reboot"), Some(Name::Reboot));
        assert_eq!(called("/sbin/telinit"), Some(Name::Telinit));
        assert_eq!(called("/sbin/init"), Some(Name::Init));
        for other in ["aurae", "/usr/bin/aurae", "systemctl.systemd", ""] {
            assert_eq!(called(other), None, "{other}");
        }
    }
}
