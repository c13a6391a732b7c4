// SPDX-License-Identifier: Apache-2.0
//! Errors for people: findings before a program runs, and the error that ended it, with its place
//! in the source, the call, the object, the field and a hint.

use language::finding::Finding;
use language::frame;
use script::program::Loaded;
use script::protocol::{Failure, Limit, Thrown};

use crate::output::{Style, note, printable};

/// Tells findings on standard error.
pub(crate) fn findings(findings: &[Finding], style: Style) {
    note(frame::texts(findings, style.is_coloured()).trim_end());
}

/// Shows an uncaught error.
pub(crate) fn thrown(thrown: &Thrown, running: &Loaded, style: Style) {
    let located = running.locate(thrown);
    let at = located.at.as_ref();
    let message = running.named(&thrown.message, &thrown.stack);
    let text = frame::error(
        &sentence(thrown, &message),
        at.map(|(source, position)| (source, *position)),
        // The first is the frame itself.
        located.trace.get(1..).unwrap_or_default(),
        help(thrown).as_deref(),
        style.is_coloured(),
    );
    note(text.trim_end());
    for cause in &thrown.causes {
        let place = running.place(&cause.stack);
        let place = place.map_or(String::new(), |place| format!("\n   at {place}"));
        let text = running.named(&cause.text, &cause.stack);
        note(&format!("caused by: {}{place}", printable(&text)));
    }
}

/// What an error says, after the name of its kind.
pub(super) fn sentence(thrown: &Thrown, message: &str) -> String {
    if let Some(failure) = &thrown.failure {
        return of_call(failure);
    }
    match (thrown.name.as_str(), message) {
        _ if thrown.limit.is_some() => message.to_owned(),
        ("", message) => format!("thrown: {message}"),
        (name, "") => name.to_owned(),
        (name, message) => format!("{name}: {message}"),
    }
}

/// The call, what went wrong, the object and the field, each once.
pub(super) fn of_call(failure: &Failure) -> String {
    let mut text = match &failure.method {
        Some(method) => format!("{method}: {}", failure.message),
        None => failure.message.clone(),
    };
    for (what, name) in [("object", &failure.object), ("field", &failure.field)] {
        if let Some(name) = name.as_ref().filter(|name| !text.contains(name.as_str())) {
            text.push_str(&format!(" ({what} {name})"));
        }
    }
    format!("{text} [{}]", failure.code)
}

/// What to do about it.
pub(super) fn help(thrown: &Thrown) -> Option<String> {
    let hint = thrown.failure.as_ref().and_then(|one| one.hint.clone());
    hint.or_else(|| {
        let help = match thrown.limit? {
            Limit::Memory => "give the program more with --max-memory",
            Limit::Stack => "calls are nested too deep: a recursion without an end?",
            Limit::Unknown => "run or apply it: a plan can't take a way that depends on this",
            _ => return None,
        };
        Some(help.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_is_told_with_object_and_field() {
        let mut failure = Failure::new("INVALID_FIELD", "20 is more than 19");
        failure.method = Some("runtime.RunExecutable".into());
        failure.object = Some("web/nginx".into());
        failure.field = Some("executable.spec.nice".into());
        assert_eq!(
            of_call(&failure),
            "runtime.RunExecutable: 20 is more than 19 (object web/nginx) \
             (field executable.spec.nice) [INVALID_FIELD]"
        );
    }
}
