// SPDX-License-Identifier: Apache-2.0
//! systemd's services and timers as schedules. A service is an executable in a cell of its own; a
//! timer says when. What of them a schedule can't have is a comment above it, with the line of the
//! file and the reason. Crate `units` has read the files; here nothing is read but what
//! `EnvironmentFile=` names, through its port.

mod reasons;
mod service;
mod timer;

use std::collections::BTreeSet;

use units::files::Files;
use units::finding::Severity;
use units::honoured;
use units::name::UnitType;
use units::unit::{Setting, Unit};
use units::value::Value;

use super::compose::name_for;
use super::write::{Expression, comment};
use super::{NotImported, Origin, finished};
use service::Service;
use timer::Time;

/// What most services don't say, and would miss.
const NETWORK: &str = "Its network is its cell's own, with a loopback alone. \
    `ownCell: { network: { mode: \"bridge\" } }` attaches it, and `ports` there publishes some.";
/// The longest name of a schedule.
const LONGEST_NAME: usize = 42;

/// The program that declares what services and timers do. A timer comes with its service.
///
/// # Errors
/// A unit is neither, is masked, has no command, or a timer's service isn't there.
pub fn units(found: &[Unit], files: &dyn Files, origin: &Origin) -> Result<String, NotImported> {
    let mut text = String::new();
    comment(
        &mut text,
        &format!("Imported from {} by `aurae import`.", origin.name),
    );
    text.push('\n');
    let mut constants = BTreeSet::new();
    let mut names = BTreeSet::new();
    for unit in found {
        check(unit, found)?;
        if unit.kind() != UnitType::Service {
            continue;
        }
        let service = Service::of(unit, files)?;
        let mut notes = service.notes.clone();
        let clocks: Vec<_> = found.iter().filter(|it| starts(it, unit)).collect();
        let mut times = Vec::new();
        for timer in &clocks {
            let (of_timer, noted) = timer::times(timer, origin);
            times.extend(of_timer);
            notes.extend(noted);
            notes.extend(rest(timer));
        }
        if clocks.is_empty() {
            times.push(Time::now());
        }
        notes.extend(rest(unit));
        heading(&mut text, unit, &notes);
        for time in times {
            let name = label(unit.id.stem(), &mut names);
            let constant = name_for(&name, &mut constants);
            let work = service.executable(&name).written();
            text += &format!("const {constant} = new Executable({work});\n");
            let declared = service.schedule(&name, &constant, time).written();
            text += &format!("await schedule.Declare({declared});\n\n");
        }
    }
    finished(text)
}

/// Whether it can be imported at all.
fn check(unit: &Unit, found: &[Unit]) -> Result<(), NotImported> {
    let name = unit.id.to_string();
    if let Some(path) = &unit.masked {
        return Err(NotImported::Unit(name, format!("is masked by {path}")));
    }
    match unit.kind() {
        UnitType::Service => Ok(()),
        UnitType::Timer if found.iter().any(|it| starts(unit, it)) => Ok(()),
        UnitType::Timer => {
            let words = "starts a unit that isn't there, or is no service".to_owned();
            Err(NotImported::Unit(name, words))
        }
        kind => {
            let words = format!("is a {kind} unit: services and timers can be imported");
            Err(NotImported::Unit(name, words))
        }
    }
}

/// Whether a timer starts a service.
fn starts(timer: &Unit, service: &Unit) -> bool {
    let started = units::depend::triggered(timer);
    let is_clock = timer.kind() == UnitType::Timer && service.kind() == UnitType::Service;
    is_clock && started.is_some_and(|it| service.names.contains(&it))
}

/// A DNS label of a unit's name that no other schedule has.
fn label(stem: &str, taken: &mut BTreeSet<String>) -> String {
    use super::compose::text;
    let label: String = text::label(stem).chars().take(LONGEST_NAME - 3).collect();
    text::unique(taken, label.trim_end_matches('-'), "-")
}

/// What stands above a unit's schedules.
fn heading(text: &mut String, unit: &Unit, notes: &[String]) {
    let described = unit.settings.text("Description");
    if let Some(words) = described.filter(|it| !it.trim().is_empty()) {
        comment(text, &format!("{}: {words}", unit.id));
    }
    if !notes.is_empty() {
        comment(text, &format!("Of {} this isn't taken:", unit.id));
    }
    for note in notes {
        comment(text, &format!("- {note}"));
    }
    if unit.settings.flag("PrivateNetwork") != Some(true) {
        comment(text, NETWORK);
    }
}

/// What nothing of a schedule stands for, with the reason, and what is wrong in the files.
fn rest(unit: &Unit) -> Vec<String> {
    let mut notes = Vec::new();
    for finding in unit
        .findings
        .iter()
        .filter(|it| it.severity > Severity::Note)
    {
        notes.push(finding.to_string());
    }
    let settings = unit.settings.iter();
    let left = settings.filter(|(field, setting)| {
        !honoured::by_schedules(field) && setting.value != Value::Flag(false)
    });
    let mut left: Vec<_> = left.collect();
    left.sort_by_key(|(_, setting)| setting.origins.first().map(|it| (it.path.clone(), it.at)));
    notes.extend(
        left.into_iter()
            .map(|(field, setting)| note(field, setting)),
    );
    notes
}

/// `/lib/…/nginx.service:12: PIDFile=: …`.
fn note(field: &str, setting: &Setting) -> String {
    said(setting, reasons::reason(field))
}

/// A sentence about a setting, with the place of its last line.
fn said(setting: &Setting, words: &str) -> String {
    said_at(setting, usize::MAX, words)
}

/// A sentence about a setting, with the place of one of its lines; the last where there is none.
fn said_at(setting: &Setting, line: usize, words: &str) -> String {
    match setting.origins.get(line).or(setting.origins.last()) {
        Some(origin) => {
            let (path, line) = (&origin.path, origin.at.line);
            format!("{path}:{line}: {}=: {words}", origin.directive)
        }
        None => words.to_owned(),
    }
}

/// A number, which may be below zero.
fn number(number: i64) -> Expression {
    Expression::Code(number.to_string())
}
