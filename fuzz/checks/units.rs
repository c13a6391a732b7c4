// SPDX-License-Identifier: Apache-2.0
//! Unit files and what is in them: a name of a unit, a newline, and its text. Whatever it is, it is
//! read within bounds, and what is read is written so that it is read again. Run by the fuzz target
//! of this name and by `units`' tests.

use units::calendar::Calendar;
use units::calendar::zones::UtcOnly;
use units::exec::environment;
use units::exec::expand::argv;
use units::finding::MOST_FINDINGS;
use units::name::UnitName;
use units::specifier::NoHost;
use units::time::Span;
use units::unit::from_texts;
use units::verify::verify;

/// Holds for any bytes.
pub(crate) fn check(bytes: &[u8]) {
    let end = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(bytes.len());
    let (first, rest) = bytes.split_at(end);
    let first = String::from_utf8_lossy(first);
    expressions(&first);
    let variables = environment::parse_file(rest).variables;
    for (name, value) in &variables {
        assert!(environment::is_name(name) && environment::is_value(value));
    }
    let Ok(name) = UnitName::parse(&first) else {
        return;
    };
    let unit = from_texts(&name, &[("/unit", rest)], &NoHost, &UtcOnly);
    assert!(unit.findings.iter().count() <= MOST_FINDINGS);
    let variables = variables.into_iter().collect();
    for field in ["ExecStart", "ExecStop"] {
        for command in unit.settings.commands(field) {
            let _ = argv(command, &variables);
        }
    }
    let _ = verify(&unit, &|_| true, &|_| false);
}

fn expressions(text: &str) {
    if let Ok(calendar) = Calendar::parse(text, &UtcOnly) {
        let shown = calendar.to_string();
        let again = Calendar::parse(&shown, &UtcOnly).map(|it| it.to_string());
        assert_eq!(again, Ok(shown));
        if let Some(next) = calendar.next(0, &UtcOnly) {
            assert!(next > 0);
        }
    }
    if let Ok(span) = Span::parse(text) {
        assert_eq!(Span::parse(&span.to_string()), Ok(span));
    }
}
