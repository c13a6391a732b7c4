// SPDX-License-Identifier: Apache-2.0
//! Settings of unit files as values of the bus, with systemd's defaults where nothing is said.

use units::exec::Command;
use units::time::Span;
use units::unit::Settings;
use units::value::{Limit, Value};
use zbus::Variant;

/// A command: program, words, whether its failure counts; and how it went last, which is not told:
/// begun, ended (each by two clocks), process, code, status.
type Row = (String, Vec<String>, bool, u64, u64, u64, u64, u32, i32, i32);

pub(super) fn flag(settings: &Settings, field: &str, default: bool) -> bool {
    settings.flag(field).unwrap_or(default)
}

pub(super) fn word<'a>(settings: &'a Settings, field: &str, default: &'a str) -> &'a str {
    settings
        .word(field)
        .or(settings.text(field))
        .unwrap_or(default)
}

pub(super) fn texts(settings: &Settings, field: &str) -> Vec<String> {
    settings.texts(field).to_vec()
}

/// Microseconds; what has no end is the largest number.
pub(super) fn micros(span: Span) -> u64 {
    span.micros().unwrap_or(u64::MAX)
}

pub(super) fn span(settings: &Settings, field: &str, default: Span) -> u64 {
    micros(settings.span(field).unwrap_or(default))
}

/// A bound; none is the largest number.
pub(super) fn bound(settings: &Settings, field: &str) -> u64 {
    match settings.limit(field) {
        Some(Limit::Of(amount)) => amount,
        _ => u64::MAX,
    }
}

pub(super) fn commands(settings: &Settings, field: &str) -> Variant<'static> {
    let row = |it: &Command| -> Row {
        let first = it.argv0.clone().unwrap_or_else(|| it.program.clone());
        let words = std::iter::once(first).chain(it.arguments.iter().cloned());
        (
            it.program.clone(),
            words.collect(),
            it.ignores_failure,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        )
    };
    let rows: Vec<Row> = settings.commands(field).iter().map(row).collect();
    Variant::from(rows)
}

pub(super) fn environment(settings: &Settings) -> Vec<String> {
    match settings.get("Environment") {
        Some(Value::Variables(all)) => all.iter().map(|(k, v)| format!("{k}={v}")).collect(),
        _ => Vec::new(),
    }
}
