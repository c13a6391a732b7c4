// SPDX-License-Identifier: Apache-2.0
//! `org.freedesktop.LogControl1` (org.freedesktop.LogControl1(5)), and the properties of the
//! manager of the same meaning. What a client sets is kept and told, as scripts that set it and
//! set it back want it. What the daemon logs is its configuration's (`node.log_level`), and isn't
//! changed.

use zbus::Variant;

use super::Properties;
use crate::error::Failure;

pub(crate) const INTERFACE: &str = "org.freedesktop.LogControl1";

/// syslog(3), by number.
const LEVELS: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
];
const TARGETS: [&str; 9] = [
    "console",
    "console-prefixed",
    "kmsg",
    "journal",
    "journal-or-kmsg",
    "syslog",
    "syslog-or-kmsg",
    "auto",
    "null",
];

/// What clients have set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Log {
    level: String,
    target: String,
}

impl Default for Log {
    fn default() -> Log {
        Log {
            level: "info".to_owned(),
            target: "journal-or-kmsg".to_owned(),
        }
    }
}

/// Whether clients can set a property of that name.
pub(crate) fn is_settable(name: &str) -> bool {
    matches!(name, "LogLevel" | "LogTarget")
}

impl Log {
    /// Those of the object.
    pub(crate) fn properties(&self) -> Properties {
        let mut all = self.of_manager();
        all.push(("SyslogIdentifier", Variant::from("systemd")));
        all
    }

    /// Those that the manager has, too.
    pub(crate) fn of_manager(&self) -> Properties {
        vec![
            ("LogLevel", Variant::from(self.level.clone())),
            ("LogTarget", Variant::from(self.target.clone())),
        ]
    }

    /// Sets one.
    ///
    /// # Errors
    /// A value that it can't have.
    pub(crate) fn set(&mut self, name: &str, value: &Variant<'_>) -> Result<(), Failure> {
        let wrong = || Failure::of_bus("InvalidArgs", format!("{name} can't have that value"));
        match (name, value) {
            ("LogLevel", Variant::Str(word)) => {
                let number = word.as_str().parse::<usize>().ok();
                let named = LEVELS.iter().position(|it| *it == word.as_str());
                let level = named.or(number).and_then(|at| LEVELS.get(at));
                (*level.ok_or_else(wrong)?).clone_into(&mut self.level);
                Ok(())
            }
            ("LogTarget", Variant::Str(word)) => {
                let known = TARGETS.iter().find(|it| **it == word.as_str());
                (*known.ok_or_else(wrong)?).clone_into(&mut self.target);
                Ok(())
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_told() {
        let mut log = Log::default();
        log.set("LogLevel", &Variant::from("debug")).unwrap();
        log.set("LogTarget", &Variant::from("console")).unwrap();
        assert_eq!(
            (log.level.as_str(), log.target.as_str()),
            ("debug", "console")
        );
        log.set("LogLevel", &Variant::from("3")).unwrap();
        assert_eq!(log.level, "err");
        for (name, value) in [
            ("LogLevel", "loud"),
            ("LogLevel", "8"),
            ("LogTarget", "moon"),
        ] {
            assert!(
                log.set(name, &Variant::from(value)).is_err(),
                "{name} {value}"
            );
        }
        assert!(
            log.properties()
                .iter()
                .any(|(name, _)| *name == "SyslogIdentifier")
        );
    }
}
