// SPDX-License-Identifier: Apache-2.0
//! What is to be said of units before they run: what is wrong in their files, what they would do,
//! and what the unit manager doesn't honour. For `aurae schedule verify`; it changes nothing.

use crate::depend::triggered;
use crate::finding::{Finding, Position, Severity};
use crate::name::UnitType;
use crate::service::{Defaults, Service, finding};
use crate::table::{self, Unhonoured};
use crate::unit::Unit;
use crate::value::{Clock, Value};

/// What is said of one unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What is wrong or strange, the worst first, otherwise in the order of the files.
    pub findings: Vec<Finding>,
    /// What the unit would do, in words, a line each.
    pub does: Vec<String>,
}

impl Report {
    /// Whether the unit can be used.
    pub fn is_usable(&self) -> bool {
        self.findings
            .iter()
            .all(|it| it.severity != Severity::Error)
    }
}

/// Looks at a unit. `honours` says which fields the node honours; `exists` whether there is a unit
/// of a name.
pub fn verify(
    unit: &Unit,
    honours: &dyn Fn(&str) -> bool,
    exists: &dyn Fn(&crate::name::UnitName) -> bool,
) -> Report {
    let does = match unit.masked {
        Some(_) => Vec::new(),
        None => does(unit),
    };
    Report {
        findings: findings(unit, honours, exists),
        does,
    }
}

/// What is said of a unit, without what it would do.
pub fn findings(
    unit: &Unit,
    honours: &dyn Fn(&str) -> bool,
    exists: &dyn Fn(&crate::name::UnitName) -> bool,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = unit.findings.iter().cloned().collect();
    if unit.findings.dropped() > 0 {
        let message = format!("{} findings more are left out", unit.findings.dropped());
        findings.push(of_unit(unit, Severity::Note, message));
    }
    if let Some(path) = &unit.masked {
        let message = format!("is masked by {path}: it can't be started");
        findings.push(of_unit(unit, Severity::Note, message));
        return findings;
    }
    if unit.kind() == UnitType::Service {
        findings.extend(Service::of(unit, Defaults::default()).1);
    }
    findings.extend(of_type(unit));
    findings.extend(unhonoured(unit, honours));
    for field in ["Requires", "Requisite", "BindsTo"] {
        for other in unit.settings.units(field).iter().filter(|it| !exists(it)) {
            let message = format!("{other} does not exist: the unit can't be started");
            findings.push(finding(unit, Severity::Warning, field, message));
        }
    }
    if let Some(other) = triggered(unit).filter(|it| !it.is_template() && !exists(it)) {
        let accepts = unit.settings.flag("Accept") == Some(true);
        if !accepts {
            let message = format!("would start {other}, which does not exist");
            findings.push(of_unit(unit, Severity::Warning, message));
        }
    }
    findings.sort_by_key(|it| std::cmp::Reverse(it.severity));
    findings
}

fn of_unit(unit: &Unit, severity: Severity, message: String) -> Finding {
    let path = unit.fragment.clone().unwrap_or_else(|| unit.id.to_string());
    Finding {
        severity,
        path,
        at: Position::default(),
        subject: String::new(),
        message,
    }
}

