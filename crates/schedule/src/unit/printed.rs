// SPDX-License-Identifier: Apache-2.0
//! What the lines that a unit prints are when they are read (systemd.exec(5), "Logging and Standard
//! Input/Output"): `SyslogIdentifier=` and its neighbours. The lines themselves are bytes of the
//! executable's log, so this is written on the executable as labels, as it is when it begins.
//! `journalctl` reads them, and what passes lines on to a syslog ([`Printed`]).

use model::status::ExecutableStatus;
use units::syslog;
use units::unit::Settings;

use super::runs::{BOOT, UNIT};

/// What the lines are of (`SYSLOG_IDENTIFIER`), where not of the program.
const IDENTIFIER: &str = "schedule.aurae/syslog-identifier";
/// The number of a facility, where not `daemon`.
const FACILITY: &str = "schedule.aurae/syslog-facility";
/// The priority of a line that has none before it, where not `info`.
const LEVEL: &str = "schedule.aurae/syslog-level";
/// `no`: what looks like a priority before a line is text.
const LEVEL_PREFIX: &str = "schedule.aurae/syslog-level-prefix";

/// Whether its identifier can be kept: it is written as a label.
pub(crate) fn has_known_identifier(settings: &Settings) -> bool {
    let text = settings.text("SyslogIdentifier").unwrap_or_default();
    model::label::check_value(text).is_ok()
}

/// The labels of an executable of the unit.
pub(crate) fn labels(settings: &Settings) -> Vec<(String, String)> {
    let identifier = settings.text("SyslogIdentifier");
    let identifier = identifier.filter(|it| !it.is_empty() && has_known_identifier(settings));
    let number = |field, of: fn(&str) -> Option<u8>| {
        let number = settings.word(field).and_then(of);
        number.map(|it| it.to_string())
    };
    let prefix = settings.flag("SyslogLevelPrefix") == Some(false);
    let all = [
        (IDENTIFIER, identifier.map(str::to_owned)),
        (FACILITY, number("SyslogFacility", syslog::facility)),
        (LEVEL, number("SyslogLevel", syslog::level)),
        (LEVEL_PREFIX, prefix.then(|| "no".to_owned())),
    ];
    let set = all.into_iter();
    set.filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// The facility of what has none, `daemon`, and the priority, `info`: as of syslog(3).
const DAEMON: u8 = 3;
const INFO: u8 = 6;

/// What the lines of one executable of a unit are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Printed {
    /// The program's name, or what `SyslogIdentifier=` calls it.
    pub identifier: String,
    /// The main process's number, where it was still running.
    pub pid: Option<u32>,
    /// The number of the facility.
    pub facility: u8,
    /// The priority of a line that has none before it.
    pub level: u8,
    /// What looks like a priority before a line is text.
    pub keeps_prefix: bool,
    /// The boot in which it began: 32 hexadecimal digits, or nothing.
    pub boot_id: String,
}

impl Printed {
    /// None where it is no unit's.
    pub fn of(status: &ExecutableStatus) -> Option<Printed> {
        let labels = &status.meta.labels;
        labels.get(UNIT)?;
        let program = status.effective.argv.first().map_or("", String::as_str);
        let program = program.rsplit('/').next().unwrap_or_default();
        let number = |name| labels.get(name).and_then(|it| it.parse().ok());
        let identifier = labels.get(IDENTIFIER).unwrap_or(program);
        Some(Printed {
            identifier: identifier.to_owned(),
            pid: status.pid,
            facility: number(FACILITY).unwrap_or(DAEMON),
            level: number(LEVEL).unwrap_or(INFO),
            keeps_prefix: labels.get(LEVEL_PREFIX).is_some_and(|it| it == "no"),
            boot_id: labels.get(BOOT).map(str::to_owned).unwrap_or_default(),
        })
    }

    /// What a syslog calls it: `nginx[42]`.
    pub fn tag(&self) -> String {
        match self.pid {
            Some(pid) => format!("{}[{pid}]", self.identifier),
            None => self.identifier.clone(),
        }
    }

    /// A line's priority, and its text: `<N>` before it is its priority (sd-daemon(3)).
    pub fn line<'a>(&self, line: &'a [u8]) -> (u8, &'a [u8]) {
        let prefixed = syslog::prefixed(line).filter(|_| !self.keeps_prefix);
        prefixed.unwrap_or((self.level, line))
    }
}

#[cfg(test)]
mod tests {
    use units::calendar::zones::UtcOnly;
    use units::name::UnitName;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    use super::*;

    fn labelled(text: &str) -> Vec<String> {
        let name = UnitName::parse("a.service").unwrap();
        let text = format!("[Service]\nExecStart=/bin/x\n{text}\n");
        let unit = from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly);
        let labels = labels(&unit.settings).into_iter();
        let short = |key: String| key.trim_start_matches("schedule.aurae/syslog-").to_owned();
        labels
            .map(|(key, value)| format!("{}={value}", short(key)))
            .collect()
    }

    #[test]
    fn what_lines_are_is_written_on_their_executable() {
        assert_eq!(labelled(""), [] as [&str; 0]);
        let all = "SyslogIdentifier=web.log\nSyslogFacility=local3\nSyslogLevel=warning\n\
                   SyslogLevelPrefix=no";
        let wanted = [
            "identifier=web.log",
            "facility=19",
            "level=4",
            "level-prefix=no",
        ];
        assert_eq!(labelled(all), wanted);
        assert_eq!(
            labelled("SyslogLevel=7\nSyslogLevelPrefix=yes"),
            ["level=7"]
        );
        assert_eq!(labelled("SyslogIdentifier=two words"), [] as [&str; 0]);
    }
}