/// What the units of a type must have (their manual pages).
fn of_type(unit: &Unit) -> Vec<Finding> {
    let settings = &unit.settings;
    let lacks = |field: &str| settings.get(field).is_none();
    let error = |field: &str, message: &str| {
        vec![finding(
            unit,
            Severity::Error,
            field,
            format!("{message}; the unit is not used"),
        )]
    };
    match unit.kind() {
        UnitType::Socket if lacks("Listen") => error("Listen", "it listens on nothing"),
        UnitType::Timer
            if lacks("Clocks")
                && settings.flag("OnClockChange") != Some(true)
                && settings.flag("OnTimezoneChange") != Some(true) =>
        {
            error("Clocks", "it has no OnCalendar= and no other clock")
        }
        UnitType::Path if lacks("Watches") => error("Watches", "it watches nothing"),
        UnitType::Mount if unit.fragment.is_some() && lacks("What") => {
            error("What", "there is nothing to mount")
        }
        UnitType::Mount | UnitType::Automount => {
            let place = settings.text("Where").unwrap_or("");
            match crate::name::of_path(place, unit.kind()) {
                Some(name) if !place.is_empty() && name != unit.id => {
                    error("Where", &format!("the unit of {place} is called {name}"))
                }
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// Flags that are on where no file sets them: off is what needs to be honoured.
const ON: [&str; 2] = ["IgnoreSIGPIPE", "SendSIGKILL"];

/// Whatever is set and isn't honoured: a warning, or what keeps the unit from running.
fn unhonoured(unit: &Unit, honours: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let set = unit.settings.iter().filter(|(field, setting)| {
        let default = Value::Flag(ON.contains(field));
        !honours(field) && setting.value != default
    });
    let found = set.map(|(field, setting)| {
        let stops = setting.origins.iter().any(|origin| {
            table::all().any(|(_, row)| {
                row.name == origin.directive && row.unhonoured == Unhonoured::Stopped
            })
        });
        let (severity, message) = if stops {
            let message = "is not honoured here, and the unit would have rights without it; it is \
                not started";
            (Severity::Error, message)
        } else {
            (
                Severity::Warning,
                "is not honoured here; the unit runs without it",
            )
        };
        finding(unit, severity, field, message.to_owned())
    });
    found.collect()
}

/// In words.
fn does(unit: &Unit) -> Vec<String> {
    let settings = &unit.settings;
    let mut lines = Vec::new();
    for (field, verb) in [
        ("ExecCondition", "asks whether to start by"),
        ("ExecStartPre", "first runs"),
        ("ExecStart", "runs"),
        ("ExecStartPost", "then runs"),
        ("ExecReload", "reloads by"),
        ("ExecStop", "stops by"),
        ("ExecStopPost", "after its end runs"),
    ] {
        lines.extend(
            settings
                .commands(field)
                .iter()
                .map(|it| format!("{verb} {it}")),
        );
    }
    if unit.kind() == UnitType::Service {
        if let Some(user) = settings.text("User") {
            lines.push(format!("as the user {user}"));
        }
        let (service, _) = Service::of(unit, Defaults::default());
        if service.restart != crate::service::Restart::No {
            let word = settings.word("Restart").unwrap_or("no");
            lines.push(format!(
                "is started again {word}, after {}",
                service.restart_after
            ));
        }
    }
    let other = triggered(unit).map_or_else(|| "nothing".to_owned(), |it| it.to_string());
    for clock in settings.clocks("Clocks") {
        lines.push(match clock {
            Clock::Calendar(calendar) => format!("starts {other} at {calendar}"),
            Clock::After(event, span) => format!("starts {other} {span} after {event}"),
        });
    }
    for (field, what) in [
        ("OnClockChange", "the clock is set"),
        ("OnTimezoneChange", "the time zone is another"),
    ] {
        if settings.flag(field) == Some(true) {
            lines.push(format!("starts {other} when {what}"));
        }
    }
    for listen in settings.listens("Listen") {
        lines.push(format!(
            "starts {other} for {} {:?}",
            listen.directive, listen.address
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::zones::UtcOnly;
    use crate::name::UnitName;
    use crate::specifier::NoHost;
    use crate::unit::from_texts;

    fn report(name: &str, text: &str) -> Report {
        let name = UnitName::parse(name).unwrap();
        let unit = from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly);
        let honours =
            |field: &str| !matches!(field, "ProtectSystem" | "Nice" | "SmackProcessLabel");
        verify(&unit, &honours, &|it| it.as_str() != "none.service")
    }

    fn shown(report: &Report) -> Vec<String> {
        report.findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_not_honoured_warns_or_stops() {
        let text = "[Service]\nExecStart=/bin/x\nNice=5\nProtectSystem=strict\nUser=www\n";
        let report = report("a.service", text);
        assert!(!report.is_usable());
        assert_eq!(
            shown(&report),
            [
                "/x:4:1: error: ProtectSystem: is not honoured here, and the unit would have rights \
                 without it; it is not started",
                "/x:3:1: warning: Nice: is not honoured here; the unit runs without it",
            ]
        );
        assert_eq!(report.does, ["runs /bin/x", "as the user www"]);
    }

    #[test]
    fn a_switch_that_is_off_needs_nobody() {
        let text = "[Service]\nExecStart=/bin/x\nProtectSystem=no\n";
        assert!(report("a.service", text).findings.is_empty());
    }

    #[test]
    fn each_type_must_have_its_own() {
        for (name, text, expected) in [
            ("a.socket", "[Socket]\nAccept=yes\n", "listens on nothing"),
            ("a.timer", "[Timer]\nPersistent=yes\n", "no OnCalendar="),
            ("a.path", "[Path]\nMakeDirectory=no\n", "watches nothing"),
            ("a.mount", "[Mount]\nWhere=/a\n", "nothing to mount"),
            (
                "a.mount",
                "[Mount]\nWhat=/dev/x\nWhere=/b\n",
                "is called b.mount",
            ),
            (
                "a.timer",
                "[Timer]\nOnBootSec=1\nUnit=none.service\n",
                "does not exist",
            ),
            (
                "a.service",
                "[Unit]\nRequires=none.service\n[Service]\nExecStart=/x\n",
                "/x:2:1: warning",
            ),
        ] {
            let shown = shown(&report(name, text));
            assert!(
                shown.iter().any(|it| it.contains(expected)),
                "{name}: {shown:?}"
            );
        }
        let text = "[Timer]\nOnCalendar=daily\nOnBootSec=5min\nOnClockChange=yes\n";
        let timer = report("a.timer", text);
        assert_eq!(
            timer.does,
            [
                "starts a.service at *-*-* 00:00:00",
                "starts a.service 5min after OnBootSec",
                "starts a.service when the clock is set",
            ]
        );
    }
}
